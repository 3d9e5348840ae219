"""An exported page contains the responses that the live page gets, without secrets, and with a limited size."""

import base64
import json
import shutil
import subprocess
import zlib
from importlib import resources
from random import Random
from typing import Any

import pytest

from kafka_zk.recorder.page_export import page_data as module
from kafka_zk.recorder.page_export.bundle import bundle
from kafka_zk.recorder.page_export.page_data import NotExportable, page_data
from kafka_zk.recorder.recording.documents import Document
from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.web.api import RecordingApi
from kafka_zk.recorder.zookeeper_files.transaction_log import Created, Transaction
from kafka_zk.recorder.zookeeper_health.events import EnsembleStateChanged, ServerStateChanged
from tests.kafka_zk.recorder.page_export.questions import questions
from tests.kafka_zk.recorder.page_export.replay import replayed
from tests.kafka_zk.recorder.web.large_cluster import BEGIN_MS, large_cluster

MOMENTS, PAGE_MOMENTS = 200, 60
NODE = shutil.which("node")
BROKERS, TOPICS, PARTITIONS = 19, 2, 14


@pytest.fixture(scope="module")
def recording() -> Recording:
    recording = Recording()
    recording.add([], large_cluster(BROKERS, TOPICS, PARTITIONS))
    for at_ms, state in ((BEGIN_MS, "standalone"), (BEGIN_MS + 40, "no answer"), (BEGIN_MS + 90, "standalone")):
        server = ServerStateChanged(at_ms, "ZooKeeper server zk1:2181", "refused", 0, state, "", 0)
        whole = "serves" if state == "standalone" else state
        recording.add([server, EnsembleStateChanged(at_ms, "ZooKeeper", "refused", 0, whole, "", 0)], [])
    for number in range(40):
        recording.samples.add(BEGIN_MS + 5 * number, {"sampled": number, "zookeeper connections zk1:2181": number % 3})
    return recording


@pytest.fixture(scope="module")
def data(recording: Recording) -> Document:
    return page_data(recording, "a test")


def test_its_views_are_the_live_pages_at_random_moments(recording: Recording, data: Document) -> None:
    """The views are compared as JSON, which includes the order of keys."""
    api, random = RecordingApi(recording), Random(49)
    assert min(len(data[name]) for name in ("states", "trees", "health")) > 2
    first_ms, last_ms = recording.entries.times() or (0, 0)
    opened = "\n".join(f"topic-{number:02}" for number in range(TOPICS))
    for _ in range(MOMENTS):
        seq, time_ms = random.randint(1, recording.entries.count), random.randint(first_ms, last_ms)
        whole = data["wholes"][seq - 1]
        live = api.state({"seq": str(seq), "open": opened})
        views = [
            (live["seq"], whole),
            (live["cluster"], replayed(data["states"], whole)["cluster"]),
            (api.tree({"seq": str(seq)})["znodes"], replayed(data["trees"], whole)),
            (api.health({"time_ms": str(time_ms)}), replayed(data["health"], time_ms)),
            (api.step({"seq": str(seq - 1), "by": "1"}), data["entries"][seq - 1]),
            (api.at({"time_ms": str(time_ms)})["seq"], replayed(((at, [found]) for at, found in data["at"]), time_ms)),
        ]
        for expected, found in views:
            assert json.dumps(found) == json.dumps(expected)


def test_its_entries_have_their_causes_and_effects(recording: Recording, data: Document) -> None:
    api = RecordingApi(recording)
    linked = [each for each in data["details"] if each["why"]]
    assert linked, "no entry has a cause, although ZooKeeper deletes the znodes of an ended session"
    for number, found in enumerate(data["details"], 1):
        live = api.entry({"seq": str(number)})
        assert found["why"] == [each["seq"] for each in live["why"]]
        assert found["effects"] == [each["seq"] for each in live["effects"]]
        assert (found["title"], found["document"]) == (live["title"], live["document"])
        assert data["explanations"][live["kind"]] == live["explanation"]


@pytest.mark.skipif(NODE is None, reason="needs Node")
def test_the_page_answers_from_them_as_the_live_page(recording: Recording, data: Document) -> None:
    """The test runs ``exported.js``, which is written for browsers, without a browser."""
    asked = questions(recording, PAGE_MOMENTS, 49)
    found = _answers_of_page(data, [(name, values) for name, values, _ in asked])
    for (name, values, expected), answer in zip(asked, found, strict=True):
        assert json.dumps(answer) == expected, (name, values)


@pytest.mark.skipif(NODE is None, reason="needs Node")
def test_the_lanes_of_an_interval_are_those_of_the_live_page(recording: Recording, data: Document) -> None:
    """A leader's span is cut where the broker's session ends, and parts outside the interval are left out."""
    api, random = RecordingApi(recording), Random(49)
    first_ms, last_ms = recording.entries.times() or (0, 0)
    opened = "\n".join(f"{each['kind']} {each['stem']}" for each in data["groups"])
    intervals = [sorted(random.randint(first_ms, last_ms) for _ in range(2)) for _ in range(20)]
    asked = [("spans", {"from_ms": str(each[0]), "to_ms": str(each[1]), "open": opened}) for each in intervals]
    for (_, values), (from_ms, to_ms), found in zip(asked, intervals, _answers_of_page(data, asked), strict=True):
        live = json.loads(json.dumps(api.spans(values)))
        expected = [each for each in live["spans"] if each[4] <= to_ms and (each[5] is None or each[5] >= from_ms)]
        assert found["spans"] == expected
        assert [each["lane_count"] for each in found["groups"]] == [each["lane_count"] for each in live["groups"]]


def _answers_of_page(data: Document, asked: list[tuple[str, dict[str, str]]]) -> list[Any]:
    folder = resources.files("kafka_zk.recorder.web").joinpath("static")
    script = bundle({each.name: each.read_text(encoding="utf-8") for each in folder.iterdir()}, "exported.js")
    packed = base64.b64encode(zlib.compress(json.dumps(data).encode())).decode()
    script += f"""
        globalThis.addEventListener = () => {{}};
        const {{ ask }} = modules["exported.js"].exported({json.dumps(packed)});
        const answer = ([name, values]) => ask(name, values).catch((error) => ({{ error: error.message }}));
        Promise.all({json.dumps(asked)}.map(answer)).then((found) => console.log(JSON.stringify(found)));
    """
    done = subprocess.run([str(NODE)], input=script, capture_output=True, text=True, timeout=60, check=True)
    found: list[Any] = json.loads(done.stdout)
    return found


def test_secrets_are_masked() -> None:
    recording = Recording()
    user = Created("/config/users/alice", b'{"version":1,"config":{"SCRAM-SHA-256":"stored_key=hunter2"}}', False)
    recording.add([], [Transaction(1, 1_000, 7, (user,))])
    text = json.dumps(page_data(recording, "a test"))
    assert "alice" in text and "hunter2" not in text


def test_its_progress_grows_to_the_end() -> None:
    recording = Recording()
    recording.add([], large_cluster(3, 1, 2))
    shares: list[float] = []
    page_data(recording, "a test", shares.append)
    assert shares == sorted(shares) and shares[0] < 0.5 and shares[-1] == 1


def test_what_is_too_long_is_refused_with_what_to_do(recording: Recording, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, most, what in (
        ("MOST_ENTRIES", 10, "entries"), ("MOST_ZNODES", 3, "znodes"), ("MOST_SPANS", 2, "spans"),
        ("MOST_SAMPLES", 5, "samples"),
    ):  # fmt: skip
        with monkeypatch.context() as smaller, pytest.raises(NotExportable, match=f"{what}.* at most {most}: show"):
            smaller.setattr(module, name, most)
            page_data(recording, "a test")
    with pytest.raises(NotExportable, match="nothing to export"):
        page_data(Recording(), "a test")

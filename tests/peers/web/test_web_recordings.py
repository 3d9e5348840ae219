"""The page of recordings in a real Chromium: a large cluster on small and large screens, and hostile names."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.timeline.event_codec import encode
from kafka_zk.recorder.zookeeper_files.transaction_log import Created, DataSet, Operation, Transaction
from kafka_zk.registry.client.client import EventType
from kafka_zk.registry.client.events import WatchFired
from tests.kafka_zk.recorder.web.large_cluster import VICTIM, large_cluster
from tests.peers.web.web_browser import Page, page_of, until

pytestmark = pytest.mark.peers

BROKERS, TOPICS, PARTITIONS = 50, 40, 50
MARKUP = (
    "<img src=x onerror=window.hacked=1>", '"><svg onload=window.hacked=1>', "' onmouseover='window.hacked=1",
    "<script>window.hacked=1", "\u202egnp.exe", "&lt;b&gt;", "a\nb",
)  # fmt: skip
"""Names contain no slash, which would mean a child znode."""
CLOSED = "</text></script><script>window.hacked=1</script>"
TOPIC = b'{"version":3,"partitions":{"0":[0,1]},"adding_replicas":{},"removing_replicas":{}}'
STATE = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":4,"isr":[1]}'


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    """50 brokers with 2,000 partitions; one broker has died."""
    file = tmp_path_factory.mktemp("large") / "large.sqlite"
    recording = Recording(file)
    recording.add([], large_cluster(BROKERS, TOPICS, PARTITIONS))
    recording.close()
    with page_of("web", "--port", "0", str(file)) as page:
        until(lambda: page.count("#view [data-broker-box]") == BROKERS, "all brokers")
        yield page


def test_a_large_cluster_is_shown_as_counts_and_unfolds(large: Page) -> None:
    """The dead broker, the affected topic and the partition without a leader are visible immediately; a topic can be
    unfolded."""
    assert large.text(f"[data-broker-box='{VICTIM}'] text") == f"✗ {VICTIM}"
    assert large.count("#view [data-broker-box].gone") == 1
    assert "36 members" not in large.text("#view svg") and large.text("#view svg").count("12 members") == 3
    assert large.count("#view tr.topic") == TOPICS
    assert large.text("#view tr.topic:nth-child(2)").startswith("▸topic-00 ×50"), "what suffers most comes first"
    assert "1 without a leader" in large.text("#view tr.topic:nth-child(2)")
    assert f"broker {VICTIM} lost its session" in large.text("#happened")
    assert "partition without a leader" in large.text("#happened")
    assert large.count("#timeline [role=img]") < 2 * BROKERS, "partitions are one lane a topic"
    large.press("[data-key='topic topic-00']")
    until(lambda: large.count("#view [data-role=leaderless]"), "the partition without a leader")
    large.type("#filter", "topic-07")
    until(lambda: large.count("#view tr.topic") == 1, "the filter")
    large.type("#filter", " ")
    until(lambda: large.count("#view tr.topic") == TOPICS, "everything again")
    large.press("[data-key='topic topic-00']")
    large.press("#view-tree")
    for path in ("/brokers", "/brokers/topics", "/brokers/topics/topic-07", "/brokers/topics/topic-07/partitions"):
        until(partial(large.count, f"[data-key='enter {path}']"), path)
        large.press(f"[data-key='enter {path}']")
    until(lambda: large.count("#view tr[data-path]") == PARTITIONS, "the partitions of one topic")
    large.press("[data-key='enter /brokers/topics']")
    until(lambda: large.count("#view tr[data-path]") == TOPICS, "the topics again")
    large.type("#filter", "topic-07/partitions/3/")
    until(lambda: large.count("#view tr[data-path]") == 1, "one znode among thousands")
    large.type("#filter", " ")
    large.press("#view-cluster")
    assert large.errors() == []


@pytest.mark.parametrize(("width", "height", "scheme"), [(1280, 800, "light"), (3840, 2160, "dark")])
def test_it_fits_small_and_large_screens(large: Page, width: int, height: int, scheme: str) -> None:
    """No part extends beyond the window, all text is large enough to read, and axe-core finds no violation."""
    large.screen(width, height, scheme)
    for view in ("cluster", "tree", "help"):
        large.press(f"#view-{view}")
        until(partial(large.count, f"#view-{view}[aria-pressed=true]"), view)
        assert large.driver.execute_script(_BEYOND) == [], "what is beyond the window"
    large.press("#view-cluster")
    large.show_time("10")
    until(lambda: large.count("#timeline [data-seq]") < 500, "the last ten seconds")
    assert large.violations() == []
    parts = large.driver.execute_script(_PARTS)
    assert all(part["width"] > 0.14 * width and part["height"] > 0.25 * height for part in parts), parts
    assert large.driver.execute_script(_LINE_PX) >= (18 if width < 2600 else 27)


_LINE_PX = "return document.querySelector('#source').getBoundingClientRect().height"
_BEYOND = """
    const inside = ({ right, bottom }) => right <= innerWidth + 1 && bottom <= innerHeight + 1;
    const parts = ["header", "#view", "#side", "#time", "#controls", "#timeline"]
        .filter((name) => !inside(document.querySelector(name).getBoundingClientRect()));
    return document.documentElement.scrollWidth > innerWidth + 1 ? [...parts, "the page scrolls sideways"] : parts;
"""
_PARTS = """
    return ["#view", "#side"].map((name) => document.querySelector(name).getBoundingClientRect())
        .map(({ width, height }) => ({ width, height }));
"""


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[Page]:
    """An attacker chose every name; one znode is as large as ZooKeeper allows."""
    recording = Recording(tmp_path / "hostile.sqlite")
    for number, name in enumerate(MARKUP):
        operations: list[Operation] = [
            Created(f"/brokers/topics/{name}", TOPIC, ephemeral=False),
            Created(f"/brokers/topics/{name}/partitions/0/state", STATE, ephemeral=False),
            Created(f"/consumers/{name}/ids/{name}", name.encode(), ephemeral=True),
            Created(f"/consumers/{name}/owners/{name}/0", f"{name}-0".encode(), ephemeral=True),
            Created(f"/{number}{name}", f"{name}\n{CLOSED}".encode(), ephemeral=False),
            DataSet(f"/{number}{name}", f"{CLOSED}\n<b>".encode(), 1),
        ]
        events = [WatchFired(1_000 * number + 1, name, name, 0, f"/{number}{name}", EventType.CHANGED)]
        recording.add(events, [Transaction(number + 1, 1_000 * number, 100 + number, tuple(operations))])
    huge = (Created("/huge", b"<b>" * 340_000, ephemeral=False), Created("/binary", bytes(range(256)), ephemeral=False))
    recording.add([], [Transaction(99, 99_000, 7, huge)])
    recording.close()
    with page_of("web", "--port", "0", str(tmp_path / "hostile.sqlite")) as page:
        yield page


def test_names_and_data_are_text_whatever_they_are(hostile: Page) -> None:
    until(lambda: hostile.count("#view tr.topic") == len(MARKUP), "the topics")
    hostile.show_all_time()
    until(lambda: hostile.count("#timeline [data-seq]") > len(MARKUP), "the events")
    assert all(name in hostile.text("#view") for name in MARKUP[:4])
    for number in range(0, hostile.count("#timeline [data-seq]"), 5):
        hostile.press("#timeline [data-seq]", number)
        until(lambda: hostile.text("#details h2"), "an event")
    hostile.press("#timeline [data-seq]", -1)
    hostile.press("#view-tree")
    until(lambda: hostile.count("#view tr[data-path='/huge']"), "the znodes")
    hostile.press("#view tr[data-path='/huge'] button.znode")
    cut = "return document.getElementById('details').textContent.includes('1020000 characters')"
    until(lambda: hostile.driver.execute_script(cut), "the huge znode, cut")
    hostile.press("#view tr[data-path='/binary'] button.znode")
    until(lambda: "/binary" in hostile.text("#details h2"), "bytes that are no text")
    hostile.type("#filter", MARKUP[0])
    assert hostile.errors() == []
    assert hostile.driver.execute_script(_PARSED, hostile.saved_picture()) == ["svg", 0]
    assert hostile.driver.execute_script("return [window.hacked ?? null, document.images.length]") == [None, 0]
    assert hostile.count("script") == 1, "the page's own"



def test_a_million_events_are_counts(tmp_path: Path) -> None:
    """Each event is in one of the counts. The page winds to any moment, and does not try to draw all events."""
    recording = Recording(tmp_path / "million.sqlite")
    topic = Created("/brokers/topics/t", TOPIC, ephemeral=False)
    recording.add([], [Transaction(1, 1, 7, (topic, Created("/a", b"1", ephemeral=False)))])
    recording.add([], [Transaction(2, 10 * MILLION, 7, (DataSet("/a", b"2", 1),))])
    event = encode(WatchFired(0, "broker-0", "changed", 0, "/a", EventType.CHANGED))
    with recording.database:
        recording.database.execute(_MANY, (MILLION, json.dumps(event)))
    recording.close()
    with page_of("web", "--port", "0", str(tmp_path / "million.sqlite")) as page:
        until(lambda: page.text("#moment").endswith(f"of {MILLION + 3}"), "the page")
        page.show_all_time()
        until(lambda: page.count("#timeline .counts") >= 20, "all of its time")
        assert page.count("#timeline [data-seq]") == 0
        counts = page.driver.execute_async_script(_COUNTS, 20 * MILLION)
        assert counts["count"] == sum(each[2] for each in counts["buckets"]) == MILLION + 3
        page.wind(0.5)
        until(lambda: f"· {MILLION // 200}" in page.text("#moment"), "the middle")
        assert page.text("#view tr.topic").startswith("▾t")
        assert page.errors() == []


MILLION = 1_000_000
_MANY = """
    with recursive each (number) as (select 1 union all select number + 1 from each where number < ?)
    insert into entries (seq, time_ms, actor, kind, path, zxid, session, certain, doc)
    select number + 3, 10 * number, 'broker-' || (number % 20), 'WatchFired', '/a', 0, 0, 0, ? from each
"""
_COUNTS = """
    const [to_ms, done] = arguments;
    const token = new URLSearchParams(location.hash.slice(1)).get("token");
    fetch(`api-entries?from_ms=0&to_ms=${to_ms}&token=${token}`).then((answer) => answer.json()).then(done);
"""
_PARSED = """
    const read = new DOMParser().parseFromString(arguments[0], "image/svg+xml");
    return [read.documentElement.tagName, read.querySelectorAll("script, img, parsererror").length];
"""

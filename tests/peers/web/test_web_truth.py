"""The flight recorder shows the same state as ZooKeeper's own code derives from its transaction log, and every fired
watch has the change that fired it."""

import http.client
import json
import subprocess
from base64 import b64decode
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from kafka_zk.clients.admin.admin import NewTopic
from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.connection.errors import KafkaError
from kafka_zk.embedded.jars import find_zookeeper_jars
from kafka_zk.embedded.process import tied
from kafka_zk.recorder.recording.entries import CHANGES, Entry
from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.recording.shared_file import open_shared_file
from kafka_zk.recorder.timeline.trace_file import TraceFollower
from kafka_zk.recorder.zookeeper_files.snapshot import Znode
from kafka_zk.registry.client.client import EventType
from kafka_zk.registry.client.events import WatchFired
from tests.peers.java import SOURCES
from tests.peers.web.web_browser import TIMEOUT_S, UpCluster, cluster_with_page, until

pytestmark = pytest.mark.peers

MOMENTS = 50
ACTS = 14
LAST = 10**17


class Asked:
    """The data of a cluster's page, requested without a browser."""

    def __init__(self, cluster: UpCluster) -> None:
        parts = urlsplit(cluster.url)
        self._port = parts.port or 0
        tokens = dict(parse_qsl(parts.fragment))
        self._reading_token, self._break_token = tokens["token"], tokens["break"]

    def get(self, path: str) -> bytes:
        return self._answer("GET", f"{path}{'&' if '?' in path else '?'}token={self._reading_token}")

    def act(self, **wanted: Any) -> Any:
        return json.loads(self._answer("POST", "/api-break", json.dumps(wanted)))

    def _answer(self, method: str, path: str, body: str = "") -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=TIMEOUT_S)
        connection.request(method, path, body, {"X-Kafka-Zk-Token": self._break_token})
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        assert answer.status == 200, content
        return content


def live_through(random: Random, page: Asked, admin: BlockingAdmin) -> None:
    """Play a random history: brokers die, are paused or lose their sessions; members and topics come and go."""
    topics, members, states = ["t"], list[str](), dict.fromkeys(range(3), "running")
    page.act(action="produce", topic="t", rate=20)
    for number in range(ACTS):
        broker = random.randrange(3)
        kind = random.choice(("broker", "broker", "join", "leave", "topic", "expire"))
        if kind == "broker":
            action = {"running": random.choice(("kill", "pause")), "kill": "restart", "pause": "resume"}[states[broker]]
            if action in ("kill", "pause") and list(states.values()).count("running") < 3:
                continue
            page.act(action=action, broker=broker)
            states[broker] = "running" if action in ("restart", "resume") else action
        elif kind == "expire" and states[broker] == "running":
            page.act(action="expire", broker=str(broker))
            until(partial(lambda broker: broker in _registered(page), broker), "its new session")
        elif kind == "join":
            group = random.choice(("g", "h"))
            wanted = {"action": "join", "group": group, "topic": random.choice(topics), "type": "zookeeper"}
            members.append(page.act(**wanted)["member"])
        elif kind == "leave" and members:
            page.act(action=random.choice(("leave", "crash")), member=members.pop(random.randrange(len(members))))
        elif kind == "topic":
            with suppress(KafkaError):  # there may be no controller at this moment
                admin.create_topics([NewTopic(f"t{number}", 4, 2)])
                topics.append(f"t{number}")
    for broker, state in states.items():
        if state != "running":
            page.act(action={"kill": "restart", "pause": "resume"}[state], broker=broker)
    until(lambda: _registered(page) == [0, 1, 2], "all brokers")


def _registered(page: Asked) -> list[int]:
    return [each["id"] for each in json.loads(page.get("/api-state"))["cluster"]["brokers"]]


def rebuilt(zookeeper_data: Path, zxids: list[int]) -> dict[int, dict[str, Znode]]:
    """The state that ZooKeeper derives from its log up to each of these transactions."""
    class_path = ":".join(map(str, find_zookeeper_jars()))
    program = SOURCES / "zookeeper" / "StateAt.java"
    command = ["java", "-cp", class_path, str(program), str(zookeeper_data), *map(str, zxids)]
    done = subprocess.run(tied(command), capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[int, dict[str, Znode]] = {}
    for line in done.stdout.splitlines():
        if line.startswith("zxid "):
            at = found.setdefault(int(line.split()[1]), {})
            continue
        path, data, version, czxid, mzxid, mtime, owner = line.split(" ")
        told = None if data == "-" else b64decode(data[:-1])
        at[b64decode(path[:-1]).decode()] = Znode(told, int(version), int(czxid), int(mzxid), int(mtime), int(owner))
    return found


def test_every_moment_and_every_watch_is_true(tmp_path: Path) -> None:
    random = Random(11)
    data = tmp_path / "cluster"
    with cluster_with_page(data) as cluster, BlockingAdmin(bootstrap_servers=cluster.bootstrap) as admin:
        page = Asked(cluster)
        admin.create_topics([NewTopic("t", 4, 3)])
        live_through(random, page, admin)
        told = TraceFollower(data / "trace")
        fired = Counter(_key(each.event) for each in told.read() if isinstance(each.event, WatchFired))
        recording = until(lambda: _recorded(page, tmp_path / "recorded", fired.total()), "all that was traced so far")
        entries = recording.entries.numbered(1, LAST, LAST)
        _check_moments(random, recording, entries, data / "zookeeper" / "data")
        _check_watches(recording, entries, fired)
        recording.close()


def _recorded(page: Asked, file: Path, watch_count: int) -> Recording | None:
    """All entries so far, once they contain ``watch_count`` fired watches."""
    file.write_bytes(page.get(f"/api-export?from_ms=0&to_ms={LAST}"))
    recording = open_shared_file(file)
    if recording.entries.kinds_between(0, LAST).get("WatchFired", 0) >= watch_count:
        return recording
    recording.close()
    return None


def _key(fired: WatchFired) -> tuple[int, str, str]:
    return fired.time_ms, fired.actor, fired.path


def _check_moments(random: Random, recording: Recording, entries: list[Entry], zookeeper_data: Path) -> None:
    moments = random.sample([each for each in entries if each.kind in CHANGES], MOMENTS)
    expected = rebuilt(zookeeper_data, sorted({each.zxid for each in moments}))
    for each in moments:
        shown = dict(recording.znodes.after(recording.entries.whole(each.seq)).znodes)
        assert _users(shown) == _users(expected[each.zxid]), f"after {each.zxid:#x}"


def _users(znodes: dict[str, Znode]) -> dict[str, Znode]:
    """The znodes without ZooKeeper's own, which are in no log."""
    return {path: each for path, each in znodes.items() if path != "/" and path.split("/")[1] != "zookeeper"}


def _check_watches(recording: Recording, entries: list[Entry], fired: Counter[tuple[int, str, str]]) -> None:
    """Check that no fired watch is missing, each has its change, and no watch is still set on a changed znode."""
    shown = [each for each in entries if each.kind == "WatchFired"]
    assert fired - Counter((each.time_ms, each.actor, each.path) for each in shown) == Counter()
    by_seq = {each.seq: each for each in entries}
    for each in shown:
        if each.document["type"] == EventType.NONE.value:
            continue  # the watch was dropped with its connection
        assert each.cause is not None and each.certain, each
        cause = by_seq[each.cause]
        changed = cause.path.rpartition("/")[0] if each.document["type"] == EventType.CHILD.value else cause.path
        assert cause.kind in CHANGES and changed == each.path, (each, cause)
        if each.document["type"] != EventType.CHILD.value:
            assert cause.kind == each.document["type"], (each, cause)
    armed = {(each.actor, each.path): each for each in entries if each.kind == "WatchArmed"}
    lives = {f"{role}-{number}" for role in ("broker", "controller") for number in range(3)}
    for path, actors in recording.entries.watchers(recording.entries.count).items():
        for actor in lives.intersection(actors):
            changes = recording.entries.changes_of(path, LAST, 1)
            missed = [each for each in changes if each.time_ms > armed[actor, path].time_ms]
            assert missed == [], f"{actor} watches {path}"

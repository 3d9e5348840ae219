"""The page's requests get responses of limited size, and a sentence if the requested item does not exist."""

import json

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.group.events import AssignmentCompleted
from kafka_zk.broker.process.events import ClientsSeen, ConnectedClient, ThrottledClient
from kafka_zk.broker.security.events import Denied
from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.timeline.cluster_events import OperatorActed
from kafka_zk.recorder.web import api as module
from kafka_zk.recorder.web.api import BadRequest, RecordingApi
from kafka_zk.recorder.web.lesson_steps import KEY, Lesson, Step, encode
from kafka_zk.recorder.zookeeper_files.transaction_log import Created, DataSet, SessionCreated, Transaction
from kafka_zk.registry.client.events import WatchArmed

TOPIC = b'{"version":3,"partitions":{"0":[0,1]},"adding_replicas":{},"removing_replicas":{}}'
STATE = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":4,"isr":[1]}'
BROKER = b'{"version":5,"host":"h","port":1,"endpoints":["PLAINTEXT://h:1"],"timestamp":"1","jmx_port":-1,'
BROKER += b'"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"features":{}}'


def recorded(*created: tuple[str, bytes | None, bool]) -> RecordingApi:
    recording = Recording()
    for zxid, (path, data, ephemeral) in enumerate(created, 1):
        recording.add([], [Transaction(zxid, zxid * 1_000, 7, (Created(path, data, ephemeral),))])
    return RecordingApi(recording)


@pytest.mark.parametrize("has_questions", [False, True])
def test_a_lesson_with_questions_asks_no_others_before_its_first_one(has_questions: bool) -> None:
    recording = Recording()
    made = Transaction(1, 1_000, 7, (Created("/controller", b'{"brokerid":1}', True),))
    changed = Transaction(2, 2_000, 7, (DataSet("/controller", b'{"brokerid":2}', 1),))
    recording.add([], [made, changed])
    step = Step("1. One", "told", "the controller dies.", 1, 2, ())
    recording.note(KEY, encode(Lesson("t", "s", (step,), finished=False, has_questions=has_questions)))
    asked = RecordingApi(recording).question({"step": "0"})["question"]
    assert (asked is None) == has_questions


def test_the_cluster_is_what_its_znodes_say() -> None:
    api = recorded(
        ("/brokers/ids/1", BROKER, True),
        ("/controller", b'{"version":2,"brokerid":1,"timestamp":"1"}', True),
        ("/controller_epoch", b"3", False),
        ("/brokers/topics/t", TOPIC, False),
        ("/brokers/topics/t/partitions/0/state", STATE, False),
        ("/consumers/g/ids/g_anna", b"{}", True),
        ("/consumers/g/owners/t/0", b"g_anna-0", True),
        ("/consumers/g/offsets/t/0", b"12", False),
        ("/admin/delete_topics/u", None, False),
        ("/brokers/topics/bad", b"not json", False),
    )
    cluster = api.state({})["cluster"]
    assert [(each["id"], each["endpoints"]) for each in cluster["brokers"]] == [(1, ["h:1"])]
    assert (cluster["controller"]["broker"], cluster["controller"]["epoch"]) == (1, 3)
    [topic] = cluster["topics"]
    assert topic["under_replicated"] == 1
    assert topic["partitions"][0] | {"replicas": [0, 1], "leader": 1, "isr": [1], "epoch": 4} == topic["partitions"][0]
    [group] = cluster["groups"]
    assert (group["owners"], group["offsets"]) == ({"t-0": "g_anna-0"}, {"t-0": "12"})
    assert cluster["pending"] == ["/admin/delete_topics/u"]
    assert "/brokers/topics/bad" in cluster["faults"][0]
    assert api.state({"seq": "1"})["cluster"]["topics"] == [], "the state was not that of the moment"


def test_clients_are_those_that_brokers_told_last_of() -> None:
    recording = Recording()
    recording.add([], [Transaction(1, 1_000, 7, (Created("/brokers/ids/1", BROKER, True),))])
    alice = ConnectedClient("User:alice", "10.0.0.1", "SASL_SSL", "SASL_SSL", 2)
    slow = ThrottledClient("producer_byte_rate", "alice", "", 2_000, 1_000, 900)
    denied_fields = ("User:bob", "10.0.0.2", "Write", "Topic t", "Produce")
    recording.add(
        [
            ClientsSeen(2_000, "broker-1", "", 0, (alice,), (slow,), 3),
            ClientsSeen(2_001, "broker-2", "", 0, (alice,), (), 0),
            Denied(2_002, "broker-1", "no ACL applies to it", 0, *denied_fields, 1),
            ClientsSeen(3_000, "broker-1", "", 0, (), (), 0),
        ],
        [],
    )
    api = RecordingApi(recording)
    last = recording.entries.count
    then, now = (api.state({"seq": str(seq)})["cluster"]["clients"] for seq in (last - 1, last))
    assert then["connected"] == [{"broker": "broker-1", **alice._asdict()}], "clients of an absent broker are shown"
    assert then["throttled"] == [{"broker": "broker-1", **slow._asdict()}] and then["left_out"] == 3
    [denied] = then["denied"]
    assert (denied["principal"], denied["resource"], denied["cause"]) == ("User:bob", "Topic t", "no ACL applies to it")
    assert (now["connected"], now["throttled"], now["denied"]) == ([], [], [denied])
    [entry] = [each for each in recording.entries.between(0, 9_000, 9) if each.kind == "Denied"]
    assert entry.cause is None, "the entry follows from an earlier act of the broker"
    assert api.entry({"seq": str(entry.seq)})["title"] == (
        "denies User:bob at 10.0.0.2 Write on Topic t (Produce): no ACL applies to it"
    )


def test_many_partitions_are_counted_not_listed() -> None:
    assignment = json.dumps({"version": 1, "partitions": {str(number): [0] for number in range(1_001)}}).encode()
    cluster = recorded(("/brokers/topics/big", assignment, False)).state({})["cluster"]
    assert cluster["partition_count"] == 1_001
    assert (cluster["topics"][0]["partitions"], cluster["topics"][0]["leaders"]) == ([], {-1: 1_001})


def test_a_topic_is_opened_by_request() -> None:
    """Without the request, Kafka's own topics and large ones are shown only as counts."""
    small, large = ({"version": 1, "partitions": {str(each): [0] for each in range(count)}} for count in (2, 31))
    api = recorded(
        ("/brokers/topics/__own", json.dumps(small).encode(), False),
        ("/brokers/topics/big", json.dumps(large).encode(), False),
    )
    assert [len(each["partitions"]) for each in api.state({})["cluster"]["topics"]] == [0, 0]
    assert [len(each["partitions"]) for each in api.state({"open": "big\n__own"})["cluster"]["topics"]] == [2, 31]


def test_lanes_of_a_topic_are_one_until_somebody_unfolds_them() -> None:
    api = recorded(*((f"/brokers/topics/t/partitions/{each}/state", STATE, False) for each in range(20)))
    range_ms = {"from_ms": "0", "to_ms": "90000"}
    folded, unfolded = api.spans(range_ms), api.spans({**range_ms, "open": "leader t-"})
    assert (folded["spans"], [group["folded"] for group in folded["groups"]]) == ([], [True])
    assert (len(unfolded["spans"]), [group["folded"] for group in unfolded["groups"]]) == (20, [False])


def test_a_znode_has_its_history_and_who_watches_it() -> None:
    recording = Recording()
    recording.add([], [Transaction(1, 1_000, 7, (Created("/a", b"1", ephemeral=False),))])
    recording.add([], [Transaction(2, 2_000, 7, (DataSet("/a", b"2", 1),))])
    recording.add([WatchArmed(3_000, "broker-0", "", 0, "/a")], [])
    api = RecordingApi(recording)
    told = api.znode({"path": "/a"})
    assert (told["znode"][0], told["watchers"], told["last"]["before"][0]) == ("2", ["broker-0"], "1")
    assert [each["kind"] for each in told["changes"]] == ["changed", "created"]
    assert api.tree({})["znodes"][0]["watchers"] == ["broker-0"]
    with pytest.raises(BadRequest, match="no znode '/b'"):
        api.znode({"path": "/b"})


def test_sessions_are_told_in_hexadecimal() -> None:
    """As numbers, they are too large for JavaScript."""
    recording = Recording()
    recording.add([], [Transaction(1, 1_000, -(1 << 60), (SessionCreated(6_000),))])
    assert RecordingApi(recording).entry({"seq": "1"})["document"]["session"] == "0xf000000000000000"


def test_a_large_tree_is_shown_level_by_level(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ZNODES", 3)
    api = recorded(*((path, None, False) for path in ("/a", "/a/b", "/a/c", "/a/c/d", "/e")))
    assert [row["path"] for row in api.tree({})["znodes"]] == ["/a", "/e"]
    assert [row["path"] for row in api.tree({"path": "/a"})["znodes"]] == ["/a/b", "/a/c"]
    assert [row["below"] for row in api.tree({})["znodes"]] == [3, 0]


def test_a_large_tree_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search finds znodes at any depth, and returns the first ones if there are too many."""
    monkeypatch.setattr(module, "MOST_ZNODES", 3)
    api = recorded(*((path, None, False) for path in ("/a", "/a/b", "/a/c", "/a/c/bd", "/e")))
    assert [row["path"] for row in api.tree({"name": "b"})["znodes"]] == ["/a/b", "/a/c/bd"]
    assert [row["path"] for row in api.tree({"name": "/"})["znodes"]] == ["/a", "/a/b", "/a/c"]
    assert [api.tree(query)["found"] for query in ({"name": "b"}, {"name": "/"}, {})] == [2, 5, 2]


def test_huge_data_and_long_lines_are_cut() -> None:
    api = recorded(("/huge", b"<b>" * 200_000, False))
    entry = api.entry({"seq": "1"})
    assert len(entry["line"]) <= 240
    assert len(entry["document"]["after"][0]) < 21_000


def test_too_many_entries_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ENTRIES", 10)
    api = recorded(*((f"/z{number}", None, False) for number in range(50)))
    answer = api.entries({"from_ms": "0", "to_ms": "60000"})
    assert sum(bucket[2] for bucket in answer["buckets"]) == answer["count"] == 50
    assert len(api.entries({"from_ms": "0", "to_ms": "5000"})["entries"]) == 5


def test_why_is_a_chain_that_ends() -> None:
    recording = Recording()
    recording.add([], [Transaction(1, 1_000, 7, (Created("/brokers/ids/0", b"{}", ephemeral=True),))])
    for zxid in range(2, 200):
        event = WatchArmed(zxid * 10, "broker-0", "", 0, "/a")
        recording.add([event], [Transaction(zxid, zxid * 10 + 1, 7, (DataSet("/a", b"", zxid),))])
    entry = RecordingApi(recording).entry({"seq": str(recording.entries.count)})
    assert len(entry["why"]) <= module.MOST_LINKS
    assert entry["explanation"]["ours"]


@pytest.mark.parametrize("query", [{"seq": "x"}, {"seq": "9" * 30}, {"seq": ""}, {"seq": "-5"}, {"seq": "²"}, {}])
def test_what_there_is_not_is_said(query: dict[str, str]) -> None:
    with pytest.raises(BadRequest):
        recorded(("/a", None, False)).entry(query)


@pytest.mark.parametrize("number", ["", "-", "--5", "٣", "1e3", "9" * 19, "9" * 5_000, "0x1", " 1"])
def test_what_is_no_number_is_said(number: str) -> None:
    with pytest.raises(BadRequest, match="whole number"):
        recorded(("/a", None, False)).entry({"seq": number})


def test_what_happened_has_its_first_entry_and_its_price() -> None:
    api = recorded(("/brokers/ids/1", BROKER, True), ("/brokers/topics/t/partitions/0/state", STATE, False))
    [episode] = api.episodes({"from_ms": "0", "to_ms": "9000"})["episodes"]
    assert episode["text"] == "broker 1 registered; 1 partition got a first leader"
    assert (episode["seq"], episode["writes"], episode["watches"], episode["silent_ms"]) == (1, 2, 0, 0)


def test_groups_of_the_broker_are_as_their_coordinators_told_them() -> None:
    recording = Recording()
    for generation, members in ((1, {"anna": (TopicPartition("t", 0),)}), (2, {"bert": ()})):
        recording.add([AssignmentCompleted(generation, "broker-0", "", 0, "g", generation, members)], [])
    api = RecordingApi(recording)
    [now], [then] = (api.state({"seq": str(seq)})["cluster"]["coordinated"] for seq in (2, 1))
    assert (now["name"], now["generation"], now["members"]) == ("g", 2, {"bert": []})
    assert then["members"] == {"anna": ["t-0"]}
    assert [each["text"] for each in api.episodes({"from_ms": "0", "to_ms": "9"})["episodes"]] == [
        "rebalanced: generation 1, 1 member", "rebalanced: generation 2, 1 member"
    ]  # fmt: skip


def test_what_somebody_did_is_told_with_what_to_expect() -> None:
    """The act appears beside its effects, in the order of time."""
    recording = Recording()
    act = OperatorActed(2_000, "operator", "somebody asked for it", 0, "kill", "broker 1", "Others lead.")
    gone = AssignmentCompleted(3_000, "broker-0", "", 0, "g", 1, {})
    recording.add([act, gone], [Transaction(1, 1_000, 7, (Created("/brokers/ids/1", BROKER, ephemeral=True),))])
    told = RecordingApi(recording).episodes({"from_ms": "0", "to_ms": "9000"})
    assert told["count"] == 3
    assert [each["from_ms"] for each in told["episodes"]] == [1_000, 2_000, 3_000]
    mine = told["episodes"][1]
    assert (mine["subject"], mine["text"], mine["seq"]) == ("you", "kill broker 1. Expect: Others lead.", 2)

"""Offsets of partitions and groups: which are stored, thinned out and forgotten, and the cost of a silent broker.
"""

import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.task import Clock

from kafka_zk.base.events import Event
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.group.events import AssignmentCompleted
from kafka_zk.clients.admin.group_admin import GroupDescription, ListedGroup, MemberDescription
from kafka_zk.clients.connection.errors import KafkaTimeoutError
from kafka_zk.clients.connection.list_offsets import ListedOffset
from kafka_zk.clients.connection.waiting import run
from kafka_zk.recorder.recording import samples as module
from kafka_zk.recorder.recording.export import export
from kafka_zk.recorder.recording.recording import Recording
from kafka_zk.recorder.recording.samples import Samples
from kafka_zk.recorder.web.asked_groups import AskedGroups
from kafka_zk.recorder.web.sampled import to_ask
from kafka_zk.recorder.web.sampler import Sampler, Wanted
from kafka_zk.recorder.zookeeper_files.transaction_log import Created, Transaction

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
BROKER = b'{"version":4,"host":"h","port":%d,"endpoints":["PLAINTEXT://h:%d"],"timestamp":"1","jmx_port":-1,'
BROKER += b'"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"}}'
SECURED = b'{"version":5,"host":null,"port":-1,"endpoints":["TLS://s:93"],"timestamp":"1","jmx_port":-1,'
SECURED += b'"features":{},"listener_security_protocol_map":{"TLS":"SSL"}}'
STATE = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}'


def test_a_value_lasts_until_the_next_one() -> None:
    samples = Recording().samples
    assert [samples.add(ms, {"end t-0": value}) for ms, value in ((1, 5), (2, 5), (3, 6), (4, None))] == [1, 0, 1, 1]
    assert [samples.at(ms, ["end t-0"]) for ms in (0, 2, 3, 9)] == [{}, {"end t-0": 5}, {"end t-0": 6}, {}]
    assert samples.between("end t-0", 2, 9, 100) == [(1, 5), (3, 6), (4, None)]


def test_a_series_that_has_ended_is_not_kept_in_memory() -> None:
    """There are always new sessions. Nevertheless, the end of one is stored once."""
    samples = Recording().samples
    for number in range(100):
        values = [{f"heard {number:#x}": value} for value in (None, 1, None, None)]
        counts = [samples.add(10 * number + ms, each, for_good=True) for ms, each in enumerate(values)]
        assert counts == [0, 1, 1, 0]
    assert samples._last == {}
    assert samples.between("heard 0x2", 0, 99, 100) == [(21, 1), (22, None)]


def test_what_has_ended_leaves_room_for_what_lasts() -> None:
    """A new session finds its place after all that have ended."""
    samples = Recording().samples
    samples.add(1, {f"heard {number}": 1 for number in range(5)}, for_good=True)
    samples.add(2, dict.fromkeys([f"heard {number}" for number in range(5)]), for_good=True)
    samples.add(3, {"heard 9": 0, "hear": 1}, for_good=True)
    assert samples.at(9, ["heard "], 1) == {"heard 9": 0}
    assert len(samples.at(1, ["heard "], 3)) == 3


def test_what_an_earlier_recorder_told_of_ends(tmp_path: Path) -> None:
    with closing(Recording(tmp_path / "r")) as recording:
        recording.samples.add(1, {"heard 0x7": 1, "heard 0x8": 0, "end t-0": 5})
    with closing(Recording(tmp_path / "r")) as recording:
        recording.samples.end("heard ", 4)
        assert recording.samples.at(3, ["heard "]) == {"heard 0x7": 1, "heard 0x8": 0}
        assert recording.samples.at(4, ["heard ", "end "]) == {"end t-0": 5}


@pytest.mark.parametrize("value", [None, 5])
def test_what_is_told_again_and_again_is_looked_up_once(value: int | None) -> None:
    """This includes the value None, which a topic has while a leader does not respond."""
    database = sqlite3.connect(":memory:")
    database.executescript(module.SCHEMA)
    Samples(database).add(1, {"ends t": value})
    asked: list[str] = []
    database.set_trace_callback(lambda statement: asked.append(statement.split()[0]))
    samples = Samples(database)
    asked.clear()
    assert [samples.add(ms, {"ends t": value, "lag g: t": None}) for ms in range(2, 9)] == [0] * 7
    assert asked.count("select") == 2
    database.close()


def test_what_was_known_when_a_recording_was_closed_can_end_when_it_goes_on(tmp_path: Path) -> None:
    for ms, value, count in [(1, 5, 1), (2, 5, 0), (3, None, 1), (4, None, 0)]:
        recording = Recording(tmp_path / "r")
        assert recording.samples.add(ms, {"end t-0": value}) == count
        recording.close()
    recording = Recording(tmp_path / "r", read_only=True)
    assert recording.samples.between("end t-0", 0, 9, 100) == [(1, 5), (3, None)]
    recording.close()


def test_long_times_are_thinned_out() -> None:
    samples = Recording().samples
    for ms in range(1_000):
        samples.add(ms, {"ends t": ms})
    found = samples.between("ends t", 0, 1_000, 10)
    assert len(found) <= 12
    assert (found[0], found[-1]) == ((0, 0), (999, 999))


def test_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SAMPLES", 1_000)
    samples = Recording().samples
    for ms in range(5_000):
        samples.add(ms, {"ends t": ms, "end t-0": 7})
    assert len(samples.rows(0, 9_999)) <= 2_002
    assert samples.at(5_000, ["ends t", "end t-0"]) == {"ends t": 4_999, "end t-0": 7}, "a constant value was forgotten"


def test_they_go_with_an_exported_stretch(tmp_path: Path) -> None:
    recording = Recording()
    for zxid in (1, 2):
        recording.add([], [Transaction(zxid, zxid * 1_000, 7, (Created(f"/{zxid}", b"", ephemeral=False),))])
    recording.samples.add(500, {"end t-0": 1})
    recording.samples.add(1_500, {"end t-0": 2})
    recording.samples.add(2_500, {"end t-0": 3})
    list(export(recording, tmp_path / "part", 1, 2))
    part = Recording(tmp_path / "part", read_only=True)
    assert [part.samples.at(ms, ["end t-0"]) for ms in (1_000, 2_000, 9_000)] == [
        {"end t-0": 1}, {"end t-0": 2}, {"end t-0": 2}
    ]  # fmt: skip
    part.close()


def test_what_is_asked_is_what_the_recording_knows() -> None:
    """The wanted partitions exclude Kafka's own topics and brokers without a listener of the requested protocol."""
    created = {
        "/brokers/ids/1": BROKER % (91, 91), "/brokers/ids/2": b"no json", "/brokers/ids/3": SECURED,
        "/brokers/topics/t/partitions/0/state": STATE, "/brokers/topics/__own/partitions/0/state": STATE,
        "/consumers/g/owners/t/0": b"anna-0", "/consumers/g/offsets/t/0": b"12",
    }  # fmt: skip
    recording = Recording()
    for zxid, (path, data) in enumerate(created.items(), 1):
        recording.add([], [Transaction(zxid, zxid, 7, (Created(path, data, ephemeral=False),))])
    assert to_ask(recording) == Wanted(("h:91",), {T0: "broker 1"}, {("g", T0): 12}, ())
    assert to_ask(recording, "SSL").brokers == ("s:93",)


class Cluster:
    """Two brokers, of which one does not respond."""

    def __init__(self, *args: Any) -> None:
        self.groups = self

    async def list_offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, ListedOffset]:
        if T1 in wanted:
            raise KafkaTimeoutError("no answer")
        return {tp: ListedOffset(5, -1, 0) for tp in wanted}

    async def close(self) -> None:
        """Does nothing."""


def test_a_silent_broker_costs_its_own_partitions_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """After any failure, the sampler continues with the next second."""
    monkeypatch.setattr("kafka_zk.recorder.web.sampler.Admin", Cluster)
    taken: list[Mapping[str, int | None]] = []
    asked = iter([Wanted((), {}, {}, ()), Wanted(("h:1",), {T0: "broker 0", T1: "broker 1"}, {}, ())])
    clock = Clock()
    sampler = Sampler(clock, lambda: next(asked), lambda time_ms, values: taken.append(values))
    sampler.start()
    clock.pump([1] * 5)
    assert taken == [{"end t-0": 5, "end t-1": None, "ends t": None, "turns": 1, "sampled": 1}]
    sampler.stop()


class AskedAdmin:
    """Coordinators of one group, whose members and state are set by a test."""

    def __init__(self) -> None:
        self.members: dict[str, tuple[TopicPartition, ...]] = {}
        self.state = "Stable"

    async def list_groups(self) -> dict[str, ListedGroup]:
        if self.state == "Dead":
            return {}
        return {"g": ListedGroup("g", "consumer", self.state), "connect": ListedGroup("connect", "connect", "")}

    async def describe_groups(self, groups: Iterable[str]) -> dict[str, GroupDescription]:
        members = tuple(MemberDescription(name, None, "c", "h", tps) for name, tps in self.members.items())
        return {name: GroupDescription(name, self.state, "consumer", "range", members) for name in groups}


def test_groups_without_traces_are_asked_who_has_what() -> None:
    """Each change is reported once, but not during a rebalance; a group that is gone has no members."""
    told: list[Event] = []
    admin, asked = AskedAdmin(), AskedGroups(told.extend, 20)
    history: tuple[tuple[str, dict[str, tuple[TopicPartition, ...]]], ...] = (
        ("Stable", {"anna": (T0, T1)}), ("Stable", {"anna": (T0, T1)}), ("PreparingRebalance", {"anna": (), "ben": ()}),
        ("Stable", {"anna": (T0,), "ben": (T1,)}), ("Dead", {}), ("Dead", {}),
    )  # fmt: skip
    for admin.state, admin.members in history:
        run(asked.ask(admin))
    found = [each.assignments for each in told if isinstance(each, AssignmentCompleted)]
    assert found == [{"anna": (T0, T1)}, {"anna": (T0,), "ben": (T1,)}, {}]
    assert asked.names == ()

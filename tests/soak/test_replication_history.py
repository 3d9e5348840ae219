"""The judge of replicated topics, with artificial evidence."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from kafka_zk.storage.records.record_batch import RecordBatchBuilder
from tests.soak.replication_history import Acknowledged, Evidence, Read, election_faults, faults
from tests.soak.zookeeper_log import Write

VALUES = [b"a", b"b", b"c"]
READ = [Read(offset, value) for offset, value in enumerate(VALUES)]


def log(values: Sequence[bytes], epoch: int = 0, base_offset: int = 0) -> bytes:
    builder = RecordBatchBuilder()
    for value in values:
        builder.append(0, None, value)
    return builder.build(partition_leader_epoch=epoch, base_offset=base_offset)


def evidence(**changed: Any) -> Evidence:
    good = Evidence(
        "t",
        sent={"producer": {0: VALUES}},
        acknowledged=[Acknowledged(0, offset, value) for offset, value in enumerate(VALUES)],
        failed=[],
        read={"reader": {0: READ}},
        logs={0: {0: log(VALUES), 1: log(VALUES)}},
        writes=[],
    )
    return good._replace(**changed)


def replicas(data: bytes) -> dict[int, dict[int, bytes]]:
    return {0: {0: data, 1: data}}


def test_nothing_is_wrong() -> None:
    assert faults(evidence()) == []


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"logs": replicas(log(VALUES[:2]))}, "1 acknowledged records were lost, first b'c' at 2"),
        ({"logs": replicas(log([b"a", b"c", b"b"]))}, "2 records are not where they were acknowledged"),
        ({"logs": replicas(log([b"a", b"c", b"b"]))}, "the records of producer are not in the order"),
        ({"logs": replicas(log([*VALUES, b"c"]))}, "1 records are there twice"),
        ({"logs": {0: {0: log(VALUES), 1: log(VALUES[:2])}}}, "the replicas differ: they end at {0: 3, 1: 2}"),
        ({"logs": {0: {0: log(VALUES), 1: log([b"a", b"x", b"c"])}}}, "the replicas differ: at offset 1"),
        ({"logs": replicas(log(VALUES[:2], 4) + log(VALUES[2:], 3, 2))}, "the leader epochs of its batches go back"),
        ({"failed": ["not delivered"]}, "a client failed: not delivered"),
        ({"read": {"reader": {0: [READ[0], READ[2]]}}}, "reader was given offset 2 where 1 follows"),
        ({"read": {"reader": {0: [READ[0], READ[0]]}}}, "reader was given offset 0 where 1 follows"),
        ({"read": {"reader": {0: READ[:2]}}}, "reader was given only 2 of 3 records"),
        ({"read": {"reader": {0: [*READ, Read(3, b"d")]}}}, "reader was given 1 records that the log does not have"),
    ],
)
def test_each_fault_is_found(changed: dict[str, Any], said: str) -> None:
    assert any(said in fault for fault in faults(evidence(**changed)))


class States(list[Write]):
    """Writes of the state znode of t-0."""

    def write(
        self, leader: int, leader_epoch: int, isr: Sequence[int], controller_epoch: int = 1, session: int = 7
    ) -> "States":
        state = {"leader": leader, "leader_epoch": leader_epoch, "isr": isr, "controller_epoch": controller_epoch}
        data = json.dumps(state).encode()
        self.append(Write(len(self), 0, session, "/brokers/topics/t/partitions/0/state", data))
        return self


def test_elections_as_they_should_be() -> None:
    states = States().write(0, 0, [0, 1]).write(0, 0, [0]).write(0, 0, [0, 1])
    assert election_faults("t", states.write(1, 1, [1], 2, 8).write(-1, 2, [1], 2, 8).write(1, 3, [1], 3, 7)) == []


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ((1, 5, [0, 1]), "two leaders in leader epoch 5"),
        ((0, 4, [0, 1]), "leader epoch 4 after 5"),
        ((2, 6, [2]), "leader 2 was not in the ISR [0, 1]"),
        ((0, 5, [0, 1], 2, 8), "two sessions wrote as the controller of epoch 2"),
        ((0, 5, [0, 1], 1, 7), "controller epoch 1 after 2"),
    ],
)
def test_elections_as_they_must_not_be(second: tuple[Any, ...], said: str) -> None:
    states = States().write(0, 5, [0, 1], 2, 7)
    leader, leader_epoch, isr, *controller = second
    states.write(leader, leader_epoch, isr, *(controller or (2, 7)))
    assert any(said in fault for fault in election_faults("t", states))


def test_leaders_that_write_their_isr_themselves_may_be_late_with_the_controller_epoch() -> None:
    states = States().write(0, 5, [0, 1], 2, 7).write(0, 5, [0], 1, 9)
    assert election_faults("t", states, leaders_write_isr=True) == []
    assert election_faults("t", states.write(1, 6, [0], 2, 9), leaders_write_isr=True) == [
        "partition 0 (zxid 2): two sessions wrote as the controller of epoch 2",
        "partition 0 (zxid 2): leader 1 was not in the ISR [0]",
    ]

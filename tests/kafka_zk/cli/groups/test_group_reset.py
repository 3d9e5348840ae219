"""The offsets that a reset computes, and the partitions that it covers."""

from typing import Any, ClassVar

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.cli.groups.group_reset import Target, new_offsets, parse_topics
from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.clients.connection.list_offsets import EARLIEST, LATEST, ListedOffset

ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)


class Brokers:
    """Logs from 10 to 100 and from 0 to 50; records from timestamp 7 on begin at 20 in the first log, the second has
    none.
    """

    offsets: ClassVar = {EARLIEST: {ONE: 10, TWO: 0}, LATEST: {ONE: 100, TWO: 50}, 7: {ONE: 20, TWO: -1}}

    def list_offsets(self, wanted: dict[TopicPartition, int]) -> dict[TopicPartition, ListedOffset]:
        answered = reversed(wanted.items())  # responses come in any order
        return {tp: ListedOffset(self.offsets[spec][tp], -1, -1) for tp, spec in answered}


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (Target(earliest=True), [10, 0]),
        (Target(latest=True), [100, 50]),
        (Target(time_ms=7), [20, 50]),
        (Target(offset=30), [30, 30]),
        (Target(offset=70), [70, 50]),
        (Target(shift_by=-5), [10, 0]),
        (Target(shift_by=80), [92, 50]),
        (Target(current=True), [12, 3]),
        (Target(planned={ONE: 5, TWO: 40}), [10, 40]),
    ],
)
def test_offsets_stay_within_the_logs(target: Target, expected: list[int]) -> None:
    brokers: Any = Brokers()
    assert target.given() == 1
    assert list(new_offsets(brokers, [ONE, TWO], {ONE: 12, TWO: 3}, target).values()) == expected


def test_only_a_stored_offset_can_be_shifted() -> None:
    brokers: Any = Brokers()
    with pytest.raises(CommandFailed, match="t-1 cannot be shifted"):
        new_offsets(brokers, [ONE, TWO], {ONE: 12}, Target(shift_by=1))


def test_a_group_that_is_nowhere_is_reset_to_the_end() -> None:
    brokers: Any = Brokers()
    assert new_offsets(brokers, [ONE, TWO], {ONE: 12}, Target(current=True)) == {ONE: 12, TWO: 50}


def test_topics_with_or_without_partitions() -> None:
    known = {"t": [0, 1, 2], "u": [0]}
    assert parse_topics(["t:0,2", "u"], known) == [("t", 0), ("t", 2), ("u", 0)]
    assert parse_topics(["t"], known) == [("t", 0), ("t", 1), ("t", 2)]
    for wrong in ("x", "t:3", "t:", "t:a", "t:0,,1", "x:0"):
        with pytest.raises(CommandFailed, match="no such topic, or no such partition"):
            parse_topics([wrong], known)

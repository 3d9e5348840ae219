"""Which offsets are copied from one side to the other, and why others are not."""

import contextlib
from collections.abc import Collection, Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.base.types import TopicPartition
from kafka_zk.cli.groups.group_kinds import GroupKind
from kafka_zk.cli.groups.group_migration import (
    CHANGED,
    COPIED,
    EARLIER_TOPIC,
    EQUAL,
    GOES_BACK,
    KEPT,
    NO_PARTITION,
    NOTHING_THERE,
    TO_COPY,
    Migration,
    Row,
    plan,
)
from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.registry.offsets import NO_VERSION, StoredOffset

TPS = [TopicPartition("t", number) for number in range(5)]
OFFSETS = st.dictionaries(st.sampled_from(TPS), st.integers(0, 3))


def test_each_partition_has_a_row_with_a_reason() -> None:
    source = {TPS[0]: 5, TPS[1]: 5, TPS[2]: 5, TPS[3]: 5}
    target = {TPS[1]: 4, TPS[2]: 5, TPS[3]: 6, TPS[4]: 1}
    assert plan(source, target, {}, TPS, copied=COPIED) == [
        Row(TPS[0], 5, None, COPIED, None),
        Row(TPS[1], 5, 4, COPIED, None),
        Row(TPS[2], 5, 5, KEPT, EQUAL),
        Row(TPS[3], 5, 6, KEPT, GOES_BACK),
        Row(TPS[4], None, 1, KEPT, NOTHING_THERE),
    ]
    assert plan(source, {}, {TPS[0]: NO_PARTITION}, TPS[:1], copied=COPIED) == [
        Row(TPS[0], 5, None, KEPT, NO_PARTITION)
    ]


@given(OFFSETS, OFFSETS)
def test_no_offset_goes_back_and_a_second_time_copies_nothing(
    source: dict[TopicPartition, int], target: dict[TopicPartition, int]
) -> None:
    rows = plan(source, target, {}, {*source, *target}, copied=COPIED)
    after = target | {row.tp: row.source for row in rows if row.result == COPIED and row.source is not None}
    assert all(after[tp] >= offset for tp, offset in (*source.items(), *target.items()))
    assert all(row.result == KEPT for row in plan(source, after, {}, {*source, *after}, copied=COPIED))


class Side:
    """The group ``g`` on one side; ``live``: the error that live members cause."""

    def __init__(self, kind: GroupKind, offsets: Mapping[TopicPartition, int] | None) -> None:
        self.kind = kind
        self.group = None if offsets is None else dict(offsets)
        self.live: Exception | None = None
        self.early: dict[TopicPartition, int] = {}  # another client writes these after the first read of the offsets
        self.intruder: dict[TopicPartition, int] = {}  # and these after the versions were read
        self.of_earlier_topics: set[TopicPartition] = set()

    def names(self) -> Collection[str]:
        return [] if self.group is None else ["g"]

    def offsets(self, group: str) -> dict[TopicPartition, int]:
        assert self.group is not None
        return dict(self.group)

    def refuse_live(self, group: str) -> None:
        if self.live is not None:
            raise self.live

    def store(self, group: str, offsets: Mapping[TopicPartition, int]) -> None:
        self.group = {**(self.group or {}), **offsets}

    def stored(self, group: str) -> dict[TopicPartition, StoredOffset]:
        self.store(group, self.early)
        return {tp: StoredOffset(offset, 7) for tp, offset in (self.group or {}).items()}

    def store_unchanged(self, group: str, writes: Mapping[TopicPartition, StoredOffset]) -> list[TopicPartition]:
        known = self.group or {}
        assert all(write.version == (7 if tp in known else NO_VERSION) for tp, write in writes.items())
        self.store(group, {tp: each.offset for tp, each in writes.items() if tp not in self.intruder} | self.intruder)
        return [tp for tp in writes if tp in self.intruder]

    def outdated(self, group: str, tps: Collection[TopicPartition]) -> set[TopicPartition]:
        return self.of_earlier_topics & set(tps)


class Brokers:
    """Brokers that have all partitions of TPS except the last."""

    @contextlib.contextmanager
    def asked(self) -> Iterator[Any]:
        topics = {"t": SimpleNamespace(partitions=TPS[:-1])}
        yield SimpleNamespace(list_topics=lambda: ["t"], describe_topics=lambda names: topics)


def between(zookeeper: Side, brokers: Side) -> Migration:
    sides: Any = (zookeeper, brokers, Brokers())
    return Migration(*sides)


def test_what_must_not_be_copied_stays_behind() -> None:
    zookeeper = Side(GroupKind.ZOOKEEPER, {TPS[0]: 5, TPS[1]: 5, TPS[4]: 5})
    zookeeper.of_earlier_topics = {TPS[1]}
    brokers = Side(GroupKind.BROKER, None)
    dry = between(zookeeper, brokers).migrate("g", [], GroupKind.BROKER, dry_run=True)
    assert ([row.result for row in dry], brokers.group) == ([TO_COPY, KEPT, KEPT], None)
    rows = between(zookeeper, brokers).migrate("g", [], GroupKind.BROKER, dry_run=False)
    assert [row.reason for row in rows] == [None, EARLIER_TOPIC, NO_PARTITION]
    assert brokers.group == {TPS[0]: 5}


def test_what_somebody_writes_meanwhile_is_kept_and_told() -> None:
    zookeeper = Side(GroupKind.ZOOKEEPER, {TPS[0]: 1, TPS[2]: 1})
    brokers = Side(GroupKind.BROKER, {TPS[0]: 5, TPS[1]: 5, TPS[2]: 5})
    zookeeper.intruder = {TPS[0]: 9}
    zookeeper.early = {TPS[2]: 6}
    rows = between(zookeeper, brokers).migrate("g", [], GroupKind.ZOOKEEPER, dry_run=False)
    assert [(row.result, row.reason) for row in rows] == [(KEPT, CHANGED), (COPIED, None), (KEPT, CHANGED)]
    assert zookeeper.group == {TPS[0]: 9, TPS[1]: 5, TPS[2]: 6}


@pytest.mark.parametrize("to", list(GroupKind))
@pytest.mark.parametrize("live", list(GroupKind))
def test_members_on_either_side_forbid_it(to: GroupKind, live: GroupKind) -> None:
    sides = {kind: Side(kind, {TPS[0]: 1}) for kind in GroupKind}
    sides[live].live = CommandFailed("it lives")
    with pytest.raises(CommandFailed, match="it lives"):
        between(sides[GroupKind.ZOOKEEPER], sides[GroupKind.BROKER]).migrate("g", [], to, dry_run=True)


def test_only_what_is_there_can_be_copied() -> None:
    zookeeper, brokers = Side(GroupKind.ZOOKEEPER, {TPS[0]: 1}), Side(GroupKind.BROKER, None)
    with pytest.raises(CommandFailed, match="there is no group g at the brokers"):
        between(zookeeper, brokers).migrate("g", [], GroupKind.ZOOKEEPER, dry_run=False)
    with pytest.raises(CommandFailed, match="t:1: group g has no such offsets in ZooKeeper"):
        between(zookeeper, brokers).migrate("g", ["t:1"], GroupKind.BROKER, dry_run=False)

"""Appends and markers, reported in another order than the log's, compared with a model that follows the log."""

import random
from dataclasses import dataclass, field

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.group.offsets import GroupOffsets
from kafka_zk.broker.group.open_transaction_groups import OpenTransactionGroups
from kafka_zk.broker.group.records import OffsetAndMetadata
from kafka_zk.broker.group.transactional_offsets import Marker
from tests.kafka_zk.broker.group.coordinated import T0, T1, committed

TPS = [T0, T1, TopicPartition("u", 3)]


@dataclass
class Append:
    """A batch in the log; ``marker`` ends its transaction, and is reported separately."""

    producer_id: int | None
    offsets: dict[TopicPartition, OffsetAndMetadata]
    place: int
    marker: "Append | None" = None
    is_committed: bool = False
    reported: bool = False

    @property
    def counts(self) -> bool:
        """Whether the offsets are committed, as far as the broker knows."""
        if self.producer_id is None:
            return self.reported
        return self.reported and self.marker is not None and self.marker.reported and self.marker.is_committed

    @property
    def is_open(self) -> bool:
        return not self.reported or (self.producer_id is not None and not (self.marker and self.marker.reported))


@dataclass
class History:
    """The log of one partition. A producer continues once its marker was reported, as the coordinator requires."""

    rng: random.Random
    offsets: GroupOffsets = field(default_factory=GroupOffsets)
    appends: list[Append] = field(default_factory=list)
    unreported: list[Append] = field(default_factory=list)
    end_offset: int = 0

    def append(self, producer_id: int | None) -> None:
        chosen = self.rng.sample(TPS, self.rng.randint(1, len(TPS)))
        made = Append(producer_id, {tp: committed(self.end_offset * 10) for tp in chosen}, self.end_offset)
        self._add(made)
        self.appends.append(made)
        if producer_id is None:
            self.offsets.begin(made.offsets)
        else:
            self.offsets.begin_in_transaction(producer_id, made.offsets)

    def mark(self, producer_id: int) -> None:
        marker = Append(producer_id, {}, self.end_offset, is_committed=self.rng.random() < 0.6)
        self._add(marker)
        for each in self.appends:
            if each.producer_id == producer_id and each.marker is None:
                each.marker = marker

    def refuse(self, producer_id: int) -> None:
        """An append that the log refuses."""
        tried = {tp: committed(-1) for tp in TPS}
        self.offsets.begin_in_transaction(producer_id, tried)
        self.offsets.failed_in_transaction(producer_id, tried)

    def _add(self, made: Append) -> None:
        self.end_offset += 1
        self.unreported.append(made)

    def may_go_on(self, producer_id: int) -> bool:
        return not any(not each.offsets and each.producer_id == producer_id for each in self.unreported)

    def report(self) -> None:
        found = self.unreported.pop(self.rng.randrange(len(self.unreported)))
        found.reported = True
        if found.producer_id is None:
            self.offsets.written(found.offsets, found.place)
        elif found.offsets:
            self.offsets.written_in_transaction(found.producer_id, found.offsets, found.place)
        else:
            for _ in range(self.rng.randint(1, 2)):  # the coordinator may send it again
                self.offsets.end_transaction(found.producer_id, Marker(found.place, found.is_committed))

    def report_all(self) -> None:
        while self.unreported:
            self.report()
            self.check()

    def check(self) -> None:
        for tp in TPS:
            counting = [each for each in self.appends if tp in each.offsets and each.counts]
            expected = counting[-1].offsets[tp] if counting else None
            assert self.offsets.get(tp) == expected
        for producer_id in range(3):
            is_open = any(each.producer_id == producer_id and each.is_open for each in self.appends)
            assert self.offsets.has_transaction_of(producer_id) == is_open
        in_transactions = {tp for each in self.appends if each.is_open and each.producer_id is not None
                           for tp in each.offsets}  # fmt: skip
        for tp in in_transactions:
            assert self.offsets.is_pending(tp)


@pytest.mark.parametrize("seed", range(120))
def test_the_order_of_reports_changes_nothing(seed: int) -> None:
    """Only the order in the log decides. Several transactions of a producer may end while one of its appends is being
    flushed.
    """
    rng = random.Random(seed)
    history = History(rng)
    for _ in range(rng.randint(5, 60)):
        roll, producer_id = rng.random(), rng.randrange(3)
        if roll < 0.35 and history.may_go_on(producer_id):
            history.append(producer_id)
        elif roll < 0.45:
            history.append(None)
        elif roll < 0.65 and history.may_go_on(producer_id):
            history.mark(producer_id)
        elif roll < 0.7:
            history.refuse(producer_id)
        elif history.unreported:
            history.report()
        history.check()
    history.report_all()
    for producer_id in range(3):
        history.mark(producer_id)
    history.report_all()
    assert not any(history.offsets.is_pending(tp) for tp in TPS)


def test_groups_of_a_producer_are_known_until_nothing_of_it_waits() -> None:
    groups = OpenTransactionGroups()
    groups.add(1, "b", [7, 8])
    groups.add(1, "a", [7])
    groups.add(2, "c", [7])
    assert groups.of(1, 7) == ["a", "b"] and groups.of(2, 7) == ["c"] and groups.of(3, 7) == []
    groups.remove(1, "a", 7)
    groups.remove(1, "unknown", 9)
    assert groups.of(1, 7) == ["b"] and groups.of(1, 8) == ["b"]
    groups.unload(1)
    assert groups.of(1, 8) == [] and groups.of(2, 7) == ["c"]

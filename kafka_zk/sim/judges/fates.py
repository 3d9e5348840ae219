"""Finds the fate of each record that producers sent, from the facts of a simulated run and the logs at its end. Pure.

A record is lost, written twice, left out of its committed transaction, aborted with its transaction, not read, read
twice, or correct. Reading a record twice is not a fault by itself, since groups read each record at least once.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import NamedTuple

from kafka_zk.base.types import TopicPartition
from kafka_zk.sim.judges.transactions import transactions_of
from kafka_zk.sim.world.history import Acked, Fact, Found, HandedOut, Sent


class Fate(Enum):
    LOST = "lost"
    WRITTEN_TWICE = "written twice"
    NOT_READ = "not read"
    READ_TWICE = "read twice"
    LEFT_OUT = "left out"
    ABORTED = "aborted"
    KEPT = "kept"
    WAITS = "not acknowledged"


FAULTS = frozenset({Fate.LOST, Fate.WRITTEN_TWICE, Fate.NOT_READ, Fate.LEFT_OUT})
_HIDDEN = {Fate.LEFT_OUT: "its transaction was committed, but readers do not get it", Fate.ABORTED: ""}


class RecordFate(NamedTuple):
    """``value``: the record's value without the producer's name. ``said``: the reason in a few words; may be empty."""

    tp: TopicPartition
    value: str
    fate: Fate
    said: str = ""

    @property
    def name(self) -> str:
        """A readable key of the record, unique within one run: its value and partition."""
        return f"{self.value} in {self.tp}"


def fates(
    facts: Iterable[Fact],
    logs: Mapping[TopicPartition, list[Found]],
    to_be_read: Collection[str] = (),
    committed: Mapping[TopicPartition, list[Found]] = MappingProxyType({}),
) -> list[RecordFate]:
    """The fates of all records, in the order in which they were sent.

    ``logs``: the records of each partition that could be read at the end. ``to_be_read``: topics whose records a group
    must have read. ``committed``: what readers of committed records get, if there were transactions.
    """
    facts = list(facts)
    there = {(tp, record.value) for tp, records in committed.items() for record in records}
    hidden: dict[tuple[TopicPartition, str], Fate] = {
        record: Fate.LEFT_OUT if transaction.is_committed else Fate.ABORTED
        for transaction in transactions_of(facts)
        for record in transaction.records
        if transaction.is_committed is not None and record.tp in committed and record not in there
    }
    acked = {(fact.tp, fact.value): fact.offset for fact in facts if isinstance(fact, Acked)}
    readers: defaultdict[tuple[TopicPartition, str], list[str]] = defaultdict(list)
    for fact in facts:
        if isinstance(fact, HandedOut):
            readers[fact.tp, fact.value].append(_member(fact.actor))
    found = Counter((tp, record.value) for tp, records in logs.items() for record in records)
    at = {(tp, record.offset): record.value for tp, records in logs.items() for record in records}
    sent = dict.fromkeys((fact.tp, fact.value) for fact in facts if isinstance(fact, Sent))
    return [
        RecordFate(tp, _value(value), hidden[tp, value], _HIDDEN[hidden[tp, value]])
        if (tp, value) in hidden
        else RecordFate(tp, _value(value), *_fate(tp, value, acked, found, at, readers[tp, value], logs, to_be_read))
        for tp, value in sent
    ]


def faults(records: Iterable[RecordFate], others: Iterable[RecordFate]) -> list[RecordFate]:
    """The records with a fate in ``FAULTS`` under one rule, and those read twice under this rule only.

    ``others``: the fates under the other rule; ``records`` again if there is no other rule.
    """
    read_twice = {each.name for each in others if each.fate is Fate.READ_TWICE}
    return [
        each
        for each in records
        if each.fate in FAULTS or (each.fate is Fate.READ_TWICE and each.name not in read_twice)
    ]


def _fate(
    tp: TopicPartition,
    value: str,
    acked: Mapping[tuple[TopicPartition, str], int],
    found: Mapping[tuple[TopicPartition, str], int],
    at: Mapping[tuple[TopicPartition, int], str],
    readers: list[str],
    logs: Mapping[TopicPartition, list[Found]],
    to_be_read: Collection[str],
) -> tuple[Fate, str]:
    count = found.get((tp, value), 0)
    offset = acked.get((tp, value))
    if count == 0 and offset is None:
        return Fate.WAITS, ""
    if count == 0 and tp not in logs:
        return Fate.LOST, f"acknowledged at {offset}; no broker serves {tp}"
    if count == 0:
        there = at.get((tp, offset if offset is not None else -1))
        return Fate.LOST, f"acknowledged at {offset}, where {_value(there) if there else 'nothing'} is"
    if count > 1:
        return Fate.WRITTEN_TWICE, f"{count} times in the log"
    if not readers and tp.topic in to_be_read:
        return Fate.NOT_READ, "no member of the group has read it"
    if len(readers) > 1:
        return Fate.READ_TWICE, f"by {' and '.join(dict.fromkeys(readers))}"
    return Fate.KEPT, ""


def _value(value: str) -> str:
    return value.rpartition(":")[2]


def _member(actor: str) -> str:
    return actor.partition("_")[2].partition("-")[0] or actor

"""The judge of transactions: readers of committed records get all records of a transaction, or none, as its program
requested. Pure.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kafka_zk.base.types import TopicPartition
from kafka_zk.sim.world.history import Began, Ended, Fact, Found, Sent


class Record(NamedTuple):
    tp: TopicPartition
    value: str


class Transaction(NamedTuple):
    """``is_committed``: what the coordinator told the program; None if it has not answered."""

    actor: str
    records: tuple[Record, ...]
    is_committed: bool | None


def transactions_of(facts: Iterable[Fact]) -> list[Transaction]:
    """The transactions in the order in which they began."""
    found: list[Transaction] = []
    last: dict[str, int] = {}
    for fact in facts:
        if isinstance(fact, Began):
            last[fact.actor] = len(found)
            found.append(Transaction(fact.actor, (), None))
        elif isinstance(fact, Sent) and fact.actor in last:
            open_one = found[last[fact.actor]]
            found[last[fact.actor]] = open_one._replace(records=(*open_one.records, Record(fact.tp, fact.value)))
        elif isinstance(fact, Ended):
            number = last.pop(fact.actor)
            found[number] = found[number]._replace(is_committed=fact.is_committed)
    return found


def violations(facts: Iterable[Fact], committed: Mapping[TopicPartition, list[Found]]) -> list[str]:
    """``committed``: the records that readers of committed records get. Records of other partitions are not judged."""
    there = {Record(tp, found.value) for tp, records in committed.items() for found in records}
    broken = []
    for transaction in transactions_of(facts):
        records = [each for each in transaction.records if each.tp in committed]
        read = [each for each in records if each in there]
        missing = [each for each in records if each not in there]
        if transaction.is_committed and missing:
            rest = f", but {_listed(read)}" if read else ""
            broken.append(f"{transaction.actor} committed a transaction: readers do not get {_listed(missing)}{rest}")
        elif transaction.is_committed is False and read:
            broken.append(f"{transaction.actor} aborted a transaction: readers get {_listed(read)}")
    return broken


def _listed(records: Iterable[Record]) -> str:
    return " and ".join(f"{each.value} in {each.tp}" for each in records)

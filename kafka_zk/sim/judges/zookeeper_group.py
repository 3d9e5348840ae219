"""The judge of ZooKeeper groups, for members in the simulator or in real processes.

It checks three promises and returns sentences about violations:

* *one at a time*: only the member with the last claim of a partition delivers its records, until that claim ends;
* *no way back*: the stored offset of a partition never decreases;
* *at least once*: every record below a stored offset was delivered before, and every record by the end.

Facts are in the order in which they happened. Facts of several processes must first be sorted by time. Tested with
planted violations in ``tests/sim/test_zookeeper_group.py``.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import NamedTuple

from kafka_zk.base.types import TopicPartition
from kafka_zk.rebalance import events


class Kind(Enum):
    CLAIMED = "claimed"  # the member owns the partition, unless a claim with a larger token came before
    ENDED = "ended"  # released, or lost according to the member
    HANDED_OUT = "handed out"  # the record at ``offset`` was passed to the user
    CHOSEN = "chosen"  # the user commits this offset; records below it need not be handed out
    STORED = "stored"  # the committed offset in ZooKeeper


class Fact(NamedTuple):
    """``member``: a consumer id; "" for a value read from ZooKeeper."""

    time_ms: float
    member: str
    kind: Kind
    partition: TopicPartition
    offset: int = -1
    token: int = -1  # the claim's token


def facts_of(event: object) -> Iterator[Fact]:
    """The event's facts about ownership."""
    match event:
        case events.Claimed():
            for partition, offset in event.offsets.items():
                yield Fact(event.time_ms, event.actor, Kind.CLAIMED, partition, offset, event.tokens[partition])
        case events.Released() | events.OwnershipLost():
            for partition in event.partitions:
                yield Fact(event.time_ms, event.actor, Kind.ENDED, partition)


def violations(facts: Iterable[Fact], log_ends: Mapping[TopicPartition, int] | None = None) -> list[str]:
    """All violations, in the order of the facts. ``log_ends``: number of records by partition, all of which must be
    delivered by the end; None skips this check.
    """
    holder: dict[TopicPartition, str] = {}
    last_token: dict[TopicPartition, int] = {}
    stored: dict[TopicPartition, int] = {}
    handed_out: defaultdict[TopicPartition, set[int]] = defaultdict(set)
    broken: list[str] = []
    for fact in facts:
        partition = fact.partition
        match fact.kind:
            case Kind.CLAIMED:
                if fact.token > last_token.get(partition, -1):
                    holder[partition], last_token[partition] = fact.member, fact.token
            case Kind.ENDED:
                if holder.get(partition) == fact.member:
                    del holder[partition]
            case Kind.HANDED_OUT:
                if holder.get(partition) != fact.member:
                    whose = f"it is {holder[partition]}'s" if partition in holder else "it did not own it"
                    broken.append(f"{fact.time_ms}: {fact.member} handed out {partition}@{fact.offset}, but {whose}")
                handed_out[partition].add(fact.offset)
            case Kind.CHOSEN:
                handed_out[partition].update(range(fact.offset))
            case Kind.STORED:
                before = stored.get(partition, -1)
                if fact.offset < before:
                    broken.append(f"{fact.time_ms}: the offset of {partition} went back from {before} to {fact.offset}")
                skipped = set(range(max(before, 0), fact.offset)) - handed_out[partition]
                if skipped:
                    broken.append(
                        f"{fact.time_ms}: {partition}: {fact.offset} was committed, but these offsets were never seen: "
                        f"{skipped}"
                    )
                stored[partition] = fact.offset
    for partition, log_end in (log_ends or {}).items():
        missing = set(range(log_end)) - handed_out[partition]
        if missing:
            broken.append(f"{partition}: {len(missing)} of {log_end} records never handed out: {sorted(missing)[:5]}")
    return broken

"""``sticky``: as balanced as subscriptions allow, with the fewest possible moves.

``rebalance.balance`` defines balanced (KIP-54's goal and more). ``rebalance.fewest_moves`` computes how many partitions
of which topics each thread gets. This module chooses the partitions: each thread keeps its first previous partitions,
up to its count, and the others are dealt in turn to the threads that get more. All iteration is sorted, so equal
snapshots give equal results.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from kafka_zk.base.types import TopicPartition
from kafka_zk.rebalance.assignment import Assignment, GroupSnapshot, ThreadId
from kafka_zk.rebalance.fewest_moves import counts_with_fewest_moves


class StickyAssignor:
    """Starts from ``snapshot.previous``, in eager and incremental strategies."""

    name = "sticky"

    def assign(self, snapshot: GroupSnapshot) -> Assignment:
        threads = sorted({thread for readers in snapshot.threads.values() for thread in readers})
        audiences = _audiences(snapshot, {thread: number for number, thread in enumerate(threads)})
        counts = counts_with_fewest_moves(
            [frozenset(audience.readers) for audience in audiences],
            [len(audience.partitions) for audience in audiences],
            [{thread: len(kept) for thread, kept in audience.had.items()} for audience in audiences],
            len(threads),
        )
        return {
            partition: threads[number]
            for audience, wanted in zip(audiences, counts, strict=True)
            for partition, number in audience.distribute(wanted).items()
        }


@dataclass(slots=True)
class _Audience:
    """The partitions, sorted, of all topics that exactly these threads read.

    ``had``: the partitions that each thread had before.
    """

    readers: tuple[int, ...]
    partitions: list[TopicPartition] = field(default_factory=list)
    had: dict[int, list[TopicPartition]] = field(default_factory=dict)

    def distribute(self, wanted: Mapping[int, int]) -> dict[TopicPartition, int]:
        owner_of = {
            partition: thread
            for thread, partitions in self.had.items()
            for partition in partitions[: wanted.get(thread, 0)]
        }
        left = {thread: count - len(self.had.get(thread, ())) for thread, count in sorted(wanted.items())}
        turns = deque((thread, count) for thread, count in left.items() if count > 0)
        for partition in self.partitions:
            if partition not in owner_of:
                thread, count = turns.popleft()
                owner_of[partition] = thread
                if count > 1:
                    turns.append((thread, count - 1))
        return owner_of


def _audiences(snapshot: GroupSnapshot, number_of: Mapping[ThreadId, int]) -> list[_Audience]:
    audiences: dict[tuple[ThreadId, ...], _Audience] = {}
    for topic in sorted(snapshot.threads):
        threads = snapshot.threads[topic]
        audience = audiences.get(threads)
        if audience is None:
            audience = audiences[threads] = _Audience(tuple(number_of[thread] for thread in threads))
        readers = frozenset(audience.readers)
        for number in snapshot.partitions[topic]:
            partition = TopicPartition(topic, number)
            audience.partitions.append(partition)
            thread = number_of.get(snapshot.previous.get(partition, ""))
            if thread is not None and thread in readers:
                audience.had.setdefault(thread, []).append(partition)
    return list(audiences.values())

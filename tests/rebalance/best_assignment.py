"""An oracle for ``sticky``: finds the best assignment of a small group by exhaustive search, independently of the
assignor."""

from __future__ import annotations

from kafka_zk.base.types import TopicPartition
from kafka_zk.rebalance.assignment import GroupSnapshot


def least_squares_and_moves(snapshot: GroupSnapshot) -> tuple[int, int]:
    """The smallest possible sum of squared counts, and the fewest moves of any assignment with that sum.

    The partitions are added one by one; for each tuple of counts, only the smallest number of moves that leads to it is
    kept. The sum of squares is smallest if and only if no thread can pass a partition, directly or through a chain, to
    a thread that has at least two fewer.
    """
    threads = sorted({thread for readers in snapshot.threads.values() for thread in readers})
    moves_of = {(0,) * len(threads): 0}
    for topic, readers in snapshot.threads.items():
        for number in snapshot.partitions[topic]:
            before = snapshot.previous.get(TopicPartition(topic, number))
            following: dict[tuple[int, ...], int] = {}
            for counts, moves in moves_of.items():
                for reader in readers:
                    place = threads.index(reader)
                    grown = (*counts[:place], counts[place] + 1, *counts[place + 1 :])
                    cost = moves + (reader != before)
                    following[grown] = min(cost, following.get(grown, cost))
            moves_of = following
    return min((sum(count * count for count in counts), moves) for counts, moves in moves_of.items())

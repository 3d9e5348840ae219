"""``sticky``: as balanced as subscriptions allow, with the fewest possible moves.

``rebalance.balance`` defines balanced (KIP-54's goal and more). ``rebalance.fewest_moves`` computes how many partitions
of which topics each thread gets, and ``rebalance.shared_topics`` chooses them. All iteration is sorted, so equal
snapshots give equal results.
"""

from kafka_zk.rebalance.assignment import Assignment, GroupSnapshot
from kafka_zk.rebalance.fewest_moves import counts_with_fewest_moves
from kafka_zk.rebalance.shared_topics import shared_topics


class StickyAssignor:
    """Starts from ``snapshot.previous``, in eager and incremental strategies."""

    name = "sticky"

    def assign(self, snapshot: GroupSnapshot) -> Assignment:
        threads = sorted({thread for readers in snapshot.threads.values() for thread in readers})
        shared = shared_topics(snapshot, {thread: number for number, thread in enumerate(threads)})
        counts = counts_with_fewest_moves(
            [frozenset(each.readers) for each in shared],
            [len(each.partitions) for each in shared],
            [{thread: len(kept) for thread, kept in each.had.items()} for each in shared],
            len(threads),
        )
        return {
            partition: threads[number]
            for each, wanted in zip(shared, counts, strict=True)
            for partition, number in each.distribute(wanted).items()
        }

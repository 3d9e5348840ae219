"""``range``, Kafka's default: divides each topic separately into one run of consecutive partitions per thread.

With P partitions and C threads, each thread gets P div C, and the first P mod C threads one more. The extra partitions
of all topics therefore go to the same threads.

Compared with Kafka by ``tests/peers/groups/test_assignors.py``.
"""

from kafka_zk.base.types import TopicPartition
from kafka_zk.rebalance.assignment import Assignment, GroupSnapshot, ThreadId


class RangeAssignor:
    """Source: RangeAssignor, PartitionAssignor.scala@0.8.2 to 1.1, which all agree."""

    name = "range"

    def assign(self, snapshot: GroupSnapshot) -> Assignment:
        assignment: dict[TopicPartition, ThreadId] = {}
        for topic, threads in snapshot.threads.items():
            partitions = snapshot.partitions[topic]
            per_thread, extra = divmod(len(partitions), len(threads))
            for index, thread in enumerate(threads):
                start = per_thread * index + min(index, extra)
                count = per_thread + (index < extra)
                for partition in partitions[start : start + count]:
                    assignment[TopicPartition(topic, partition)] = thread
        return assignment

"""Kafka's ``roundrobin``: all partitions, sorted by Java's signed ``String.hashCode`` of the text
``[topic,partition]``, are dealt to all threads in turn.

Each goes to the next thread that subscribes to its topic. Kafka 0.8 requires that all topics have the same threads;
otherwise its members fail and their partitions stay unread. Two topics may have equal hashes (``Aa`` and ``BB``). Kafka
then uses the order of a hash table, which depends on the order in which ZooKeeper lists names, so its members may
disagree; we sort such topics by name.

Compared with Kafka by ``tests/peers/groups/test_assignors.py``.
"""

from collections import deque

from kafka_zk.base.types import TopicPartition
from kafka_zk.rebalance.assignment import Assignment, GroupSnapshot, ThreadId


class RoundRobinAssignor:
    """Source: RoundRobinAssignor, PartitionAssignor.scala@0.9 to 1.1."""

    name = "roundrobin"

    def assign(self, snapshot: GroupSnapshot) -> Assignment:
        subscribers = {topic: frozenset(threads) for topic, threads in snapshot.threads.items()}
        turn = deque(sorted(frozenset().union(*subscribers.values())))
        assignment: dict[TopicPartition, ThreadId] = {}
        for partition in _in_hash_order(snapshot):
            while turn[0] not in subscribers[partition.topic]:
                turn.rotate(-1)
            assignment[partition] = turn[0]
            turn.rotate(-1)
        return assignment


def java_string_hash(text: str) -> int:
    """Java's ``String.hashCode`` of a text without characters beyond the basic plane: 32 bits, signed."""
    hashed = 0
    for character in text:
        hashed = (hashed * 31 + ord(character)) & 0xFFFFFFFF
    return hashed - (hashed >> 31 << 32)


def _in_hash_order(snapshot: GroupSnapshot) -> list[TopicPartition]:
    everything = [TopicPartition(topic, number) for topic, numbers in snapshot.partitions.items() for number in numbers]
    return sorted(everything, key=lambda each: (java_string_hash(f"[{each.topic},{each.partition}]"), each))

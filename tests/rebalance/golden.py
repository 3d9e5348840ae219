"""Assignments computed by Kafka's own consumers. Unit tests check that our assignments equal them; peer tests check
that Kafka's still do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kafka_zk.base.types import TopicPartition
from kafka_zk.rebalance.assignment import Assignment, GroupSnapshot, group_snapshot
from kafka_zk.registry.znodes.consumers import BLACK_LIST, WHITE_LIST, ConsumerRegistration

#: The cluster's topics. No two names have equal hashes, because Kafka's order then depends on ZooKeeper's listing.
PARTITIONS_OF = {
    "t1": 4, "t2": 5, "orders": 12, "payments": 13, "clicks": 1, "a.b": 7, "logs_1": 30, "logs_2": 30, "empty": 0,
    "__consumer_offsets": 3, "__transaction_state": 2,
}  # fmt: skip


class Golden(NamedTuple):
    """One group and, for each strategy, thread -> its partitions as ``topic-partition``."""

    members: Mapping[str, ConsumerRegistration]
    range: Mapping[str, str]
    roundrobin: Mapping[str, str]

    @property
    def snapshot(self) -> GroupSnapshot:
        return group_snapshot(self.members, {topic: range(count) for topic, count in PARTITIONS_OF.items()})

    def assignment(self, strategy: str) -> Assignment:
        owned: Mapping[str, str] = getattr(self, strategy)
        found = {}
        for thread, partitions in owned.items():
            for name in partitions.split():
                topic, _, number = name.rpartition("-")
                found[TopicPartition(topic, int(number))] = thread
        return found


def _static(**streams: int) -> ConsumerRegistration:
    return ConsumerRegistration(streams)


GOLDEN = {
    "one-topic-two-members": Golden(
        {"A": _static(t2=1), "B": _static(t2=1)},
        range={"A-0": "t2-0 t2-1 t2-2", "B-0": "t2-3 t2-4"},
        roundrobin={"A-0": "t2-0 t2-2 t2-4", "B-0": "t2-1 t2-3"},
    ),
    "two-topics-two-members": Golden(
        {"A": _static(t1=1, t2=1), "B": _static(t1=1, t2=1)},
        range={"A-0": "t1-0 t1-1 t2-0 t2-1 t2-2", "B-0": "t1-2 t1-3 t2-3 t2-4"},
        roundrobin={"A-0": "t1-0 t1-2 t2-0 t2-2 t2-4", "B-0": "t1-1 t1-3 t2-1 t2-3"},
    ),
    "thread-10-before-thread-2": Golden(
        {"A": _static(payments=11), "B": _static(payments=1)},
        range={
            "A-0": "payments-0 payments-1",
            "A-1": "payments-2",
            "A-10": "payments-3",
            "A-2": "payments-4",
            "A-3": "payments-5",
            "A-4": "payments-6",
            "A-5": "payments-7",
            "A-6": "payments-8",
            "A-7": "payments-9",
            "A-8": "payments-10",
            "A-9": "payments-11",
            "B-0": "payments-12",
        },
        roundrobin={
            "A-0": "payments-9 payments-10",
            "A-1": "payments-11",
            "A-10": "payments-12",
            "A-2": "payments-0",
            "A-3": "payments-1",
            "A-4": "payments-2",
            "A-5": "payments-3",
            "A-6": "payments-4",
            "A-7": "payments-5",
            "A-8": "payments-6",
            "A-9": "payments-7",
            "B-0": "payments-8",
        },
    ),
    "more-threads-than-partitions": Golden(
        {"A": _static(t1=3), "B": _static(t1=3)},
        range={"A-0": "t1-0", "A-1": "t1-1", "A-2": "t1-2", "B-0": "t1-3"},
        roundrobin={"A-0": "t1-0", "A-1": "t1-1", "A-2": "t1-2", "B-0": "t1-3"},
    ),
    "subscriptions-differ": Golden(
        {"A": _static(t1=1, t2=1), "B": _static(t2=2), "C": _static(t1=1)},
        range={"A-0": "t1-0 t1-1 t2-0 t2-1", "B-0": "t2-2 t2-3", "B-1": "t2-4", "C-0": "t1-2 t1-3"},
        roundrobin={"A-0": "t1-0 t1-2 t2-0 t2-3", "B-0": "t2-1 t2-4", "B-1": "t2-2", "C-0": "t1-1 t1-3"},
    ),
    "white-list-and-black-list": Golden(
        {
            "A": ConsumerRegistration({"t1|t2": 1}, WHITE_LIST),
            "B": ConsumerRegistration({"orders|payments|a\\.b|logs_.*": 1}, BLACK_LIST),
        },
        range={
            "A-0": "t1-0 t1-1 t2-0 t2-1 t2-2",
            "B-0": "__transaction_state-0 __transaction_state-1 clicks-0 t1-2 t1-3 t2-3 t2-4",
        },
        roundrobin={
            "A-0": "t1-0 t1-2 t2-0 t2-2 t2-4",
            "B-0": "__transaction_state-0 __transaction_state-1 clicks-0 t1-1 t1-3 t2-1 t2-3",
        },
    ),
}

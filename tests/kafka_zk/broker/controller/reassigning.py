"""Reassignments of topic t's partitions: requests, and their state in ZooKeeper."""

import json
from typing import Any

from kafka_zk.base.types import TopicPartition
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from tests.kafka_zk.broker.controller.test_alter_partition import propose
from tests.kafka_zk.broker.controller.world import Cluster

TP = TopicPartition("t", 0)


def alter(cluster: Cluster, targets: dict[int, list[int] | None], topic: str = "t", **other: Any) -> dict[int, int]:
    """Partition -> error code."""
    cls = codec.request(ApiKey.ALTER_PARTITION_REASSIGNMENTS)
    of = cls.ReassignableTopic
    partitions = [of.ReassignablePartition(partition_index=p, replicas=r) for p, r in targets.items()]
    request = cls(timeout_ms=1000, topics=[of(name=topic, partitions=partitions)])
    answer = cluster.ask(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, request, **other)
    if answer.error_code:
        return {-1: answer.error_code}
    return {each.partition_index: each.error_code for topic in answer.responses for each in topic.partitions}


def moving(cluster: Cluster, wanted: list[int] | None = None) -> dict[int, tuple[list[int], list[int], list[int]]]:
    """Partition of t -> replicas, adding, removing."""
    cls = codec.request(ApiKey.LIST_PARTITION_REASSIGNMENTS)
    named = None
    if wanted is not None:
        named = [cls.ListPartitionReassignmentsTopics(name="t", partition_indexes=wanted)]
    answer = cluster.ask(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, cls(timeout_ms=1000, topics=named))
    return {
        each.partition_index: (each.replicas, each.adding_replicas, each.removing_replicas)
        for topic in answer.topics
        for each in topic.partitions
    }


def state(cluster: Cluster, partition: int = 0) -> tuple[int, list[int], int]:
    """Leader, ISR, leader epoch."""
    found = cluster.state("t", partition)
    assert found is not None
    return found.leader, found.isr, found.leader_epoch


def stored(cluster: Cluster) -> dict[str, Any]:
    """The topic's znode."""
    return dict(json.loads(cluster.zookeeper.tree.get("/brokers/topics/t")[0] or b""))


def replicas(cluster: Cluster) -> list[int]:
    return [broker.broker_id for broker in cluster.brokers if TP in broker.replicas]


def moved(brokers: int = 3, **assignment: Any) -> Cluster:
    cluster = Cluster(brokers)
    cluster.create("t", {0: [2, 1]})
    cluster.settle()
    return cluster


def catch_up(cluster: Cluster, *, settle: bool = True) -> None:
    """The leaders of t's partitions add every replica to the ISR."""
    for number, assigned in cluster.assignment("t").partitions.items():
        leader, isr, _ = state(cluster, number)
        members = [*isr, *(broker_id for broker_id in assigned if broker_id not in isr)]
        propose(cluster, members, broker_id=leader, partition_index=number)
        if settle:
            cluster.settle()

"""A partition has at most MOST_REPLICAS replicas. A partition with more is omitted; the others are kept."""

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.registry.client.errors import InvalidZnode
from kafka_zk.registry.znodes import admin, json_codec, topics
from kafka_zk.registry.znodes.json_codec import MOST_REPLICAS
from kafka_zk.registry.znodes.topics import LeaderIsrAndControllerEpoch

AS_MANY_AS_ALLOWED = list(range(MOST_REPLICAS))
TOO_MANY = list(range(MOST_REPLICAS + 1))


def test_an_assignment_leaves_out_the_partition_with_too_many_replicas() -> None:
    partitions = {"0": TOO_MANY, "1": [0], "2": AS_MANY_AS_ALLOWED}
    read = topics.decode_assignment("t", json_codec.encode({"version": 1, "partitions": partitions}))
    assert read.partitions == {1: [0], 2: AS_MANY_AS_ALLOWED}
    assert len(read.faults) == 1 and f"names {MOST_REPLICAS + 1} replicas" in read.faults[0]


def test_a_state_and_an_order_with_too_many_are_refused() -> None:
    with pytest.raises(InvalidZnode, match="replicas"):
        topics.decode_state("t", 0, topics.encode_state(LeaderIsrAndControllerEpoch(0, TOO_MANY, 1, 1)))
    with pytest.raises(InvalidZnode, match="replicas"):
        admin.decode_reassignment(admin.encode_reassignment({TopicPartition("t", 0): TOO_MANY}))


def test_a_large_assignment_is_decoded_in_steps() -> None:
    partitions = {str(number): [7, 8, 9] for number in range(47_000)}
    data = json_codec.encode({"version": 1, "partitions": partitions})
    assert len(list(topics.decode_assignment_in_steps("t", data))) > 100
    assert len(topics.decode_assignment("t", data).partitions) == 47_000

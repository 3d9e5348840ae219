"""Metadata responses joined from encoded topics: byte for byte equal to what the codec encodes."""

import uuid
from collections.abc import Sequence
from typing import Any

import pytest

from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import BROKER_VERSIONS, ApiKey
from kafka_zk.protocol.metadata_response import PartitionRow, Response, encode_partitions, encode_response, encode_topic

LOWEST, HIGHEST = BROKER_VERSIONS[ApiKey.METADATA]
Topic = Response.MetadataResponseTopic
Partition = Topic.MetadataResponsePartition


ROWS = [
    PartitionRow(0, number, number % 3, number, [0, 1, 2][: number % 4], [1] * (number % 3), range(number % 2))
    for number in range(5)
] + [PartitionRow(5, 5, -1, 7, range(200), range(130), range(127))]
"""Some partitions have enough replicas for a count of two bytes."""


def topic(name: str, rows: Sequence[PartitionRow]) -> Any:
    partitions = [
        Partition(**{name: list(value) if isinstance(value, Sequence) else value for name, value in fields.items()})
        for fields in (row._asdict() for row in rows)
    ]
    return Topic(error_code=0, name=name, topic_id=uuid.UUID(int=len(name)), is_internal=False, partitions=partitions)


def response(topics: list[Any]) -> Any:
    broker = Response.MetadataResponseBroker(node_id=1, host="localhost", port=9092, rack="r")
    return Response(throttle_time_ms=3, brokers=[broker], cluster_id="cluster", controller_id=1, topics=topics)


@pytest.mark.parametrize("version", range(LOWEST, HIGHEST + 1))
@pytest.mark.parametrize("partition_counts", [[], [0], [3, 1], [6], [1] * 200], ids=str)
def test_the_bytes_are_the_codecs(version: int, partition_counts: list[int]) -> None:
    """One case has enough topics for a compact array's length of two bytes."""
    names = [f"t{at}" for at in range(len(partition_counts))]
    topics = [topic(name, ROWS[:count]) for name, count in zip(names, partition_counts, strict=True)]
    whole = codec.encode_body(response(topics), ApiKey.METADATA, version)
    encoded = [
        encode_topic(
            topic(name, []), count, [encode_partitions([row], version) for row in ROWS[:count]], version
        )
        for name, count in zip(names, partition_counts, strict=True)
    ]
    assert encode_response(response([]), encoded, version) == whole

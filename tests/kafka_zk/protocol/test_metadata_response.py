"""Metadata responses put together from encoded topics: byte for byte what the codec makes of the whole."""

import uuid

import pytest

from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import BROKER_VERSIONS, ApiKey
from kafka_zk.protocol.metadata_response import Response, encode_response, encode_topic

LOWEST, HIGHEST = BROKER_VERSIONS[ApiKey.METADATA]
Topic = Response.MetadataResponseTopic
Partition = Topic.MetadataResponsePartition


def topic(name: str, partition_count: int):  # type: ignore[no-untyped-def]
    partitions = [
        Partition(
            error_code=0,
            partition_index=number,
            leader_id=number % 3,
            leader_epoch=number,
            replica_nodes=[0, 1],
            isr_nodes=[1],
            offline_replicas=[0],
        )
        for number in range(partition_count)
    ]
    return Topic(error_code=0, name=name, topic_id=uuid.UUID(int=len(name)), is_internal=False, partitions=partitions)


def response(topics):  # type: ignore[no-untyped-def]
    broker = Response.MetadataResponseBroker(node_id=1, host="localhost", port=9092, rack="r")
    return Response(throttle_time_ms=3, brokers=[broker], cluster_id="cluster", controller_id=1, topics=topics)


@pytest.mark.parametrize("version", range(LOWEST, HIGHEST + 1))
@pytest.mark.parametrize("partition_counts", [[], [0], [3, 1], [1] * 200], ids=str)
def test_the_bytes_are_the_codecs(version: int, partition_counts: list[int]) -> None:
    """Also with so many topics that a compact array's length takes two bytes."""
    topics = [topic(f"t{at}", count) for at, count in enumerate(partition_counts)]
    whole = codec.encode_body(response(topics), ApiKey.METADATA, version)
    assert encode_response(response([]), [encode_topic(each, version) for each in topics], version) == whole

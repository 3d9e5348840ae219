"""Builds Metadata responses from cached, encoded topics, which make up nearly all of a large response.

All clients request metadata after a change of leaders, so partitions are packed from rows; messages would take five
times as long.

Source: MetadataResponse.json@3.9 (where the arrays of topics and partitions begin and what follows them).
"""

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain
from typing import Any, NamedTuple

from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey, is_flexible
from kafka_zk.protocol.primitives import length

Response = codec.response(ApiKey.METADATA)

CLUSTER_OPERATIONS_VERSIONS = range(8, 11)
TOPIC_OPERATIONS_SINCE = 8


class PartitionRow(NamedTuple):
    error_code: int
    partition_index: int
    leader_id: int
    leader_epoch: int
    replica_nodes: Sequence[int]
    isr_nodes: Sequence[int]
    offline_replicas: Sequence[int]


def encode_topic(topic: Any, partition_count: int, partitions: Iterable[bytes], version: int) -> tuple[bytes, ...]:
    """``topic``: its array of partitions is empty. ``partitions``: encoded, any number in each part."""
    front_size, tail_size = _sizes_without_brokers(version)
    body = codec.encode_body(Response(topics=[topic]), ApiKey.METADATA, version)
    encoded = bytes(body[front_size : len(body) - tail_size])
    end = len(encoded) - (4 if version >= TOPIC_OPERATIONS_SINCE else 0) - is_flexible(ApiKey.METADATA, version)
    before, after = encoded[: end - len(_count(0, version))], encoded[end:]
    return (before + _count(partition_count, version), *partitions, after)


def with_operations(parts: Sequence[bytes], operations: int, version: int) -> Sequence[bytes]:
    """``operations``: one bit for each allowed operation; the field exists since version TOPIC_OPERATIONS_SINCE."""
    *before, last = parts
    end = len(last) - is_flexible(ApiKey.METADATA, version)
    return (*before, last[: end - 4], operations.to_bytes(4, "big", signed=True), last[end:])


def encode_partitions(partitions: Iterable[PartitionRow], version: int) -> bytes:
    return b"".join(map(codec.response_rows(ApiKey.METADATA, version, "topics", "partitions"), partitions))


def encode_response(response: Any, topics: Sequence[Sequence[bytes]], version: int) -> bytes:
    """``response``: its array of topics is empty. ``topics``: encoded."""
    before, after = _around_topics(response, version)
    return b"".join((before, _count(len(topics), version), *chain.from_iterable(topics), after))


@cache
def _sizes_without_brokers(version: int) -> tuple[int, int]:
    before, after = _around_topics(Response(topics=[]), version)
    return len(before) + len(_count(1, version)), len(after)


def _around_topics(response: Any, version: int) -> tuple[bytes, bytes]:
    body = bytes(codec.encode_body(response, ApiKey.METADATA, version))
    operations_size = 4 if version in CLUSTER_OPERATIONS_VERSIONS else 0
    tags_size = 1 if is_flexible(ApiKey.METADATA, version) else 0
    end = len(body) - operations_size - tags_size
    return body[: end - len(_count(0, version))], body[end:]


def _count(count: int, version: int) -> bytes:
    return length(count, is_flexible(ApiKey.METADATA, version))

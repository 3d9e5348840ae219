"""Handles OffsetCommit requests that the native module can decode: few partitions, no metadata, no tagged fields.

``read`` has no side effects. ``offset_commit`` handles all other requests in Python, including those that are partly
denied.
Tests: tests/kafka_zk/broker/handlers/groups/test_plain_commit.py.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from kafka_zk.base.types import TopicPartition, new_tuple
from kafka_zk.broker.group.offset_manager import Committer
from kafka_zk.broker.group.offsets_batch import EncodedBatch
from kafka_zk.broker.group.records import OffsetAndMetadata
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.security.authorizer import Operation, group, topic
from kafka_zk.protocol.request import RequestContext, RequestHeader

_READ = Operation.READ

Topics = Sequence[tuple[str, tuple[int, ...], tuple[OffsetAndMetadata, ...]]]
"""(Topic, its partitions, the offset to commit for each partition)."""


class PlainCommit(NamedTuple):
    """A commit of partitions that exist, by a client that may commit all of them. ``response``: without errors."""

    group_id: str
    committer: Committer
    topics: Topics
    batch: EncodedBatch
    response: bytes


def tps_of_topic(name: str, partitions: tuple[int, ...]) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition(name, partition) for partition in partitions)


cached_tps = lru_cache(maxsize=1000)(tps_of_topic)
"""Partitions are cached, because clients commit the same ones repeatedly. Call this only for topics that exist."""


def read(services: Services, context: RequestContext, header: RequestHeader, body: memoryview) -> PlainCommit | None:
    """Returns None if Python must read the request. The result does not refer to ``body``."""
    native = services.native
    if native is None:
        return None
    now_ms = services.clock.wall_ms()
    found = native.plain_commit(header.api_version, header.correlation_id, body, now_ms, OffsetAndMetadata)
    if found is None:
        return None
    group_id, generation_id, member_id, group_instance_id, topics, batch, response = found
    offsets = _allowed(services, context, group_id, topics)
    if offsets is None:
        return None
    committer = new_tuple(Committer, (member_id, group_instance_id, generation_id))
    return new_tuple(PlainCommit, (group_id, committer, topics, EncodedBatch(offsets, now_ms, batch), response))


def _allowed(
    services: Services,
    context: RequestContext,
    group_id: str,
    topics: Topics,
) -> dict[TopicPartition, OffsetAndMetadata] | None:
    """The offsets to commit; None if the client may not commit, or if a partition does not exist or occurs twice."""
    may = services.authorizer.may
    if not may(context, _READ, group(group_id)):
        return None
    known_topics = services.metadata.topics
    offsets: dict[TopicPartition, OffsetAndMetadata] = {}
    count = 0
    for name, partitions, committed in topics:
        known = known_topics.get(name)
        if known is None or not all(map(known.__contains__, partitions)) or not may(context, _READ, topic(name)):
            return None
        offsets.update(zip(cached_tps(name, partitions), committed, strict=False))
        count += len(partitions)
    return offsets if len(offsets) == count else None

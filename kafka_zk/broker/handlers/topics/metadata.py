"""Metadata: brokers, topics and leaders from the cache; creates unknown topics if allowed.

Source: KafkaApis.handleTopicMetadataRequest, ZkMetadataCache.getPartitionMetadata, AutoTopicCreationManager@3.9.
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from kafka_zk.base.turns import in_turns
from kafka_zk.broker.handlers.error_map import EXPECTED, error_code
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.metadata import topic_creation
from kafka_zk.broker.metadata.cache import PARTITIONS_OF_CHUNK, EncodedTopic, MetadataCache, PartitionInfo
from kafka_zk.broker.security.authorizer import CLUSTER, Operation, authorized_operations, cluster_operations, topic
from kafka_zk.network.memory_pool import FREE_BYTES
from kafka_zk.protocol import codec, metadata_response, topic_names, uuids
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.protocol.fetch import Part
from kafka_zk.protocol.metadata_response import CLUSTER_OPERATIONS_VERSIONS, TOPIC_OPERATIONS_SINCE, PartitionRow
from kafka_zk.protocol.request import RequestContext, RequestHeader
from kafka_zk.protocol.topic_names import INTERNAL_TOPICS

NO_LEADER = -1
_LISTENER_NOT_FOUND_SINCE = 6

_CREATION_ASKED_SINCE = 4
_NULL_NAMES_SINCE = 12
_DECIDED_AT_ONCE = 100  # number of names, which take about 0.2 ms

Response = codec.response(ApiKey.METADATA)
Broker = Response.MetadataResponseBroker
Topic = Response.MetadataResponseTopic


class _Asked(NamedTuple):
    """Settings of a request. ``created``: topics created for the request, by collision key."""

    may_create: bool
    with_operations: bool
    created: dict[str, str]
    header: RequestHeader


async def handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> list[Part]:
    """Return the cluster as this broker knows it, with the brokers' addresses on the request's listener."""
    version = header.api_version
    asked = _Asked(
        may_create=version < _CREATION_ASKED_SINCE or request.allow_auto_topic_creation,
        with_operations=version >= TOPIC_OPERATIONS_SINCE and request.include_topic_authorized_operations,
        created={},
        header=header,
    )
    topics: list[Sequence[bytes]] = []
    if request.topics is None or (header.api_version == 0 and not request.topics):
        async for name in in_turns(services.clock, _visible_topics(services, context)):
            if name in services.metadata.topics:  # otherwise the topic has since been deleted
                topics.append(_encoded_topic(services, context, version, name, asked.with_operations))
    else:
        # Each topic is returned once, as in Kafka: 50,000 times a topic of 20,000 partitions would take 50 GB.
        seen: set[tuple[str | None, uuid.UUID | None]] = set()
        async for wanted in in_turns(services.clock, request.topics):
            if (wanted.name, wanted.topic_id) in seen:
                continue
            seen.add((wanted.name, wanted.topic_id))
            topics.append(await _wanted_topic(services, context, version, wanted, asked))
    listener = context.listener_name
    response = Response(
        brokers=[
            Broker(node_id=broker.broker_id, host=endpoint.host, port=endpoint.port, rack=broker.rack)
            for broker in services.metadata.brokers.values()
            if (endpoint := broker.endpoints.get(listener)) is not None
        ],
        cluster_id=services.cluster_id,
        controller_id=_controller_id(services),
    )
    if version in CLUSTER_OPERATIONS_VERSIONS and request.include_cluster_authorized_operations:
        response.cluster_authorized_operations = cluster_operations(services.authorizer, context)
    size_bytes = sum(len(part) for parts in topics for part in parts)
    if size_bytes > FREE_BYTES:
        await context.memory.reserve(size_bytes)
    return [metadata_response.encode_response(response, topics, version)]


def _visible_topics(services: Services, context: RequestContext) -> Iterator[str]:
    names = sorted(services.metadata.topics)
    for first in range(0, len(names), _DECIDED_AT_ONCE):
        yield from services.authorizer.visible_topics(context, names[first : first + _DECIDED_AT_ONCE])


def _controller_id(services: Services) -> int:
    """The controller's id; -1 if it is not among the live brokers."""
    controller_id = services.metadata.controller_id
    return controller_id if services.metadata.is_alive(controller_id) else NO_LEADER


async def _wanted_topic(
    services: Services, context: RequestContext, version: int, wanted: Any, asked: _Asked
) -> Sequence[bytes]:
    topic_id = wanted.topic_id or uuids.ZERO
    name = wanted.name
    try:
        if name is None:
            name = services.metadata.topic_names.get(topic_id)
            if name is None:
                raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        if not services.authorizer.authorize(context, Operation.DESCRIBE, topic(name)):
            return _hidden_topic(wanted, version)
        if name not in services.metadata.topics:
            await _create_unknown(services, context, name, asked)
    except EXPECTED as error:
        code = error_code(error)
        failed = Topic(
            error_code=code,
            name=name if name is not None or version >= _NULL_NAMES_SINCE else "",
            topic_id=topic_id,
            is_internal=name in INTERNAL_TOPICS,
            partitions=[],
        )
        if asked.with_operations and name is not None and code is not ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            failed.topic_authorized_operations = authorized_operations(services.authorizer, context, topic(name))
        return metadata_response.encode_topic(failed, 0, [], version)
    return _encoded_topic(services, context, version, name, asked.with_operations)


def _hidden_topic(wanted: Any, version: int) -> Sequence[bytes]:
    """A response that contains only what the client sent, because the client must not find out whether the topic
    exists."""
    name = "" if wanted.name is None and version < _NULL_NAMES_SINCE else wanted.name
    topic_id = uuids.ZERO if wanted.name is not None else wanted.topic_id
    hidden = Topic(
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name, topic_id=topic_id, is_internal=False, partitions=[]
    )
    return metadata_response.encode_topic(hidden, 0, [], version)


async def _create_unknown(services: Services, context: RequestContext, name: str, asked: _Asked) -> None:
    """Create the topic with the broker's defaults. Raises: ApiError: LEADER_NOT_AVAILABLE makes the client retry.

    LEADER_NOT_AVAILABLE is also the error until a controller has sent metadata, because this broker does not know the
    topics yet. (Unless the topic may be created, Kafka then responds that it does not exist, and clients drop records.)
    """
    may_create = asked.may_create and services.config.auto_create_topics_enable
    if may_create and not (
        services.authorizer.may(context, Operation.CREATE, CLUSTER)
        or services.authorizer.authorize(context, Operation.CREATE, topic(name))
    ):
        raise ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    topic_names.check_name(name)
    if not services.metadata.brokers:
        raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE)
    if not may_create:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    for internal in (services.offsets_topic, services.transaction_state_topic):
        if name == internal.name:
            internal.create()
            creatable = internal.is_creatable
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE if creatable else ErrorCode.INVALID_REPLICATION_FACTOR)
    try:
        topic_creation.check_collision_in_request(name, asked.created)
        planned = topic_creation.plan(name, -1, -1, {}, {}, services.config, services.metadata, services.random)
        asked.created[topic_creation.collision_key(name)] = name
        services.client_quotas.mutation_quota(context, asked.header).take(len(planned.replicas))
        await topic_creation.create(planned, services.topics)
    except ApiError as error:
        if error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            raise
    raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE)


def _encoded_topic(
    services: Services, context: RequestContext, version: int, name: str, with_operations: bool
) -> Sequence[bytes]:
    """Encode a topic once for all clients, because a partition costs 2 us, and there can be thousands. Authorized
    operations are added per client."""
    listener = context.listener_name
    known = services.metadata.encoded.setdefault(name, {}).setdefault((version, listener), EncodedTopic())
    if known.parts is None:
        partitions = services.metadata.topics[name]
        described = Topic(
            error_code=0,
            name=name,
            topic_id=services.metadata.topic_ids.get(name, uuids.ZERO),
            is_internal=name in INTERNAL_TOPICS,
            partitions=[],
        )
        chunks = _chunks(services.metadata, listener, version, partitions, known.chunks)
        known.parts = metadata_response.encode_topic(described, len(partitions), chunks, version)
        if len(chunks) == 1:  # a single chunk need not be kept separately
            known.parts = (b"".join(known.parts),)
            known.chunks.clear()
    if not with_operations:
        return known.parts
    operations = authorized_operations(services.authorizer, context, topic(name))
    return metadata_response.with_operations(known.parts, operations, version)


def _chunks(
    metadata: MetadataCache,
    listener: str,
    version: int,
    partitions: Mapping[int, PartitionInfo],
    known: dict[int, bytes],
) -> list[bytes]:
    """Chunks with all partitions, encoded; adds missing chunks to ``known``."""
    numbers = sorted({number // PARTITIONS_OF_CHUNK for number in partitions})
    for number in numbers:
        if number in known:
            continue
        first = number * PARTITIONS_OF_CHUNK
        some = [each for each in range(first, first + PARTITIONS_OF_CHUNK) if each in partitions]
        rows = _rows(metadata, listener, version, [(each, partitions[each]) for each in some])
        known[number] = metadata_response.encode_partitions(rows, version)
    return [known[number] for number in numbers]


def _rows(
    metadata: MetadataCache, listener: str, version: int, partitions: Iterable[tuple[int, PartitionInfo]]
) -> Iterator[PartitionRow]:
    alive = set(metadata.brokers)
    reachable = {broker_id for broker_id, broker in metadata.brokers.items() if listener in broker.endpoints}
    for partition, info in partitions:
        error, leader = ErrorCode.NONE, info.leader
        replicas, isr = info.replicas, info.isr
        if leader not in reachable:
            error, leader = ErrorCode.LEADER_NOT_AVAILABLE, NO_LEADER
            if version >= _LISTENER_NOT_FOUND_SINCE and info.leader in alive:
                error = ErrorCode.LISTENER_NOT_FOUND
        if version == 0:  # contains only brokers that the client can reach
            replicas = [broker for broker in replicas if broker in reachable]
            isr = [broker for broker in isr if broker in reachable]
            if error is ErrorCode.NONE and len(replicas) < len(info.replicas):
                error = ErrorCode.REPLICA_NOT_AVAILABLE
        offline: Sequence[int] = ()
        if info.offline_replicas or not alive.issuperset(info.replicas):
            lost = info.offline_replicas  # replicas on failed log directories or stopping brokers
            offline = [each for each in info.replicas if each not in alive or each in lost]
        yield PartitionRow(error, partition, leader, info.leader_epoch, replicas, isr, offline)

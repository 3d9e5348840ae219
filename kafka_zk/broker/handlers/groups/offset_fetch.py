"""OffsetFetch: returns offsets from ZooKeeper (version 0) or from the group coordinator.

Old tools (ConsumerOffsetChecker, ConsumerGroupCommand) ask the coordinator first, and read ZooKeeper if there is
neither an error nor an offset.

Source: KafkaApis.handleOffsetFetchRequest, OffsetFetchResponse.java@3.9.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any, NamedTuple

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.group.offsets import GroupOffsets as CommittedOffsets
from kafka_zk.broker.handlers.error_map import EXPECTED, error_code
from kafka_zk.broker.handlers.long_responses import EncodedArray, ResponseTurns
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.security.authorizer import Operation, group, topic
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.fetch import Part
from kafka_zk.protocol.memory import OBJECT_BYTES
from kafka_zk.protocol.request import RequestContext, RequestHeader
from kafka_zk.registry.znodes.consumers import NO_OFFSET, is_znode_name

_TOP_LEVEL_ERROR_SINCE = 2
_MANY_GROUPS_SINCE = 8

Response = codec.response(ApiKey.OFFSET_FETCH)
Topic = Response.OffsetFetchResponseTopic
Partition = Topic.OffsetFetchResponsePartition
Group = Response.OffsetFetchResponseGroup
GroupTopic = Group.OffsetFetchResponseTopics
GroupPartition = GroupTopic.OffsetFetchResponsePartitions

_NO_EPOCH = -1
_FOUND_BYTES = 256


class Found(NamedTuple):
    """The result for a partition."""

    offset: int
    error: ErrorCode
    leader_epoch: int = _NO_EPOCH
    metadata: str = ""


class GroupOffsets(NamedTuple):
    """The result for a group: an error, or its partitions by topic, in the requested order."""

    error: ErrorCode
    partitions: Mapping[str, Mapping[int, Found]]


async def handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> list[Part]:
    """Return the committed offset or -1 for each requested partition, or for all partitions with a committed offset
    (topics null)."""
    turns = ResponseTurns(services.clock, context)
    if header.api_version >= _MANY_GROUPS_SINCE:
        return await _groups(services, context, header, turns, request)
    if header.api_version > 0:
        found = await _group(services, context, turns, request, require_stable=bool(request.require_stable))
    elif _may_describe(services, context, request.group_id):
        found = await _from_zookeeper(services, context, turns, request.group_id, request.topics)
    else:
        found = GroupOffsets(ErrorCode.GROUP_AUTHORIZATION_FAILED, {})
    if found.error and header.api_version < _TOP_LEVEL_ERROR_SINCE:
        found = await _everywhere(turns, request.topics or [], found.error)
    turns.keep_objects()
    topics = EncodedArray(turns, header, "topics")
    async for each in _topics(turns, found.partitions, Topic, Partition):
        await topics.add(each)
    return await topics.body(Response(error_code=found.error))


async def _groups(
    services: Services, context: RequestContext, header: RequestHeader, turns: ResponseTurns, request: Any
) -> list[Part]:
    """Return the offsets of each group. A repeated request for all offsets of a group is ignored."""
    groups = EncodedArray(turns, header, "groups")
    whole: set[str] = set()
    for wanted in request.groups:
        if wanted.topics is None:
            if wanted.group_id in whole:
                continue
            whole.add(wanted.group_id)
        found = await _group(services, context, turns, wanted, require_stable=request.require_stable)
        topics = [each async for each in _topics(turns, found.partitions, GroupTopic, GroupPartition)]
        await groups.add(Group(group_id=wanted.group_id, topics=topics, error_code=found.error))
    return await groups.body(Response())


async def _group(
    services: Services, context: RequestContext, turns: ResponseTurns, wanted: Any, *, require_stable: bool
) -> GroupOffsets:
    """Read from the coordinator. A topic that the client may not describe is an error if requested, otherwise left
    out."""
    if not _may_describe(services, context, wanted.group_id):
        return GroupOffsets(ErrorCode.GROUP_AUTHORIZATION_FAILED, {})
    asked = None
    if wanted.topics is not None:
        asked = [tp async for tp in _partitions(turns, wanted.topics)]
    error, offsets = services.coordinator.offsets.find(wanted.group_id)
    if error is not ErrorCode.NONE:
        return GroupOffsets(error, {})
    by_topic: dict[str, dict[int, Found]] = {}
    for tp in list(offsets) if asked is None else asked:
        await turns.make(_FOUND_BYTES)
        if asked is None and not services.authorizer.may(context, Operation.DESCRIBE, topic(tp.topic)):
            continue
        refused = None if asked is None else _error(services, context, tp)
        if not refused:
            by_topic.setdefault(tp.topic, {})[tp.partition] = _found(offsets, tp, require_stable=require_stable)
        else:
            by_topic.setdefault(tp.topic, {})[tp.partition] = Found(NO_OFFSET, refused)
    return GroupOffsets(ErrorCode.NONE, by_topic)


def _found(offsets: CommittedOffsets, tp: TopicPartition, *, require_stable: bool) -> Found:
    if require_stable and offsets.is_pending(tp):
        return Found(NO_OFFSET, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    committed = offsets.get(tp)
    if committed is None:
        return Found(NO_OFFSET, ErrorCode.NONE)
    return Found(committed.offset, ErrorCode.NONE, committed.leader_epoch, committed.metadata)


async def _everywhere(turns: ResponseTurns, topics: Iterable[Any], error: ErrorCode) -> GroupOffsets:
    """Set the error for every partition, because old versions have no error for the group."""
    by_topic: dict[str, dict[int, Found]] = {}
    async for tp in _partitions(turns, topics):
        await turns.make(_FOUND_BYTES)
        by_topic.setdefault(tp.topic, {})[tp.partition] = Found(NO_OFFSET, error)
    return GroupOffsets(ErrorCode.NONE, by_topic)


async def _from_zookeeper(
    services: Services, context: RequestContext, turns: ResponseTurns, group_id: str, topics: list[Any]
) -> GroupOffsets:
    """Read offsets from ZooKeeper; without an offset or partition, UNKNOWN_TOPIC_OR_PARTITION, as in Kafka."""
    if not is_znode_name(group_id):
        return GroupOffsets(ErrorCode.INVALID_GROUP_ID, {})
    codes = {tp: _error(services, context, tp) async for tp in _partitions(turns, topics)}
    known = []
    for tp, code in codes.items():
        if turns.is_over:
            await turns.next()
        if not code and services.metadata.partition(*tp) is not None:
            known.append(tp)
    try:
        stored, hidden = await services.group_offsets(group_id).fetch_visible(known)
        codes.update({tp: error_code(error) for tp, error in hidden.items()})
    except EXPECTED as error:
        stored = {}
        codes.update(dict.fromkeys(known, error_code(error)))
    by_topic: dict[str, dict[int, Found]] = {}
    for tp, code in codes.items():
        await turns.make(_FOUND_BYTES)
        found = Found(NO_OFFSET, code or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if tp in stored:
            found = Found(stored[tp].offset, ErrorCode.NONE)
        by_topic.setdefault(tp.topic, {})[tp.partition] = found
    return GroupOffsets(ErrorCode.NONE, by_topic)


def _may_describe(services: Services, context: RequestContext, group_id: str) -> bool:
    return services.authorizer.authorize(context, Operation.DESCRIBE, group(group_id))


def _error(services: Services, context: RequestContext, tp: TopicPartition) -> ErrorCode:
    allowed = services.authorizer.authorize(context, Operation.DESCRIBE, topic(tp.topic))
    return ErrorCode.NONE if allowed else ErrorCode.TOPIC_AUTHORIZATION_FAILED


async def _partitions(turns: ResponseTurns, topics: Iterable[Any]) -> AsyncIterator[TopicPartition]:
    for named in topics:
        for partition in named.partition_indexes:
            if turns.is_over:
                await turns.next()
            yield TopicPartition(named.name, partition)


async def _topics(
    turns: ResponseTurns,
    found: Mapping[str, Mapping[int, Found]],
    topic_of: Callable[..., Any],
    of: Callable[..., Any],
) -> AsyncIterator[Any]:
    for name, by_partition in found.items():
        partitions = []
        for partition, each in by_partition.items():
            await turns.make(OBJECT_BYTES + len(each.metadata))
            partitions.append(
                of(
                    partition_index=partition,
                    committed_offset=each.offset,
                    committed_leader_epoch=each.leader_epoch,
                    metadata=each.metadata,
                    error_code=each.error,
                )
            )
        yield topic_of(name=name, partitions=partitions)

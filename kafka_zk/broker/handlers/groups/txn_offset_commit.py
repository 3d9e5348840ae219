"""TxnOffsetCommit: offsets in a transaction (KIP-98), from a group member or another client (KIP-447).

Source: KafkaApis.handleTxnOffsetCommitRequest, GroupCoordinatorAdapter.commitTransactionalOffsets@3.9.
"""

from typing import Any

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.group.offset_manager import Codes, Committer
from kafka_zk.broker.group.records import OffsetAndMetadata
from kafka_zk.broker.group.requests import NO_GENERATION, UNKNOWN_MEMBER_ID
from kafka_zk.broker.handlers.groups.offset_commit import topic_error
from kafka_zk.broker.handlers.long_responses import ResponseTurns
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.replica.transaction_verification import TransactionToVerify
from kafka_zk.broker.security.authorizer import Operation, group, transactional_id
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.request import RequestContext, RequestHeader

_NO_EXPIRY = -1
_NO_EPOCH = -1
_LOADING_SINCE = 2
_MEMBERS_SINCE = 3
_ABORTABLE_SINCE = 4

Response = codec.response(ApiKey.TXN_OFFSET_COMMIT)
Topic = Response.TxnOffsetCommitResponseTopic
Partition = Topic.TxnOffsetCommitResponsePartition


async def handle(services: Services, context: RequestContext, header: RequestHeader, request: Any) -> Any:
    """Returns an error code for each partition."""
    turns = ResponseTurns(services.clock, context)
    refused = _request_error(services, context, request)
    codes: Codes = {}
    wanted: dict[TopicPartition, OffsetAndMetadata] = {}
    now_ms = services.clock.wall_ms()
    for named in request.topics:
        error = refused or topic_error(services, context, named.name)
        known = services.metadata.topics.get(named.name, ())
        for each in named.partitions:
            await turns.make()
            tp = TopicPartition(named.name, each.partition_index)
            if error:
                codes[tp] = error
            elif each.partition_index not in known:
                codes[tp] = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                epoch = _NO_EPOCH if each.committed_leader_epoch is None else each.committed_leader_epoch
                metadata = each.committed_metadata or ""
                wanted[tp] = OffsetAndMetadata(each.committed_offset, epoch, metadata, now_ms, _NO_EXPIRY)
    if wanted:
        codes.update(await _commit(services, header, request, wanted))
    topics = []
    for named in request.topics:
        partitions = []
        for each in named.partitions:
            await turns.make()
            code = _for_version(codes[TopicPartition(named.name, each.partition_index)], header.api_version)
            partitions.append(Partition(partition_index=each.partition_index, error_code=code))
        topics.append(Topic(name=named.name, partitions=partitions))
    return Response(topics=topics)


async def _commit(
    services: Services, header: RequestHeader, request: Any, wanted: dict[TopicPartition, OffsetAndMetadata]
) -> Codes:
    committer = Committer(UNKNOWN_MEMBER_ID, None, NO_GENERATION)
    if header.api_version >= _MEMBERS_SINCE:
        committer = Committer(request.member_id, request.group_instance_id, request.generation_id)
    transaction = TransactionToVerify(
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        knows_abortable=header.api_version >= _ABORTABLE_SINCE,
    )
    return await services.coordinator.transactional_commits.commit(
        request.group_id, committer, transaction, wanted
    )


def _request_error(services: Services, context: RequestContext, request: Any) -> ErrorCode:
    if not services.authorizer.authorize(context, Operation.WRITE, transactional_id(request.transactional_id)):
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if not services.authorizer.authorize(context, Operation.READ, group(request.group_id)):
        return ErrorCode.GROUP_AUTHORIZATION_FAILED
    return ErrorCode.NONE


def _for_version(code: ErrorCode, version: int) -> ErrorCode:
    """The code for a version. Producers before Kafka 2.0 crash on COORDINATOR_LOAD_IN_PROGRESS."""
    if version < _LOADING_SINCE and code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return code

"""The requests of a transactional producer, in the versions for clients (AddPartitionsToTxn up to 3). Pure.

Source: AddPartitionsToTxnRequest.json, AddOffsetsToTxnRequest.json, EndTxnRequest.json, TxnOffsetCommitRequest.json,
InitProducerIdRequest.json@3.9.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from kafka_zk.base.types import TopicPartition, partitions_by_topic
from kafka_zk.clients.connection.group_coordinator import ConsumerGroupMetadata
from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode

_MEMBERS_SINCE = 3  # the version of TxnOffsetCommit
_IDENTITY_SINCE = 3  # the version of InitProducerId

_InitProducerId = codec.request(ApiKey.INIT_PRODUCER_ID)
_AddPartitions = codec.request(ApiKey.ADD_PARTITIONS_TO_TXN)
_AddOffsets = codec.request(ApiKey.ADD_OFFSETS_TO_TXN)
_EndTxn = codec.request(ApiKey.END_TXN)
_TxnOffsetCommit = codec.request(ApiKey.TXN_OFFSET_COMMIT)
_CommitTopic = _TxnOffsetCommit.TxnOffsetCommitRequestTopic
_CommitPartition = _CommitTopic.TxnOffsetCommitRequestPartition


class Request(NamedTuple):
    """``codes_of`` extracts the error codes of the response."""

    api_key: ApiKey
    message: Any
    lowest: int
    highest: int
    codes_of: Callable[[Any], Sequence[int]]
    doing: str


def init_producer_id(transactional_id: str, producer_id: int, epoch: int, timeout_ms: int) -> Request:
    """Request a new epoch. The first time, id and epoch are -1. Brokers before 2.5 do not know these fields: without
    them, a producer that has a successor would fence the successor.
    """
    message = _InitProducerId(
        transactional_id=transactional_id,
        transaction_timeout_ms=timeout_ms,
        producer_id=producer_id,
        producer_epoch=epoch,
    )
    doing = f"asking for the producer id of {transactional_id}"
    lowest = 0 if producer_id < 0 else _IDENTITY_SINCE
    return Request(ApiKey.INIT_PRODUCER_ID, message, lowest, 5, _own_code, doing)


def add_partitions(transactional_id: str, producer_id: int, epoch: int, tps: Iterable[TopicPartition]) -> Request:
    topics = partitions_by_topic(tps)
    message = _AddPartitions(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=[_AddPartitions.AddPartitionsToTxnTopic(name=n, partitions=p) for n, p in topics.items()],
    )
    doing = f"adding partitions to the transaction of {transactional_id}"
    return Request(ApiKey.ADD_PARTITIONS_TO_TXN, message, 0, 3, _partition_codes, doing)


def add_offsets(transactional_id: str, producer_id: int, epoch: int, group_id: str) -> Request:
    message = _AddOffsets(
        transactional_id=transactional_id, producer_id=producer_id, producer_epoch=epoch, group_id=group_id
    )
    doing = f"adding offsets of group {group_id} to the transaction of {transactional_id}"
    return Request(ApiKey.ADD_OFFSETS_TO_TXN, message, 0, 4, _own_code, doing)


def commit_offsets(
    transactional_id: str,
    producer_id: int,
    epoch: int,
    group: ConsumerGroupMetadata,
    offsets: Mapping[TopicPartition, int],
) -> Request:
    """If ``group`` names a member, the broker must be 2.5 or later."""
    topics: dict[str, list[Any]] = {}
    for tp, offset in offsets.items():
        partition = _CommitPartition(
            partition_index=tp.partition, committed_offset=offset, committed_leader_epoch=-1, committed_metadata=""
        )
        topics.setdefault(tp.topic, []).append(partition)
    message = _TxnOffsetCommit(
        transactional_id=transactional_id,
        group_id=group.group_id,
        producer_id=producer_id,
        producer_epoch=epoch,
        generation_id=group.generation_id,
        member_id=group.member_id,
        group_instance_id=group.group_instance_id,
        topics=[_CommitTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
    )
    is_member = group.member_id != "" or group.generation_id >= 0
    doing = f"committing offsets of group {group.group_id} in the transaction of {transactional_id}"
    lowest = _MEMBERS_SINCE if is_member else 0
    return Request(ApiKey.TXN_OFFSET_COMMIT, message, lowest, 4, _offset_codes, doing)


def end(transactional_id: str, producer_id: int, epoch: int, *, is_committed: bool, is_known: bool) -> Request:
    """``is_known``: the coordinator certainly knows the transaction; otherwise, it may have nothing to abort."""
    message = _EndTxn(
        transactional_id=transactional_id, producer_id=producer_id, producer_epoch=epoch, committed=is_committed
    )
    doing = f"{'committing' if is_committed else 'aborting'} the transaction of {transactional_id}"
    may_be_none = not is_committed and not is_known
    return Request(ApiKey.END_TXN, message, 0, 4, _code_if_any if may_be_none else _own_code, doing)


def _own_code(answer: Any) -> Sequence[int]:
    return [answer.error_code]


def _code_if_any(answer: Any) -> Sequence[int]:
    return [] if answer.error_code == ErrorCode.INVALID_TXN_STATE else [answer.error_code]


def _partition_codes(answer: Any) -> Sequence[int]:
    topics = answer.results_by_topic_v3_and_below
    return [each.partition_error_code for topic in topics for each in topic.results_by_partition]


def _offset_codes(answer: Any) -> Sequence[int]:
    return [each.error_code for topic in answer.topics for each in topic.partitions]

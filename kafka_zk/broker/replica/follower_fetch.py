"""A follower's fetch of one partition.

Source: Partition.fetchRecords, followerReplicaOrThrow and readRecords@3.9. Tests:
tests/kafka_zk/broker/handlers/data/test_replica_fetch.py.
"""

from typing import NamedTuple

from kafka_zk.base.types import FetchIsolation, TopicPartition
from kafka_zk.broker.replica.isr_updates import Follower
from kafka_zk.broker.replica.manager import ReplicaManager
from kafka_zk.broker.replica.partition import Role
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.protocol.fetch import EpochEndOffset
from kafka_zk.protocol.fetch_request import FetchPartition
from kafka_zk.storage.files.errors import OffsetOutOfRange
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.segments.file_slice import FileSlice

_NOTHING_FETCHED = -1


class FollowerRead(NamedTuple):
    """``diverging_epoch``: None if the logs do not diverge.

    ``records``: None if the logs diverge, if the fetch begins at the log end, or if the quota withholds them.
    """

    log: Log
    records: FileSlice | None
    diverging_epoch: EpochEndOffset | None


def read(
    replicas: ReplicaManager,
    tp: TopicPartition,
    follower: Follower,
    fetch: FetchPartition,
    max_bytes: int,
    *,
    min_one_batch: bool,
    is_first_read: bool,
) -> FollowerRead:
    """Read up to the log end. The first read of a request also records the follower's position.

    Raises: ApiError for an unknown follower (UNKNOWN_LEADER_EPOCH, or NOT_LEADER_OR_FOLLOWER without an epoch);
        OffsetOutOfRange; OSError after taking the log directory offline.
    """
    partition = replicas.partitions.get(tp) or replicas.partition(tp)
    log = partition.leader_log(fetch.current_leader_epoch)
    remotes = partition.remotes
    if remotes is None or follower.broker_id not in remotes.followers:
        has_epoch = fetch.current_leader_epoch >= 0
        raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH if has_epoch else ErrorCode.NOT_LEADER_OR_FOLLOWER)
    log_end_offset = log.log_end_offset
    is_at_end = fetch.fetch_offset == log_end_offset
    if not is_at_end or fetch.last_fetched_epoch != log.leader_epochs.latest_epoch:
        diverging = diverging_epoch(log, fetch)
        if diverging is not None:
            return FollowerRead(log, None, diverging)
    records = None
    if not is_at_end:
        _, found = replicas.read(
            tp, fetch.fetch_offset, max_bytes, FetchIsolation.LOG_END, min_one_batch=min_one_batch
        )
        records = found.slice
    if is_first_read:
        replicas.isr_updates.record_fetch(
            partition, log, follower, fetch.fetch_offset, fetch.log_start_offset, log_end_offset
        )
    records = None if is_held_back(replicas, tp, follower.broker_id) else records
    return FollowerRead(log, records, None)


def is_held_back(replicas: ReplicaManager, tp: TopicPartition, broker_id: int) -> bool:
    """True if the quota withholds records: the partition is throttled and the follower is not in sync."""
    quota = replicas.quotas.leader
    if not quota.is_throttled(tp) or not quota.is_exceeded(replicas.isr_updates.now_ms()):
        return False
    partition = replicas.partitions.get(tp)
    return partition is not None and partition.role is Role.LEADER and broker_id not in partition.isr


def diverging_epoch(log: Log, fetch: FetchPartition) -> EpochEndOffset | None:
    """The epoch end at which the fetching replica's log diverges from this log; None if they do not diverge (KIP-595).

    Raises: OffsetOutOfRange if the epoch end is unknown, or if the offset is before the log's start.
    """
    if fetch.last_fetched_epoch <= _NOTHING_FETCHED:
        return None
    epoch, end_offset = log.end_offset_for_epoch(fetch.last_fetched_epoch)
    if epoch < 0 or end_offset < 0:
        raise OffsetOutOfRange(f"{log.tp}: the end of epoch {fetch.last_fetched_epoch} is not known")
    if fetch.fetch_offset < log.log_start_offset:
        raise OffsetOutOfRange(f"{log.tp}: offset {fetch.fetch_offset} lies before {log.log_start_offset}")
    if epoch < fetch.last_fetched_epoch or end_offset < fetch.fetch_offset:
        return EpochEndOffset(epoch, end_offset)
    return None

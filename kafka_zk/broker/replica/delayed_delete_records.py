"""DeleteRecords: moves the leader's log start offset and makes it durable, then waits for the followers to move theirs.

Source: Partition.deleteRecordsOnLeader, DelayedDeleteRecords.scala@3.9.
"""

from collections.abc import Iterable

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.replica.isr_updates import LogStart
from kafka_zk.broker.replica.manager import ReplicaManager
from kafka_zk.protocol.errors import ApiError, ErrorCode

HIGH_WATERMARK_OFFSET = -1


def delete_records(replicas: ReplicaManager, tp: TopicPartition, offset: int) -> int:
    """Move the log start offset to ``offset`` (-1: the high watermark), and return it.

    Await ``write_log_starts`` before the response.
    Raises: ApiError; OffsetOutOfRange above the high watermark; OSError after taking the directory offline.
    """
    log = replicas.partition(tp).leader_log()
    if not log.config.is_deleted:
        raise ApiError(ErrorCode.POLICY_VIOLATION)
    try:
        log.increment_log_start_offset(log.high_watermark if offset == HIGH_WATERMARK_OFFSET else offset)
    except OSError as error:
        replicas.logs.fail_directory(log, error)
        raise
    replicas.changes.note(tp)
    return log.log_start_offset


async def write_log_starts(replicas: ReplicaManager, tps: Iterable[TopicPartition]) -> None:
    """Make log start offsets durable, because records reported as deleted must not reappear after a crash.

    A failure takes the log directory offline.
    """
    for work, failed in replicas.logs.upkeep.prepare_start_offsets(tps):
        try:
            await replicas.run_in_thread(work)
        except OSError as error:
            failed(error)


async def wait_for_low_watermark(replicas: ReplicaManager, tp: TopicPartition, offset: int, timeout_ms: int) -> int:
    """Wait until every live replica has deleted the records before ``offset``. Returns the low watermark.

    Raises: ApiError: REQUEST_TIMED_OUT, or an error of ``leader_log``.
    """

    def is_decided() -> bool:
        try:
            return replicas.partition(tp).low_watermark >= offset
        except ApiError:
            return True

    if not is_decided() and not await replicas.purgatory.wait([LogStart(tp)], is_decided, timeout_ms):
        raise ApiError(ErrorCode.REQUEST_TIMED_OUT)
    return replicas.partition(tp).low_watermark

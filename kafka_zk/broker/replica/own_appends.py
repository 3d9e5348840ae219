"""Appends a record that the broker built to a partition that it leads, without validating it.

Tests: tests/storage/log/test_log_own_records.py, tests/kafka_zk/broker/transaction/test_coordinator.py.
"""

from collections.abc import Awaitable

from twisted.internet.defer import ensureDeferred

from kafka_zk.base.types import LogAppendInfo, TopicPartition
from kafka_zk.broker.replica.delayed_produce import APPEND_ERRORS, AppendResult
from kafka_zk.broker.replica.manager import ReplicaManager


def append_record(
    replicas: ReplicaManager, tp: TopicPartition, batch: bytearray, now_ms: int, timeout_ms: int
) -> AppendResult | Awaitable[AppendResult]:
    """Like ``ReplicaManager.append_own`` with a batch of one record, timestamp ``now_ms`` and no producer."""
    try:
        partition = replicas.partitions.get(tp) or replicas.partition(tp)
        log = partition.leader_log()
        if partition.remotes is not None:
            partition.check_enough_replicas()
        try:
            info = log.append_own_record(batch, leader_epoch=partition.leader_epoch, now_ms=now_ms)
        except OSError as error:
            replicas.logs.fail_directory(log, error)
            raise
    except APPEND_ERRORS as error:
        return error.with_traceback(None)
    result = replicas.appended(partition, log, info, -1, now_ms)
    if isinstance(result, LogAppendInfo):
        return result
    return ensureDeferred(replicas.committed(tp, result, timeout_ms))

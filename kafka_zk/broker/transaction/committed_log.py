"""Serves a partition only when all in-sync replicas have the records that were loaded.

A new leader's log may end with uncommitted records of acks=all appends that were not acknowledged. A coordinator that
loaded them would tell a retrying producer that its request is done. If another leader then truncates them, the new
coordinator does not know the open transaction, and the marker of the producer's next transaction also commits the
records of the lost one.

Kafka 3.9 serves requests immediately (TransactionStateManager.loadTransactionMetadata). So does this broker's group
coordinator, because a retried commit is always appended again.
"""

from collections.abc import Callable

from twisted.logger import Logger

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.replica.manager import ReplicaManager
from kafka_zk.protocol.errors import ApiError

_TELL_AFTER_MS = 10_000
_log = Logger()


async def until_committed(replicas: ReplicaManager, tp: TopicPartition, is_wanted: Callable[[], bool]) -> None:
    """Wait until all records now in the log are committed, this broker no longer leads, or ``is_wanted()`` is False.
    The conditions are checked when the partition changes."""
    try:
        partition = replicas.partition(tp)
        end_offset = partition.leader_log().log_end_offset
    except ApiError:
        return  # only a leader waits

    def is_over() -> bool:
        log = partition.log
        return log is None or log.high_watermark >= end_offset or not is_wanted()

    while not is_over():
        if not await replicas.purgatory.wait([tp], is_over, _TELL_AFTER_MS) and is_wanted():
            _log.warn(
                "{tp} is loaded, but not served: too few replicas are in sync, or they lack records before {end}",
                tp=tp, end=end_offset,
            )  # fmt: skip

"""The coordinator serves a partition only when everything that it has loaded is committed: on all in-sync replicas.

A new leader's log may end with uncommitted records: appends whose acks=all was pending when the leader epoch changed.
If the producer retries, a coordinator that has loaded them answers that the work is already done. If another replica
then becomes the leader, the records may be truncated, and the new coordinator does not know of the open transaction.
Its records are then committed by the marker of the producer's next transaction.

Kafka 3.9 serves at once: TransactionStateManager.loadTransactionMetadata. Our group coordinators do, too: a commit of
offsets that is retried is always appended again. Tests: tests/kafka_zk/broker/transaction/test_committed_log.py.
"""

from collections.abc import Callable

from twisted.logger import Logger

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.replica.manager import ReplicaManager
from kafka_zk.protocol.errors import ApiError

_TELL_AFTER_MS = 10_000
_log = Logger()


async def until_committed(replicas: ReplicaManager, tp: TopicPartition, is_wanted: Callable[[], bool]) -> None:
    """Wait until everything in the partition's log now is committed. Returns early when this broker is not the leader,
    or when ``is_wanted`` has turned false and the partition has changed."""
    try:
        partition = replicas.partition(tp)
        end_offset = partition.leader_log().log_end_offset
    except ApiError:
        return  # the leader loads it

    def is_over() -> bool:
        log = partition.log
        return log is None or log.high_watermark >= end_offset or not is_wanted()

    while not is_over():
        if not await replicas.purgatory.wait([tp], is_over, _TELL_AFTER_MS) and is_wanted():
            _log.warn(
                "{tp} is loaded, but not served: too few replicas are in sync, or they lack records before {end}",
                tp=tp, end=end_offset,
            )  # fmt: skip

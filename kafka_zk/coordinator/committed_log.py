"""A coordinator serves a partition only when everything that it has loaded is committed: on all in-sync replicas.

A new leader's log may end with uncommitted records: appends whose acks=all was pending when the leader epoch changed.
If the client retries, a coordinator that has loaded them answers that the work is already done. If another replica then
becomes the leader, the records may be truncated, and the new coordinator knows nothing of them. It may not know of an
open transaction, for instance, whose records are then committed by the marker of the producer's next transaction.

Kafka 3.9 serves at once: TransactionStateManager.loadTransactionMetadata, GroupMetadataManager.doLoadGroupsAndOffsets.
Tests: tests/kafka_zk/handlers/test_committed_log.py.
"""

from collections.abc import Callable

from kafka_zk.protocol.errors import ApiError
from kafka_zk.replica.manager import ReplicaManager
from kafka_zk.storage.types import TopicPartition

_LOOK_EVERY_MS = 1000
"""``is_wanted`` wakes nobody when it changes; the partition does."""


async def until_committed(replicas: ReplicaManager, tp: TopicPartition, is_wanted: Callable[[], bool]) -> None:
    """Wait until everything in the partition's log now is committed. Returns early when this broker is not the leader,
    or when ``is_wanted`` turns false."""
    try:
        partition = replicas.partition(tp)
        log = partition.leader_log()
    except ApiError:
        return  # the leader loads it
    end_offset = log.log_end_offset

    def is_over() -> bool:
        return log.high_watermark >= end_offset or partition.log is not log or not is_wanted()

    while not is_over():
        await replicas.purgatory.wait([tp], is_over, _LOOK_EVERY_MS)

"""A coordinator answers by what it has loaded only when that cannot be lost any more.

A leader's log may end with records that its followers do not have: those of somebody who waited for acks=all when the
partition got another leader epoch. Whoever asks again would be told that it is done, and the next leader knows nothing
of it. With transactions, the records of one that the coordinator does not know are committed by the next one's marker.
Kafka 3.9 answers at once: TransactionStateManager.loadTransactionMetadata, GroupMetadataManager.doLoadGroupsAndOffsets.
Tests: tests/kafka_zk/handlers/test_committed_log.py.
"""

from collections.abc import Callable

from kafka_zk.protocol.errors import ApiError
from kafka_zk.replica.manager import ReplicaManager
from kafka_zk.storage.types import TopicPartition

_LOOK_EVERY_MS = 1000
"""Whether anybody still waits: the partition tells of everything else."""


async def until_committed(replicas: ReplicaManager, tp: TopicPartition, is_wanted: Callable[[], bool]) -> None:
    """Wait until all in-sync replicas have what the log of a partition holds now, or nobody wants it any longer."""
    try:
        partition = replicas.partition(tp)
        log = partition.leader_log()
    except ApiError:
        return  # whoever leads it loads it
    end_offset = log.log_end_offset

    def is_over() -> bool:
        return log.high_watermark >= end_offset or partition.log is not log or not is_wanted()

    while not is_over():
        await replicas.purgatory.wait([tp], is_over, _LOOK_EVERY_MS)

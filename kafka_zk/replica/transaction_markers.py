"""The markers that a transaction coordinator has written into the logs of a transaction's partitions.

Source: KafkaApis.handleWriteTxnMarkersRequest@3.9. Tests: tests/kafka_zk/handlers/test_transactions_in_logs.py.
"""

from collections.abc import Awaitable
from typing import NamedTuple

from kafka_zk.replica.delayed_produce import AppendResult
from kafka_zk.replica.manager import ReplicaManager
from kafka_zk.storage.end_transaction_marker import marker_batch
from kafka_zk.storage.types import TopicPartition


class TransactionMarker(NamedTuple):
    """How a producer's transaction ended, by the coordinator of an epoch."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool


def marker_records(marker: TransactionMarker, now_ms: int) -> bytes:
    """The batch that has the marker, for ``append_marker``; the same for every partition."""
    producer_id, producer_epoch, coordinator_epoch, is_commit = marker
    return bytes(marker_batch(producer_id, producer_epoch, coordinator_epoch, is_commit=is_commit, timestamp_ms=now_ms))


def append_marker(
    replicas: ReplicaManager, tp: TopicPartition, records: bytes, timeout_ms: int
) -> AppendResult | Awaitable[AppendResult]:
    """Append a marker to the log of a partition, as ``ReplicaManager.append_own`` does."""
    return replicas.append_own(tp, memoryview(bytearray(records)), timeout_ms)

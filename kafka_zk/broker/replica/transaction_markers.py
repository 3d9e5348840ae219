"""Appends a coordinator's markers to the logs of a transaction's partitions.

Source: KafkaApis.handleWriteTxnMarkersRequest@3.9.
Tests: tests/kafka_zk/broker/handlers/transactions/test_transactions_in_logs.py.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from twisted.internet.defer import Deferred, ensureDeferred

from kafka_zk.base.types import LogAppendInfo, TopicPartition, new_tuple
from kafka_zk.broker.replica.delayed_produce import APPEND_ERRORS, AppendResult
from kafka_zk.broker.replica.manager import ReplicaManager
from kafka_zk.storage.log.producer_state import MarkerRefusal
from kafka_zk.storage.records.end_transaction_marker import (
    ABORT_MARKER,
    COMMIT_MARKER,
    EndTransactionMarker,
    MarkerBatch,
    marker_batch,
)
from kafka_zk.storage.records.record_batch import read_header

_NONE_REFUSED: Mapping[int, MarkerRefusal] = {}


class TransactionMarker(NamedTuple):
    """A transaction's end, from a coordinator with this epoch."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool


def batch_of(marker: TransactionMarker, now_ms: int) -> MarkerBatch:
    """The batch with the marker, for ``append_markers``; the same for every partition."""
    producer_id, producer_epoch, coordinator_epoch, is_commit = marker
    batch = marker_batch(producer_id, producer_epoch, coordinator_epoch, is_commit=is_commit, timestamp_ms=now_ms)
    says = EndTransactionMarker(COMMIT_MARKER if is_commit else ABORT_MARKER, coordinator_epoch)
    return MarkerBatch(batch, read_header(batch), says)


class MarkersAppended(NamedTuple):
    """``outcome``: the result for the accepted markers once all in-sync replicas have them, or an awaitable of it; None
    if no marker was accepted. ``refused``: index in the batches -> reason."""

    outcome: AppendResult | Deferred[AppendResult] | None
    refused: Mapping[int, MarkerRefusal] = _NONE_REFUSED


def append_markers(
    replicas: ReplicaManager, tp: TopicPartition, batches: Sequence[MarkerBatch], now_ms: int, timeout_ms: int
) -> MarkersAppended:
    """Append markers of different producers, at most MAX_MARKERS_PER_WRITE, in one write."""
    try:
        partition = replicas.partitions.get(tp) or replicas.partition(tp)
        log = partition.leader_log()
        if partition.remotes is not None:
            partition.check_enough_replicas()
        try:
            info, refused = log.append_markers(batches, leader_epoch=partition.leader_epoch, now_ms=now_ms)
        except OSError as error:
            replicas.logs.fail_directory(log, error)
            raise
    except APPEND_ERRORS as error:
        return MarkersAppended(error.with_traceback(None))
    if info is None:
        return MarkersAppended(None, refused)
    begun = replicas.appended(partition, log, info, -1, now_ms)
    if isinstance(begun, LogAppendInfo):
        return new_tuple(MarkersAppended, (begun, refused))
    return MarkersAppended(ensureDeferred(replicas.committed(tp, begun, timeout_ms)), refused)

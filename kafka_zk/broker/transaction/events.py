"""Events of the transactions that this broker coordinates, for observers (``kafka-zk watch``, traces, tests)."""

from dataclasses import dataclass

from kafka_zk.base.events import Event, EventSource
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.transaction.states import TransactionState
from kafka_zk.broker.transaction.transaction import Transaction

_CAUSES = {
    TransactionState.EMPTY: "InitProducerId",
    TransactionState.ONGOING: "AddPartitionsToTxn",
    TransactionState.PREPARE_COMMIT: "EndTxn",
    TransactionState.PREPARE_ABORT: "EndTxn, a new producer, or its time is over",
    TransactionState.COMPLETE_COMMIT: "all markers are written",
    TransactionState.COMPLETE_ABORT: "all markers are written",
}


@dataclass(frozen=True, slots=True)
class TransactionChanged(Event):
    """The state of a transactional id is in the log. ``partitions``: those that still need a marker."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    state: TransactionState
    partitions: tuple[TopicPartition, ...]


class TransactionReporter:
    """``report`` is the callback for a ``TransactionCoordinator``. Without an observer, a call costs almost nothing."""

    def __init__(self, source: EventSource) -> None:
        self._source = source

    def report(self, transaction: Transaction) -> None:
        if not self._source.observed:
            return
        metadata = transaction.metadata
        self._source.emit(
            TransactionChanged, transaction.transactional_id, metadata.producer_id, metadata.producer_epoch,
            metadata.state, tuple(sorted(metadata.tps)), cause=_CAUSES.get(metadata.state, metadata.state.value),
        )  # fmt: skip

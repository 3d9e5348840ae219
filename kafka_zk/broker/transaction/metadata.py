"""The state of one transactional id. Source: TransactionMetadata.scala@3.9."""

from typing import NamedTuple

from kafka_zk.base.types import TopicPartition, new_tuple
from kafka_zk.broker.transaction.states import TransactionState

NO_TIMESTAMP = -1
LAST_EPOCH = 2**15 - 2
"""Last epoch of a producer. The coordinator uses the next one to fence the producer."""

NO_PARTITIONS: frozenset[TopicPartition] = frozenset()


class TransactionMetadata(NamedTuple):
    """The state of one transactional id. All fields except the last two are stored.

    Attributes:
        producer_id: never NO_PRODUCER_ID.
        producer_epoch: NO_PRODUCER_EPOCH until the first InitProducerId is stored; at most LAST_EPOCH + 1.
        timeout_ms: maximum duration of a transaction.
        state: never PrepareEpochFence; Dead only while the id is being removed.
        tps: partitions of the transaction; while it ends, those without a marker; otherwise empty.
        start_ms: wall-clock time of the transaction's start; NO_TIMESTAMP before the producer's first one.
        last_update_ms: wall-clock time of the last change.
        last_producer_epoch: the epoch before ``producer_epoch`` if the producer requested the bump (KIP-360), otherwise
            -1.
        previous_producer_id: producer id before the last InitProducerId, usually unchanged; -1 if unknown.
    """

    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState
    tps: frozenset[TopicPartition] = NO_PARTITIONS
    start_ms: int = NO_TIMESTAMP
    last_update_ms: int = NO_TIMESTAMP
    last_producer_epoch: int = -1
    previous_producer_id: int = -1

    def changed(
        self, state: TransactionState, tps: frozenset[TopicPartition], start_ms: int, last_update_ms: int
    ) -> "TransactionMetadata":
        """Like ``_replace`` with these fields, in half the time."""
        producer_id, producer_epoch, timeout_ms, _, _, _, _, last_producer_epoch, previous_producer_id = self
        return new_tuple(
            TransactionMetadata,
            (
                producer_id, producer_epoch, timeout_ms, state, tps, start_ms, last_update_ms, last_producer_epoch,
                previous_producer_id,
            ),
        )  # fmt: skip

    @property
    def is_epoch_exhausted(self) -> bool:
        """True if the next InitProducerId needs a new producer id."""
        return self.producer_epoch >= LAST_EPOCH

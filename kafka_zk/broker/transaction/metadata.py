"""What a coordinator knows of one transactional id. Source: TransactionMetadata.scala@3.9."""

from typing import NamedTuple

from kafka_zk.base.types import TopicPartition, new_tuple
from kafka_zk.broker.transaction.states import TransactionState

NO_TIMESTAMP = -1
LAST_EPOCH = 2**15 - 2
"""A producer never gets a later epoch: the one after it is left for the coordinator, to fence the producer."""

NO_PARTITIONS: frozenset[TopicPartition] = frozenset()


class TransactionMetadata(NamedTuple):
    """The state of one transactional id; all but ``last_producer_epoch`` and ``previous_producer_id`` are stored.

    ``last_producer_epoch``: the one before ``producer_epoch`` if its producer asked for the next one itself (KIP-360),
    else -1. ``tps``: the partitions of the transaction; when it ends, those without a marker. ``start_ms``,
    ``last_update_ms``: since 1970, -1 for none.
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
        """The same producer's; what ``_replace`` gives, in half the time."""
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
        """Whether the next producer needs another producer id."""
        return self.producer_epoch >= LAST_EPOCH

"""The transactional ids in a partition of ``__transaction_state``, from the last record of each.

Source: TransactionStateManager.loadTransactionMetadata@3.9.
Tests: tests/kafka_zk/broker/transaction/test_coordinator.py.
"""

from kafka_zk.broker.coordinator.log_reading import LogReading
from kafka_zk.broker.transaction.metadata import TransactionMetadata
from kafka_zk.broker.transaction.records import decode_key, decode_value


class LoadedPartition(LogReading):
    """The transactional ids of one partition; complete after ``load_steps``."""

    def __init__(self) -> None:
        super().__init__()
        self.transactions: dict[str, TransactionMetadata] = {}

    def _decode(self, raw_key: bytes, base_offset: int, value: bytes) -> None:
        transactional_id = decode_key(raw_key)
        if transactional_id is None:
            self._skip(base_offset, "a key of an unknown version")
        else:
            self.transactions[transactional_id] = decode_value(value)

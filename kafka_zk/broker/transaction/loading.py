"""What a partition of ``__transaction_state`` says: the state that the last record of each transactional id leaves.

Source: TransactionStateManager.loadTransactionMetadata@3.9.
Tests: tests/kafka_zk/broker/transaction/test_coordinator.py.
"""

from collections.abc import Iterator
from itertools import islice

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.coordinator.log_reading import batches_of
from kafka_zk.broker.replica.manager import ReplicaManager
from kafka_zk.broker.transaction.metadata import TransactionMetadata
from kafka_zk.broker.transaction.records import decode_key, decode_value
from kafka_zk.protocol.errors import ProtocolError
from kafka_zk.storage.files.errors import StorageError
from kafka_zk.storage.records.record_batch import BatchHeader, decode_keys_and_values

_RECORDS_A_STEP = 200


class LoadedPartition:
    """The transactional ids of one partition, after ``load_steps`` has been gone through.

    ``skipped_count`` records could not be understood; ``first_skipped`` says what was wrong with the first one.
    """

    def __init__(self) -> None:
        self.transactions: dict[str, TransactionMetadata] = {}
        self.record_count = 0
        self.skipped_count = 0
        self.first_skipped = ""
        self._last: dict[bytes, tuple[int, bytes]] = {}  # key -> where its batch begins, value

    def load_steps(self, replicas: ReplicaManager, tp: TopicPartition, buffer_bytes: int) -> Iterator[None]:
        """Read the log of a partition that this broker leads, up to its end; a step takes about a millisecond.

        Raises: ApiError, OSError.
        """
        for found in batches_of(replicas, tp, buffer_bytes, self._skip):
            if found is None:
                yield
            else:
                yield from self._take_batch(*found)
        yield from self._decode_steps()

    def _take_batch(self, data: bytes, position: int, header: BatchHeader) -> Iterator[None]:
        """A batch that cannot be taken apart is skipped from there on."""
        if header.is_control:
            return
        try:
            records = decode_keys_and_values(data, position)
            while chunk := list(islice(records, _RECORDS_A_STEP)):
                self.record_count += len(chunk)
                for offset, key, value in chunk:
                    if key is None:
                        self._skip(offset, "a record without a key")
                    elif value is None:
                        self._last.pop(key, None)
                    else:
                        self._last[key] = header.base_offset, value
                yield
        except StorageError as error:
            self._skip(header.base_offset, str(error))

    def _decode_steps(self) -> Iterator[None]:
        last = self._last
        while last:
            for _ in range(min(len(last), _RECORDS_A_STEP)):
                key, (base_offset, value) = last.popitem()
                try:
                    transactional_id = decode_key(key)
                    if transactional_id is None:
                        self._skip(base_offset, "a key of an unknown version")
                    else:
                        self.transactions[transactional_id] = decode_value(value)
                except ProtocolError as error:
                    self._skip(base_offset, str(error))
            yield

    def _skip(self, offset: int, problem: str) -> None:
        if not self.skipped_count:
            self.first_skipped = f"at offset {offset}: {problem}"
        self.skipped_count += 1

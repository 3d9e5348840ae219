"""Reads a partition of a coordinator's topic when this broker becomes the leader.

Source: GroupMetadataManager.doLoadGroupsAndOffsets, TransactionStateManager.loadTransactionMetadata@3.9.
"""

from collections.abc import Callable, Iterator
from itertools import islice

from twisted.logger import Logger

from kafka_zk.base.types import FetchIsolation, TopicPartition
from kafka_zk.broker.replica.manager import ReplicaManager
from kafka_zk.protocol.errors import ProtocolError
from kafka_zk.storage.files.errors import StorageError
from kafka_zk.storage.records.record_batch import BatchHeader, iter_batches
from kafka_zk.storage.records.record_decoder import decode_keys_and_values

_log = Logger()

_RECORDS_A_STEP = 100

LastValues = dict[bytes, tuple[int, bytes]]
"""Key -> (base offset of its last record's batch, value)."""


class LogReading:
    """Reads a log, and lets subclasses decode each key's last record.

    ``skipped_count``: number of invalid records. ``first_skipped``: describes the one with the lowest offset. A key
    that begins with ``OLD_VERSION`` (two bytes) is the same key as with ``NEW_VERSION``.
    """

    OLD_VERSION = NEW_VERSION = b""

    def __init__(self) -> None:
        self.record_count = 0
        self.skipped_count = 0
        self.first_skipped = ""
        self._first_skipped_offset = -1
        self._last: LastValues = {}

    def load_steps(self, replicas: ReplicaManager, tp: TopicPartition, buffer_bytes: int) -> Iterator[None]:
        """Read the log in steps of about a millisecond.

        Reading stops at damage; the rest of a batch that cannot be decoded is skipped.
        Raises: ApiError, OSError.
        """
        for found in _batches_of(replicas, tp, buffer_bytes, self._skip):
            if found is None:
                yield
            else:
                yield from self._take_batch(*found)
        yield from self._before_decoding()
        last = self._last
        while last:
            for _ in range(min(len(last), _RECORDS_A_STEP)):
                key, (base_offset, value) = last.popitem()
                try:
                    self._decode(key, base_offset, value)
                except ProtocolError as error:
                    self._skip(base_offset, str(error))
            yield

    def log_result(self, tp: TopicPartition, what: str) -> None:
        """Log the loaded items, for example ``3 groups``, and the number of skipped records."""
        if self.skipped_count:
            _log.error(
                "{tp}: {count} records were skipped, the first {first}",
                tp=tp, count=self.skipped_count, first=self.first_skipped,
            )  # fmt: skip
        if self.record_count:
            _log.info("loaded {what} from {tp}, {count} records", what=what, tp=tp, count=self.record_count)

    def _take_batch(self, data: bytes, position: int, header: BatchHeader) -> Iterator[None]:
        try:
            if header.is_control:
                self._take_marker(data, position, header)
                return
            records = decode_keys_and_values(data, position)
            last, base_offset = self._values_of(header), header.base_offset
            old, new = self.OLD_VERSION, self.NEW_VERSION
            while chunk := list(islice(records, _RECORDS_A_STEP)):
                self.record_count += len(chunk)
                for offset, key, value in chunk:
                    if key is None:
                        self._skip(offset, "a record without a key")
                        continue
                    if key[:2] == old:
                        key = new + key[2:]
                    if value is None:
                        last.pop(key, None)
                    else:
                        last[key] = base_offset, value
                yield
        except StorageError as error:
            self._skip(header.base_offset, str(error))

    def _values_of(self, header: BatchHeader) -> LastValues:
        """The map that receives the records of this batch."""
        return self._last

    def _take_marker(self, data: bytes, position: int, header: BatchHeader) -> None:
        """Process a transaction marker; ignored unless a subclass needs it. Raises: StorageError."""

    def _before_decoding(self) -> Iterator[None]:
        """Called at the end of the log, before ``_decode``."""
        yield from ()

    def _decode(self, raw_key: bytes, base_offset: int, value: bytes) -> None:
        """Process the last record of a key."""
        raise NotImplementedError

    def _skip(self, offset: int, problem: str) -> None:
        self.skipped_count += 1
        if self.skipped_count == 1 or offset < self._first_skipped_offset:
            self._first_skipped_offset = offset
            self.first_skipped = f"at offset {offset}: {problem}"


def _batches_of(
    replicas: ReplicaManager, tp: TopicPartition, buffer_bytes: int, skip: Callable[[int, str], None]
) -> Iterator[tuple[bytes, int, BatchHeader] | None]:
    """(Data, position, header) of each batch; None after each read, so that other work can run.

    At damage, calls ``skip`` with offset and problem, and stops.
    """
    offset = replicas.partition(tp).leader_log().log_start_offset
    while True:
        try:
            _, found = replicas.read(tp, offset, buffer_bytes, FetchIsolation.LOG_END)
        except StorageError as error:
            return skip(offset, f"{error}; the rest of the log cannot be read")
        if found.slice is None:
            return None
        try:
            data = found.slice.read()
        except OSError as error:
            replicas.read_failed(tp, found.slice, error)
            raise
        following = offset
        try:
            for position, header in iter_batches(data):
                yield data, position, header
                following = header.next_offset
        except StorageError as error:
            return skip(following, f"{error}; the rest of the log cannot be read")
        if following == offset:
            return skip(offset, "an incomplete batch; the rest of the log cannot be read")
        offset = following
        yield None

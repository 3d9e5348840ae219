"""Builds a batch from a stream of records, without keeping them uncompressed.

Producers use ``record_batch.RecordBatchBuilder``, which returns the same bytes (except with zstd, see
``stream_compressor``).
"""

from kafka_zk.storage.files.config_table import LONG_MAX
from kafka_zk.storage.files.errors import InvalidTimestamp
from kafka_zk.storage.records.compression import Compression
from kafka_zk.storage.records.record_batch import (
    HEADER_SIZE,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    assemble_batch,
)
from kafka_zk.storage.records.record_stream import RecordSpan
from kafka_zk.storage.records.stream_compressor import StreamCompressor
from kafka_zk.storage.records.varint import encode_varint


class BatchWriter:
    """``add`` records, then ``finish``. Offset deltas are 0, 1, 2, …

    Args:
        max_size_bytes: maximum size of the batch, if limited.
        producer: id, epoch, first sequence.
        attributes: without the codec.
    """

    def __init__(
        self,
        codec: Compression,
        level: int | None = None,
        *,
        max_size_bytes: int | None = None,
        producer: tuple[int, int, int] = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE),
        attributes: int = 0,
    ) -> None:
        room_bytes = None if max_size_bytes is None else max_size_bytes - HEADER_SIZE
        self._records = StreamCompressor(codec, level, room_bytes)
        self._attributes = attributes | codec
        self._producer = producer
        self._base_timestamp = 0
        self._max_timestamp = NO_TIMESTAMP
        self.count = 0

    def add(self, timestamp_ms: int, body: bytes | bytearray) -> None:
        """Add a record. ``body``: its encoded fields from the key on.

        Raises: InvalidTimestamp if no batch can contain it, RecordTooLarge.
        """
        front = b"\0" + encode_varint(self._delta(timestamp_ms)) + encode_varint(self.count)
        self._records.write(b"".join((encode_varint(len(front) + len(body)), front, body)))
        self.count += 1

    def add_found(self, timestamp_ms: int, span: RecordSpan) -> None:
        """Add a record of another batch; it is encoded again only if its deltas change. Raises like ``add``."""
        data, start, timestamp_delta, offset_delta, body, end = span
        if offset_delta == self.count and timestamp_delta == self._delta(timestamp_ms):
            self._records.write(data[start:end])
            self.count += 1
        else:
            self.add(timestamp_ms, data[body:end])

    def _delta(self, timestamp_ms: int) -> int:
        if not self.count:
            self._base_timestamp = timestamp_ms
        if not NO_TIMESTAMP <= timestamp_ms <= LONG_MAX:
            raise InvalidTimestamp(f"timestamp {timestamp_ms} is neither {NO_TIMESTAMP} (none) nor in [0, {LONG_MAX}]")
        if timestamp_ms > self._max_timestamp:
            self._max_timestamp = timestamp_ms
        return timestamp_ms - self._base_timestamp

    def finish(self) -> bytearray:
        """The batch, with offsets from 0. Raises: RecordTooLarge."""
        return assemble_batch(
            self._records.finish(),
            attributes=self._attributes,
            record_count=self.count,
            base_timestamp=self._base_timestamp,
            max_timestamp=self._max_timestamp,
            producer=self._producer,
        )

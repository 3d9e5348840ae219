"""The control record that ends a producer's transaction on a partition, and its batch.

Key (big-endian): ``version int16, type int16``; value: ``version int16, coordinator epoch int32``. Source:
EndTransactionMarker.java, ControlRecordType.java@3.9. Tests: tests/storage/segments/test_transaction_index.py.
"""

from struct import Struct
from typing import NamedTuple

from kafka_zk.storage.records.record_batch import (
    CODEC_MASK,
    CONTROL_FLAG,
    HEADER_SIZE,
    LOG_OVERHEAD,
    NO_SEQUENCE,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    Buffer,
    assemble_batch,
)
from kafka_zk.storage.records.record_stream import batch_chunks, key_and_value, walk

ABORT_MARKER = 0
COMMIT_MARKER = 1
NO_TYPE = -1
_VERSION = 0
_KEY = Struct(">hh")
_VALUE = Struct(">hi")
_PLAIN_RECORD = Struct(">5shhchic")
"""The usual control record: 16 bytes, no timestamp delta, a key of 4 bytes and a value of 6."""
_PLAIN = (b"\x20\0\0\0\x08", b"\x0c", b"\0")
MARKER_BYTES = HEADER_SIZE + _PLAIN_RECORD.size
"""Size of a batch with one such record."""

_PLAIN_LENGTH = MARKER_BYTES - LOG_OVERHEAD


class EndTransactionMarker(NamedTuple):
    """``type``: NO_TYPE if the control record has no key. ``coordinator_epoch``: -1 if it has no value."""

    type: int
    coordinator_epoch: int

    @property
    def ends_transaction(self) -> bool:
        return self.type in (ABORT_MARKER, COMMIT_MARKER)

    @property
    def is_abort(self) -> bool:
        return self.type == ABORT_MARKER


def parse_marker(key: bytes | None, value: bytes | None) -> EndTransactionMarker:
    """The content of a control record; its type may be one that does not end a transaction."""
    marker_type = _KEY.unpack_from(key)[1] if key is not None and len(key) >= _KEY.size else NO_TYPE
    if value is None or len(value) < _VALUE.size:
        return EndTransactionMarker(marker_type, -1)
    return EndTransactionMarker(marker_type, _VALUE.unpack_from(value)[1])


def plain_marker(batch: Buffer, header: BatchHeader) -> EndTransactionMarker | None:
    """The marker if the batch has the usual format; None means that ``marker_of`` must decode the batch."""
    is_of_that_size = header.batch_length == _PLAIN_LENGTH and len(batch) >= MARKER_BYTES
    if not is_of_that_size or header.attributes & CODEC_MASK or header.record_count != 1:
        return None
    begin, _, kind, between, _, coordinator_epoch, end = _PLAIN_RECORD.unpack_from(batch, HEADER_SIZE)
    return EndTransactionMarker(kind, coordinator_epoch) if (begin, between, end) == _PLAIN else None


def marker_of(batch: Buffer, header: BatchHeader) -> EndTransactionMarker | None:
    """The marker in a control batch; None if the batch is empty. Raises: CorruptRecord."""
    if (plain := plain_marker(batch, header)) is not None:
        return plain
    for data, _, _, _, body, end in walk(batch_chunks(batch, header), header.record_count):
        key_start, key_size, value_start, value_size = key_and_value(data, body, end)
        key = bytes(data[key_start : key_start + key_size]) if key_size >= 0 else None
        value = bytes(data[value_start : value_start + value_size]) if value_size >= 0 else None
        return parse_marker(key, value)
    return None


def marker_batch(
    producer_id: int, producer_epoch: int, coordinator_epoch: int, *, is_commit: bool, timestamp_ms: int
) -> bytearray:
    begin, between, end = _PLAIN
    kind = COMMIT_MARKER if is_commit else ABORT_MARKER
    return assemble_batch(
        _PLAIN_RECORD.pack(begin, _VERSION, kind, between, _VERSION, coordinator_epoch, end),
        attributes=TRANSACTIONAL_FLAG | CONTROL_FLAG,
        record_count=1,
        base_timestamp=timestamp_ms,
        max_timestamp=timestamp_ms,
        producer=(producer_id, producer_epoch, NO_SEQUENCE),
    )


class MarkerBatch(NamedTuple):
    """A batch from ``marker_batch`` with its parsed content, shared by all partitions that receive it."""

    batch: Buffer
    header: BatchHeader
    marker: EndTransactionMarker

"""Record batches, magic 2: read the header, check the CRC, build new batches.

Layout (big-endian) of the 61 bytes before the records:

======================  ====  ==========================================================================
field                   size  meaning
======================  ====  ==========================================================================
base_offset                8  offset of the first record; assigned by the broker, outside the CRC
batch_length               4  bytes that follow this field
partition_leader_epoch     4  set by the broker, outside the CRC
magic                      1  2
crc                        4  CRC-32C of everything after this field
attributes                 2  bits 0-2 codec, 3 timestamp type, 4 transactional, 5 control, 6 delete horizon
last_offset_delta          4  offset of the last record minus base_offset
base_timestamp             8  ms since the epoch; the records' timestamps are deltas to it
max_timestamp              8  largest timestamp of the batch (log append time if bit 3 is set)
producer_id                8  -1 without idempotence
producer_epoch             2
base_sequence              4
record_count               4
======================  ====  ==========================================================================

A record is ``length, attributes (int8), timestamp delta, offset delta, key, value, headers``; lengths and deltas are
zigzag varints, length -1 means null. A codec compresses all records together.

``record_decoder`` decodes records. Source: KIP-98; Kafka protocol guide, "Record Batch"; DefaultRecordBatch.java@3.9.
"""

from collections.abc import Iterator, Sequence
from struct import Struct
from struct import error as StructError
from typing import NamedTuple

from crc32c import crc32c

from kafka_zk.base.types import new_tuple
from kafka_zk.storage.files.errors import CorruptRecord
from kafka_zk.storage.records.compression import Compression, compress
from kafka_zk.storage.records.varint import encode_varint

Buffer = bytes | bytearray | memoryview

_HEADER = Struct(">qiibIhiqqqhii")
PLACE = Struct(">qii")
"""Base offset, batch length and leader epoch: the start of a batch, which the leader sets."""
LAST_OFFSET_DELTA = Struct(">i")
LAST_OFFSET_DELTA_POSITION = 23
_CRC = Struct(">I")
_PRODUCER = Struct(">qhi")  # producer id, producer epoch, base sequence
_PRODUCER_POSITION = 43
HEADER_SIZE = 61
LOG_OVERHEAD = 12  # base_offset and batch_length, not part of batch_length
CRC_POSITION = 17
CRC_START = 21  # the CRC covers everything from here
MAGIC_POSITION = 16
BASE_TIMESTAMP_POSITION = 27  # max_timestamp follows it
MIN_BATCH_LENGTH = HEADER_SIZE - LOG_OVERHEAD
MAX_UNCOMPRESSED_BYTES = 128 * 1024 * 1024  # limit of one decompressed batch

CODEC_MASK = 0x07
MAX_CODEC = max(Compression)
TIMESTAMP_TYPE_FLAG = 0x08
TRANSACTIONAL_FLAG = 0x10
CONTROL_FLAG = 0x20
DELETE_HORIZON_FLAG = 0x40

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1
_SEQUENCE_MODULUS = 1 << 31

Header = tuple[str, bytes | None]


class BatchHeader(NamedTuple):
    """The 61 bytes before the records, in wire order."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """Size of the whole batch, including the header."""
        return self.batch_length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record, wrapped at 2^31; -1 without idempotence."""
        return last_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_FLAG)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_FLAG)

    @property
    def has_delete_horizon(self) -> bool:
        return bool(self.attributes & DELETE_HORIZON_FLAG)

    @property
    def compression(self) -> Compression:
        """Raises CorruptRecord if it is unknown."""
        try:
            return Compression(self.attributes & CODEC_MASK)
        except ValueError:
            raise CorruptRecord(f"unknown compression codec {self.attributes & CODEC_MASK}") from None

    @property
    def timestamp_type(self) -> str:
        """``CreateTime`` or ``LogAppendTime``."""
        return "LogAppendTime" if self.attributes & TIMESTAMP_TYPE_FLAG else "CreateTime"


def last_sequence(base_sequence: int, last_offset_delta: int) -> int:
    """Sequence number of the last record; after 2^31-1 comes 0."""
    if base_sequence < 0:
        return NO_SEQUENCE
    return (base_sequence + last_offset_delta) % _SEQUENCE_MODULUS


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Checks only the size. Raises CorruptRecord for fewer than 61 bytes."""
    try:
        return new_tuple(BatchHeader, _HEADER.unpack_from(buffer, position))
    except StructError:
        raise CorruptRecord(f"{len(buffer) - position} bytes are too few for a batch header") from None


def iter_batches(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """Yield (position, header) of every complete batch.

    Raises: CorruptRecord for another magic or an invalid length; the CRC is not checked.
    """
    position = 0
    end = len(buffer)
    while end - position >= HEADER_SIZE:
        header = new_tuple(BatchHeader, _HEADER.unpack_from(buffer, position))
        if header.magic != 2:
            raise CorruptRecord(f"magic {header.magic} at position {position}, expected 2")
        if header.batch_length < MIN_BATCH_LENGTH:
            raise CorruptRecord(
                f"batch length {header.batch_length} at position {position} is below {MIN_BATCH_LENGTH}"
            )
        following = position + header.batch_length + LOG_OVERHEAD
        if following > end:
            return
        yield position, header
        position = following


def check_crc(buffer: Buffer, position: int, header: BatchHeader) -> None:
    """Raise CorruptRecord unless the CRC matches."""
    computed = crc32c(memoryview(buffer)[position + CRC_START : position + header.size_bytes])
    if computed != header.crc:
        raise CorruptRecord(
            f"batch at offset {header.base_offset}: CRC is {header.crc:#010x}, computed {computed:#010x}"
        )


class RecordBatchBuilder:
    """Collects records for one batch, whose offsets start at 0 until a broker assigns them.

    ``compression``: a codec or its name. ``log_append_time``, ``transactional``, ``control``: bits of the attributes.
    """

    __slots__ = (
        "_attributes", "_base_timestamp", "_compression", "_max_timestamp", "_parts", "_producer",
        "_records_size", "count",
    )  # fmt: skip

    def __init__(
        self,
        compression: Compression | str = Compression.none,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        *,
        log_append_time: bool = False,
        transactional: bool = False,
        control: bool = False,
    ) -> None:
        self._compression = Compression[compression] if isinstance(compression, str) else compression
        self._producer = (producer_id, producer_epoch, base_sequence)
        self._attributes = (
            self._compression
            | (TIMESTAMP_TYPE_FLAG if log_append_time else 0)
            | (TRANSACTIONAL_FLAG if transactional else 0)
            | (CONTROL_FLAG if control else 0)
        )
        self._parts: list[bytes] = []
        self._records_size = 0
        self._base_timestamp = 0
        self._max_timestamp = NO_TIMESTAMP
        self.count = 0

    @property
    def size_estimate_bytes(self) -> int:
        """Size of the batch so far, uncompressed."""
        return HEADER_SIZE + self._records_size

    @property
    def max_timestamp_ms(self) -> int:
        return self._max_timestamp

    def append(self, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Sequence[Header] = ()) -> int:
        """Add a record. Returns its offset delta, 0 for the first."""
        delta = self.count
        if not delta:
            self._base_timestamp = timestamp_ms
        if timestamp_ms > self._max_timestamp:
            self._max_timestamp = timestamp_ms
        record = encode_record(timestamp_ms - self._base_timestamp, delta, key, value, headers)
        self._parts.append(record)
        self._records_size += len(record)
        self.count = delta + 1
        return delta

    def build(
        self,
        *,
        producer_id: int | None = None,
        producer_epoch: int | None = None,
        base_sequence: int | None = None,
        base_offset: int = 0,
        partition_leader_epoch: int = -1,
    ) -> bytes:
        """Build the batch. The producer fields given here override the constructor's."""
        assert self.count, "a batch holds at least one record"
        records = b"".join(self._parts)
        if self._compression:
            records = compress(self._compression, records)
        own_id, own_epoch, own_sequence = self._producer
        return bytes(
            assemble_batch(
                records,
                attributes=self._attributes,
                record_count=self.count,
                base_timestamp=self._base_timestamp,
                max_timestamp=self._max_timestamp,
                producer=(
                    own_id if producer_id is None else producer_id,
                    own_epoch if producer_epoch is None else producer_epoch,
                    own_sequence if base_sequence is None else base_sequence,
                ),
                base_offset=base_offset,
                partition_leader_epoch=partition_leader_epoch,
            )
        )


def assemble_batch(
    records: Buffer,
    *,
    attributes: int,
    record_count: int,
    base_timestamp: int,
    max_timestamp: int,
    producer: tuple[int, int, int] = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE),
    base_offset: int = 0,
    partition_leader_epoch: int = -1,
    last_offset_delta: int | None = None,
) -> bytearray:
    """Build a batch from encoded records, compressed or not. ``producer``: id, epoch and first sequence.

    ``last_offset_delta``: for a batch that lost records to compaction.
    """
    batch = bytearray(HEADER_SIZE)
    batch += records
    _HEADER.pack_into(
        batch, 0, base_offset, len(batch) - LOG_OVERHEAD, partition_leader_epoch, 2, 0, attributes,
        record_count - 1 if last_offset_delta is None else last_offset_delta,
        base_timestamp, max_timestamp, *producer, record_count,
    )  # fmt: skip
    set_crc(batch)
    return batch


def set_producer(batch: bytearray, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
    """Replace the producer id, epoch and sequence of a complete batch in place."""
    _PRODUCER.pack_into(batch, _PRODUCER_POSITION, producer_id, producer_epoch, base_sequence)
    set_crc(batch)


def set_crc(batch: bytearray) -> None:
    _CRC.pack_into(batch, CRC_POSITION, crc32c(memoryview(batch)[CRC_START:]))


def encode_record(
    timestamp_delta: int, offset_delta: int, key: bytes | None, value: bytes | None, headers: Sequence[Header] = ()
) -> bytes:
    """One encoded record, including its length."""
    if key is not None and value is not None and not headers:  # fast path for most records
        body = b"".join((
            b"\0", encode_varint(timestamp_delta), encode_varint(offset_delta),
            encode_varint(len(key)), key, encode_varint(len(value)), value, b"\0",
        ))  # fmt: skip
        return encode_varint(len(body)) + body
    parts = [b"\0", encode_varint(timestamp_delta), encode_varint(offset_delta)]
    if key is None:
        parts.append(b"\1")
    else:
        parts += (encode_varint(len(key)), key)
    if value is None:
        parts.append(b"\1")
    else:
        parts += (encode_varint(len(value)), value)
    if headers:
        parts.append(encode_varint(len(headers)))
        for name, content in headers:
            raw_name = name.encode()
            parts += (encode_varint(len(raw_name)), raw_name)
            parts += (b"\1",) if content is None else (encode_varint(len(content)), content)
    else:
        parts.append(b"\0")
    body = b"".join(parts)
    return encode_varint(len(body)) + body

"""Checks of a producer's batch before the append.

``validate_batch`` checks the bytes: exactly one batch, magic, length, CRC. ``check_at_once`` checks that a small
batch's records are readable; ``conform`` checks large batches, and topics with rules for single records.
Source: LogValidator.java@3.9, UnifiedLog.analyzeAndValidateRecords@3.9.
Tests: tests/storage/log/test_log.py, tests/storage/records/test_log_validator.py.
"""

from collections.abc import Callable, Iterator
from struct import Struct

from crc32c import crc32c

from kafka_zk.storage.files.config_table import LONG_MAX
from kafka_zk.storage.files.errors import CorruptRecord, InvalidRecord, InvalidTimestamp, UnpacksTooBig
from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.records.batch_writer import BatchWriter
from kafka_zk.storage.records.compression import Compression
from kafka_zk.storage.records.record_batch import (
    CODEC_MASK,
    CONTROL_FLAG,
    CRC_POSITION,
    CRC_START,
    DELETE_HORIZON_FLAG,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAX_CODEC,
    MAX_UNCOMPRESSED_BYTES,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    Buffer,
    read_header,
)
from kafka_zk.storage.records.record_check import check_batch, is_checked_quickly, unreadable
from kafka_zk.storage.records.record_stream import batch_chunks, check_count, key_and_value, walk
from kafka_zk.storage.records.varint import as_long

_CRC = Struct(">I")
_ATTRIBUTES = Struct(">h")
_TIMESTAMP = Struct(">q")
_MAX_TIMESTAMP_POSITION = 35
_MOST_RECORD_ERRORS = 1000
_MIN_RECORD_BYTES = 7  # length, attributes, two deltas, key, value, headers
_LZ4_FAST_LEVEL = 9  # Kafka's default selects the fast compressor, all other levels the high one
_KNOWN_FLAGS = CODEC_MASK | TIMESTAMP_TYPE_FLAG | TRANSACTIONAL_FLAG | CONTROL_FLAG | DELETE_HORIZON_FLAG
"""Rewriting the attributes clears other bits, as in Kafka."""
AT_ONCE_RECORDS = 1_000
AT_ONCE_BYTES = 128 * 1024
_NO_KEY = "Compacted topic cannot accept message without key"
_NO_APPEND_TIME = "Producer should not set timestamp type to LogAppendTime."
_CODECS = {**Compression.__members__, "uncompressed": Compression.none}


class NotConformed(Exception):
    """Call ``conform`` with the log's configuration before the append."""

    def __init__(self, header: BatchHeader, config: LogConfig) -> None:
        super().__init__("the batch must be conformed first")
        self.header = header
        self.config = config


def validate_batch(buffer: bytes | bytearray | memoryview) -> BatchHeader:
    """Check that ``buffer`` is exactly one magic-2 batch with a valid CRC.

    Raises: CorruptRecord for damage; InvalidRecord for an incomplete batch, several batches, or an older magic.
    """
    size_bytes = len(buffer)
    if size_bytes < HEADER_SIZE:
        raise InvalidRecord(f"{size_bytes} bytes are too few for a record batch")
    header = read_header(buffer)
    if header.magic != 2:
        if header.magic in (0, 1):
            raise InvalidRecord(f"magic {header.magic}, expected 2")
        raise CorruptRecord(f"unknown magic {header.magic}")
    length = header.batch_length + LOG_OVERHEAD
    if length != size_bytes:
        if length < HEADER_SIZE:
            raise CorruptRecord(f"the batch declares {length} bytes, but {size_bytes} arrived")
        raise InvalidRecord(f"exactly one batch is allowed: it declares {length} bytes, but {size_bytes} arrived")
    computed = crc32c(memoryview(buffer)[CRC_START:])
    if computed != header.crc:
        raise CorruptRecord(f"CRC is {header.crc:#010x}, computed {computed:#010x}")
    return header


def refuse_header(header: BatchHeader) -> InvalidRecord:
    """The error for a client's batch whose header breaks a rule."""
    if header.attributes & CONTROL_FLAG:
        return InvalidRecord("clients may not write control batches")
    if header.record_count != header.last_offset_delta + 1 or header.record_count <= 0:
        return InvalidRecord(f"{header.record_count} records with a last offset delta of {header.last_offset_delta}")
    if header.base_sequence < 0 and header.producer_id >= 0:
        return InvalidRecord(f"producer {header.producer_id} without a sequence number")
    if header.attributes & CODEC_MASK > MAX_CODEC:
        return InvalidRecord(f"unknown compression codec {header.attributes & CODEC_MASK}")
    return InvalidRecord("a batch inside a transaction without a producer id")


def stamp_append_time(batch: bytearray | memoryview, header: BatchHeader, now_ms: int) -> None:
    """Set LogAppendTime and the broker's time in place, with the CRC."""
    _set_timestamps(batch, header, header.attributes & _KNOWN_FLAGS | TIMESTAMP_TYPE_FLAG, now_ms)


def _set_timestamps(batch: bytearray | memoryview, header: BatchHeader, attributes: int, max_timestamp_ms: int) -> None:
    _ATTRIBUTES.pack_into(batch, CRC_START, attributes)
    _TIMESTAMP.pack_into(batch, _MAX_TIMESTAMP_POSITION, max_timestamp_ms)
    with memoryview(batch) as view, view[CRC_START : header.size_bytes] as covered:
        _CRC.pack_into(batch, CRC_POSITION, crc32c(covered))


RecordCheck = Callable[[bytearray | memoryview, BatchHeader, LogConfig], int]


def check_at_once(
    batch: bytearray | memoryview,
    header: BatchHeader,
    config: LogConfig,
    *,
    max_records: int = AT_ONCE_RECORDS,
    max_uncompressed_bytes: int = AT_ONCE_BYTES,
) -> int:
    """Check that the records are readable, and correct and return the header's ``max_timestamp``. Only for batches for
    which ``needs_conform`` returns False.

    Within the default limits, this takes less than 1 ms.
    Raises: NotConformed above the limits, or if a compressed batch must be rebuilt; InvalidRecord,
        UnsupportedCompression.
    """
    if header.record_count > max_records and not is_checked_quickly(header):
        raise NotConformed(header, config)
    try:
        max_timestamp_ms, counts_up = check_batch(batch, header, max_uncompressed_bytes)
    except UnpacksTooBig:
        raise NotConformed(header, config) from None
    if not counts_up and header.attributes & CODEC_MASK:
        raise NotConformed(header, config)
    if max_timestamp_ms != header.max_timestamp and config.message_timestamp_type == "CreateTime":
        _set_timestamps(batch, header, header.attributes & _KNOWN_FLAGS, max_timestamp_ms)
    return max_timestamp_ms


def needs_records(config: LogConfig) -> bool:
    """True if each record needs checks under this configuration."""
    return (
        config.is_compacted
        or config.compression_type != "producer"
        or config.timestamp_before_max_ms != LONG_MAX
        or config.timestamp_after_max_ms != LONG_MAX
    )


def contradicts_itself(header: BatchHeader) -> bool:
    """True if no records can match the header: the largest timestamp is below the first, a timestamp is below -1, or
    there are more records than bytes (unless compressed)."""
    return (
        header.max_timestamp < header.base_timestamp
        or header.base_timestamp < NO_TIMESTAMP
        or header.record_count * _MIN_RECORD_BYTES > header.batch_length
    )


def needs_conform(header: BatchHeader, config: LogConfig) -> bool:
    """True if ``conform`` must check the batch, because readable records are not enough."""
    return bool(header.attributes & TIMESTAMP_TYPE_FLAG) or needs_records(config)


def conform(
    batch: Buffer,
    header: BatchHeader,
    config: LogConfig,
    now_ms: int,
    *,
    max_uncompressed_bytes: int = MAX_UNCOMPRESSED_BYTES,
) -> Buffer:
    """Check every record, correct the header's timestamps, and recompress for a topic with its own codec.

    Returns the batch to append, which may be ``batch`` itself. As in Kafka, a compressed batch is rebuilt unless its
    offset deltas are 0, 1, 2, …
    Raises: InvalidRecord (unreadable records, too many records, no key in a compacted topic), InvalidTimestamp,
        UnpacksTooBig, RecordTooLarge (``max.message.bytes``).
    """
    check_count(header)
    if not needs_conform(header, config):
        max_timestamp_ms, counts_up = check_batch(batch, header, max_uncompressed_bytes)
        if counts_up or not header.attributes & CODEC_MASK:
            return _with_max_timestamp(batch, header, config, max_timestamp_ms)
    source = header.compression
    target = source
    if config.compression_type != "producer":
        target = _CODECS[config.compression_type]

    def run(writer: BatchWriter | None) -> tuple[int, bool]:
        chunks = batch_chunks(batch, header, max_uncompressed_bytes)
        try:
            return _check_records(chunks, header, config, now_ms, writer)
        except UnpacksTooBig:
            raise
        except CorruptRecord as error:
            raise unreadable(error) from error

    writer = None if target == source else _writer(header, config, target)
    max_timestamp_ms, counts_up = run(writer)
    if writer is None and source and not counts_up:
        writer = _writer(header, config, target)
        run(writer)
    if writer is not None:
        return writer.finish()
    return _with_max_timestamp(batch, header, config, max_timestamp_ms)


def _with_max_timestamp(batch: Buffer, header: BatchHeader, config: LogConfig, max_timestamp_ms: int) -> Buffer:
    """The batch with this ``max_timestamp``; unchanged if the header is correct or the append sets the timestamp."""
    is_right = max_timestamp_ms == header.max_timestamp and not header.attributes & TIMESTAMP_TYPE_FLAG
    if is_right or config.message_timestamp_type != "CreateTime":
        return batch
    corrected = bytearray(batch)
    _set_timestamps(corrected, header, header.attributes & _KNOWN_FLAGS & ~TIMESTAMP_TYPE_FLAG, max_timestamp_ms)
    return corrected


def _check_records(
    chunks: Iterator[bytes], header: BatchHeader, config: LogConfig, now_ms: int, writer: BatchWriter | None
) -> tuple[int, bool]:
    """Check the records and pass them to ``writer``. Returns their largest timestamp, and whether their offset deltas
    are 0, 1, 2, …"""
    needs_key = config.is_compacted
    has_append_time = bool(header.attributes & TIMESTAMP_TYPE_FLAG)
    is_create_time = config.message_timestamp_type == "CreateTime"
    # If a producer sets the LogAppendTime bit, Kafka checks the timestamps: a topic with CreateTime accepts those
    # within its bounds, a topic with LogAppendTime rejects all.
    checks_timestamps = has_append_time or (
        is_create_time and (config.timestamp_before_max_ms != LONG_MAX or config.timestamp_after_max_ms != LONG_MAX)
    )
    counts_up = True
    largest_ms = NO_TIMESTAMP
    problems = RecordProblems()
    for index, span in enumerate(walk(chunks, header.record_count)):
        data, _, timestamp_delta, offset_delta, body, end = span
        own_ms = as_long(header.base_timestamp + timestamp_delta)
        timestamp_ms = header.max_timestamp if has_append_time else own_ms
        if key_and_value(data, body, end)[1] < 0 and needs_key:
            problems.add(index, _NO_KEY)
        elif checks_timestamps:
            offset = header.base_offset + offset_delta
            problem = _timestamp_problem(timestamp_ms, offset, config, now_ms, has_append_time)
            if problem is not None:
                problems.add_timestamp(index, problem)
        if own_ms > largest_ms:
            largest_ms = own_ms
        if offset_delta != index:
            counts_up = False
        if writer is not None and not problems.count:
            writer.add_found(timestamp_ms, span)
    problems.raise_if_any()
    return largest_ms, counts_up


class RecordProblems:
    """Problems of single records, of which the response names a limited number (KIP-467)."""

    def __init__(self) -> None:
        self.count = 0
        self._has_timestamp = False
        self._named: list[tuple[int, str]] = []

    def add(self, index: int, problem: str) -> None:
        self.count += 1
        if self.count <= _MOST_RECORD_ERRORS:
            self._named.append((index, problem))

    def add_timestamp(self, index: int, problem: str) -> None:
        self._has_timestamp = True
        self.add(index, problem)

    def raise_if_any(self) -> None:
        """Raise InvalidTimestamp, as Kafka does, if any problem concerns a timestamp, else InvalidRecord."""
        if not self.count:
            return
        error: InvalidTimestamp | InvalidRecord
        if self._has_timestamp:
            error = InvalidTimestamp("One or more records have been rejected due to invalid timestamp")
        else:
            error = InvalidRecord(f"{_NO_KEY}: {self.count} of the batch have none")
        error.record_errors = tuple(self._named)
        raise error


def _timestamp_problem(
    timestamp_ms: int, offset: int, config: LogConfig, now_ms: int, has_append_time: bool
) -> str | None:
    """Why the record is invalid; None if it is valid. ``has_append_time``: the producer set the LogAppendTime bit."""
    if config.message_timestamp_type == "CreateTime" and timestamp_ms != NO_TIMESTAMP:
        before_ms, after_ms = config.timestamp_before_max_ms, config.timestamp_after_max_ms
        if now_ms - timestamp_ms > before_ms or timestamp_ms - now_ms > after_ms:
            return (
                f"Timestamp {timestamp_ms} of message with offset {offset} is out of range. The timestamp should be "
                f"within [{now_ms - before_ms}, {now_ms + after_ms}]"
            )
        return None
    if has_append_time:
        return f"Invalid timestamp type in message with offset {offset}. {_NO_APPEND_TIME}"
    return None


def _writer(header: BatchHeader, config: LogConfig, codec: Compression) -> BatchWriter:
    """A writer for the same records in another codec, with the same producer id, epoch and sequence."""
    return BatchWriter(
        codec,
        _compression_level(config, codec),
        max_size_bytes=config.max_message_bytes,
        producer=(header.producer_id, header.producer_epoch, header.base_sequence),
        attributes=header.attributes & TRANSACTIONAL_FLAG,
    )


def _compression_level(config: LogConfig, codec: Compression) -> int | None:
    match codec:
        case Compression.gzip:
            return config.compression_gzip_level
        case Compression.lz4:
            return config.compression_lz4_level if config.compression_lz4_level != _LZ4_FAST_LEVEL else 0
        case Compression.zstd:
            return config.compression_zstd_level
    return None

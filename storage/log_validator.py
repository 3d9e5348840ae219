"""What a producer's batch must be like before a log takes it.

``validate_batch`` looks at the bytes (exactly one batch, magic, length, CRC), ``check_header`` at the header, and
``conform`` takes the batch apart – only for topics that need it (see ``needs_records``).
Source: LogValidator.java@3.9, UnifiedLog.analyzeAndValidateRecords@3.9. Tests: tests/storage/test_log.py.
"""

from struct import Struct

from crc32c import crc32c

from storage.compression import Compression
from storage.config_table import LONG_MAX
from storage.errors import CorruptRecord, InvalidRecord, InvalidTimestamp
from storage.log_config import LogConfig
from storage.record_batch import (
    CODEC_MASK,
    CONTROL_FLAG,
    CRC_POSITION,
    CRC_START,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAX_CODEC,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    Record,
    RecordBatchBuilder,
    decode_records,
    read_header,
)

_CRC = Struct(">I")
_ATTRIBUTES = Struct(">h")
_TIMESTAMP = Struct(">q")
_MAX_TIMESTAMP_POSITION = 35
_LZ4_FAST_LEVEL = 9  # Kafka's default number stands for the fast compressor, all others for the high one
_CODEC_NAMES = {"uncompressed": Compression.none}


def validate_batch(buffer: bytes | bytearray | memoryview) -> BatchHeader:
    """Check that ``buffer`` is exactly one magic-2 batch with a valid CRC; returns its header.

    Raises: CorruptRecord for damage, InvalidRecord for none, a part of one, more than one or an older magic.
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
            raise CorruptRecord(f"the batch says it has {length} bytes, {size_bytes} arrived")
        raise InvalidRecord(f"exactly one batch is allowed: it says it has {length} bytes, {size_bytes} arrived")
    computed = crc32c(memoryview(buffer)[CRC_START:])
    if computed != header.crc:
        raise CorruptRecord(f"CRC is {header.crc:#010x}, computed {computed:#010x}")
    return header


def refuse_header(header: BatchHeader) -> InvalidRecord:
    """Say what is wrong with a client batch's header that the append found to break a rule."""
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
    """Turn the batch into one with the broker's clock (LogAppendTime), in place, CRC included."""
    _ATTRIBUTES.pack_into(batch, CRC_START, header.attributes | TIMESTAMP_TYPE_FLAG)
    _TIMESTAMP.pack_into(batch, _MAX_TIMESTAMP_POSITION, now_ms)
    with memoryview(batch) as view, view[CRC_START : header.size_bytes] as covered:
        _CRC.pack_into(batch, CRC_POSITION, crc32c(covered))


def needs_records(config: LogConfig) -> bool:
    """Whether batches for a log with this configuration must be taken apart."""
    return (
        config.is_compacted
        or config.compression_type != "producer"
        or config.timestamp_before_max_ms != LONG_MAX
        or config.timestamp_after_max_ms != LONG_MAX
    )


def conform(
    batch: bytearray | memoryview, header: BatchHeader, config: LogConfig, now_ms: int
) -> tuple[bytearray | memoryview, BatchHeader]:
    """Check every record and, for a topic with its own codec, compress anew; returns the batch to append.

    Raises: InvalidRecord (no key in a compacted topic), InvalidTimestamp, CorruptRecord.
    """
    if header.attributes & TIMESTAMP_TYPE_FLAG and config.message_timestamp_type == "CreateTime":
        raise InvalidTimestamp("a producer may not set LogAppendTime on its batch")
    if not needs_records(config):
        return batch, header
    records = list(decode_records(batch))
    if config.is_compacted and any(record.key is None for record in records):
        raise InvalidRecord("a compacted topic takes no record without a key")
    if config.message_timestamp_type == "CreateTime":
        check_timestamps(records, config, now_ms)
    if config.compression_type == "producer":
        return batch, header
    target = _CODEC_NAMES.get(config.compression_type) or Compression.__members__.get(
        config.compression_type, Compression.none
    )
    if target == header.compression:
        return batch, header
    rebuilt = bytearray(rebuild(records, header, target, compression_level(config, target)))
    return rebuilt, read_header(rebuilt)


def check_timestamps(records: list[Record], config: LogConfig, now_ms: int) -> None:
    """Raise InvalidTimestamp if a record lies outside the topic's bounds around the broker's clock."""
    before_ms, after_ms = config.timestamp_before_max_ms, config.timestamp_after_max_ms
    for record in records:
        timestamp_ms = record.timestamp_ms
        if timestamp_ms == NO_TIMESTAMP:
            continue
        if now_ms - timestamp_ms > before_ms or timestamp_ms - now_ms > after_ms:
            raise InvalidTimestamp(
                f"timestamp {timestamp_ms} of the record at index {record.offset - records[0].offset} is outside "
                f"[{now_ms} - {before_ms}, {now_ms} + {after_ms}]"
            )


def compression_level(config: LogConfig, codec: Compression) -> int | None:
    """The level that a topic sets for a codec."""
    match codec:
        case Compression.gzip:
            return config.compression_gzip_level
        case Compression.lz4:
            return config.compression_lz4_level if config.compression_lz4_level != _LZ4_FAST_LEVEL else 0
        case Compression.zstd:
            return config.compression_zstd_level
    return None


def storable(timestamp_ms: int) -> int:
    """A timestamp that goes into a batch that is built here. Raises: InvalidTimestamp."""
    if not NO_TIMESTAMP <= timestamp_ms <= LONG_MAX:
        raise InvalidTimestamp(f"timestamp {timestamp_ms} is neither {NO_TIMESTAMP} (none) nor in [0, {LONG_MAX}]")
    return timestamp_ms


def rebuild(records: list[Record], header: BatchHeader, codec: Compression, level: int | None) -> bytes:
    """The same records in one batch of another codec, with the producer's identity kept."""
    builder = RecordBatchBuilder(
        codec,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        compression_level=level,
        transactional=bool(header.attributes & TRANSACTIONAL_FLAG),
    )
    for record in records:
        builder.append(storable(record.timestamp_ms), record.key, record.value, record.headers)
    return builder.build()

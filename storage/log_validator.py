"""What a producer's batch must be like before a log takes it.

``validate_batch`` looks at the bytes (exactly one batch, magic, length, CRC), ``check_header`` at the header, and
``conform`` takes the batch apart – only for topics that need it (see ``needs_records``), and as a stream.
Source: LogValidator.java@3.9, UnifiedLog.analyzeAndValidateRecords@3.9. Tests: tests/storage/test_log.py.
"""

from collections.abc import Iterator
from struct import Struct

from crc32c import crc32c

from kafka_zk.storage.batch_writer import BatchWriter
from kafka_zk.storage.compression import Compression
from kafka_zk.storage.config_table import LONG_MAX
from kafka_zk.storage.errors import CorruptRecord, InvalidRecord, InvalidTimestamp
from kafka_zk.storage.log_config import LogConfig
from kafka_zk.storage.record_batch import (
    CODEC_MASK,
    CONTROL_FLAG,
    CRC_POSITION,
    CRC_START,
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
from kafka_zk.storage.record_stream import batch_chunks, check_count, key_and_value, walk

_CRC = Struct(">I")
_ATTRIBUTES = Struct(">h")
_TIMESTAMP = Struct(">q")
_MAX_TIMESTAMP_POSITION = 35
_MOST_RECORD_ERRORS = 1000
_LZ4_FAST_LEVEL = 9  # Kafka's default number stands for the fast compressor, all others for the high one
_CODECS = {**Compression.__members__, "uncompressed": Compression.none}


class NotConformed(Exception):
    """A batch that its log takes only after ``conform`` for its configuration."""

    def __init__(self, header: BatchHeader, config: LogConfig) -> None:
        super().__init__("the batch must be taken apart first")
        self.header = header
        self.config = config


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


def must_be_taken_apart(header: BatchHeader, config: LogConfig) -> bool:
    """What ``conform`` sees in the header. Raises: InvalidTimestamp, InvalidRecord (too many records)."""
    if header.attributes & TIMESTAMP_TYPE_FLAG and config.message_timestamp_type == "CreateTime":
        raise InvalidTimestamp("a producer may not set LogAppendTime on its batch")
    if not needs_records(config):
        return False
    check_count(header)
    return True


def conform(
    batch: Buffer,
    header: BatchHeader,
    config: LogConfig,
    now_ms: int,
    *,
    max_uncompressed_bytes: int = MAX_UNCOMPRESSED_BYTES,
) -> Buffer:
    """Check every record and, for a topic with its own codec, compress anew; returns the batch to append.

    That is ``batch`` itself unless the codec is another one or, in a compressed batch, offset deltas do not count up:
    as Kafka does, such a batch is built anew. Nothing is unpacked before the header was found to be good.
    Raises: InvalidRecord (a count that differs from the header's, too many records, no key in a compacted topic),
        InvalidTimestamp, CorruptRecord, RecordTooLarge (by ``max.message.bytes``).
    """
    if not must_be_taken_apart(header, config):
        return batch
    source = header.compression
    target = source
    if config.compression_type != "producer":
        target = _CODECS[config.compression_type]

    def run(writer: BatchWriter | None) -> bool:
        return _check_records(batch_chunks(batch, header, max_uncompressed_bytes), header, config, now_ms, writer)

    writer = None if target == source else _writer(header, config, target)
    counts_up = run(writer)
    if writer is None and source and not counts_up:
        writer = _writer(header, config, target)
        run(writer)
    return batch if writer is None else writer.finish()


def _check_records(
    chunks: Iterator[bytes], header: BatchHeader, config: LogConfig, now_ms: int, writer: BatchWriter | None
) -> bool:
    """Check the records and give them to ``writer``; returns whether their offset deltas count up from 0."""
    needs_key = config.is_compacted
    has_bounds = config.message_timestamp_type == "CreateTime" and (
        config.timestamp_before_max_ms != LONG_MAX or config.timestamp_after_max_ms != LONG_MAX
    )
    append_time_ms = header.max_timestamp if header.attributes & TIMESTAMP_TYPE_FLAG else None
    counts_up = True
    keyless: list[int] = []
    for index, span in enumerate(walk(chunks, header.record_count)):
        data, _, timestamp_delta, offset_delta, body, end = span
        if key_and_value(data, body, end)[1] < 0 and needs_key:
            keyless.append(index)
        timestamp_ms = header.base_timestamp + timestamp_delta if append_time_ms is None else append_time_ms
        if has_bounds:
            _check_timestamp(timestamp_ms, config, now_ms, index)
        if offset_delta != index:
            counts_up = False
        if writer is not None:
            writer.add_found(timestamp_ms, span)
    if keyless:
        raise _without_key(keyless)
    return counts_up


def _without_key(indexes: list[int]) -> InvalidRecord:
    """What is wrong with a batch for a compacted topic; as in Kafka, each record is told, up to a bound."""
    problem = "a compacted topic takes no record without a key"
    error = InvalidRecord(f"{problem}: {len(indexes)} of the batch have none")
    error.record_errors = tuple((index, problem) for index in indexes[:_MOST_RECORD_ERRORS])
    return error


def _check_timestamp(timestamp_ms: int, config: LogConfig, now_ms: int, index: int) -> None:
    """Raise InvalidTimestamp if a record lies outside the topic's bounds around the broker's clock."""
    before_ms, after_ms = config.timestamp_before_max_ms, config.timestamp_after_max_ms
    if timestamp_ms != NO_TIMESTAMP and (now_ms - timestamp_ms > before_ms or timestamp_ms - now_ms > after_ms):
        raise InvalidTimestamp(
            f"timestamp {timestamp_ms} of the record at index {index} is outside "
            f"[{now_ms} - {before_ms}, {now_ms} + {after_ms}]"
        )


def _writer(header: BatchHeader, config: LogConfig, codec: Compression) -> BatchWriter:
    """For the same records in a batch of another codec, with the producer's identity kept."""
    return BatchWriter(
        codec,
        _compression_level(config, codec),
        max_size_bytes=config.max_message_bytes,
        producer=(header.producer_id, header.producer_epoch, header.base_sequence),
        attributes=header.attributes & TRANSACTIONAL_FLAG,
    )


def _compression_level(config: LogConfig, codec: Compression) -> int | None:
    """The level that a topic sets for a codec."""
    match codec:
        case Compression.gzip:
            return config.compression_gzip_level
        case Compression.lz4:
            return config.compression_lz4_level if config.compression_lz4_level != _LZ4_FAST_LEVEL else 0
        case Compression.zstd:
            return config.compression_zstd_level
    return None

"""Converts producers' old message sets to magic 2, and batches to message sets for old consumers.

Records are streamed, at most ``record_stream.MAX_RECORDS``. Codecs stay the same. Down-conversion drops headers and
control batches and, for magic 0, timestamps. Source: RecordsUtil.downConvert, LogValidator.java@3.9. Tests:
tests/storage/records/test_legacy_message_set.py.
"""

from collections.abc import Iterator

from kafka_zk.storage.files.errors import InvalidRecord, InvalidTimestamp, UnsupportedCompression
from kafka_zk.storage.records.batch_writer import BatchWriter
from kafka_zk.storage.records.compression import Compression
from kafka_zk.storage.records.legacy_message_set import LegacyEntry, encode_message, iter_entries, open_wrapper, wrap
from kafka_zk.storage.records.record_batch import (
    MAX_UNCOMPRESSED_BYTES,
    TIMESTAMP_TYPE_FLAG,
    BatchHeader,
    Buffer,
)
from kafka_zk.storage.records.record_stream import MAX_RECORDS, batch_chunks, check_count, key_and_value, walk
from kafka_zk.storage.records.stream_compressor import StreamCompressor
from kafka_zk.storage.records.varint import as_long, encode_varint


def up_convert(
    message_set: Buffer,
    *,
    max_uncompressed_bytes: int = MAX_UNCOMPRESSED_BYTES,
    max_size_bytes: int | None = None,
) -> bytearray:
    """Convert a producer's magic-0 or magic-1 set to one magic-2 batch with the same codec.

    Offsets begin at 0; missing timestamps become -1.
    Raises: CorruptRecord; InvalidRecord (empty set, mixed magics, a wrapper beside other messages, too many messages);
        InvalidTimestamp (below -1, or LogAppendTime from a producer); UnsupportedCompression; RecordTooLarge (above
        ``max_size_bytes``).
    """
    writer: BatchWriter | None = None
    for codec, message in _messages(message_set, max_uncompressed_bytes):
        if writer is None:
            writer = BatchWriter(codec, max_size_bytes=max_size_bytes)
        if writer.count == MAX_RECORDS:
            raise InvalidRecord(f"more than {MAX_RECORDS} messages in a set")
        writer.add(message.timestamp_ms, b"".join((_field(message.key), _field(message.value), b"\0")))
    if writer is None:
        raise InvalidRecord("a message set without messages")
    return writer.finish()


def _messages(message_set: Buffer, max_uncompressed_bytes: int) -> Iterator[tuple[Compression, LegacyEntry]]:
    """Yield the set's codec with each message. Wrappers yield their messages."""
    first: LegacyEntry | None = None
    for entry in iter_entries(message_set):
        if entry.log_append_time:
            raise InvalidTimestamp("a producer must not set LogAppendTime on its messages")
        if first is None:
            first = entry
        elif first.codec or entry.codec or entry.magic != first.magic:
            raise InvalidRecord("a compressed message must be alone in its set, and all must have the same magic")
        if not entry.codec:
            yield Compression.none, entry
    if first is not None and first.codec:
        for message in open_wrapper(first, max_uncompressed_bytes):
            yield Compression(first.codec), message


def _field(content: bytes | None) -> bytes:
    return b"\1" if content is None else encode_varint(len(content)) + content


def check_has_old_form(header: BatchHeader) -> None:
    """Check the header as ``down_convert_batch`` does. Raises: UnsupportedCompression, InvalidRecord."""
    codec = header.compression
    if codec == Compression.zstd:
        raise UnsupportedCompression(f"{codec.name} needs magic 2, but the reader only knows an older one")
    check_count(header)


def down_convert_batch(
    batch: Buffer,
    header: BatchHeader,
    magic: int,
    *,
    first_offset: int = 0,
    max_uncompressed_bytes: int = MAX_UNCOMPRESSED_BYTES,
) -> bytes | bytearray:
    """Convert one batch to a message set of magic 0 or 1; empty for a control batch.

    ``first_offset``: omit earlier records, except in a compressed batch.
    Raises: CorruptRecord, InvalidRecord (also for too many records), UnsupportedCompression (zstd).
    """
    if header.is_control:
        return b""
    check_has_old_form(header)
    codec = header.compression
    append_time = bool(header.attributes & TIMESTAMP_TYPE_FLAG)
    flags = TIMESTAMP_TYPE_FLAG if append_time and magic else 0
    messages = StreamCompressor(codec)
    offset = shift = -1
    newest_ms = None
    for data, _, timestamp_delta, offset_delta, body, end in walk(
        batch_chunks(batch, header, max_uncompressed_bytes), header.record_count
    ):
        key_start, key_size, value_start, value_size = key_and_value(data, body, end)
        offset = header.base_offset + offset_delta
        if not codec and offset < first_offset:
            continue
        timestamp_ms = header.max_timestamp if append_time else header.base_timestamp + timestamp_delta
        timestamp_ms = as_long(timestamp_ms)
        if newest_ms is None:
            newest_ms, shift = timestamp_ms, offset if magic and codec else 0
        elif timestamp_ms > newest_ms:
            newest_ms = timestamp_ms
        key = data[key_start : key_start + key_size] if key_size >= 0 else None
        value = data[value_start : value_start + value_size] if value_size >= 0 else None
        messages.write(encode_message(offset - shift, magic, flags, timestamp_ms, key, value))
    if newest_ms is None:
        return b""
    converted = messages.finish()
    return wrap(converted, codec, magic, offset, flags, newest_ms) if codec else converted

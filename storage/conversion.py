"""Between the record formats: old producers' sets up to magic 2, batches down to what old consumers read.

Pure functions of bytes. Going down loses headers and control batches, to magic 0 also timestamps; each batch keeps its
codec. Source: RecordsUtil.downConvert, LogValidator.java@3.9. Tests: tests/storage/test_legacy_message_set.py.
"""

from storage.compression import Compression
from storage.errors import InvalidRecord, InvalidTimestamp
from storage.legacy_message_set import LegacyMessage, iter_entries, read_message_set, write_message_set
from storage.log_validator import storable
from storage.record_batch import (
    MAX_UNCOMPRESSED_BYTES,
    TIMESTAMP_TYPE_FLAG,
    Buffer,
    RecordBatchBuilder,
    decode_records,
    iter_batches,
)
from storage.varint import as_long


def up_convert(message_set: Buffer, *, max_uncompressed_bytes: int = MAX_UNCOMPRESSED_BYTES) -> bytes:
    """One magic-2 batch with the messages of a producer's magic-0 or magic-1 set.

    The codec is that of the set's last entry. Offsets start at 0, timestamps are -1 where there were none.
    Raises: CorruptRecord, InvalidRecord (empty set), InvalidTimestamp (a producer may not set LogAppendTime, nor go
        below -1), UnsupportedCompression.
    """
    codec = 0
    for entry in iter_entries(message_set):
        codec = entry.codec
        if entry.log_append_time:
            raise InvalidTimestamp("a producer may not set LogAppendTime on its messages")
    builder: RecordBatchBuilder | None = None
    for message in read_message_set(message_set, max_uncompressed_bytes=max_uncompressed_bytes):
        if builder is None:
            builder = RecordBatchBuilder(Compression(codec))
        builder.append(storable(message.timestamp_ms), message.key, message.value)
    if builder is None:
        raise InvalidRecord("a message set without messages")
    return builder.build()


def down_convert(
    batches: Buffer, magic: int, *, first_offset: int = 0, max_uncompressed_bytes: int = MAX_UNCOMPRESSED_BYTES
) -> bytes:
    """The records of whole magic-2 batches as message sets of magic 0 or 1.

    Args:
        first_offset: of uncompressed batches, records before it are left out; compressed ones are kept whole.
    Raises: CorruptRecord, InvalidRecord, UnsupportedCompression (a zstd batch has no old form).
    """
    parts = []
    for position, header in iter_batches(batches):
        if header.is_control:
            continue
        codec = header.compression
        append_time = bool(header.attributes & TIMESTAMP_TYPE_FLAG)
        messages = [
            LegacyMessage(record.offset, magic, as_long(record.timestamp_ms), append_time, record.key, record.value)
            for record in decode_records(batches, position, max_uncompressed_bytes=max_uncompressed_bytes)
            if codec or record.offset >= first_offset
        ]
        parts.append(write_message_set(messages, magic, codec))
    return b"".join(parts)

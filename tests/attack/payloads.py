"""Frames for attacks, including the size prefix, written by hand where no client would send them."""

import struct
from collections.abc import Sequence

from crc32c import crc32c

from kafka_zk.protocol.api_keys import ApiKey, is_flexible
from kafka_zk.storage.records.compression import Compression, compress
from kafka_zk.storage.records.record_batch import RecordBatchBuilder, encode_record

TIMESTAMP_MS = 1_700_000_000_000
LATE_MS = TIMESTAMP_MS + 1000
"""The largest timestamp in the header of a ``batch_of_many``; all its records are earlier."""

_BATCH_HEADER = struct.Struct(">qiibIhiqqqhii")
_CRC_POSITION, _CRC_START = 17, 21
_TINY_RECORD = encode_record(0, 0, None, None)
_NO_PRODUCER = (-1, -1, -1)


def frame(api_key: int, version: int, body: bytes, header_tags: bytes = b"\0") -> bytes:
    """A request. ``header_tags`` are those of a flexible header: a count and the tagged fields."""
    header = struct.pack(">hhih", api_key, version, 1, 6) + b"attack"
    if is_flexible(api_key, version):
        header += header_tags
    return struct.pack(">i", len(header) + len(body)) + header + body


def beginning(announced_bytes: int, sent_bytes: int) -> bytes:
    """The beginning of a Produce frame that announces more than it holds. ``sent_bytes``: the bytes in it."""
    start = struct.pack(">ihhih", announced_bytes, ApiKey.PRODUCE, 3, 1, 6) + b"attack"
    return start + bytes(sent_bytes - len(start))


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def unsigned_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


# --- batches ----------------------------------------------------------------------------------------------------------


def batch(*values: bytes, producer: tuple[int, int, int] = _NO_PRODUCER) -> bytes:
    """An honest batch. ``producer``: id, epoch, first sequence."""
    builder = RecordBatchBuilder("none", *producer)
    for value in values:
        builder.append(TIMESTAMP_MS, None, value)
    return builder.build()


def batch_of_many(count: int, announced: int | None = None) -> bytes:
    """A batch of ``count`` tiny records, whose zstd form takes a few KB for millions. ``announced``: the count in the
    header.
    """
    return _batch(compress(Compression.zstd, _TINY_RECORD * count), announced or count)


def batch_with_offsets(count: int) -> bytes:
    """The same batch with a distinct offset for each record, as a real producer writes them: almost a byte each."""
    records = b"".join(encode_record(0, delta, None, None) for delta in range(count))
    return _batch(compress(Compression.zstd, records), count)


def _batch(blob: bytes, count: int) -> bytes:
    length = _BATCH_HEADER.size - 12 + len(blob)
    numbers = (0, length, -1, 2, 0, Compression.zstd, count - 1, TIMESTAMP_MS, LATE_MS, *_NO_PRODUCER, count)
    made = bytearray(_BATCH_HEADER.pack(*numbers) + blob)
    struct.pack_into(">I", made, _CRC_POSITION, crc32c(bytes(made[_CRC_START:])))
    return bytes(made)


# --- requests ---------------------------------------------------------------------------------------------------------


def produce(topic: str, records: bytes, version: int = 7) -> bytes:
    """A request for one partition with acks=1."""
    body = struct.pack(">hhii", -1, 1, 10_000, 1) + text(topic) + struct.pack(">iii", 1, 0, len(records)) + records
    return frame(ApiKey.PRODUCE, version, body)


def produce_result(topic: str, answer: bytes) -> tuple[int, int]:
    """The error code and base offset in a response to ``produce``."""
    error, offset = struct.unpack_from(">hq", answer, 4 + 4 + len(text(topic)) + 8)
    return error, offset


def list_offsets(topic: str, timestamp: int) -> bytes:
    """ListOffsets v1: the first record at or after a timestamp; -2 and -1 are the log's start and end."""
    body = struct.pack(">ii", -1, 1) + text(topic) + struct.pack(">iiq", 1, 0, timestamp)
    return frame(ApiKey.LIST_OFFSETS, 1, body)


def listed_offset(topic: str, answer: bytes) -> tuple[int, int]:
    """The error code and offset in a response to ``list_offsets``."""
    error, _, offset = struct.unpack_from(">hqq", answer, 4 + 4 + len(text(topic)) + 8)
    return error, offset


def old_fetch(topic: str) -> bytes:
    """Fetch v2, whose response must have the old message format."""
    body = struct.pack(">iii", -1, 0, 0) + struct.pack(">i", 1) + text(topic) + struct.pack(">iiqi", 1, 0, 0, 1 << 20)
    return frame(ApiKey.FETCH, 2, body)


def fetch_session(topic: str, partition_count: int) -> bytes:
    """Fetch v7 that opens a session with ``partition_count`` partitions."""
    head = struct.pack(">iiiibii", -1, 0, 0, 1 << 20, 0, 0, 0)
    partitions = b"".join(struct.pack(">iqqi", number, 0, -1, 1 << 20) for number in range(partition_count))
    body = head + struct.pack(">i", 1) + text(topic) + struct.pack(">i", partition_count) + partitions
    return frame(ApiKey.FETCH, 7, body + struct.pack(">i", 0))


def metadata_of_empty_names(count: int) -> bytes:
    return frame(ApiKey.METADATA, 1, struct.pack(">i", count) + bytes(2 * count))


def repeated_header_tags(size_bytes: int) -> bytes:
    """ApiVersions with empty tagged fields in its header, all with tag 0."""
    count = size_bytes // 2
    return frame(ApiKey.API_VERSIONS, 3, b"\x02a\x02a\0", unsigned_varint(count) + bytes(2 * count))


def ascending_header_tags() -> bytes:
    """The same request with two million different tags, in order: 8 MB."""
    starts = [bytes((low | 0x80, middle | 0x80)) for middle in range(0x80) for low in range(0x80)]
    fields = b"".join(end.join(starts) + end for end in (bytes((high, 0)) for high in range(1, 0x80)))
    return frame(ApiKey.API_VERSIONS, 3, b"\x02a\x02a\0", unsigned_varint(len(starts) * 0x7F) + fields)


def create_topics(names: Sequence[str], partition_count: int, *, validate_only: bool) -> bytes:
    """CreateTopics v1."""
    tail = struct.pack(">ihii", partition_count, 1, 0, 0)
    body = struct.pack(">i", len(names)) + b"".join(text(name) + tail for name in names)
    return frame(ApiKey.CREATE_TOPICS, 1, body + struct.pack(">i?", 10_000, validate_only))

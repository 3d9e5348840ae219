"""Batches of a hostile client: tiny to send, huge to decode."""

import struct

from crc32c import crc32c

from kafka_zk.storage.records.compression import Compression, compress
from kafka_zk.storage.records.record_batch import encode_record

NOW_MS = 1_700_000_000_000
_FRONT = struct.Struct(">qiibI")
_REST = struct.Struct(">hiqqqhii")
SMALLEST_RECORD = encode_record(0, 0, None, None)


def batch_of(
    records: bytes, count: int, codec: Compression = Compression.zstd, max_timestamp_ms: int = NOW_MS
) -> bytes:
    """A batch whose header claims ``count`` records, whatever it contains."""
    blob = compress(codec, records)
    rest = _REST.pack(codec, count - 1, NOW_MS, max_timestamp_ms, -1, -1, -1, count) + blob
    return _FRONT.pack(0, len(rest) + 9, -1, 2, crc32c(rest)) + rest


def tiny_records(count: int, codec: Compression = Compression.zstd, **header: int) -> bytes:
    """A batch of records of seven bytes each, which compress to almost nothing; all have the offset delta 0."""
    return batch_of(SMALLEST_RECORD * count, count, codec, **header)

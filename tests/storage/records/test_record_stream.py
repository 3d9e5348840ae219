"""Reading a batch as a stream: the same records as with other decoders, bounded memory, and typed errors."""

import tracemalloc
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_zk.storage.files.errors import CorruptRecord, InvalidRecord, StorageError, UnpacksTooBig
from kafka_zk.storage.records.compression import Compression, compress, decompress_chunks
from kafka_zk.storage.records.record_batch import MAX_UNCOMPRESSED_BYTES, Header, RecordBatchBuilder, read_header
from kafka_zk.storage.records.record_decoder import decode_records
from kafka_zk.storage.records.record_stream import MAX_RECORDS, batch_chunks, check_count, key_and_value, walk

FIELD = st.none() | st.binary(max_size=300)
RECORDS = st.lists(
    st.tuples(st.integers(0, 1 << 42), FIELD, FIELD, st.lists(st.tuples(st.text(max_size=5), FIELD), max_size=3)),
    min_size=1,
    max_size=12,
)
Records = list[tuple[int, bytes | None, bytes | None, list[Header]]]


def found(
    chunks: Iterator[bytes], record_count: int, base_timestamp: int = 0
) -> list[tuple[int, int, bytes | None, bytes | None]]:
    spans = walk(chunks, record_count)
    result = []
    for data, _, timestamp_delta, offset_delta, body, end in spans:
        key_start, key_size, value_start, value_size = key_and_value(data, body, end)
        key = None if key_size < 0 else bytes(data[key_start : key_start + key_size])
        value = None if value_size < 0 else bytes(data[value_start : value_start + value_size])
        result.append((offset_delta, base_timestamp + timestamp_delta, key, value))
    return result


@given(RECORDS, st.sampled_from(list(Compression)), st.integers(1, 400))
def test_a_stream_gives_what_decode_records_gives(records: Records, codec: Compression, chunk_bytes: int) -> None:
    """The records are the same for chunks of any size."""
    builder = RecordBatchBuilder(codec)
    for record in records:
        builder.append(*record)
    batch = builder.build()
    header = read_header(batch)
    whole = b"".join(batch_chunks(batch, header))
    chunks = (whole[start : start + chunk_bytes] for start in range(0, len(whole), chunk_bytes))
    expected = [(record.offset, record.timestamp_ms, record.key, record.value) for record in decode_records(batch)]
    assert found(chunks, header.record_count, header.base_timestamp) == expected
    for wrong in (header.record_count - 1, header.record_count + 1):
        with pytest.raises(InvalidRecord):
            found(iter([whole]), wrong)


@pytest.mark.slow
@given(st.binary(max_size=60), st.integers(-1, 5), st.integers(1, 20))
@settings(max_examples=300)
def test_garbage_gives_typed_errors_only(data: bytes, record_count: int, chunk_bytes: int) -> None:
    with suppress(StorageError):
        found((data[start : start + chunk_bytes] for start in range(0, len(data), chunk_bytes)), record_count)


@pytest.mark.parametrize("codec", [Compression.gzip, Compression.lz4, Compression.zstd, Compression.snappy])
def test_no_more_than_a_chunk_is_in_memory(codec: Compression) -> None:
    """The batch has 20 MB of zeros, of which a consumer needs only a part. A block of snappy's framing has 32 KB."""
    data = compress(codec, bytes(20_000_000))
    chunks = decompress_chunks(codec, data)
    next(chunks)
    tracemalloc.start()
    assert sum(map(len, chunks)) > 19_000_000
    assert tracemalloc.get_traced_memory()[1] < 1_000_000
    tracemalloc.stop()


@pytest.mark.parametrize("codec", [Compression.gzip, Compression.lz4, Compression.snappy])
def test_countless_empty_parts_are_refused(codec: Compression) -> None:
    """Each empty member, frame or block counts as a thousand bytes."""
    empty = compress(codec, b"")
    data = empty + b"\0\0\0\1\0" * 3000 if codec == Compression.snappy else empty * 3000
    with pytest.raises(CorruptRecord):
        list(decompress_chunks(codec, data))


def test_a_block_of_snappy_cannot_claim_what_it_cannot_hold() -> None:
    """If the claim were believed, memory of the claimed size would be allocated."""
    with pytest.raises(CorruptRecord, match="cannot hold"):
        list(decompress_chunks(Compression.snappy, b"\x80\x80\x80\x20" + bytes(20)))


def test_the_bounds() -> None:
    """The limit on records is checked in the header, the limit on bytes during decompression."""
    header = read_header(batch_of_one())
    check_count(header._replace(record_count=MAX_RECORDS))
    with pytest.raises(InvalidRecord):
        check_count(header._replace(record_count=MAX_RECORDS + 1))
    with pytest.raises(UnpacksTooBig):
        list(decompress_chunks(Compression.gzip, compress(Compression.gzip, bytes(1000)), 999))
    assert MAX_UNCOMPRESSED_BYTES == 128 * 1024 * 1024


def batch_of_one() -> bytes:
    builder = RecordBatchBuilder()
    builder.append(0, None, b"v")
    return builder.build()

"""Magic 0 and 1, and conversions between the formats, compared with kafka-python's implementation."""

import gzip
from contextlib import suppress

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from kafka.record.legacy_records import LegacyRecordBatch, LegacyRecordBatchBuilder

from kafka_zk.storage.files.errors import (
    CorruptRecord,
    InvalidRecord,
    InvalidTimestamp,
    StorageError,
    UnsupportedCompression,
)
from kafka_zk.storage.records.compression import Compression
from kafka_zk.storage.records.conversion import up_convert
from kafka_zk.storage.records.legacy_message_set import (
    LegacyMessage,
    encode_message,
    iter_entries,
    read_message_set,
    write_message_set,
)
from kafka_zk.storage.records.record_batch import check_crc, read_header
from kafka_zk.storage.records.record_decoder import decode_records
from tests.storage.done_here import down_convert
from tests.storage.helpers import T0, batch

CODECS = st.sampled_from([Compression.none, Compression.gzip, Compression.snappy, Compression.lz4])
FIELD = st.none() | st.binary(max_size=100)
CONTENT = st.lists(st.tuples(st.integers(0, 1 << 45), FIELD, FIELD), min_size=1, max_size=10)
Content = list[tuple[int, bytes | None, bytes | None]]


def messages_of(content: Content, magic: int, first_offset: int = 0) -> list[LegacyMessage]:
    return [
        LegacyMessage(first_offset + index, magic, timestamp_ms if magic else -1, False, key, value)
        for index, (timestamp_ms, key, value) in enumerate(content)
    ]


@given(CONTENT, st.sampled_from([0, 1]), CODECS, st.integers(0, 1 << 40))
def test_sets_round_trip(content: Content, magic: int, codec: Compression, first_offset: int) -> None:
    """The results have absolute offsets, even if a wrapper contains relative ones."""
    messages = messages_of(content, magic, first_offset)
    data = write_message_set(messages, magic, codec)
    assert list(read_message_set(data)) == messages
    entries = list(iter_entries(data))
    assert entries[-1].offset == first_offset + len(messages) - 1
    assert len(entries) == (1 if codec else len(messages))


@given(CONTENT, st.sampled_from([0, 1]), CODECS)
@settings(max_examples=40)
def test_kafka_python_writes_what_we_read(content: Content, magic: int, codec: Compression) -> None:
    """kafka-python builds the sets, and we read them. For lz4 in magic 0, it would need another library."""
    assume(magic or codec != Compression.lz4)
    builder = LegacyRecordBatchBuilder(magic=magic, compression_type=int(codec), batch_size=1 << 20)
    for index, (timestamp_ms, key, value) in enumerate(content):
        builder.append(index, timestamp=timestamp_ms if magic else None, key=key, value=value)
    found = list(read_message_set(builder.build()))
    assert [(message.key, message.value) for message in found] == [(key, value) for _, key, value in content]
    if magic:
        assert [message.timestamp_ms for message in found] == [timestamp_ms for timestamp_ms, _, _ in content]


@given(CONTENT, st.sampled_from([0, 1]), CODECS)
@settings(max_examples=40)
def test_kafka_python_reads_what_we_write(content: Content, magic: int, codec: Compression) -> None:
    """We write the sets, including wrappers, and kafka-python reads them."""
    assume(magic or codec != Compression.lz4)
    data = write_message_set(messages_of(content, magic, 100), magic, codec)
    if codec:
        found = [(r.offset, r.key, r.value) for r in LegacyRecordBatch(data, magic)]
        assert found == [(100 + index, key, value) for index, (_, key, value) in enumerate(content)]


@given(st.binary(max_size=200))
def test_garbage_gives_typed_errors_only(data: bytes) -> None:
    """Garbage raises only StorageError."""
    with suppress(StorageError):
        list(read_message_set(data))


def test_a_partial_tail_is_an_error_for_producers_and_skipped_for_readers() -> None:
    """The set is cut at every position of the second message."""
    first = encode_message(0, 1, 0, T0, None, b"a")
    second = encode_message(1, 1, 0, T0, None, b"b")
    for cut in range(1, len(second)):
        data = first + second[:cut]
        assert len(list(read_message_set(data, partial_tail=True))) == 1
        with pytest.raises(CorruptRecord):
            list(read_message_set(data))


def test_flipped_bytes_are_noticed() -> None:
    """The CRC covers all bytes from the magic byte on."""
    good = encode_message(0, 1, 0, T0, b"k", b"v")
    for position in range(12, len(good)):
        damaged = bytearray(good)
        damaged[position] ^= 1
        with pytest.raises(CorruptRecord):
            list(read_message_set(damaged))


def test_a_wrapper_in_a_wrapper_is_refused() -> None:
    """Mixed magics and zstd are refused, too."""
    inner = write_message_set(messages_of([(1, None, b"v")], 1), 1, Compression.gzip)
    nested = encode_message(0, 1, Compression.gzip, 1, None, gzip.compress(inner))
    mixed = encode_message(0, 1, Compression.gzip, 1, None, gzip.compress(encode_message(0, 0, 0, -1, None, b"v")))
    for data in (nested, mixed):
        with pytest.raises(InvalidRecord):
            list(read_message_set(data))
    with pytest.raises(UnsupportedCompression):
        list(read_message_set(encode_message(0, 1, Compression.zstd, 1, None, b"x")))


@given(CONTENT, st.sampled_from([0, 1]), CODECS)
def test_up_conversion_keeps_keys_values_timestamps_and_codec(content: Content, magic: int, codec: Compression) -> None:
    """The result is one batch with a valid CRC; records without timestamps get -1."""
    data = up_convert(write_message_set(messages_of(content, magic), magic, codec))
    header = read_header(data)
    check_crc(data, 0, header)
    assert (header.compression, header.record_count) == (codec, len(content))
    expected = [(key, value, timestamp_ms if magic else -1) for timestamp_ms, key, value in content]
    assert [(record.key, record.value, record.timestamp_ms) for record in decode_records(data)] == expected


def test_up_conversion_refuses_empty_sets_and_append_time() -> None:
    """Both are errors of the producer."""
    with pytest.raises(InvalidRecord):
        up_convert(b"")
    with pytest.raises(InvalidTimestamp):
        up_convert(encode_message(0, 1, 8, T0, None, b"v"))


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4"])
def test_down_conversion_keeps_offsets_and_drops_headers(magic: int, compression: str) -> None:
    """Each batch becomes one set with the batch's codec; control batches are dropped."""
    first = batch(3, compression=compression, key=b"k", headers=[("h", b"x")])
    first[:8] = (100).to_bytes(8, "big")
    control = batch(1, key=b"\0\0\0\1", producer_id=1, producer_epoch=0, control=True)
    control[:8] = (103).to_bytes(8, "big")
    second = batch(2, compression=compression, timestamp_ms=T0 + 5)
    second[:8] = (104).to_bytes(8, "big")
    found = list(read_message_set(down_convert(first + control + second, magic)))
    assert [message.offset for message in found] == [100, 101, 102, 104, 105]
    assert [message.key for message in found] == [b"k"] * 3 + [None] * 2
    assert [message.timestamp_ms for message in found] == ([T0] * 3 + [T0 + 5] * 2 if magic else [-1] * 5)


def test_down_conversion_starts_at_the_fetch_offset_where_it_can() -> None:
    """Only uncompressed batches can start at the fetch offset; for others, old clients skip the earlier messages."""
    assert [m.offset for m in read_message_set(down_convert(batch(4), 1, first_offset=2))] == [2, 3]
    assert len(list(read_message_set(down_convert(batch(4, compression="gzip"), 1, first_offset=2)))) == 4


def test_down_conversion_carries_append_time() -> None:
    """Magic 1 has an attribute bit for it."""
    data = down_convert(batch(2, log_append_time=True), 1)
    assert all(message.log_append_time for message in read_message_set(data))


def test_zstd_has_no_old_form() -> None:
    """A fetcher with an old version gets UNSUPPORTED_COMPRESSION_TYPE."""
    with pytest.raises(UnsupportedCompression):
        down_convert(batch(1, compression="zstd"), 1)

"""Batches of magic 2: records survive a round trip, and damage is noticed."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.storage.files.errors import CorruptRecord, InvalidRecord, StorageError
from kafka_zk.storage.records.record_batch import (
    HEADER_SIZE,
    Header,
    RecordBatchBuilder,
    check_crc,
    encode_record,
    iter_batches,
    last_sequence,
    read_header,
)
from kafka_zk.storage.records.record_decoder import Record, decode_keys_and_values, decode_records
from kafka_zk.storage.records.varint import encode_varint, read_varint
from tests.storage.helpers import batch

OPTIONAL_BYTES = st.none() | st.binary(max_size=300)
HEADERS = st.lists(st.tuples(st.text(max_size=20), OPTIONAL_BYTES), max_size=4)
TIMESTAMPS = st.integers(min_value=0, max_value=1 << 45)
RECORDS = st.lists(st.tuples(TIMESTAMPS, OPTIONAL_BYTES, OPTIONAL_BYTES, HEADERS), min_size=1, max_size=20)
Records = list[tuple[int, bytes | None, bytes | None, list[Header]]]


@given(RECORDS, st.sampled_from(["none", "gzip", "snappy", "lz4", "zstd"]), st.integers(0, 1 << 40))
def test_records_come_back_as_they_went_in(records: Records, compression: str, base_offset: int) -> None:
    """Keys, values, headers, timestamps and offsets survive, with every codec."""
    builder = RecordBatchBuilder(compression)
    for timestamp_ms, key, value, headers in records:
        builder.append(timestamp_ms, key, value, headers)
    data = builder.build(base_offset=base_offset)
    header = read_header(data)
    check_crc(data, 0, header)
    assert header.size_bytes == len(data)
    assert header.max_timestamp == max(record[0] for record in records)
    assert header.last_offset == base_offset + len(records) - 1
    assert list(decode_records(data)) == [
        Record(base_offset + index, timestamp_ms, key, value, tuple(headers))
        for index, (timestamp_ms, key, value, headers) in enumerate(records)
    ]


@given(RECORDS, st.sampled_from(["none", "zstd"]), st.data())
def test_keys_and_values_alone_are_those_of_the_records(
    records: Records, compression: str, data: st.DataObject
) -> None:
    """Damaged batches are refused by both, after the same number of records."""
    builder = RecordBatchBuilder(compression)
    for timestamp_ms, key, value, headers in records:
        builder.append(timestamp_ms, key, value, headers)
    raw = bytearray(builder.build(base_offset=7))
    for _ in range(data.draw(st.integers(0, 2))):
        raw[data.draw(st.integers(HEADER_SIZE, len(raw) - 1))] = data.draw(st.integers(0, 255))

    def read(decode: Callable[[bytearray], Iterator[Any]]) -> tuple[list[Any], type[StorageError] | None]:
        found: list[Any] = []
        try:
            found.extend(decode(raw))
        except StorageError as error:
            return found, type(error)
        return found, None

    def of_records(batch: bytearray) -> Iterator[tuple[int, bytes | None, bytes | None]]:
        return ((record.offset, record.key, record.value) for record in decode_records(batch))

    assert read(decode_keys_and_values) == read(of_records)


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_varints_round_trip(value: int) -> None:
    """The result is any signed 64-bit number, and the position after it."""
    encoded = encode_varint(value)
    assert read_varint(b"x" + encoded + b"y", 1) == (value, 1 + len(encoded))


def test_an_endless_varint_is_refused() -> None:
    """Eleven continuation bytes are not a valid number."""
    with pytest.raises(InvalidRecord):
        read_varint(b"\xff" * 20, 0)


@given(st.binary(max_size=400))
def test_garbage_gives_typed_errors_only(garbage: bytes) -> None:
    """Any invalid data in place of records raise StorageError."""
    data = bytearray(batch(3))
    del data[HEADER_SIZE:]
    data += garbage
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    with suppress(StorageError):
        list(decode_records(data))


@given(st.data())
def test_a_changed_byte_is_noticed_by_the_crc(data: st.DataObject) -> None:
    """Every byte from the attributes on is covered."""
    raw = batch(2, value=b"hello")
    position = data.draw(st.integers(21, len(raw) - 1))
    raw[position] ^= data.draw(st.integers(1, 255))
    with pytest.raises(CorruptRecord):
        check_crc(raw, 0, read_header(raw))


def test_offset_and_epoch_lie_outside_the_crc() -> None:
    """A broker patches them without touching the rest."""
    raw = batch(2)
    raw[0:8] = (77).to_bytes(8, "big")
    raw[12:16] = (5).to_bytes(4, "big")
    header = read_header(raw)
    check_crc(raw, 0, header)
    assert (header.base_offset, header.partition_leader_epoch) == (77, 5)


def test_a_partial_batch_at_the_end_is_skipped() -> None:
    """A fetch response may end at any byte of a batch."""
    first, second = batch(2), batch(3)
    for cut in range(len(second)):
        assert [position for position, _ in iter_batches(first + second[:cut])] == [0]
    assert [position for position, _ in iter_batches(first + second)] == [0, len(first)]


def test_another_magic_and_an_impossible_length_are_corrupt() -> None:
    """iter_batches does not read beyond the data."""
    raw = batch()
    raw[16] = 1
    with pytest.raises(CorruptRecord):
        list(iter_batches(raw))
    raw = batch()
    raw[8:12] = (5).to_bytes(4, "big")
    with pytest.raises(CorruptRecord):
        list(iter_batches(raw))


def test_producer_identity_may_be_given_at_build_time() -> None:
    """The same collected records can be sent with an identity that becomes known only when the batch is built."""
    builder = RecordBatchBuilder()
    builder.append(1, None, b"v")
    header = read_header(builder.build(producer_id=4, producer_epoch=2, base_sequence=9))
    assert (header.producer_id, header.producer_epoch, header.base_sequence, header.last_sequence) == (4, 2, 9, 9)


def test_log_append_time_overrides_the_records_timestamps() -> None:
    """With the attribute bit, every record has the batch's max timestamp."""
    builder = RecordBatchBuilder(log_append_time=True)
    builder.append(1, None, b"a")
    builder.append(9, None, b"b")
    data = builder.build()
    assert read_header(data).timestamp_type == "LogAppendTime"
    assert [record.timestamp_ms for record in decode_records(data)] == [9, 9]


def test_a_batch_that_grows_beyond_the_bound_is_refused() -> None:
    """A decompression bomb uses no more memory than the limit."""
    data = batch(1, value=b"\0" * 1_000_000, compression="zstd")
    with pytest.raises(CorruptRecord):
        list(decode_records(data, max_uncompressed_bytes=100_000))


def test_sequences_wrap_at_two_to_the_31() -> None:
    """The sequence after 2147483647 is 0."""
    assert last_sequence(0x7FFFFFFF, 1) == 0
    assert last_sequence(-1, 5) == -1


def test_a_header_name_that_is_not_utf_8_is_replaced_as_javas_clients_do() -> None:
    """Kafka's broker stores it unchanged (DefaultRecord.java@3.9), so the batch is not refused."""
    data = batch(headers=[("cut ~", b"x")]).replace(b"cut ~", b"cut \xe2")
    assert [record.headers for record in decode_records(data)] == [(("cut \ufffd", b"x"),)]


def test_a_record_count_beyond_the_data_is_invalid() -> None:
    """Header and records must agree, in both directions."""
    for count in (1, 3):
        raw = batch(2)
        raw[57:61] = count.to_bytes(4, "big")
        with pytest.raises(InvalidRecord):
            list(decode_records(raw))


def test_known_bytes_of_a_record() -> None:
    """A record encoded by hand according to the protocol guide."""
    assert encode_record(0, 1, b"k", None, [("h", b"x")]) == bytes([22, 0, 0, 2, 2, 107, 1, 2, 2, 104, 2, 120])

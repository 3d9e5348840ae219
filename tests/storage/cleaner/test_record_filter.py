"""The records of one batch that remain after compaction."""

from collections.abc import Generator
from functools import partial
from typing import Any

import pytest

from kafka_zk.storage.cleaner.cleaned_transactions import CleanedTransactions, Marker, TransactionEnds
from kafka_zk.storage.cleaner.record_filter import (
    NO_DATA_OFFSET,
    Filtered,
    LastRecord,
    Retention,
    choose,
    filter_batch,
    filter_entry,
)
from kafka_zk.storage.files.config_table import LONG_MAX
from kafka_zk.storage.files.errors import CorruptRecord
from kafka_zk.storage.records.compression import Compression
from kafka_zk.storage.records.legacy_message_set import LegacyMessage, read_message_set, write_message_set
from kafka_zk.storage.records.record_batch import (
    HEADER_SIZE,
    RecordBatchBuilder,
    assemble_batch,
    encode_record,
    read_header,
    set_crc,
)
from kafka_zk.storage.records.record_decoder import Record, decode_records
from kafka_zk.storage.records.varint import as_long
from kafka_zk.storage.segments.segment_scan import BatchSpan
from tests.storage.helpers import T0

DAY_MS = 86_400_000


def _no_markers(ends: TransactionEnds) -> Generator[Marker, None, None]:
    yield from ()


NO_TRANSACTIONS = CleanedTransactions(TransactionEnds(_no_markers))
KEPT = Retention(lambda key: -1, partial(choose, lambda key: -1), 1 << 40, 1 << 40, T0, DAY_MS, {}, NO_TRANSACTIONS)


def retention(last: dict[bytes, int], **changes: Any) -> Retention:
    """A filter that has these last offsets of the keys."""

    def last_offset_of(key: bytes) -> int:
        return last.get(key, -1)

    return KEPT._replace(last_offset_of=last_offset_of, choose=partial(choose, last_offset_of), **changes)


def made(*records: tuple[bytes | None, bytes | None], compression: str = "none", **how: bool) -> bytes:
    """A batch of (key, value) records whose timestamps are one second apart."""
    builder = RecordBatchBuilder(compression, 7, 2, 40, **how)
    for index, (key, value) in enumerate(records):
        builder.append(T0 + 1000 * index, key, value, [("h", b"x")])
    return builder.build(base_offset=100, partition_leader_epoch=5)


def data_of(filtered: Filtered) -> bytes:
    assert filtered.data is not None
    return bytes(filtered.data)


def left(filtered: Filtered) -> list[Record]:
    return list(decode_records(data_of(filtered)))


ABC = ((b"a", b"1"), (b"b", b"2"), (b"c", b"3"))


def test_a_batch_that_keeps_all_stays_byte_for_byte() -> None:
    batch = made(*ABC, compression="gzip")
    found = filter_batch(batch, retention({b"a": 100, b"b": 101, b"c": 102}))
    assert found.data is batch and found[1:] == (102, T0 + 2000, 3, 3, 0)


def test_a_largest_timestamp_below_the_first_is_corrected() -> None:
    """Older brokers stored the timestamp that the producer wrote. A largest timestamp above the records' is not
    corrected."""
    batch = bytearray(made(*ABC))
    batch[35:43] = (-1).to_bytes(8, "big", signed=True)
    set_crc(batch)
    found = filter_batch(batch, retention({b"a": 100, b"b": 101, b"c": 102}))
    assert (found.max_timestamp_ms, read_header(data_of(found)).max_timestamp) == (T0 + 2000, T0 + 2000)
    assert left(found) == list(decode_records(batch))


@pytest.mark.parametrize("compression", Compression.__members__)
def test_what_is_kept_is_as_it_was(compression: str) -> None:
    """Unchanged are offsets, timestamps, headers, both ends of the batch, the producer, the epoch, and the codec."""
    batch = made(*ABC, compression=compression, transactional=False)
    found = filter_batch(batch, retention({b"a": 200, b"b": 101, b"c": 200}))
    assert left(found) == [Record(101, T0 + 1000, b"b", b"2", (("h", b"x"),))]
    before, after = read_header(batch), read_header(data_of(found))
    assert (after.base_offset, after.last_offset, after.record_count) == (100, 102, 1)
    assert (after.producer_id, after.producer_epoch, after.base_sequence, after.last_sequence) == (7, 2, 40, 42)
    assert after.attributes == before.attributes and after.partition_leader_epoch == 5
    assert after.max_timestamp == found.max_timestamp_ms == T0 + 1000, "the newest record was removed"


def test_nothing_is_left_of_a_batch_without_a_last_record() -> None:
    found = filter_batch(made(*ABC), retention({b"a": 200, b"b": 200, b"c": 200}))
    assert found.data is None and (found.read_count, found.kept_count) == (3, 0)


def test_records_that_the_map_does_not_know_are_kept() -> None:
    found = filter_batch(made(*ABC), retention({b"a": 200, b"b": 200, b"c": 200}, latest_offset=100))
    assert [record.offset for record in left(found)] == [101, 102]


def test_records_without_a_key_go() -> None:
    found = filter_batch(made((None, b"1"), (b"b", b"2")), retention({}))
    assert [record.key for record in left(found)] == [b"b"] and found.keyless_count == 1


@pytest.mark.parametrize(
    "changes",
    [{"round_end_offset": 103}, {"last_records": {7: LastRecord(102, 2)}}],
    ids=["the round's last batch", "its producer's last batch"],
)
def test_a_batch_that_must_stay_stays_without_records(changes: Any) -> None:
    found = filter_batch(made(*ABC, compression="lz4"), retention({b"a": 200, b"b": 200, b"c": 200}, **changes))
    header = read_header(data_of(found))
    assert len(data_of(found)) == HEADER_SIZE and not header.record_count and not header.attributes
    assert (header.base_offset, header.last_offset, header.last_sequence) == (100, 102, 42)
    assert (header.base_timestamp, header.max_timestamp) == (-1, T0 + 2000)
    again = filter_batch(data_of(found), retention({}, **changes))
    assert again.data == found.data, "and the next cleaning gives the same result"
    assert filter_batch(data_of(found), retention({})).data is None


@pytest.mark.parametrize("last", [LastRecord(101, 2), LastRecord(NO_DATA_OFFSET, 2)])
def test_other_batches_of_a_producer_go(last: LastRecord) -> None:
    last_of = {b"a": 200, b"b": 200, b"c": 200}
    assert filter_batch(made(*ABC), retention(last_of, last_records={7: last})).data is None


# -- tombstones -------------------------------------------------------------------------------------------------------


def test_a_tombstone_goes_in_two_steps() -> None:
    """The first cleaning sets the delete horizon. Cleanings before that time do not change the horizon; a cleaning
    after it removes the tombstone."""
    last = {b"a": 100, b"b": 101}
    batch = made((b"a", None), (b"b", b"2"))
    first = filter_batch(batch, retention(last, now_ms=T0 + 90 * DAY_MS))
    header = read_header(data_of(first))
    assert header.has_delete_horizon and header.base_timestamp == T0 + 91 * DAY_MS
    assert left(first) == list(decode_records(batch)) and header.max_timestamp == T0 + 1000
    marked = data_of(first)
    assert filter_batch(marked, retention(last, now_ms=T0 + 91 * DAY_MS - 1)).data is marked
    third = filter_batch(marked, retention(last, now_ms=T0 + 91 * DAY_MS))
    assert [record.key for record in left(third)] == [b"b"]
    header = read_header(data_of(third))
    assert header.has_delete_horizon and header.base_timestamp == T0 + 91 * DAY_MS, "the batch is as Kafka leaves it"
    assert left(third)[0].timestamp_ms == T0 + 1000


def test_a_tombstone_that_is_replaced_goes_at_once() -> None:
    assert filter_batch(made((b"a", None)), retention({b"a": 200})).data is None


def test_a_batch_keeps_its_append_time_with_a_horizon() -> None:
    batch = made((b"a", None), (b"b", b"2"), (b"c", b"3"), log_append_time=True)
    found = filter_batch(batch, retention({b"a": 100, b"b": 101, b"c": 200}))
    assert {record.timestamp_ms for record in left(found)} == {T0 + 2000}
    assert read_header(data_of(found)).timestamp_type == "LogAppendTime"


# -- batches that stay unchanged --------------------------------------------------------------------------------------


@pytest.mark.parametrize("position", [20, 40, 70, -1])
def test_damage_is_not_given_a_new_checksum(position: int) -> None:
    batch = bytearray(made(*ABC))
    batch[position] ^= 1
    with pytest.raises(CorruptRecord, match="CRC"):
        filter_batch(bytes(batch), retention({b"a": 200}))


@pytest.mark.parametrize("count", [0, 1, 2, 4, 1 << 30])
def test_a_batch_with_another_count_than_it_says_is_refused(count: int) -> None:
    whole = made(*ABC)
    header = read_header(whole)
    lying = assemble_batch(
        whole[HEADER_SIZE:], attributes=0, record_count=count, base_timestamp=T0, max_timestamp=header.max_timestamp
    )
    with pytest.raises(CorruptRecord):
        filter_batch(bytes(lying), retention({}))


# -- magic 0 and 1 ----------------------------------------------------------------------------------------------------


def legacy(magic: int, *values: bytes | None, codec: Compression = Compression.none) -> list[tuple[bytes, BatchSpan]]:
    """Entries with the keys a, b, c ... at the offsets 100, 101, ..."""
    time_ms = T0 if magic else -1
    messages = [
        LegacyMessage(100 + index, magic, time_ms, False, bytes([97 + index]), value)
        for index, value in enumerate(values)
    ]
    if codec:
        data = write_message_set(messages, magic, codec)
        return [(data, BatchSpan(0, len(data), messages[-1].offset, messages[-1].offset, magic))]
    return [
        (data := write_message_set([message], magic), BatchSpan(0, len(data), message.offset, message.offset, magic))
        for message in messages
    ]


@pytest.mark.parametrize("magic", [0, 1])
def test_old_messages_stay_or_go_one_by_one(magic: int) -> None:
    one, two, three = legacy(magic, b"1", b"2", None)
    last = retention({b"a": 200, b"b": 101, b"c": 102})
    assert filter_entry(*one, last, True).data is None
    assert filter_entry(*two, last, True).data is two[0]
    assert filter_entry(*three, last, True).data is three[0]
    assert filter_entry(*three, last, False).data is None


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Compression.gzip, Compression.snappy, Compression.lz4])
def test_a_compressed_set_is_built_anew(magic: int, codec: Compression) -> None:
    """The new set has the same magic and codec, and every message keeps its offset."""
    ((data, span),) = legacy(magic, b"1", b"2", b"3", b"4", codec=codec)
    found = filter_entry(data, span, retention({b"a": 200, b"b": 101, b"c": 200, b"d": 103}), True)
    messages = list(read_message_set(data_of(found)))
    assert [message.offset for message in messages] == [101, 103]
    assert [(message.key, message.value) for message in messages] == [(b"b", b"2"), (b"d", b"4")]
    assert {message.magic for message in messages} == {magic} and data_of(found)[17] & 7 == codec
    assert found.last_offset == 103 and (found.read_count, found.kept_count) == (4, 2)
    assert filter_entry(data, span, retention({}), True).data is data


@pytest.mark.parametrize("delta", [LONG_MAX, -LONG_MAX - 1])
@pytest.mark.parametrize("value", [None, b"v"])
def test_timestamps_overflow_as_they_do_in_java(delta: int, value: bytes | None) -> None:
    """A producer may send such a record, which Kafka stores. It must not stop the cleaner."""
    data = encode_record(delta, 0, b"a", value) + encode_record(0, 1, b"b", b"v")
    batch = assemble_batch(data, attributes=0, record_count=2, base_timestamp=T0, max_timestamp=T0)
    [kept] = left(filter_batch(batch, retention({b"a": 0, b"b": 5})))
    assert as_long(kept.timestamp_ms) == as_long(T0 + delta)


def test_a_delete_horizon_beyond_64_bits_is_the_last_moment() -> None:
    """The largest ``delete.retention.ms`` keeps tombstones indefinitely."""
    found = filter_batch(made((b"a", None)), retention({b"a": 100}, delete_retention_ms=LONG_MAX))
    header = read_header(data_of(found))
    assert header.has_delete_horizon and header.base_timestamp == LONG_MAX


@pytest.mark.parametrize("base_offset", [-1, LONG_MAX])
def test_an_impossible_base_offset_is_refused(base_offset: int) -> None:
    """The CRC does not cover the base offset."""
    batch = bytearray(made((b"a", b"v")))
    batch[:8] = base_offset.to_bytes(8, "big", signed=True)
    with pytest.raises(CorruptRecord, match=f"cannot begin at offset {base_offset}"):
        filter_batch(batch, KEPT)

"""Fetched bytes as Arrow rows: equal to those of storage's plain decoders, for everything that a log can contain."""

import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_zk.spark_jobs.source.arrow_columns import ArrowColumns
from kafka_zk.spark_jobs.source.batch_decoder import AbortedTransaction, BatchDecoder, scan
from kafka_zk.spark_jobs.source.schema import CREATE_TIME, LOG_APPEND_TIME, NO_TIMESTAMP_TYPE, arrow_schema
from kafka_zk.storage.files.errors import CorruptRecord, StorageError
from kafka_zk.storage.records.compression import Compression
from kafka_zk.storage.records.legacy_message_set import LegacyMessage, write_message_set
from kafka_zk.storage.records.record_batch import HEADER_SIZE, MAGIC_POSITION, RecordBatchBuilder, iter_batches, set_crc

pa = pytest.importorskip("pyarrow")
FOREVER = 1 << 62
patiently = settings(deadline=None)  # the first call loads compiled code
COMMIT, ABORT = b"\0\0\0\1", b"\0\0\0\0"


class Row(NamedTuple):
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_type: int = CREATE_TIME


def rows_of(batches: Sequence[Any]) -> list[Row]:
    rows = []
    for batch in batches:
        batch.validate(full=True)
        assert batch.schema.equals(arrow_schema("headers" in batch.schema.names))
        columns = {name: batch.column(name).to_pylist() for name in batch.schema.names if name != "timestamp"}
        times_us = batch.column("timestamp").cast("int64").to_pylist()
        for at in range(batch.num_rows):
            assert times_us[at] % 1000 == 0
            assert (columns["topic"][at], columns["partition"][at]) == ("t", 3)
            headers = columns["headers"][at] if "headers" in columns else ()
            rows.append(
                Row(
                    columns["offset"][at],
                    times_us[at] // 1000,
                    columns["key"][at],
                    columns["value"][at],
                    tuple((each["key"], each["value"]) for each in headers or ()),
                    columns["timestampType"][at],
                )
            )
    return rows


def decoded(
    data: bytes,
    first: int = 0,
    until: int = FOREVER,
    aborted: Sequence[AbortedTransaction] = (),
    *,
    columns: ArrowColumns | None = None,
    **options: Any,
) -> list[Row]:
    decoder = BatchDecoder(columns or ArrowColumns("t", 3, True), first, until, **options)
    batches = list(decoder.feed(scan(memoryview(data), first), aborted))
    return rows_of([*batches, *decoder.finish()])


def batch(rows: Sequence[Row], base_offset: int, codec: Compression = Compression.none, **options: Any) -> bytes:
    """Rows at consecutive offsets as one batch."""
    builder = RecordBatchBuilder(codec, **options)
    for row in rows:
        builder.append(row.timestamp_ms, row.key, row.value, row.headers)
    return builder.build(base_offset=base_offset)


_blobs = st.none() | st.binary(max_size=300)
_headers = st.lists(st.tuples(st.text(max_size=5), _blobs), max_size=3).map(tuple)
_times = st.integers(-1, 2**45)
_rows = st.builds(Row, st.just(0), _times, _blobs, _blobs, _headers)
_batches = st.lists(
    st.tuples(st.lists(_rows, min_size=1, max_size=8), st.sampled_from(Compression), st.booleans(), st.integers(0, 3)),
    max_size=6,
)


def log_of(batches: Any, start: int) -> tuple[bytes, list[Row]]:
    """A log with gaps between batches, and its rows as a reader should see them."""
    offset, data, expected = start, b"", []
    for rows, codec, append_time, gap in batches:
        offset += gap
        data += batch(rows, offset, codec, log_append_time=append_time)
        newest = max(-1, *(row.timestamp_ms for row in rows))
        for number, row in enumerate(rows):
            time_ms = newest if append_time else row.timestamp_ms
            expected.append(row._replace(offset=offset + number, timestamp_ms=time_ms, timestamp_type=int(append_time)))
        offset += len(rows)
    return data, expected


@patiently
@given(_batches, st.integers(0, 2**40), st.integers(1, 9), st.integers(1, 500))
def test_every_record_comes_out_whole_however_small_the_arrow_batches_are(
    batches: Any, start: int, rows: int, size_bytes: int
) -> None:
    data, expected = log_of(batches, start)
    assert decoded(data, columns=ArrowColumns("t", 3, True, rows=rows, size_bytes=size_bytes)) == expected


@patiently
@given(_batches, st.data())
def test_a_range_gets_exactly_its_offsets(batches: Any, data: st.DataObject) -> None:
    log, expected = log_of(batches, 100)
    end = expected[-1].offset + 1 if expected else 101
    first = data.draw(st.integers(100, end))
    until = data.draw(st.integers(first, end + 2))
    assert decoded(log, first, until) == [row for row in expected if first <= row.offset < until]


@patiently
@given(_batches)
def test_without_the_headers_column_headers_are_passed_over(batches: Any) -> None:
    log, expected = log_of(batches, 0)
    plain = decoded(log, columns=ArrowColumns("t", 3, False))
    assert plain == [row._replace(headers=()) for row in expected]


@patiently
@given(st.lists(_rows, min_size=1, max_size=5), st.data())
def test_a_damaged_batch_is_a_typed_error_or_other_rows_never_a_crash(rows: list[Row], data: st.DataObject) -> None:
    """The CRC is not checked here, so that the damage reaches the compiled code."""
    log = bytearray(batch(rows, 0))
    for _ in range(data.draw(st.integers(1, 6))):
        log[data.draw(st.integers(HEADER_SIZE, len(log) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = BatchDecoder(ArrowColumns("t", 3, True), 0, FOREVER, check_crcs=False)
        for each in [*found.feed(scan(memoryview(bytes(log)), 0)), *found.finish()]:
            assert each.num_rows <= len(rows)
    except StorageError:
        pass


_longs = st.integers(-(1 << 63), (1 << 63) - 1)


@patiently
@given(st.lists(st.tuples(_longs, st.integers(0, 1 << 30), _longs, _longs, _longs, st.integers(-1, 9)), max_size=5))
def test_the_table_of_headers_is_what_storage_reads(headers: list[tuple[int, ...]]) -> None:
    log = bytearray()
    for base_offset, delta, base_timestamp, max_timestamp, producer_id, count in headers:
        whole = bytearray(batch([Row(0, 1, b"k", b"v" * (delta % 30))], 0))
        struct.pack_into(">q", whole, 0, base_offset)
        struct.pack_into(">iqqq", whole, 23, delta, base_timestamp, max_timestamp, producer_id)
        struct.pack_into(">i", whole, 57, count)
        log += whole
    expected = [
        [position + HEADER_SIZE, position + each.size_bytes, each.base_offset,
         (each.last_offset + (1 << 63)) % (1 << 64) - (1 << 63), each.attributes, each.crc, each.base_timestamp,
         each.max_timestamp, each.producer_id, each.record_count]
        for position, each in iter_batches(bytes(log))
    ]  # fmt: skip
    assert scan(memoryview(bytes(log)), 0).batches.tolist() == expected


@pytest.mark.parametrize("magic", [3, 77])
def test_a_magic_that_nobody_knows_is_refused(magic: int) -> None:
    log = bytearray(batch([Row(0, 1, b"k", b"v")], 0) * 2)
    log[len(log) // 2 + MAGIC_POSITION] = magic
    with pytest.raises(CorruptRecord, match=f"magic {magic}"):
        scan(memoryview(bytes(log)), 0)


@pytest.mark.parametrize("length", [-1, 0, 48])
def test_lengths_that_cannot_be_are_refused(length: int) -> None:
    log = bytearray(batch([Row(0, 1, b"k", b"v")], 0))
    struct.pack_into(">i", log, 8, length)
    with pytest.raises(CorruptRecord, match=f"{length} bytes"):
        scan(memoryview(bytes(log)), 0)


def test_a_wrong_crc_is_found() -> None:
    log = bytearray(batch([Row(0, 1, b"k", b"v")], 0))
    log[-2] ^= 1
    with pytest.raises(CorruptRecord, match="CRC"):
        decoded(bytes(log))


@pytest.mark.parametrize("cut", [1, 16, 17, 60, 61, 70])
def test_a_part_of_a_batch_at_the_end_of_a_fetch_is_left_out(cut: int) -> None:
    whole = batch([Row(0, 1, b"k", b"v" * 50)], 7)
    assert [row.offset for row in decoded(whole + batch([Row(0, 1, None, None)] * 5, 8)[:cut])] == [7]
    assert scan(memoryview(whole + whole[:cut]), 0).next_offset == 8


@patiently
@given(st.lists(st.tuples(_times, _blobs, _blobs), min_size=1, max_size=6), st.sampled_from([0, 1]), st.booleans(),
       st.sampled_from([Compression.none, Compression.gzip, Compression.snappy, Compression.lz4]))  # fmt: skip
def test_message_sets_of_magic_0_and_1(rows: Any, magic: int, append_time: bool, codec: Compression) -> None:
    messages = [
        LegacyMessage(40 + number, magic, time_ms if magic else -1, append_time and magic > 0, key, value)
        for number, (time_ms, key, value) in enumerate(rows)
    ]
    newest = max(message.timestamp_ms for message in messages)
    kind = NO_TIMESTAMP_TYPE if not magic else LOG_APPEND_TIME if append_time else CREATE_TIME
    wrapped_time = kind == LOG_APPEND_TIME and codec
    expected = [
        Row(each.offset, newest if wrapped_time else each.timestamp_ms, each.key, each.value, (), kind)
        for each in messages
    ]
    assert decoded(write_message_set(messages, magic, codec), 40) == expected


def test_old_messages_and_new_batches_in_one_fetch() -> None:
    old = write_message_set([LegacyMessage(4, 1, 99, False, b"k", b"old")], 1)
    assert [(row.offset, row.value) for row in decoded(old + batch([Row(0, 1, None, b"new")], 5))] == [
        (4, b"old"),
        (5, b"new"),
    ]


def test_old_messages_behind_new_batches_are_left_to_the_next_fetch() -> None:
    """The topic's message.format.version was set back, on a broker that then stored old messages."""
    old = write_message_set([LegacyMessage(5, 1, 99, False, b"k", b"old")], 1)
    fetched = scan(memoryview(batch([Row(0, 1, None, b"new")], 4) + old), 4)
    assert (len(fetched.batches), fetched.legacy_size_bytes, fetched.next_offset) == (1, 0, 5)


def marker(producer_id: int, key: bytes, offset: int) -> bytes:
    builder = RecordBatchBuilder(producer_id=producer_id, producer_epoch=0, transactional=True, control=True)
    builder.append(1, key, b"\0\0\0\0\0\0")
    return builder.build(base_offset=offset)


def in_transaction(producer_id: int, value: bytes, offset: int) -> bytes:
    options: dict[str, Any] = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0}
    return batch([Row(0, 1, None, value)], offset, transactional=True, **options)


def test_aborted_transactions_are_left_out_when_only_committed_ones_are_wanted() -> None:
    log = (
        in_transaction(1, b"aborted", 0)
        + in_transaction(2, b"committed", 1)
        + batch([Row(0, 1, None, b"plain")], 2)
        + marker(1, ABORT, 3)
        + in_transaction(1, b"again", 4)
        + marker(2, COMMIT, 5)
        + marker(1, COMMIT, 6)
    )
    aborted = [AbortedTransaction(1, 0)]
    committed = decoded(log, aborted=aborted, read_committed=True)
    assert [row.value for row in committed] == [b"committed", b"plain", b"again"]
    everything = decoded(log, aborted=aborted)
    assert [row.value for row in everything] == [b"aborted", b"committed", b"plain", b"again"]
    assert scan(memoryview(log), 0).next_offset == 7


LAST_MS = (2**63 - 1) // 1000


@pytest.mark.parametrize("time_ms", [LAST_MS, -LAST_MS])
def test_the_first_and_the_last_time_that_spark_can_hold(time_ms: int) -> None:
    assert decoded(batch([Row(0, time_ms, None, b"v")], 4))[0].timestamp_ms == time_ms


@pytest.mark.parametrize("time_ms", [LAST_MS + 1, -LAST_MS - 1])
@pytest.mark.parametrize("append_time", [False, True])
def test_a_time_beyond_those_is_an_error(time_ms: int, append_time: bool) -> None:
    """Some producers write microseconds. Spark's own source raises KAFKA_MALFORMED_RECORD_TIMESTAMP."""
    log = bytearray(batch([Row(0, time_ms, None, b"v")], 4, log_append_time=append_time))
    log[35:43] = time_ms.to_bytes(8, "big", signed=True)
    with pytest.raises(CorruptRecord, match="offset 4 holds a record whose timestamp in ms is out of Spark's range"):
        decoded(bytes(log), check_crcs=False)
    assert decoded(bytes(log), 5, check_crcs=False) == []


def unreadable_batch(codec: Compression, base_offset: int) -> bytes:
    """A batch with a valid CRC. If it is uncompressed, a valid record precedes one with a header without a name;
    otherwise, it cannot be decompressed."""
    sound = Row(0, 1, b"k", b"v" * 50, (("h", b"x" * 9),))
    made = bytearray(batch([sound] * 2, base_offset, codec))
    if codec:
        made[HEADER_SIZE:] = b"no such thing"
        made[8:12] = (len(made) - 12).to_bytes(4, "big")
    else:
        made[-12] = 1  # the header name of the second record becomes null
    set_crc(made)
    return bytes(made)


@pytest.mark.parametrize("codec", list(Compression))
@pytest.mark.parametrize("with_headers", [True, False])
def test_batches_that_no_reader_can_read_are_left_out_if_that_is_asked_for(
    codec: Compression, with_headers: bool
) -> None:
    """The reader also reports these batches. No other record is lost, and none of their content gets into other
    rows.
    """
    rows = [Row(0, 1, b"key", b"value", (("h", b"x"),)), Row(0, 1, None, None)]
    log = batch(rows, 0, codec) + unreadable_batch(codec, 2) + batch(rows, 4, codec) + unreadable_batch(codec, 6)
    log += batch(rows, 8, codec)
    with pytest.raises(CorruptRecord, match=r"the batch at offset 2 (holds|cannot)"):
        decoded(log)
    told: list[tuple[int, int, str]] = []
    found = decoded(
        log,
        columns=ArrowColumns("t", 3, with_headers),
        on_unreadable=lambda *unreadable: told.append(unreadable),
    )
    assert [(first, last) for first, last, _ in told] == [(2, 3), (6, 7)]
    rest = {row.offset: row for row in found if row.offset not in (2, 3, 6, 7)}
    assert sorted(rest) == [0, 1, 4, 5, 8, 9]
    for offset, row in rest.items():
        sent = rows[offset % 2]
        assert (row.key, row.value, row.headers) == (sent.key, sent.value, sent.headers if with_headers else ())


def test_a_record_whose_time_spark_cannot_hold_is_left_out_alone() -> None:
    log = batch([Row(0, 1, None, b"a"), Row(0, LAST_MS + 1, None, b"b"), Row(0, 2, None, b"c")], 4)
    told: list[tuple[int, int, str]] = []
    found = decoded(log, on_unreadable=lambda *unreadable: told.append(unreadable))
    assert [(row.offset, row.value) for row in found] == [(4, b"a"), (6, b"c")]
    assert len(told) == 1


def test_a_damaged_batch_is_never_left_out() -> None:
    """Another replica may have an intact copy."""
    log = bytearray(batch([Row(0, 1, b"k", b"v")], 0))
    log[-1] ^= 1
    with pytest.raises(CorruptRecord, match="CRC"):
        decoded(bytes(log), on_unreadable=lambda *unreadable: None)


def test_header_names_that_are_not_utf_8_are_replaced() -> None:
    log = batch([Row(0, 1, None, b"v", (("plain", b""), ("cut \x7f", None)))] * 2, 4).replace(b"\x7f", b"\xe2")
    names = [[name for name, _ in row.headers] for row in decoded(log, check_crcs=False)]
    assert names == [["plain", "cut \ufffd"]] * 2


def test_an_empty_batch_that_compaction_left_moves_the_reader_on() -> None:
    """Compaction keeps the header of a producer's last batch without its records."""
    empty = bytearray(batch([Row(0, 1, b"k", b"v")] * 3, 10)[:HEADER_SIZE])
    empty[8:12] = (HEADER_SIZE - 12).to_bytes(4, "big")
    empty[57:61] = bytes(4)
    assert decoded(bytes(empty), 10) == []
    assert scan(memoryview(bytes(empty)), 10).next_offset == 13


def test_memory_is_bounded_by_the_arrow_batch_not_by_the_log() -> None:
    """A record batch never exceeds its limit, unless a single record does."""
    log = b"".join(batch([Row(0, 1, None, b"x" * 100)] * 50, 50 * number, Compression.lz4) for number in range(20))
    decoder = BatchDecoder(ArrowColumns("t", 3, True, rows=10_000, size_bytes=1_000), 0, FOREVER)
    sizes = [each.column("value").nbytes for each in decoder.feed(scan(memoryview(log), 0))]
    assert len(sizes) == 99
    assert max(sizes) < 1_200
    big = decoded(batch([Row(0, 1, b"k", b"y" * 5_000), Row(0, 1, b"k", b"z")], 0),
                  columns=ArrowColumns("t", 3, True, rows=10, size_bytes=100))  # fmt: skip
    assert [len(row.value or b"") for row in big] == [5_000, 1]


def test_record_batches_stay_as_they_are_while_more_are_decoded() -> None:
    log = b"".join(batch([Row(0, 1, None, b"%d" % number)], number) for number in range(20))
    decoder = BatchDecoder(ArrowColumns("t", 3, False, rows=2), 0, FOREVER)
    batches = [*decoder.feed(scan(memoryview(log), 0)), *decoder.finish()]
    assert [row.value for row in rows_of(batches)] == [b"%d" % number for number in range(20)]
    assert all(np.array_equal(np.diff(each.column("offset").to_numpy()), [1]) for each in batches)
    assert all(after.column("offset")[0].as_py() > before.column("offset")[0].as_py()
               for before, after in pairwise(batches))  # fmt: skip


def test_an_empty_marker_that_compaction_left_ends_no_transaction() -> None:
    """As in ``consumer.aborted_transactions``: the marker was the producer's last batch, and its record is gone."""
    empty = bytearray(marker(1, ABORT, 1)[:HEADER_SIZE])
    empty[8:12] = (HEADER_SIZE - 12).to_bytes(4, "big")
    empty[57:61] = bytes(4)
    log = in_transaction(1, b"aborted", 0) + bytes(empty) + batch([Row(0, 1, None, b"plain")], 2)
    rows = decoded(log, aborted=[AbortedTransaction(1, 0)], read_committed=True, check_crcs=False)
    assert [row.value for row in rows] == [b"plain"]

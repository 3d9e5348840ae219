"""The log: appends assign offsets, reads return whole batches, and invalid batches are refused."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafka_zk.base.types import FetchIsolation, LogAppendInfo, TimestampOffset
from kafka_zk.storage.files.errors import (
    InvalidProducerEpoch,
    InvalidRecord,
    InvalidTimestamp,
    OffsetOutOfRange,
    OutOfOrderSequence,
    RecordBatchTooLarge,
    RecordTooLarge,
)
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.records.record_batch import BatchHeader, check_crc, iter_batches, read_header
from kafka_zk.storage.records.record_decoder import decode_records
from tests.storage.helpers import (
    T0,
    append,
    batch,
    max_timestamp_offset,
    new_log,
    offset_for_timestamp,
    present,
    read_offsets,
    reopen,
)

PER_TEST_DIRECTORY = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None
)


def test_offsets_count_up_and_come_back(tmp_path: Path) -> None:
    """Each batch begins where the previous one ended. Offset and epoch are changed, and the CRC stays valid."""
    log = new_log(tmp_path)
    assert append(log, batch(3))[:2] == (0, 2)
    assert append(log, batch(2), leader_epoch=7)[:2] == (3, 4)
    assert log.log_end_offset == 5
    data = present(log.read(0, 1 << 20).slice).read()
    for position, header in iter_batches(data):
        check_crc(data, position, header)
    assert [header.partition_leader_epoch for _, header in iter_batches(data)] == [0, 7]
    assert read_offsets(log) == [0, 1, 2, 3, 4]
    assert log.leader_epochs.entries == [(0, 0), (7, 3)]


@PER_TEST_DIRECTORY
@given(
    sizes=st.lists(st.tuples(st.integers(1, 5), st.integers(0, 3000)), min_size=1, max_size=40),
    max_bytes=st.integers(1, 9000),
    start=st.integers(0, 100),
    upper=st.integers(0, 200),
)
def test_any_read_returns_whole_batches_up_to_its_bounds(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[tuple[int, int]], max_bytes: int, start: int, upper: int
) -> None:
    """The model is the list of batches. A read contains the fetch offset, fits the limit or is one batch, and stops at
    the bound.
    """
    log = new_log(tmp_path_factory.mktemp("log"), segment_bytes=20_000, index_interval_bytes=1000)
    batches = [append(log, batch(count, value=b"x" * size)) for count, size in sizes]
    start %= log.log_end_offset + 1
    log.update_high_watermark(upper)
    for _ in range(3):  # again: the cached positions must give the same result
        read = log.read(start, max_bytes, isolation=FetchIsolation.HIGH_WATERMARK)
        visible = [info for info in batches if info.last_offset >= start and info.last_offset < upper]
        if read.slice is None:
            assert not visible
            continue
        data = read.slice.read()
        headers = [header for _, header in iter_batches(data)]
        assert sum(header.size_bytes for header in headers) == len(data)
        assert headers[0].base_offset <= start <= headers[0].last_offset
        assert headers[-1].last_offset < upper
        assert len(data) <= max_bytes or len(headers) == 1
        assert read.next_offset == headers[-1].next_offset
    if upper >= log.log_end_offset:
        assert read_offsets(log, start, max_bytes) == list(range(start, log.log_end_offset))


def test_a_first_batch_above_the_limit_comes_alone_or_not_at_all(tmp_path: Path) -> None:
    """KIP-74: the read returns at least one batch if the caller requests it."""
    log = new_log(tmp_path)
    append(log, batch(1, value=b"x" * 5000))
    append(log, batch(1, value=b"x" * 5000))
    read = log.read(0, 100, min_one_batch=True)
    assert read.next_offset == 1 and len(list(iter_batches(present(read.slice).read()))) == 1
    refused = log.read(0, 100, min_one_batch=False)
    assert refused.slice is None and refused.too_big and refused.next_offset == 0


def test_offsets_outside_the_log_are_refused(tmp_path: Path) -> None:
    """Offsets before the start and after the end are refused; a read at the end is empty."""
    log = new_log(tmp_path)
    append(log, batch(3))
    log.increment_log_start_offset(2)
    for offset in (1, 4, -1):
        with pytest.raises(OffsetOutOfRange):
            log.read(offset, 100)
    assert log.read(3, 100) == (None, 3, False)
    with pytest.raises(OffsetOutOfRange):
        log.increment_log_start_offset(4)


def test_segments_roll_by_size_and_reads_cross_them(tmp_path: Path) -> None:
    """Each segment file begins with its base offset."""
    log = new_log(tmp_path, segment_bytes=1000)
    for _ in range(20):
        append(log, batch(2, value=b"x" * 150))
    assert len(log.segments) > 5
    assert [segment.header_at(0).base_offset for segment in log.segments] == [s.base_offset for s in log.segments]
    assert all(segment.size_bytes <= 1000 for segment in log.segments)
    assert read_offsets(log) == list(range(40))
    assert [segment.is_active for segment in log.segments] == [False] * (len(log.segments) - 1) + [True]


def test_segments_roll_by_the_records_time(tmp_path: Path) -> None:
    """segment.ms counts from the first batch's timestamp to the next one's."""
    log = new_log(tmp_path, segment_ms=1000)
    for delay_ms in (0, 1000, 1001, 1500, 2001):
        append(log, batch(timestamp_ms=T0 + delay_ms))
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_segments_without_timestamps_roll_by_the_brokers_clock(tmp_path: Path) -> None:
    """The age counts from the segment's creation."""
    log = new_log(tmp_path, segment_ms=1000)
    append(log, batch(timestamp_ms=-1), now_ms=T0)
    append(log, batch(timestamp_ms=-1), now_ms=T0 + 1000)
    append(log, batch(timestamp_ms=-1), now_ms=T0 + 1001)
    assert [segment.base_offset for segment in log.segments] == [0, 2]


def test_segments_roll_when_an_index_is_full(tmp_path: Path) -> None:
    """segment.index.bytes holds four time entries, one of them kept for the roll."""
    log = new_log(tmp_path, segment_index_bytes=48, index_interval_bytes=0)
    for number in range(12):
        append(log, batch(timestamp_ms=T0 + number))
    assert len(log.segments) > 2
    for segment in log.segments[:-1]:
        assert segment.time_index.count <= 4 and segment.offset_index.count <= 6


def test_jitter_rolls_earlier_but_not_later(tmp_path: Path) -> None:
    """A random part of segment.jitter.ms is subtracted from segment.ms."""
    log = new_log(tmp_path, segment_ms=1000, segment_jitter_ms=500)
    assert 0 <= log.segments.active.roll_jitter_ms < 500
    append(log, batch(timestamp_ms=T0))
    append(log, batch(timestamp_ms=T0 + 1001))
    assert len(log.segments) == 2


def test_too_large_batches_are_refused(tmp_path: Path) -> None:
    """The limits are max.message.bytes and segment.bytes; nothing is written."""
    log = new_log(tmp_path, max_message_bytes=500, segment_bytes=300)
    with pytest.raises(RecordTooLarge):
        append(log, batch(value=b"x" * 600))
    with pytest.raises(RecordBatchTooLarge):
        append(log, batch(value=b"x" * 400))
    assert (log.log_end_offset, log.size_bytes) == (0, 0)


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header._replace(record_count=2),
        lambda header: header._replace(record_count=0, last_offset_delta=-1),
        lambda header: header._replace(attributes=0x20),
        lambda header: header._replace(producer_id=4, base_sequence=-1),
        lambda header: header._replace(attributes=0x10),
        lambda header: header._replace(attributes=6),
    ],
)
def test_headers_that_break_a_rule_are_refused(tmp_path: Path, change: Callable[[BatchHeader], BatchHeader]) -> None:
    """The rules concern counts, control batches, sequences, transactions without a producer, and codecs."""
    log = new_log(tmp_path)
    data = batch()
    with pytest.raises(InvalidRecord):
        log.append_as_leader(data, change(read_header(data)), leader_epoch=0, now_ms=T0)
    assert log.log_end_offset == 0


def test_the_broker_itself_may_write_control_batches(tmp_path: Path) -> None:
    """The control batches are transaction markers."""
    log = new_log(tmp_path)
    data = batch(key=b"\0\0\0\1", value=bytes(6), producer_id=1, producer_epoch=0, control=True, transactional=True)
    info = log.append_as_leader(data, read_header(data), leader_epoch=0, now_ms=T0, from_client=False)
    assert info.last_offset == 0


def test_log_append_time_is_the_brokers_clock_and_keeps_the_crc_valid(tmp_path: Path) -> None:
    """Two header fields and the CRC are rewritten, records are not."""
    log = new_log(tmp_path, message_timestamp_type="LogAppendTime")
    info = append(log, batch(2, timestamp_ms=5), now_ms=T0 + 9)
    assert info.log_append_time_ms == T0 + 9
    data = present(log.read(0, 1 << 20).slice).read()
    header = read_header(data)
    check_crc(data, 0, header)
    assert header.timestamp_type == "LogAppendTime"
    assert [record.timestamp_ms for record in decode_records(data)] == [T0 + 9] * 2


def test_narrow_timestamp_bounds_are_kept(tmp_path: Path) -> None:
    """Records that are too old or too far in the future are refused. -1 means no timestamp and is accepted."""
    log = new_log(tmp_path, message_timestamp_before_max_ms=1000, message_timestamp_after_max_ms=500)
    for timestamp_ms in (T0 - 1001, T0 + 501):
        with pytest.raises(InvalidTimestamp):
            append(log, batch(2, timestamps=[T0, timestamp_ms]))
    append(log, batch(3, timestamps=[T0 - 1000, T0 + 500, -1]))


def test_a_topics_own_codec_is_applied(tmp_path: Path) -> None:
    """The batch is rebuilt and keeps the producer's identity."""
    log = new_log(tmp_path, compression_type="gzip")
    append(log, batch(3, producer_id=5, producer_epoch=0, base_sequence=0, value=b"v" * 100))
    data = present(log.read(0, 1 << 20).slice).read()
    header = read_header(data)
    check_crc(data, 0, header)
    assert (header.compression.name, header.producer_id, header.base_sequence) == ("gzip", 5, 0)
    assert [record.value for record in decode_records(data)] == [b"v" * 100] * 3


def test_a_batch_that_grows_too_large_under_the_topics_codec_is_refused(tmp_path: Path) -> None:
    """The stored batch must not exceed max.message.bytes, either."""
    log = new_log(tmp_path, max_message_bytes=2000, compression_type="uncompressed")
    with pytest.raises(RecordTooLarge):
        append(log, batch(value=b"x" * 100_000, compression="gzip"))
    assert (log.log_end_offset, log.size_bytes) == (0, 0)


def test_a_compacted_topic_needs_keys(tmp_path: Path) -> None:
    """Compaction could never remove a record without a key."""
    log = new_log(tmp_path, cleanup_policy=("compact",))
    with pytest.raises(InvalidRecord):
        append(log, batch())
    append(log, batch(key=b"k"))


def test_a_repeated_batch_is_answered_with_its_first_offsets(tmp_path: Path) -> None:
    """Any of the last five batches counts as repeated, and nothing is written."""
    log = new_log(tmp_path)
    sent = [batch(2, producer_id=1, producer_epoch=0, base_sequence=2 * number) for number in range(7)]
    infos = [append(log, data) for data in sent]
    size_bytes = log.size_bytes
    for data, info in list(zip(sent, infos, strict=True))[2:]:
        again = append(log, data)
        assert (again.first_offset, again.last_offset, again.duplicate) == (info.first_offset, info.last_offset, True)
    with pytest.raises(OutOfOrderSequence):
        append(log, sent[1])
    assert log.size_bytes == size_bytes


@pytest.mark.parametrize("timestamp_type", ["CreateTime", "LogAppendTime"])
def test_a_repeated_batch_is_answered_with_its_first_timestamp(tmp_path: Path, timestamp_type: str) -> None:
    """The response has the batch's own timestamp, for both timestamp types, as in Kafka. After a restart, this is so
    for the last batch only.
    """
    log = new_log(tmp_path, message_timestamp_type=timestamp_type)
    expected = []
    for number in range(3):
        data = batch(producer_id=1, producer_epoch=0, base_sequence=number, timestamp_ms=T0 + number)
        append(log, data, now_ms=T0 + 100 + number)
        expected.append(T0 + number + (100 if timestamp_type == "LogAppendTime" else 0))

    def repeat(log: Log, number: int) -> LogAppendInfo:
        data = batch(producer_id=1, producer_epoch=0, base_sequence=number, timestamp_ms=T0 + number)
        return append(log, data, now_ms=T0 + 999)

    assert [repeat(log, number).log_append_time_ms for number in range(3)] == expected
    log.flush()
    log.close()
    again, _ = reopen(log, clean=True, recovery_point=3)
    info = repeat(again, 2)
    assert (info.duplicate, info.first_offset, info.log_append_time_ms) == (True, 2, expected[2])


def test_sequences_and_epochs_are_checked(tmp_path: Path) -> None:
    """A gap, an old epoch, and a new epoch that does not begin at 0 are refused."""
    log = new_log(tmp_path)
    append(log, batch(1, producer_id=1, producer_epoch=3, base_sequence=10))
    with pytest.raises(OutOfOrderSequence):
        append(log, batch(1, producer_id=1, producer_epoch=3, base_sequence=12))
    with pytest.raises(InvalidProducerEpoch):
        append(log, batch(1, producer_id=1, producer_epoch=2, base_sequence=11))
    with pytest.raises(OutOfOrderSequence):
        append(log, batch(1, producer_id=1, producer_epoch=4, base_sequence=11))
    append(log, batch(1, producer_id=1, producer_epoch=4, base_sequence=0))
    assert log.log_end_offset == 2


@PER_TEST_DIRECTORY
@given(
    timestamps=st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=4), min_size=1, max_size=30),
    wanted=st.integers(0, 61),
    start=st.integers(0, 10),
    clean=st.none() | st.booleans(),
)
def test_timestamp_lookups_agree_with_a_linear_search(
    tmp_path_factory: pytest.TempPathFactory, timestamps: list[list[int]], wanted: int, start: int, clean: bool | None
) -> None:
    """The lookups agree with timestamps out of order, after a clean restart, and after a recovery."""
    log = new_log(tmp_path_factory.mktemp("log"), segment_bytes=400, index_interval_bytes=100)
    records = []
    for times in timestamps:
        info = append(log, batch(len(times), timestamps=[T0 + time for time in times]), leader_epoch=4)
        records += [(T0 + time, info.first_offset + index) for index, time in enumerate(times)]
    start = min(start, log.log_end_offset)
    if clean is not None:
        log.close()
        log, dropped = reopen(log, clean=clean, recovery_point=log.log_end_offset if clean else 0)
        assert dropped is None
    log.increment_log_start_offset(start)
    expected = next(((t, o) for t, o in records if o >= start and t >= T0 + wanted), None)
    found = offset_for_timestamp(log, T0 + wanted)
    assert found == (None if expected is None else TimestampOffset(*expected, 4))
    newest = max(t for t, _ in records)
    assert max_timestamp_offset(log) == TimestampOffset(newest, next(o for t, o in records if t == newest), 4)


def test_an_empty_log_has_no_timestamps(tmp_path: Path) -> None:
    """There is neither a record at a timestamp nor a largest timestamp."""
    log = new_log(tmp_path)
    assert offset_for_timestamp(log, 0) is None
    assert max_timestamp_offset(log) is None


def test_without_timestamps_the_first_record_has_the_largest(tmp_path: Path) -> None:
    """Kafka does the same. A timestamp below -1 counts as none."""
    log = new_log(tmp_path)
    append(log, batch(2, timestamp_ms=-1))
    append(log, batch(2, timestamp_ms=-1))
    assert max_timestamp_offset(log) == TimestampOffset(-1, 0, 0)
    below = new_log(tmp_path / "below")
    append(below, batch(2, timestamp_ms=-5000))
    assert max_timestamp_offset(below) is None


def test_a_changed_configuration_holds_from_the_next_append_on(tmp_path: Path) -> None:
    """The test changes the size limit and the codec."""
    log = new_log(tmp_path)
    append(log, batch(value=b"x" * 600))
    log.update_config(type(log.config)(max_message_bytes=500, compression_type="gzip"))
    with pytest.raises(RecordTooLarge):
        append(log, batch(value=b"x" * 600))
    append(log, batch())
    data = present(log.read(1, 1 << 20).slice).read()
    assert read_header(data).compression.name == "gzip"

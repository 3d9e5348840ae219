"""Bounded lookups by timestamp: a bounded part is done immediately, the rest as work items. At the limit, the result is
an offset from which no match is missed.
"""

from pathlib import Path
from typing import Any

import pytest
from crc32c import crc32c

from kafka_zk.base.types import TimestampOffset
from kafka_zk.storage.files.errors import InvalidRecord
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.segments.timestamp_search import AT_MOST, AT_ONCE, Beyond, Result, SearchBounds, SearchWork
from tests.storage.done_here import search_here
from tests.storage.helpers import T0, append, batch, new_log, offset_for_timestamp, present, remove_due, store


def lying(count: int, **content: Any) -> bytearray:
    """A batch whose header claims a newer record than it has."""
    data = batch(count, **content)
    data[35:43] = (T0 + 99).to_bytes(8, "big")
    return with_crc(data)


def with_crc(data: bytearray) -> bytearray:
    data[17:21] = crc32c(bytes(data[21:])).to_bytes(4, "big")
    return data


@pytest.fixture
def log(tmp_path: Path) -> Log:
    made = new_log(tmp_path)
    for _ in range(5):
        store(made, lying(10))
    append(made, batch(2, timestamps=[T0, T0 + 99]))
    return made


def search(log: Log, bounds: SearchBounds, start_offset: int = 0) -> Result:
    segment = log.segments.active
    return SearchWork(0, segment.size_bytes, T0 + 99, start_offset).within(bounds, segment.fileno())


def test_within_its_bounds_a_search_finds_the_record(log: Log) -> None:
    assert search(log, AT_ONCE) == TimestampOffset(T0 + 99, 51, 0)
    assert offset_for_timestamp(log, T0 + 99) == TimestampOffset(T0 + 99, 51, 0)


@pytest.mark.parametrize(
    ("bounds", "offset"),
    [
        (SearchBounds(3, 1000, 10_000), 30),
        (SearchBounds(100, 25, 10_000), 20),
        (SearchBounds(100, 1000, 300), 10),
        (SearchBounds(100, 5, 10_000), 0),
    ],
)
def test_at_a_limit_the_result_is_the_first_offset_that_was_not_examined(
    log: Log, bounds: SearchBounds, offset: int
) -> None:
    """There are limits on headers, records and bytes."""
    found = search(log, bounds)
    assert isinstance(found, Beyond)
    assert found.answer == TimestampOffset(T0 + 99, offset, 0)
    rest = search(log, AT_MOST)
    assert (
        SearchWork(found.position, 10**6, 0, 0)
        ._replace(end=log.size_bytes, timestamp_ms=T0 + 99)
        .run_on(log.segments.active.fileno())
        == rest
    )


def test_an_answer_of_the_bounds_is_not_before_the_logs_start(log: Log) -> None:
    log.increment_log_start_offset(15)
    found = search(log, SearchBounds(100, 5, 10_000), 15)
    assert isinstance(found, Beyond) and found.answer.offset == 15


def test_compressed_bytes_count_uncompressed(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    store(log, lying(10, value=bytes(1000), compression="gzip"))
    assert isinstance(search(log, SearchBounds(9, 99, 9_000)), Beyond)
    assert search(log, SearchBounds(9, 99, 12_000)) is None


def test_what_takes_long_is_offered_as_work(log: Log) -> None:
    """The result of the work item is used."""
    for _ in range(AT_ONCE.record_count // 100 + 1):
        store(log, lying(100))
    steps = log.timestamp_search(T0 + 100)
    assert next(steps) is None  # a pause after the only segment, whose header excludes a match
    with pytest.raises(StopIteration):
        next(steps)
    store(log, lying(AT_ONCE.record_count + 1))
    log.increment_log_start_offset(52)
    segment, work = present(next(log.timestamp_search(T0 + 99)))
    assert segment is log.segments.active and work.start_offset == 52
    assert search_here(log.timestamp_search(T0 + 99)) is None
    steps = log.timestamp_search(T0 + 99)
    next(steps)
    with pytest.raises(StopIteration) as stop:
        steps.send(Beyond(0, TimestampOffset(1, 2, 3)))
    assert stop.value.value == TimestampOffset(1, 2, 3)


def test_a_malformed_batch_is_told(tmp_path: Path) -> None:
    """The search raises the same error as a consumer's read."""
    log = new_log(tmp_path)
    data = lying(2)
    data[-1] = 0x7F
    data[61] = 0x7F
    store(log, with_crc(data))
    with pytest.raises(InvalidRecord):
        offset_for_timestamp(log, T0 + 99)


def test_a_search_survives_the_removal_of_the_segment_that_it_found(tmp_path: Path) -> None:
    """Retention may remove the segment and its files between two steps; this is not a disk failure."""
    log = new_log(tmp_path, segment_bytes=100, file_delete_delay_ms=0)
    for timestamp in (T0 + 99, T0, T0 + 5, T0):
        append(log, batch(1, timestamps=[timestamp]))
    assert len(log.segments) == 4
    searching = log.max_timestamp_search()
    for _ in range(2):
        assert searching.send(None) is None
    first = log.segments[0]
    first.release_resources()
    log.segments.drop([first], T0)
    assert remove_due(log.segments, T0) == 1
    assert search_here(searching) == TimestampOffset(T0 + 5, 2, 0)


def test_a_segment_stays_readable_while_its_search_waits_for_its_turn(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=100_000, file_delete_delay_ms=0)
    store(log, lying(5000))
    append(log, batch(1, timestamps=[T0 + 99]))
    searching = log.timestamp_search(T0 + 99)
    segment, work = present(searching.send(None))
    segment.release_resources()
    log.segments.drop([segment], T0)
    assert remove_due(log.segments, T0) == 1
    assert work.run_on(segment.fileno()) == TimestampOffset(T0 + 99, 5000, 0)
    searching.close()
    assert not segment.is_open

"""One cleaning on files: merging of segments, its limits, old formats, and accompanying files."""

import os
from pathlib import Path

import pytest

from kafka_zk.native.loading import Implementation
from kafka_zk.storage.cleaner import cleaner
from kafka_zk.storage.cleaner.cleaner import CleanerConfig, SegmentFile, SegmentSize, Throttler, group_segments
from kafka_zk.storage.cleaner.log_to_clean import Cleaning, examine
from kafka_zk.storage.files.errors import CorruptRecord
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.records.compression import Compression
from kafka_zk.storage.records.legacy_message_set import LegacyMessage, read_message_set, write_message_set
from kafka_zk.storage.records.record_batch import RecordBatchBuilder, assemble_batch, encode_record
from tests.storage.compacted import SMALL, batches, records
from tests.storage.done_here import clean_here
from tests.storage.helpers import T0, append, batch, new_log, read_offsets, reopen

MOST = (1 << 31) - 1


def sizes(*rows: tuple[int, int]) -> list[SegmentSize]:
    """Segments as (base offset, bytes of the log); each index has a tenth of these bytes."""
    return [SegmentSize(SegmentFile(base, size), size // 10, size // 10) for base, size in rows]


@pytest.mark.parametrize(
    ("rows", "max_bytes", "max_index_bytes", "end_offset", "groups"),
    [
        ((), 100, 100, 0, []),
        (((0, 50), (10, 50), (20, 50)), 100, 100, 30, [[0, 10], [20]]),
        (((0, 50), (10, 51), (20, 49)), 100, 100, 30, [[0], [10, 20]]),
        (((0, 500), (10, 10), (20, 10)), 100, 100, 30, [[0], [10, 20]]),
        (((0, 50), (10, 50), (20, 50)), 1000, 10, 30, [[0, 10], [20]]),
        (((0, 10), (MOST, 10), (MOST + 5, 10)), 100, 100, MOST + 9, [[0], [MOST, MOST + 5]]),
        (((0, 10), (100, 10)), 100, 100, MOST + 1, [[0, 100]]),
        (((0, 10), (100, 10)), 100, 100, MOST + 2, [[0], [100]]),
        (((0, 10), (100, 0), (MOST + 9, 0)), 100, 100, MOST + 99, [[0, 100, MOST + 9]]),
    ],
)
def test_segments_are_merged_as_far_as_they_fit(
    rows: tuple[tuple[int, int], ...], max_bytes: int, max_index_bytes: int, end_offset: int, groups: list[list[int]]
) -> None:
    found = group_segments(sizes(*rows), max_bytes, max_index_bytes, end_offset)
    assert [[segment.base_offset for segment in group] for group in found] == groups


def test_a_throttle_keeps_the_rate_and_saves_nothing_up() -> None:
    now_s = 0.0
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        nonlocal now_s
        slept.append(round(seconds, 3))
        now_s += seconds

    throttler = Throttler(1000, lambda: now_s, sleep)
    throttler.spend(300)
    assert slept == [], "a small debt causes no sleep"
    throttler.spend(700)
    assert slept == [1.0]
    now_s += 100
    throttler.spend(10)
    throttler.spend(2000)
    assert slept == [1.0, 2.0]


def test_a_batch_that_is_bigger_than_the_buffer_is_cleaned(tmp_path: Path) -> None:
    log = new_log(tmp_path, cleanup_policy=("compact",))
    for _ in range(2):
        append(log, batch(3, key=b"k", value=b"x" * 10_000))
    log.roll(T0)
    log.flush()
    assert clean_here(log, CleanerConfig(io_buffer_bytes=1), T0) is not None
    assert read_offsets(log) == [5]


def test_a_batch_with_more_keys_than_the_map_holds_is_told(tmp_path: Path) -> None:
    """A batch is cleaned as a whole or not at all, so the cleaning could never pass it."""
    builder = RecordBatchBuilder()
    for index in range(5):
        builder.append(T0, b"%d" % index, b"v")
    log = new_log(tmp_path, cleanup_policy=("compact",))
    append(log, bytearray(builder.build()))
    log.roll(T0)
    log.flush()
    with pytest.raises(CorruptRecord, match="more keys than the 1 of the map"):
        clean_here(log, CleanerConfig(dedupe_buffer_bytes=48), T0)
    assert log.cleaned_offset is None and not log.is_being_cleaned


def test_a_small_map_takes_more_rounds(tmp_path: Path) -> None:
    log = new_log(tmp_path, cleanup_policy=("compact",))
    for index in range(5):
        append(log, batch(1, key=b"%d" % index))
    log.roll(T0)
    log.flush()
    ends = []
    for _ in range(5):
        clean_here(log, CleanerConfig(dedupe_buffer_bytes=48), T0)
        ends.append(log.cleaned_offset)
    assert ends == [1, 2, 3, 4, 5] and read_offsets(log) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("deltas", [(-2, 1), (0, 4), (1, 1), (1, 0)])
@pytest.mark.parametrize("is_native", [False, True], ids=["python", "native"])
def test_offsets_that_are_not_their_batchs_cost_no_other_record(
    tmp_path: Path,
    deltas: tuple[int, int],
    is_native: bool,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """A producer may write any offset into a record; this must not remove another producer's record."""
    found = Implementation(request.getfixturevalue("native") if is_native else None)
    monkeypatch.setattr(cleaner, "implementation", lambda: found)
    log = new_log(tmp_path, cleanup_policy=("compact",), segment_bytes=400)
    append(log, batch(key=b"first"))
    append(log, batch(key=b"second"))
    strange = b"".join(encode_record(0, delta, key, b"") for delta, key in zip(deltas, (b"x", b"y"), strict=True))
    append(log, assemble_batch(strange, attributes=0, record_count=2, base_timestamp=T0, max_timestamp=T0))
    for key in (b"third", b"fourth", b"fifth", b"x", b"y"):
        append(log, batch(key=key))
    log.roll(T0)
    log.flush()
    clean_here(log, SMALL, T0)
    keys = [record.key for record in records(log)]
    assert [key for key in keys if key not in (b"x", b"y")] == [b"first", b"second", b"third", b"fourth", b"fifth"]
    assert keys[-2:] == [b"x", b"y"]


def test_an_empty_result_is_an_empty_segment(tmp_path: Path) -> None:
    log = new_log(tmp_path, cleanup_policy=("compact",), segment_bytes=100, file_delete_delay_ms=0)
    for _ in range(4):
        append(log, batch(1, key=b"k"))
    log.flush()
    assert len(log.segments) == 4
    clean_here(log, SMALL, T0)
    assert read_offsets(log) == [2, 3] and log.segments[0].base_offset == 0
    again, dropped = reopen(log, recovery_point=log.recovery_point)
    assert dropped is None and read_offsets(again) == [2, 3]
    assert (again.log_start_offset, again.log_end_offset) == (0, 4)


def test_the_age_of_a_segment_is_that_of_the_last_it_was_made_of(tmp_path: Path) -> None:
    log = new_log(tmp_path, cleanup_policy=("compact",), file_delete_delay_ms=0)
    for _ in range(3):
        append(log, batch(1, key=b"k"))
        log.roll(T0)
    log.flush()
    for base, modified_s in ((0, 1000), (1, 2000), (2, 3000)):
        os.utime(log.directory / f"{base:020d}.log", (modified_s, modified_s))
    clean_here(log, SMALL, T0)
    assert log.segments[0].modified_ms() == 3_000_000


# -- magic 0 and 1 ----------------------------------------------------------------------------------------------------


def old_log(tmp_path: Path, magic: int, codec: Compression) -> Log:
    """A closed segment written by an old broker, with two messages per set, and an active one in the current format."""
    values = [b"1", b"2", b"3", None, b"5", b"6"]
    messages = [
        LegacyMessage(offset, magic, T0 + offset if magic else -1, False, b"ab"[offset % 2 :][:1], value)
        for offset, value in enumerate(values)
    ]
    sets = [write_message_set(messages[at : at + 2], magic, codec) for at in range(0, 6, 2)]
    directory = tmp_path / "events-0"
    directory.mkdir(parents=True)
    (directory / f"{0:020d}.log").write_bytes(b"".join(sets))
    for suffix in ("index", "timeindex"):
        (directory / f"{0:020d}.{suffix}").write_bytes(b"")
    (directory / f"{6:020d}.log").write_bytes(b"")
    made = new_log(tmp_path / "unused", cleanup_policy=("compact",), file_delete_delay_ms=0)
    made.segments.directory = str(directory)
    log, dropped = reopen(made, clean=True, recovery_point=6)
    assert dropped is None and log.log_end_offset == 6
    return log


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Compression.none, Compression.gzip, Compression.lz4])
def test_messages_of_old_brokers_are_compacted(tmp_path: Path, magic: int, codec: Compression) -> None:
    """The messages keep their format, and a message with a timestamp can be found by it."""
    log = old_log(tmp_path, magic, codec)
    assert clean_here(log, SMALL, T0) is not None
    content = (log.directory / f"{0:020d}.log").read_bytes()
    left = list(read_message_set(content))
    assert [(message.offset, message.value) for message in left] == [(4, b"5"), (5, b"6")]
    assert {message.magic for message in left} == {magic}
    read = log.read(0, 1 << 20)
    assert read.slice is not None and read.slice.read() == content


def test_what_another_cleaning_left_is_removed_first(tmp_path: Path) -> None:
    """After a crash, a ``.swap`` file is ignored if a ``.cleaned`` file has the same or a smaller offset."""
    log = new_log(tmp_path, cleanup_policy=("compact",))
    for _ in range(3):
        append(log, batch(1, key=b"k"))
        log.roll(T0)
    log.flush()
    left = log.directory / f"{1:020d}.log.cleaned"
    left.write_bytes(b"")
    assert clean_here(log, SMALL, T0) is not None and not left.exists()


def test_nothing_but_the_cleaned_files_is_written_before_the_swap(tmp_path: Path) -> None:
    log = new_log(tmp_path, cleanup_policy=("compact",))
    for _ in range(3):
        append(log, batch(1, key=b"k"))
    log.roll(T0)
    log.flush()
    before = {path.name: path.read_bytes() for path in log.directory.iterdir()}
    expected = records(log), batches(log)
    cleaning = Cleaning(examine(log, T0), SMALL, T0)
    cleaning.work.run(lambda cleaned: None)
    after = {path.name: path.read_bytes() for path in log.directory.iterdir()}
    assert {name: data for name, data in after.items() if not name.endswith(".cleaned")} == before
    assert (records(log), batches(log)) == expected
    cleaning.remove_leftovers()
    assert {path.name for path in log.directory.iterdir()} == before.keys()

"""Recovery after a crash: truncation at every byte and every kind of damage, on both sides of the recovery point."""

import os
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

from kafka_zk.base.steps import run_to_end
from kafka_zk.base.types import LogAppendInfo
from kafka_zk.storage.files import files
from kafka_zk.storage.files.file_pool import FilePool
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.manager.log_loader import LogDependencies, load_log_steps
from kafka_zk.storage.records.record_batch import BatchHeader, iter_batches, read_header
from kafka_zk.storage.segments.recovery import SegmentScan, scan_segment
from tests.soak.power import JournaledDisk
from tests.storage.helpers import T0, append, batch, new_log, present, read_offsets, read_values, reopen


def filled(tmp_path: Path, count: int = 8, **config: Any) -> tuple[Log, list[LogAppendInfo]]:
    """A log of ``count`` batches of two records with values that tell them apart."""
    log = new_log(tmp_path, **config)
    infos = []
    for number in range(count):
        data = batch(2, value=b"value-%d" % number, producer_id=9, producer_epoch=0, base_sequence=2 * number)
        infos.append(append(log, data, leader_epoch=number // 3))
    return log, infos


def spans_of(log: Log) -> list[tuple[int, int, BatchHeader]]:
    data = Path(log.segments[-1].path).read_bytes()
    return [(position, position + header.size_bytes, header) for position, header in iter_batches(data)]


def test_a_cut_at_any_byte_of_the_last_batches_keeps_all_whole_ones(tmp_path: Path) -> None:
    """No record before the cut is lost, no partial batch is served, and the report counts the dropped bytes."""
    log, _ = filled(tmp_path)
    expected = read_values(log)
    log.close()
    path = log.segments[-1].path
    whole = Path(path).read_bytes()
    spans = spans_of(log)
    for cut in range(spans[-3][0], len(whole) + 1):
        shutil.rmtree(log.directory)
        os.makedirs(log.directory)
        with open(path, "wb") as file:
            file.write(whole[:cut])
        recovered, dropped = reopen(log)
        kept = [header for _, end, header in spans if end <= cut]
        assert recovered.log_end_offset == kept[-1].next_offset
        assert read_values(recovered) == expected[: kept[-1].next_offset]
        clean_end = max(end for _, end, _ in spans if end <= cut)
        if cut == clean_end:
            assert dropped is None
        else:
            assert dropped is not None
            assert (dropped.position, dropped.bytes_dropped) == (clean_end, cut - clean_end)
            assert dropped.log_end_offset == recovered.log_end_offset
        assert os.path.getsize(path) == clean_end
        info = append(recovered, batch(1, value=b"new"))
        assert info.first_offset == kept[-1].next_offset
        assert read_values(recovered)[-1] == (info.first_offset, b"new")


def test_a_flip_in_any_byte_after_the_recovery_point_ends_the_log_there(tmp_path: Path) -> None:
    """A flip is noticed in the offset, length, magic, CRC, attributes and records; only the epoch is not protected."""
    log, _ = filled(tmp_path)
    expected = read_values(log)
    log.close()
    path = log.segments[-1].path
    whole = Path(path).read_bytes()
    start, end, header = spans_of(log)[4]
    unprotected = range(start + 12, start + 16)  # partition leader epoch
    offset_bytes = range(start, start + 8)  # a larger offset is a gap, which compaction may leave
    for position in range(start, end):
        if position in unprotected or position in offset_bytes:
            continue
        damaged = bytearray(whole)
        damaged[position] ^= 0x55
        shutil.rmtree(log.directory)
        os.makedirs(log.directory)
        with open(path, "wb") as file:
            file.write(damaged)
        recovered, dropped = reopen(log, recovery_point=header.base_offset)
        assert recovered.log_end_offset == header.base_offset
        assert dropped is not None
        assert dropped.bytes_dropped == len(whole) - start
        assert read_values(recovered) == expected[: header.base_offset]


def test_damage_below_the_recovery_point_is_kept_for_its_reader(tmp_path: Path) -> None:
    """A flipped record below the recovery point stays in the file, and all other records are served."""
    log, infos = filled(tmp_path)
    log.close()
    _, end, _ = spans_of(log)[2]
    with open(log.segments[-1].path, "r+b") as file:
        file.seek(end - 1)
        file.write(b"\xff")
    recovered, dropped = reopen(log, recovery_point=infos[4].first_offset)
    assert dropped is None
    assert recovered.log_end_offset == infos[-1].last_offset + 1
    assert read_offsets(recovered, infos[3].first_offset) == list(range(infos[3].first_offset, 16))


@pytest.mark.parametrize("clean", [True, False])
def test_a_damaged_header_below_the_recovery_point_does_not_take_the_rest(tmp_path: Path, clean: bool) -> None:
    """The scan continues at the next whole batch, and reads find that batch."""
    log, infos = filled(tmp_path)
    log.close()
    start, _, _ = spans_of(log)[2]
    with open(log.segments[-1].path, "r+b") as file:
        file.seek(start + 8)
        file.write(b"\x7f\xff\xff\xff")  # the length
    recovered, dropped = reopen(log, recovery_point=infos[-1].last_offset + 1, clean=clean)
    assert dropped is None
    assert recovered.log_end_offset == 16
    assert read_offsets(recovered, 6) == list(range(6, 16))
    first = recovered.read(0, 1 << 20)
    assert [header.base_offset for _, header in iter_batches(present(first.slice).read())][:2] == [0, 2]
    assert append(recovered, batch(1)).first_offset == 16
    assert read_offsets(recovered, 14) == [14, 15, 16]


@pytest.mark.parametrize("clean", [True, False])
def test_a_damaged_last_batch_below_the_recovery_point_is_left_and_its_offsets_not_reused(
    tmp_path: Path, clean: bool
) -> None:
    """The log continues in a new segment."""
    log, _ = filled(tmp_path)
    log.close()
    start, _, _ = spans_of(log)[-1]
    size_bytes = log.size_bytes
    with open(log.segments[-1].path, "r+b") as file:
        file.seek(start + 16)
        file.write(b"\x09")  # the magic
    recovered, dropped = reopen(log, recovery_point=16, clean=clean)
    assert dropped is None
    assert (recovered.log_end_offset, recovered.size_bytes) == (16, size_bytes)
    assert append(recovered, batch(1)).first_offset == 16
    assert read_offsets(recovered, 16) == [16]


def test_recovery_resumes_at_the_index_and_gives_the_same_as_from_the_start(tmp_path: Path) -> None:
    """The test runs with the index of a flush, without an index, and with one that does not match the log."""
    log = new_log(tmp_path, index_interval_bytes=300)
    for number in range(60):
        append(log, batch(2, timestamp_ms=T0 + number, value=b"x" * 100))
    log.flush(40)
    recovery_point = log.recovery_point
    assert recovery_point == 40
    log.close()
    index_path, time_path = log.segments[0].offset_index.path, log.segments[0].time_index.path
    index, times = Path(index_path).read_bytes(), Path(time_path).read_bytes()
    for damaged in (
        index,
        b"",
        index[:-3],
        index + bytes(64),
        index[:16] + bytes(8) + index[24:],
        index[8:] + index[:8],
    ):
        with open(index_path, "wb") as file:
            file.write(damaged)
        recovered, dropped = reopen(log, recovery_point=recovery_point)
        assert dropped is None and recovered.log_end_offset == 120
        recovered.segments.active.write_out_indexes()
        assert Path(index_path).read_bytes() == index
        assert Path(time_path).read_bytes() == times[: len(Path(time_path).read_bytes())]
        assert recovered.segments.active.max_timestamp_ms == T0 + 59
        assert read_offsets(recovered) == list(range(120))


def test_segments_behind_the_damage_are_dropped(tmp_path: Path) -> None:
    """Recovery counts the bytes of these segments and removes their files."""
    log, _ = filled(tmp_path, 12, segment_bytes=300)
    log.close()
    assert len(log.segments) >= 4
    second = log.segments[1]
    behind = log.segments[2:]
    with open(second.path, "r+b") as file:
        file.seek(70)
        file.write(b"\xff")
    recovered, dropped = reopen(log)
    assert recovered.log_end_offset == second.base_offset
    assert dropped is not None
    assert len(dropped.segments_dropped) == len(behind)
    assert dropped.bytes_dropped == second.size_bytes + sum(segment.size_bytes for segment in behind)
    assert not any(os.path.exists(segment.path) for segment in behind)
    assert read_offsets(recovered) == list(range(second.base_offset))


def test_segments_below_the_recovery_point_are_not_scanned(tmp_path: Path) -> None:
    """Only the segment that contains the recovery point and later ones are scanned."""
    log, _ = filled(tmp_path, 12, segment_bytes=300)
    log.close()
    scanned = []

    def scan(*arguments: Any) -> SegmentScan:
        scanned.append(arguments[3])
        return scan_segment(*arguments)

    point = log.segments[2].base_offset + 1
    opening = load_log_steps(
        log.tp, str(log.directory), log.config, LogDependencies(FilePool(), scan=scan), T0,
        recovery_point=point, log_start_offset=0, clean_shutdown=False,
    )  # fmt: skip
    run_to_end(opening)
    assert scanned == [segment.base_offset for segment in log.segments[2:]]


def test_a_missing_index_is_rebuilt_even_after_a_clean_shutdown(tmp_path: Path) -> None:
    """Indexes of old segments and of the active one are rebuilt."""
    log, _ = filled(tmp_path, 40, segment_bytes=1000, index_interval_bytes=100)
    log.close()
    contents = {}
    for segment in log.segments:
        for index in (segment.offset_index, segment.time_index):
            contents[index.path] = Path(index.path).read_bytes()
        os.unlink(segment.offset_index.path)
    recovered, dropped = reopen(log, clean=True, recovery_point=log.log_end_offset)
    assert dropped is None
    assert read_offsets(recovered) == list(range(80))
    recovered.close()
    assert {path: Path(path).read_bytes() for path in contents} == contents


def test_epochs_and_producers_come_back_from_the_batches(tmp_path: Path) -> None:
    """Epochs and producers are restored even if their files are missing."""
    log, infos = filled(tmp_path)
    epochs = log.leader_epochs.entries
    for name in os.listdir(log.directory):
        if not name.endswith(".log"):
            os.unlink(log.directory / name)
    recovered, _ = reopen(log)
    assert recovered.leader_epochs.entries == epochs
    again = append(recovered, batch(2, value=b"value-7", producer_id=9, producer_epoch=0, base_sequence=14))
    assert again.duplicate and again.first_offset == infos[-1].first_offset


def test_epochs_of_what_was_not_flushed_are_taken_from_the_batches(tmp_path: Path) -> None:
    """The file may contain epochs of truncated records that were replaced by records of an older epoch."""
    log = new_log(tmp_path)
    append(log, batch(4), leader_epoch=1)
    log.flush()
    append(log, batch(3), leader_epoch=5)
    stale = (log.directory / "leader-epoch-checkpoint").read_bytes()
    log.truncate_to(4)
    (tmp_path / "other").mkdir()
    other = new_log(tmp_path / "other")
    append(other, batch(4), leader_epoch=1)
    append(other, batch(4), leader_epoch=1)
    append(other, batch(4), leader_epoch=6)
    data = (other.directory / "00000000000000000000.log").read_bytes()
    log.append_as_follower(data[len(data) // 3 :], now_ms=T0)
    assert log.leader_epochs.entries == [(1, 0), (6, 8)]
    other.close()
    log.close()
    (log.directory / "leader-epoch-checkpoint").write_bytes(stale)  # a power loss undid the later writes
    again, dropped = reopen(log, recovery_point=4)
    assert dropped is None
    assert again.leader_epochs.entries == [(1, 0), (6, 8)]


@pytest.mark.parametrize("seed", range(10))
def test_the_epochs_of_what_is_flushed_are_durable(tmp_path: Path, seed: int) -> None:
    """A recovery resumes at the index, and does not read the batches with which these epochs began."""
    folder, found = tmp_path / "before", tmp_path / "after"
    folder.mkdir()
    log = new_log(folder, index_interval_bytes=1)
    append(log, batch(4), leader_epoch=1)
    log.flush()
    disk = JournaledDisk(folder)
    with files.use(disk):
        for _ in range(4):
            append(log, batch(4), leader_epoch=2)
        log.flush()
        recovery_point = log.recovery_point
        append(log, batch(4), leader_epoch=3)
    log.close()
    disk.lose_power(random.Random(seed), found)
    log.segments.directory = str(found / "events-0")
    assert (log.directory / "leader-epoch-checkpoint").read_bytes() != b"0\n1\n1 0\n"  # this file may be damaged
    again, _ = reopen(log, recovery_point=recovery_point)
    assert again.leader_epochs.entries[:2] == [(1, 0), (2, 4)]
    assert again.log_end_offset >= recovery_point


def test_an_empty_file_and_an_empty_directory_are_fine(tmp_path: Path) -> None:
    """A crash right after creation leaves this state."""
    log = new_log(tmp_path)
    recovered, dropped = reopen(log)
    assert (recovered.log_end_offset, dropped) == (0, None)
    for name in os.listdir(log.directory):
        os.unlink(log.directory / name)
    recovered, dropped = reopen(log, log_start_offset=7)
    assert (recovered.log_start_offset, recovered.log_end_offset, dropped) == (7, 7, None)
    assert append(recovered, batch()).first_offset == 7


def test_zero_padding_behind_the_log_is_cut(tmp_path: Path) -> None:
    """A killed Kafka broker leaves a preallocated file."""
    log, _ = filled(tmp_path)
    log.close()
    with open(log.segments[0].path, "ab") as file:
        file.write(bytes(5000))
    recovered, dropped = reopen(log)
    assert recovered.log_end_offset == 16
    assert dropped is not None
    assert dropped.bytes_dropped == 5000


def test_interrupted_deletions_and_swaps_are_finished(tmp_path: Path) -> None:
    """``.deleted`` and ``.cleaned`` files are removed, ``.swap`` files get their final names, and an index without a
    log is removed."""
    log, _ = filled(tmp_path)
    log.close()
    directory = log.directory
    (directory / "00000000000000000000.log").rename(directory / "00000000000000000000.log.swap")
    for name in ("00000000000000000003.log.deleted", "00000000000000000099.log.cleaned", "00000000000000000055.index"):
        (directory / name).write_bytes(b"x")
    recovered, _ = reopen(log)
    assert read_offsets(recovered) == list(range(16))
    left = sorted(
        name for name in os.listdir(directory) if name.endswith((".deleted", ".cleaned", ".swap", "55.index"))
    )
    assert left == []
    assert read_header(Path(recovered.segments[0].path).read_bytes()).base_offset == 0


def test_a_hole_between_segments_ends_the_log(tmp_path: Path) -> None:
    """A power loss destroyed the end of one segment but not the next one: no record after the loss is served."""
    log, _ = filled(tmp_path, 12, segment_bytes=300)
    first, second = log.segments[0], log.segments[1]
    batches = list(iter_batches(Path(first.path).read_bytes()))
    os.truncate(first.path, batches[-1][0])
    recovered, dropped = reopen(log)
    assert recovered.log_end_offset == second.base_offset - 2
    assert dropped is not None
    assert dropped.segments_dropped == tuple(segment.path for segment in log.segments[1:])
    assert "missing" in dropped.reason


def test_a_hole_before_the_first_segment_empties_the_log(tmp_path: Path) -> None:
    """A power loss took the first segment's name but not the next one's: a replica that kept the rest would never fetch
    the records of the first one again."""
    log, _ = filled(tmp_path, 12, segment_bytes=300)
    os.unlink(log.segments[0].path)
    recovered, dropped = reopen(log)
    assert (recovered.log_start_offset, recovered.log_end_offset, recovered.recovery_point) == (0, 0, 0)
    assert dropped is not None
    assert dropped.segments_dropped == tuple(segment.path for segment in log.segments[1:])
    assert "missing" in dropped.reason
    assert dropped.kept_as is not None and len(list(Path(dropped.kept_as).glob("*.log"))) == len(log.segments) - 1
    assert append(recovered, batch()).first_offset == 0


@pytest.mark.parametrize(
    ("evidence", "clean", "is_contiguous"),
    [
        pytest.param("recovery_point", False, True, id="retention deleted it"),
        pytest.param("log_start_offset", False, True, id="DeleteRecords deleted it"),
        pytest.param("", True, True, id="clean shutdown"),
        pytest.param("", False, False, id="folder of Apache Kafka"),
    ],
)
def test_an_explained_hole_before_the_first_segment_takes_nothing(
    tmp_path: Path, evidence: str, clean: bool, is_contiguous: bool
) -> None:
    log, _ = filled(tmp_path, 12, segment_bytes=300)
    os.unlink(log.segments[0].path)
    begin = log.segments[1].base_offset
    known: dict[str, Any] = {"log_start_offset": None, **({evidence: begin} if evidence else {})}
    recovered, dropped = reopen(log, clean=clean, is_contiguous=is_contiguous, **known)
    assert dropped is None
    assert read_offsets(recovered) == list(range(begin, log.log_end_offset))
    known["recovery_point"] = recovered.recovery_point
    again, dropped = reopen(recovered, **known)
    assert dropped is None, "the next recovery takes the hole for lost data"
    assert again.log_end_offset == log.log_end_offset


def test_an_impossible_recovery_point_does_not_empty_the_log(tmp_path: Path) -> None:
    """The recovery point does not tell which records are durable, but retention wrote it before it deleted the first
    segment.
    """
    log, _ = filled(tmp_path, 12, segment_bytes=300)
    os.unlink(log.segments[0].path)
    begin = log.segments[1].base_offset
    recovered, dropped = reopen(log, recovery_point=1 << 40, log_start_offset=None)
    assert dropped is None
    assert read_offsets(recovered) == list(range(begin, log.log_end_offset))


def test_an_impossible_recovery_point_makes_no_gap_lost_data(tmp_path: Path) -> None:
    """The correct recovery point may be after the gap, which compaction would then have left. Kafka keeps the records,
    too."""
    log, _ = filled(tmp_path, 12, segment_bytes=300)
    os.unlink(log.segments[1].path)
    gap = range(log.segments[1].base_offset, log.segments[2].base_offset)
    recovered, dropped = reopen(log, recovery_point=1 << 40)
    assert dropped is None
    assert read_offsets(recovered) == [offset for offset in range(log.log_end_offset) if offset not in gap]


@pytest.mark.parametrize(
    "kept",
    [
        pytest.param(slice(2, None), id="retention deleted the others"),
        pytest.param(slice(0, 1), id="the log ends before"),
        pytest.param(slice(0, 0), id="no segment is left"),
    ],
)
def test_a_log_that_begins_at_its_log_start_offset_begins_there_after_the_next_crash(
    tmp_path: Path, kept: slice
) -> None:
    """The checkpoint omits a log start offset at which the first segment begins, so the recovery point moves there."""
    log, _ = filled(tmp_path, 12, segment_bytes=300)
    begin = log.segments[2].base_offset
    for segment in set(log.segments) - set(log.segments[kept]):
        os.unlink(segment.path)
    recovered, _ = reopen(log, log_start_offset=begin)
    assert recovered.recovery_point >= begin
    append(recovered, batch())
    again, dropped = reopen(recovered, recovery_point=recovered.recovery_point, log_start_offset=None)
    assert dropped is None
    assert again.log_start_offset == begin
    assert read_offsets(again) == read_offsets(recovered) != []


@pytest.mark.parametrize("seed", range(10))
def test_the_snapshot_of_what_was_truncated_does_not_come_back(tmp_path: Path, seed: int) -> None:
    """After a power loss, the snapshot must not be used again: the producer's next batches would count as duplicates
    and be lost."""
    folder, found = tmp_path / "before", tmp_path / "after"
    folder.mkdir()
    log, infos = filled(folder)
    log.flush()
    log.close()  # this leaves a snapshot of the log's end
    log, _ = reopen(log, clean=True, recovery_point=16)
    disk = JournaledDisk(folder)
    with files.use(disk):
        log.truncate_to(infos[7].first_offset)
        append(log, batch(4, value=b"another leader's"), leader_epoch=2)
        log.flush()
    log.segments.close_files()
    disk.lose_power(random.Random(seed), found)
    log.segments.directory = str(found / "events-0")
    again, _ = reopen(log, recovery_point=log.recovery_point)
    assert again.log_end_offset == 18
    assert again.producers.producers[9].last_sequence == 13

"""Markers that are written together leave the same log as markers that are written one by one."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from kafka_zk.base.types import LogAppendInfo
from kafka_zk.storage.files.errors import InvalidProducerEpoch, RecordBatchTooLarge, TransactionCoordinatorFenced
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.records.end_transaction_marker import MarkerBatch, marker_batch, plain_marker
from kafka_zk.storage.records.log_validator import validate_batch
from kafka_zk.storage.records.record_batch import read_header
from tests.storage.helpers import T0, append, batch, new_log, read_offsets, reopen

PRODUCERS = range(7, 27)


def begin(log: Log, epoch: int = 1) -> None:
    for producer in PRODUCERS:
        append(log, batch(producer_id=producer, producer_epoch=epoch, base_sequence=0, transactional=True))


def markers(epoch: int = 1, coordinator_epoch: int = 3) -> list[bytearray]:
    """A series of markers, every third of which aborts."""
    return [
        marker_batch(producer, epoch, coordinator_epoch, is_commit=producer % 3 > 0, timestamp_ms=T0)
        for producer in PRODUCERS
    ]


def taken_apart(batch: bytearray) -> MarkerBatch:
    header = read_header(batch)
    marker = plain_marker(batch, header)
    assert marker is not None
    return MarkerBatch(batch, header, marker)


def together(log: Log, batches: Sequence[bytearray]) -> list[object]:
    """The result of each marker, in the format of ``one_by_one``."""
    info, refused = log.append_markers(list(map(taken_apart, batches)), leader_epoch=2, now_ms=T0 + 5)
    results: list[object] = [refused.get(place) for place in range(len(batches))]
    if info is not None:
        assert info.size_bytes == sum(len(batches[place]) for place, found in enumerate(results) if found is None)
        for offset in range(info.first_offset, info.last_offset + 1):
            place = results.index(None)
            size_bytes = len(batches[place])
            results[place] = info._replace(first_offset=offset, last_offset=offset, size_bytes=size_bytes)
    assert None not in results
    return results


def one_by_one(log: Log, batches: Sequence[bytearray]) -> list[object]:
    return [
        log.append_as_leader(each, validate_batch(each), leader_epoch=2, now_ms=T0 + 5, from_client=False)
        for each in batches
    ]


def state(log: Log) -> list[object]:
    """The content of the files and the state in memory. The index may have fewer entries."""
    segments = [path.read_bytes() for path in sorted(log.directory.glob("*.log"))]
    producers = [
        (each.producer_id, each.producer_epoch, each.coordinator_epoch, each.current_txn_first_offset)
        for each in log.producers.producers.values()
    ]
    aborted = log.aborted_transactions(0, log.log_end_offset)
    return [segments, producers, aborted, log.log_end_offset, log.last_stable_offset, log.leader_epochs.entries]


@pytest.mark.parametrize("timestamps", ["CreateTime", "LogAppendTime"])
@pytest.mark.parametrize("segment_bytes", [2_000, 1 << 20])
def test_the_log_is_the_same(tmp_path: Path, segment_bytes: int, timestamps: str) -> None:
    found = []
    for name, put in (("together", together), ("each", one_by_one)):
        log = new_log(
            tmp_path / name, segment_bytes=segment_bytes, index_interval_bytes=1, message_timestamp_type=timestamps
        )
        for epoch in (1, 2, 3):
            begin(log, epoch)
            infos = put(log, markers(epoch))
            assert [type(each) for each in infos] == [LogAppendInfo] * len(PRODUCERS)
        if segment_bytes > 2_000:  # a roll happens where all markers together do not fit
            found.append([state(log), infos])
        assert read_offsets(log) == list(range(log.log_end_offset))
        for offset in range(log.log_end_offset):
            assert read_offsets(log, offset)[0] == offset
        before = state(log)
        log.close()
        again, dropped = reopen(log)
        assert dropped is None and state(again) == before
    if found:
        assert found[0] == found[1]


def test_those_that_are_fenced_are_left_out(tmp_path: Path) -> None:
    log = new_log(tmp_path)
    begin(log, 5)
    together(log, markers(5, coordinator_epoch=4))
    end = log.log_end_offset
    assert {type(each) for each in together(log, markers(4))} == {InvalidProducerEpoch}
    assert {type(each) for each in together(log, markers(5, coordinator_epoch=3))} == {TransactionCoordinatorFenced}
    assert log.log_end_offset == end
    mixed = [*markers(5, coordinator_epoch=3)[:2], *markers(5, coordinator_epoch=4)[2:4]]
    *refused, first, second = together(log, mixed)
    assert [type(each) for each in refused] == [TransactionCoordinatorFenced] * 2
    assert isinstance(first, LogAppendInfo) and isinstance(second, LogAppendInfo)
    assert (first.first_offset, second.first_offset, log.log_end_offset) == (end, end + 1, end + 2)
    assert read_offsets(log) == list(range(end + 2))


def test_more_than_a_segment_takes_is_refused(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=500)
    begin(log)
    end = log.log_end_offset
    with pytest.raises(RecordBatchTooLarge):
        together(log, markers())
    assert log.log_end_offset == end

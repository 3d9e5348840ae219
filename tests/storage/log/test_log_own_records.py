"""Batches that the broker appends without validation leave the same log as validated ones."""

from pathlib import Path

import pytest

from kafka_zk.storage.files.errors import RecordBatchTooLarge, RecordTooLarge
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.records.log_validator import validate_batch
from tests.storage.helpers import T0, batch, new_log, read_offsets, reopen

COUNTS = [1, 1, 2, 3] * 15
"""Number of records in each batch."""


def looked_at(log: Log, data: bytearray, leader_epoch: int, now_ms: int) -> object:
    return log.append_as_leader(
        data, validate_batch(data), leader_epoch=leader_epoch, now_ms=now_ms, from_client=False, conforms_to=log.config
    )


def as_it_is(log: Log, data: bytearray, leader_epoch: int, now_ms: int) -> object:
    return log.append_own_records(data, leader_epoch=leader_epoch, now_ms=now_ms)


@pytest.mark.parametrize("timestamps", ["CreateTime", "LogAppendTime"])
def test_the_log_is_the_same(tmp_path: Path, timestamps: str) -> None:
    """The logs are equal across rolls by size and time, and across changes of the leader epoch."""
    found = []
    for name, put in (("own", as_it_is), ("any", looked_at)):
        log = new_log(
            tmp_path / name, cleanup_policy=("compact",), segment_bytes=1_000, segment_ms=50, index_interval_bytes=1,
            message_timestamp_type=timestamps,
        )  # fmt: skip
        infos = [
            put(log, batch(count, key=b"k", timestamp_ms=T0 + at * 7, value=b"v" * (at % 40)), at // 20, T0 + at * 7)
            for at, count in enumerate(COUNTS)
        ]
        files = [path.read_bytes() for path in sorted(log.directory.glob("*.log"))]
        found.append([files, infos, log.leader_epochs.entries, log.log_end_offset])
        assert len(files) > 3 and read_offsets(log) == list(range(sum(COUNTS)))
        log.close()
        assert reopen(log)[1] is None
    assert found[0] == found[1]


def test_what_is_too_large_is_refused(tmp_path: Path) -> None:
    log = new_log(tmp_path, segment_bytes=500, max_message_bytes=1_000)
    for size_bytes, error in ((2_000, RecordTooLarge), (700, RecordBatchTooLarge)):
        with pytest.raises(error):
            log.append_own_records(batch(value=b"v" * size_bytes), leader_epoch=0, now_ms=T0)
    assert log.log_end_offset == 0

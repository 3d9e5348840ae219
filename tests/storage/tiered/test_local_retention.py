"""Local retention of a tiered log."""

import dataclasses
from typing import Any

import pytest

from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.tiered.local_retention import LocalDeletion, local_deletion
from kafka_zk.storage.tiered.remote_log_metadata import RemotePartitionLog
from kafka_zk.storage.tiered.tiered_replica import LocalSegment, TieredReplica
from tests.storage.tiered.segments import remote_log, segment

LINEAGE = [(0, 0)]
SEGMENTS = [LocalSegment(start, start + 10, 100, start) for start in (0, 10, 20, 30)]
"""Each segment has ten offsets, 100 bytes and 10 ms; the last one is active."""
COPIED = remote_log(*(segment(number, start, start + 9) for number, start in enumerate((0, 10, 20), 1)))


def deletion(
    log: RemotePartitionLog = COPIED,
    segments: list[LocalSegment] = SEGMENTS,
    log_start_offset: int = 0,
    now_ms: int = 50,
    **config: Any,
) -> LocalDeletion:
    limits = dataclasses.replace(LogConfig(), **config)
    return local_deletion(log, TieredReplica(LINEAGE, log_start_offset, segments), limits, now_ms)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, (0, False)),
        ({"local_retention_bytes": 250}, (1, False)),
        ({"local_retention_bytes": 200}, (2, False)),
        ({"local_retention_bytes": 0}, (3, True)),
        ({"local_retention_ms": 45}, (1, False)),
        ({"local_retention_ms": 30}, (2, False)),
        ({"local_retention_ms": 0}, (3, True)),
        ({"local_retention_bytes": 250, "local_retention_ms": 30}, (2, False)),
        ({"retention_bytes": 250}, (1, False)),
        ({"retention_ms": 30}, (2, False)),
        ({"retention_ms": 30, "local_retention_ms": 45}, (1, False)),
    ],
)
def test_limits_of_local_retention(config: dict[str, Any], expected: tuple[int, bool]) -> None:
    """The limits are by size and by age; -2 means the limit of the whole log. The active segment is closed, not
    deleted.
    """
    assert deletion(**config) == expected


def test_segment_stays_until_it_is_copied() -> None:
    """All later segments stay, too, because a log must not have holes. The active segment is not closed."""
    assert deletion(remote_log(segment(1, 0, 9)), local_retention_bytes=0) == (1, False)
    assert deletion(remote_log(segment(2, 10, 19)), local_retention_bytes=0) == (0, False)
    assert deletion(remote_log(segment(1, 0, 8)), local_retention_bytes=0) == (0, False)


def test_segments_before_the_log_start_offset_need_no_copy() -> None:
    """DeleteRecords moved the log start offset to 15, into a segment that was copied only from there on."""
    assert deletion(remote_log(), log_start_offset=10) == (1, False)
    assert deletion(remote_log(), log_start_offset=9) == (0, False)
    log = remote_log(segment(1, 15, 19))
    assert deletion(log, log_start_offset=15, local_retention_bytes=0) == (2, False)


def test_empty_active_segment_is_not_closed() -> None:
    active = LocalSegment(40, 40, 0, -1)
    assert deletion(segments=[active], local_retention_ms=0) == (0, False)

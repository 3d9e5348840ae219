"""The long parts of opening a log after a crash: work items that run in this process or in a helper.

Opening a log is a generator (``Steps``) that yields each part as a work item. The caller sends the item's result, or
None to make the generator run the item itself. Work items only read files, so killing a helper does no harm.
Tests: tests/storage/manager/test_recovery_helper.py.
"""

from collections.abc import Callable, Generator
from typing import Any, NamedTuple, TypeVar

from kafka_zk.storage.files.file_pool import FilePool
from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.log.producer_snapshot import ProducerEntry
from kafka_zk.storage.log.producer_state import ProducerState, Replayed
from kafka_zk.storage.segments.recovery import SegmentScan, scan_segment
from kafka_zk.storage.segments.segment import open_segment

Report = Callable[[int], None]
"""Called with the bytes scanned since the last call."""

T = TypeVar("T")


class ScanWork(NamedTuple):
    """Runs ``recovery.scan_segment``; the result is a SegmentScan."""

    log_path: str
    index_path: str
    time_index_path: str
    base_offset: int
    recovery_point: int
    interval_bytes: int
    size_bytes: int
    following_bytes: int  # size of the later segments, which must also be scanned

    @property
    def left_bytes(self) -> int:
        """Bytes that the owner would scan in one turn if it had no helper."""
        return self.size_bytes + self.following_bytes

    def run(self, report: Report) -> SegmentScan:
        return scan_segment(*self[:6], report)


class ReplayWork(NamedTuple):
    """Runs ``ProducerState.replay``; the result is a Replayed. Reports no progress."""

    directory: str
    segments: tuple[tuple[int, int], ...]  # (base offset, size in bytes)
    start_offset: int
    end_offset: int
    producers: list[ProducerEntry]  # the producers at the start offset
    left_bytes: int

    def run(self, report: Report) -> Replayed:
        pool = FilePool(max_open_files=1)
        config = LogConfig()
        segments = [
            open_segment(self.directory, base_offset, config, pool, 0, size_bytes=size_bytes)
            for base_offset, size_bytes in self.segments
        ]
        state = ProducerState()
        state.load(self.producers, -1)
        replayed = state.replay(segments, self.start_offset, self.end_offset)
        for segment in segments:
            segment.release_resources()
        return replayed


Work = ScanWork | ReplayWork
Steps = Generator[Work, Any, T]

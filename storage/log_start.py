"""Opening the logs of all directories side by side, in steps. ``LogManager.start_steps`` is the way in.

Tests: tests/storage/test_log_manager.py, test_recovery_helper.py.
"""

from collections.abc import Callable, Generator, Mapping
from typing import NamedTuple

from kafka_zk.storage.errors import InconsistentLogDir
from kafka_zk.storage.log_dir import LogDir
from kafka_zk.storage.log_loader import Dropped
from kafka_zk.storage.log_opening import DirectoryOpening, OpenedLog
from kafka_zk.storage.types import TopicPartition

HELPER_POLL_S = 0.01
"""How long to leave helpers alone before asking for their results again."""


class StartProgress(NamedTuple):
    """How far a start is. Bytes are of segments that a recovery scans; what must be scanned shows by and by."""

    log_count: int  # opened
    total_log_count: int
    scanned_bytes: int
    bytes_to_scan: int
    is_waiting: bool  # for helper processes only: come back after HELPER_POLL_S


class StartReport(NamedTuple):
    """What a start found."""

    log_count: int
    recovered_count: int  # logs that were scanned, because their directory had no clean shutdown
    dropped: tuple[Dropped, ...]
    offline_directories: Mapping[str, str]  # path -> why
    scanned_bytes: int


def refuse_second_homes(found: Mapping[LogDir, list[tuple[TopicPartition, str]]]) -> None:
    """Raises: InconsistentLogDir if a partition lies in two directories."""
    home_of: dict[TopicPartition, LogDir] = {}
    for log_dir, partitions in found.items():
        for topic_partition, _ in partitions:
            other = home_of.setdefault(topic_partition, log_dir)
            if other is not log_dir:
                raise InconsistentLogDir(f"{topic_partition} lies in both {other.path} and {log_dir.path}")


class LogStart:
    """The directories that are being opened.

    Args:
        opened: takes a log that is ready.
        finished: takes a directory whose logs are all ready; may raise OSError, too.
        failed: takes a directory that failed; may raise to end the start.
    """

    def __init__(
        self,
        openings: dict[LogDir, DirectoryOpening],
        opened: Callable[[OpenedLog, LogDir], None],
        finished: Callable[[LogDir], None],
        failed: Callable[[LogDir, OSError], None],
    ) -> None:
        self._left = dict(openings)
        self._openings = list(openings.values())
        self._opened = opened
        self._finished = finished
        self._failed = failed
        self._log_count = 0
        self.dropped: list[Dropped] = []

    @property
    def scanned_bytes(self) -> int:
        return sum(opening.scanned_bytes for opening in self._openings)

    def steps(self) -> Generator[StartProgress, None, None]:
        """Open a log or so of each directory at each step, until all are open."""
        while self._left:
            for log_dir, opening in list(self._left.items()):
                try:
                    self._step(log_dir, opening)
                except OSError as error:
                    self._left.pop(log_dir).close()
                    self._failed(log_dir, error)
            yield self._progress()

    def _step(self, log_dir: LogDir, opening: DirectoryOpening) -> None:
        for log in opening.step():
            self._log_count += 1
            if log.dropped is not None:
                self.dropped.append(log.dropped)
            self._opened(log, log_dir)
        if opening.is_done:
            opening.close()
            self._finished(log_dir)
            del self._left[log_dir]

    def _progress(self) -> StartProgress:
        return StartProgress(
            self._log_count,
            sum(opening.log_count for opening in self._openings),
            self.scanned_bytes,
            sum(opening.bytes_to_scan for opening in self._openings),
            bool(self._left) and all(opening.is_waiting for opening in self._left.values()),
        )

    def close(self) -> None:
        """Give the start up: end the helpers."""
        for opening in self._openings:
            opening.close()

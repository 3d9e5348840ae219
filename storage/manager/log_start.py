"""Opens all logs at a start: directories in parallel, small recoveries here, large ones in helpers.

Each step of ``LogManager.start_steps`` opens one log, or part of one, in each directory. The owner can do other work
between two steps.
Tests: tests/storage/manager/test_log_manager.py, tests/storage/manager/test_recovery_helper.py.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import NamedTuple

from kafka_zk.base.types import TopicPartition
from kafka_zk.storage.files.errors import InconsistentLogDir
from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.log.recovery_work import ScanWork, Steps, Work
from kafka_zk.storage.manager.log_dir import LogDir
from kafka_zk.storage.manager.log_loader import Dropped, LogDependencies, load_log_steps
from kafka_zk.storage.manager.recovery_helper import HelperPool

HELPER_MIN_BYTES = 1 << 20
"""Smaller work items run in this process. Measured: scanning a MiB takes 0.3 ms with batches of 16 KB, 4 ms with
batches of one small record; replaying producers takes twice as long. A helper starts in 70 ms and responds in 0.2
ms."""
HELPER_POLL_S = 0.01
"""Seconds between two polls of the helpers."""


class StartProgress(NamedTuple):
    """Byte counts are those of recovery scans; ``bytes_to_scan`` grows as logs are opened."""

    log_count: int  # logs opened so far
    total_log_count: int
    scanned_bytes: int
    bytes_to_scan: int
    is_waiting: bool  # only helpers work: resume after HELPER_POLL_S


class StartReport(NamedTuple):
    log_count: int
    recovered_count: int  # logs scanned without a clean shutdown
    dropped: tuple[Dropped, ...]
    offline_directories: Mapping[str, str]  # path -> reason
    scanned_bytes: int
    is_clean: bool = True  # a registered broker shut down every usable directory cleanly


class OpenedLog(NamedTuple):
    """``dropped``: the data that the log's recovery dropped; None if it dropped nothing."""

    tp: TopicPartition
    log: Log
    dropped: Dropped | None


class OpeningSettings(NamedTuple):
    """Settings for opening logs, the same for all directories of a broker."""

    configs: Mapping[str, LogConfig]  # by topic
    default_config: LogConfig
    dependencies: LogDependencies
    clock_ms: Callable[[], int]
    helper_count: int  # per directory; 0: no helper processes


class _Loading:
    """A log that is being opened, and may wait for a helper."""

    __slots__ = ("is_counted", "steps", "tp")

    def __init__(self, tp: TopicPartition, steps: Steps[tuple[Log, Dropped | None]]) -> None:
        self.tp = tp
        self.steps = steps
        self.is_counted = False


class DirectoryOpening:
    """The logs of one directory while they are opened.

    Args:
        partitions: with their paths.
        helper_count: maximum number of helper processes; 0: none.
    """

    def __init__(
        self,
        partitions: Sequence[tuple[TopicPartition, str]],
        load: Callable[[TopicPartition, str], Steps[tuple[Log, Dropped | None]]],
        helper_count: int,
    ) -> None:
        self.log_count = len(partitions)
        self._partitions = iter(partitions)
        self._load = load
        self._helpers = HelperPool(helper_count) if helper_count else None
        self._scanned_here_bytes = 0
        self._all_begun = False
        self.bytes_to_scan = 0

    @property
    def scanned_bytes(self) -> int:
        return self._scanned_here_bytes + (self._helpers.scanned_bytes if self._helpers else 0)

    @property
    def is_done(self) -> bool:
        return self._all_begun and not (self._helpers and self._helpers.is_busy)

    def step(self) -> list[OpenedLog]:
        """Resume logs whose helpers are done, or begin to open another one. Returns the logs that are ready.

        Raises: OSError when the directory fails.
        """
        opened = []
        if self._helpers and self._helpers.is_busy:
            for loading, answer in self._helpers.results():
                opened.append(self._resume(loading, answer))
        if not opened and not self._all_begun:
            following = next(self._partitions, None)
            if following is None:
                self._all_begun = True
            else:
                opened.append(self._resume(_Loading(following[0], self._load(*following)), None))
        return [each for each in opened if each is not None]

    @property
    def is_waiting(self) -> bool:
        """True if only helpers have work."""
        return self._all_begun and not self.is_done

    def _resume(self, loading: _Loading, answer: object) -> OpenedLog | None:
        """Resume a log with its helper's result; None if the log waits for a helper again."""
        steps = loading.steps
        try:
            work = steps.throw(answer) if isinstance(answer, OSError) else steps.send(answer)
            while not self._goes_to_helper(loading, work):
                work = steps.send(None)
        except StopIteration as stop:
            log, dropped = stop.value
            return OpenedLog(loading.tp, log, dropped)
        return None

    def _goes_to_helper(self, loading: _Loading, work: Work) -> bool:
        """Count the work, and submit it to a helper if it is large. Returns True if it was submitted."""
        if isinstance(work, ScanWork) and not loading.is_counted:
            loading.is_counted = True
            self.bytes_to_scan += work.left_bytes
        if self._helpers is not None and work.left_bytes >= HELPER_MIN_BYTES:
            self._helpers.submit(loading, work)
            return True
        if isinstance(work, ScanWork):
            self._scanned_here_bytes += work.size_bytes
        return False

    def close(self) -> None:
        if self._helpers is not None:
            self._helpers.close()


def open_directory(
    log_dir: LogDir, partitions: Sequence[tuple[TopicPartition, str]], settings: OpeningSettings
) -> DirectoryOpening:
    """Begin to open the logs of a directory according to its checkpoints."""
    observe = settings.dependencies.observe
    start_offsets = log_dir.read_log_start_offsets(observe)
    recovery_points = log_dir.read_recovery_points(observe)
    high_watermarks = log_dir.read_high_watermarks(observe)
    cleaner_offsets = log_dir.read_cleaner_offsets(observe)
    clean = log_dir.had_clean_shutdown()

    def load(tp: TopicPartition, directory: str) -> Steps[tuple[Log, Dropped | None]]:
        log, dropped = yield from load_log_steps(
            tp,
            directory,
            settings.configs.get(tp.topic, settings.default_config),
            settings.dependencies,
            settings.clock_ms(),
            recovery_point=recovery_points.get(tp, 0),
            log_start_offset=start_offsets.get(tp),
            clean_shutdown=clean and tp not in log_dir.promoted,
            cleaned_offset=cleaner_offsets.get(tp),
            is_contiguous=log_dir.is_contiguous and tp not in log_dir.promoted,
        )
        log.update_high_watermark(high_watermarks.get(tp, 0))
        return log, dropped

    return DirectoryOpening(partitions, load, settings.helper_count)


def refuse_duplicate_logs(found: Mapping[LogDir, Sequence[tuple[TopicPartition, str]]]) -> None:
    """Raises: InconsistentLogDir for a partition in two directories."""
    log_dir_of: dict[TopicPartition, LogDir] = {}
    for log_dir, partitions in found.items():
        for tp, _ in partitions:
            other = log_dir_of.setdefault(tp, log_dir)
            if other is not log_dir:
                raise InconsistentLogDir(f"{tp} is in both {other.path} and {log_dir.path}")


class LogStart:
    """The directories that are being opened.

    Args:
        opened: called with each log.
        finished: called with each directory once all are complete, so that after a start that is refused or stopped,
            all directories still count as shut down cleanly. May raise OSError.
        failed: called with each failed directory; may raise to end the start.
    """

    def __init__(
        self,
        openings: dict[LogDir, DirectoryOpening],
        opened: Callable[[OpenedLog, LogDir], None],
        finished: Callable[[LogDir], None],
        failed: Callable[[LogDir, OSError], None],
    ) -> None:
        self._left = dict(openings)
        self._complete: list[LogDir] = []
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
        """Open about one log of each directory per step."""
        while self._left:
            for log_dir, opening in list(self._left.items()):
                try:
                    self._step(log_dir, opening)
                except OSError as error:
                    self._left.pop(log_dir).close()
                    self._failed(log_dir, error)
            yield self._progress()
        for log_dir in self._complete:
            try:
                self._finished(log_dir)
            except OSError as error:
                self._failed(log_dir, error)

    def _step(self, log_dir: LogDir, opening: DirectoryOpening) -> None:
        for log in opening.step():
            self._log_count += 1
            if log.dropped is not None:
                self.dropped.append(log.dropped)
            self._opened(log, log_dir)
        if opening.is_done:
            opening.close()
            self._complete.append(log_dir)
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
        for opening in self._openings:
            opening.close()

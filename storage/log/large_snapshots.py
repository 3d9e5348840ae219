"""Writes snapshots of many producers while the broker serves requests.

The owner's thread encodes the snapshot in steps and opens a temporary file. Another thread writes the file, and the
owner then renames it unless the snapshot is void. Tests: tests/storage/log/test_producer_snapshot.py.
"""

from collections import deque
from collections.abc import Callable, Iterator
from itertools import count
from typing import NamedTuple

from kafka_zk.storage.files.files import close, open_new, remove_file, rename, sync_file, write_all
from kafka_zk.storage.files.run_blocking import RunBlocking
from kafka_zk.storage.log.producer_snapshot import SnapshotUnderWay, snapshot_path
from kafka_zk.storage.log.producer_state import ProducerState
from kafka_zk.storage.segments.log_segments import LogSegments

WRITTEN_AT_ONCE = 2000
"""A snapshot of up to this many producers is written during the roll, in about 3 ms."""


class _Waiting(NamedTuple):
    producers: ProducerState
    segments: LogSegments
    snapshot: SnapshotUnderWay
    failed: Callable[[OSError], None]


class LargeSnapshots:
    """A broker's pending snapshots, in the order of rolls."""

    def __init__(self, run_blocking: RunBlocking) -> None:
        self._run_blocking = run_blocking
        self._waiting: deque[_Waiting] = deque()
        self._numbers = count()

    def begin(
        self, producers: ProducerState, segments: LogSegments, offset: int, failed: Callable[[OSError], None]
    ) -> None:
        """Schedule a snapshot for a log that rolls at ``offset``. ``failed`` is called if it cannot be written."""
        snapshot = producers.begin_snapshot(offset)
        if snapshot is not None:
            self._waiting.append(_Waiting(producers, segments, snapshot, failed))

    def steps(self) -> Iterator[None]:
        """Encode pending snapshots, about 0.5 ms per step, and begin to write them."""
        while self._waiting:
            waiting = self._waiting.popleft()
            content = yield from waiting.snapshot.encode_steps()
            if not waiting.snapshot.is_void:
                try:
                    self._write(waiting, content)
                except OSError as error:
                    waiting.failed(error)

    def _write(self, waiting: _Waiting, content: Callable[[], bytes]) -> None:
        producers, segments, snapshot, failed = waiting
        temporary = f"{next(self._numbers)}.snapshot.tmp"  # a void snapshot of this offset may still be in progress
        descriptor = open_new(f"{segments.directory}/{temporary}")

        def work() -> None:
            write_all(descriptor, content())
            sync_file(descriptor)

        def name() -> None:
            """Remove the file if the snapshot is void. Otherwise, give it its final name, which the log's next flush
            makes durable."""
            path = f"{segments.directory}/{temporary}"
            if snapshot.is_void:
                remove_file(path)
            else:
                rename(path, snapshot_path(segments.directory, snapshot.offset))
                producers.end_snapshot(snapshot)

        def done(error: OSError | None) -> None:
            close(descriptor)
            try:
                if error is not None:
                    raise error
                name()
            except OSError as either:
                if not snapshot.is_void:
                    producers.give_up_snapshot()
                failed(either)

        self._run_blocking(work, done)

"""Trace files: events that members and brokers write about themselves, one JSON object per line."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, NamedTuple

from kafka_zk.base.clock import wall_us
from kafka_zk.base.events import Event
from kafka_zk.recorder.timeline.event_codec import UnknownEvent, decode, encode

SUFFIX = ".jsonl"
_WRITTEN_WITHIN_US = 5_000


class Traced(NamedTuple):
    """``request_count``: ZooKeeper requests that the event's member had sent by then (None: not counted).

    ``microsecond``: the microsecond within the event's millisecond, 0 to 999 (None: unknown). ``number``: counts the
    events that the process wrote, from 1 (0: unknown).
    """

    event: Event
    request_count: int | None
    microsecond: int | None = None
    number: int = 0

    @property
    def place(self) -> dict[str, int]:
        """``microsecond`` and ``number``, each if known, for the event's entry in a recording."""
        known = {} if self.microsecond is None else {"microsecond": self.microsecond}
        return {**known, **({"number": self.number} if self.number else {})}


class TraceWriter:
    """Writes events to a trace file; an observer for any thread.

    Args:
        path: a file, or a directory for a file named after ``actor``.
        request_count: returns the number of ZooKeeper requests sent so far, or None.
    Raises: OSError.
    """

    def __init__(self, path: Path, actor: str, request_count: Callable[[], int | None] = lambda: None) -> None:
        self._request_count = request_count
        self._lock = threading.Lock()
        self._count = 0
        self._file: IO[str] = (path / f"{actor}{SUFFIX}" if path.is_dir() else path).open("a", encoding="utf-8")

    def __call__(self, event: Event) -> None:
        microsecond = _microsecond(event.time_ms, wall_us())
        with self._lock:
            if not self._file.closed:
                self._count += 1
                told = Traced(event, self._request_count(), microsecond, self._count)
                line = json.dumps(
                    {**encode(event), "requests": told.request_count, **told.place}, separators=(",", ":")
                )
                self._file.write(line + "\n")
                self._file.flush()

    def close(self) -> None:
        with self._lock:
            self._file.close()


class TraceFollower:
    """Reads what was appended to a trace file, or to all files in a directory, since the last call.

    The files and the directory need not exist yet. ``from_start``: also read the existing content.
    """

    def __init__(self, path: Path, from_start: bool = True) -> None:
        self._path = path
        self._positions: dict[Path, int] = {}
        self.bad_line_count = 0
        if not from_start:
            self._positions = {file: file.stat().st_size for file in self._files()}

    def read(self, most_bytes: int | None = None) -> list[Traced]:
        """The new events, in the order of each file. Lines that are not events are counted and skipped.

        Args:
            most_bytes: limit per file; None: no limit. A longer line is skipped.
        Raises: OSError if a file cannot be read; the next call then returns everything.
        """
        found: list[Traced] = []
        bad_line_count = 0
        read_until: dict[Path, int] = {}
        for file in self._files():
            if file.stat().st_size == self._positions.get(file, 0):
                continue
            with file.open("rb") as lines:
                lines.seek(self._positions.get(file, 0))
                data = lines.read(-1 if most_bytes is None else most_bytes)
            end = data.rfind(b"\n") + 1  # the rest is incomplete
            if not end and len(data) == most_bytes:
                end = len(data)
            read_until[file] = self._positions.get(file, 0) + end
            for line in data[:end].splitlines():
                try:
                    document = json.loads(line)
                    found.append(_traced(document))
                except (UnknownEvent, ValueError, AttributeError, RecursionError):
                    bad_line_count += 1
        self._positions |= read_until
        self.bad_line_count += bad_line_count
        return found

    def _files(self) -> list[Path]:
        if self._path.is_dir():
            return sorted(self._path.glob(f"*{SUFFIX}"))
        return [self._path] if self._path.is_file() else []


def _traced(document: dict[str, Any]) -> Traced:
    """Raises: UnknownEvent."""
    microsecond, number = document.get("microsecond"), document.get("number", 0)
    is_exact = type(microsecond) is int and 0 <= microsecond < 1000
    return Traced(
        decode(document),
        document.get("requests"),
        microsecond if is_exact else None,
        number if type(number) is int and number > 0 else 0,
    )


def _microsecond(time_ms: int, now_us: int) -> int | None:
    """The microsecond of an event that is written at ``now_us``; None if it did not happen just now."""
    late_us = now_us - time_ms * 1000
    return min(late_us, 999) if 0 <= late_us <= _WRITTEN_WITHIN_US else None

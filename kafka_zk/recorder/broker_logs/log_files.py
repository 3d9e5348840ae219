"""Reads the logs of brokers in a folder, and merges their events by time.

A broker's folder has ``server.log``, ``controller.log`` and ``state-change.log``, each with older parts that were
renamed (``server.log.2026-11-30-00``, ``server.log.1``, with ``.gz`` if compressed). The parts of one log are read one
after the other, so one file of each log is open at a time. Lines that contain no pattern's words are not parsed.
"""

import gzip
import heapq
import re
import zlib
from collections.abc import Iterator
from datetime import tzinfo
from pathlib import Path
from typing import IO, cast

from kafka_zk.recorder.broker_logs.log_line import parse
from kafka_zk.recorder.broker_logs.patterns import CANDIDATE, REPEATED, Source, event_of
from kafka_zk.recorder.timeline.outage_events import BrokerLogged

NAMES = ("server.log", "controller.log", "state-change.log")
MOST_LINE_BYTES = 16 * 1024
"""The rest of a longer line is skipped."""
_EXCEPTION = re.compile(rb"(?:[\w$]+\.)*[\w$]*(?:Exception|Error)\b")
_REPEAT_MS = 60_000
"""Minimum time between two reports of a problem that lasts."""
_HEAD_LINES = 1_000
"""Number of lines at a log's beginning that are searched for the log's time and broker."""


class BrokerLogs:
    """The logs of all brokers below a folder.

    Args:
        folder: one broker's logs, or a folder with a folder for each broker.
        zone: the time zone of the logs; None: this machine's.
    Raises: OSError if the folder cannot be listed.
    """

    def __init__(self, folder: Path, zone: tzinfo | None = None) -> None:
        self._zone = zone
        self._logs: dict[tuple[Path, str], list[Path]] = {}
        self.problems: list[str] = []
        """So far, one sentence for each file that could not be read to its end."""
        for file in sorted(folder.rglob("*.log*")):
            name = next((name for name in NAMES if file.name == name or file.name.startswith(f"{name}.")), None)
            if name is not None and file.is_file():
                self._logs.setdefault((file.parent, name), []).append(file)

    @property
    def file_count(self) -> int:
        return sum(map(len, self._logs.values()))

    def events(self) -> Iterator[BrokerLogged]:
        """The events in the logs, by time."""
        parts = [self._log(folder, files) for (folder, _), files in sorted(self._logs.items())]
        return heapq.merge(*parts, key=lambda event: event.time_ms)

    def _log(self, folder: Path, files: list[Path]) -> Iterator[BrokerLogged]:
        heads = [(*self._head(file), file) for file in files]
        broker = next((broker for _, broker, _ in heads if broker), folder.name)
        for _, _, file in sorted(heads):
            for event in self._part(file, f"{folder.name}/{file.name}", broker):
                broker = event.actor
                yield event

    def _head(self, file: Path) -> tuple[int, str]:
        """The time of the file's first line, and the broker that the log names first, or "" if it names none."""
        first_ms = 0
        for number, text, _ in self._lines(file):
            line = parse(text, self._zone)
            if line is not None:
                first_ms = first_ms or line.time_ms
                if line.broker_id is not None:
                    return first_ms, f"broker-{line.broker_id}"
            if number > _HEAD_LINES:
                break
        return first_ms, ""

    def _part(self, file: Path, name: str, broker: str) -> Iterator[BrokerLogged]:
        told_ms: dict[tuple[str, str], int] = {}
        for number, text, below in self._lines(file, candidates=True):
            line = parse(text, self._zone)
            event = None if line is None else event_of(line, broker, Source(name, number, text, below))
            if event is None:
                continue
            broker = event.actor
            about = event.kind, event.subject
            if event.kind in REPEATED and event.time_ms - told_ms.get(about, -_REPEAT_MS) < _REPEAT_MS:
                continue
            told_ms[about] = event.time_ms
            yield event

    def _lines(self, file: Path, *, candidates: bool = False) -> Iterator[tuple[int, str, str]]:
        """Each line with its number and the next line, if that begins an exception, else "". ``candidates``: yield only
        lines that a pattern may match.
        """
        try:
            with _opened(file) as opened:
                before: tuple[int, bytes] | None = None
                for number, data in _bounded(opened):
                    if before is not None:
                        yield before[0], _text(before[1]), _text(data) if _EXCEPTION.match(data) else ""
                    before = (number, data) if not candidates or CANDIDATE.search(data) else None
                if before is not None:
                    yield before[0], _text(before[1]), ""
        except (OSError, EOFError, zlib.error) as error:
            problem = f"{file} cannot be read to its end: {error}"
            if problem not in self.problems:
                self.problems.append(problem)


def _text(data: bytes) -> str:
    return data.decode(errors="replace").rstrip("\r\n")


def _opened(file: Path) -> IO[bytes]:
    return cast(IO[bytes], gzip.open(file)) if file.suffix == ".gz" else file.open("rb")


def _bounded(opened: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    number, is_rest = 1, False
    while data := opened.readline(MOST_LINE_BYTES):
        if not is_rest:
            yield number, data
        is_rest = not data.endswith(b"\n")
        number += not is_rest

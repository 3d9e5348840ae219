"""Reads the logs of brokers in a folder, and merges what they tell by time.

A broker's folder has ``server.log``, ``controller.log`` and ``state-change.log``, each with older parts that were
renamed (``server.log.2026-11-30-00``, ``server.log.1``, with ``.gz`` if compressed). The parts of one log are read one
after the other, so one file of each log is open at a time. Lines without a pattern's words are not parsed.
"""

import gzip
import heapq
import zlib
from collections.abc import Iterator
from datetime import tzinfo
from pathlib import Path
from typing import IO, cast

from kafka_zk.recorder.broker_logs.log_line import parse
from kafka_zk.recorder.broker_logs.patterns import CANDIDATE, event_of
from kafka_zk.recorder.timeline.outage_events import BrokerLogged

NAMES = ("server.log", "controller.log", "state-change.log")
MOST_LINE_BYTES = 16 * 1024
"""The rest of a longer line is skipped."""
_HEAD_LINES = 1_000
"""Lines in which the first part's time and broker are searched."""


class BrokerLogs:
    """The logs of all brokers below a folder.

    Args:
        folder: one broker's logs, or a folder with a folder for each broker.
        zone: of the times in the logs; None: this machine's.
    Raises: OSError if the folder cannot be listed.
    """

    def __init__(self, folder: Path, zone: tzinfo | None = None) -> None:
        self._zone = zone
        self._logs: dict[tuple[Path, str], list[Path]] = {}
        self.problems: list[str] = []
        """A sentence for each file that could not be read to its end, as far as the logs were read."""
        for file in sorted(folder.rglob("*.log*")):
            name = next((name for name in NAMES if file.name == name or file.name.startswith(f"{name}.")), None)
            if name is not None and file.is_file():
                self._logs.setdefault((file.parent, name), []).append(file)

    @property
    def file_count(self) -> int:
        return sum(map(len, self._logs.values()))

    def events(self) -> Iterator[BrokerLogged]:
        """What the lines tell, by time."""
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
        """The time of the file's first line, and the broker of the first line that tells it, "" if none does."""
        first_ms = 0
        for number, text in self._lines(file):
            line = parse(text, self._zone)
            if line is not None:
                first_ms = first_ms or line.time_ms
                if line.broker_id is not None:
                    return first_ms, f"broker-{line.broker_id}"
            if number > _HEAD_LINES:
                break
        return first_ms, ""

    def _part(self, file: Path, name: str, broker: str) -> Iterator[BrokerLogged]:
        for number, text in self._lines(file, candidates=True):
            line = parse(text, self._zone)
            event = None if line is None else event_of(line, broker, name, number, text)
            if event is not None:
                broker = event.actor
                yield event

    def _lines(self, file: Path, *, candidates: bool = False) -> Iterator[tuple[int, str]]:
        """The lines with their numbers. ``candidates``: only those that a pattern may match."""
        try:
            with _opened(file) as opened:
                for number, data in _bounded(opened):
                    if not candidates or CANDIDATE.search(data):
                        yield number, data.decode(errors="replace").rstrip("\r\n")
        except (OSError, EOFError, zlib.error) as error:
            problem = f"{file} cannot be read to its end: {error}"
            if problem not in self.problems:
                self.problems.append(problem)


def _opened(file: Path) -> IO[bytes]:
    return cast(IO[bytes], gzip.open(file)) if file.suffix == ".gz" else file.open("rb")


def _bounded(opened: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    number, is_rest = 1, False
    while data := opened.readline(MOST_LINE_BYTES):
        if not is_rest:
            yield number, data
        is_rest = not data.endswith(b"\n")
        number += not is_rest

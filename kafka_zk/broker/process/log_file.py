"""A bounded log file for everything that a process writes to stdout and stderr, tracebacks of the interpreter included.

``broker.log`` is the newest; a full one becomes ``broker.log.1``, that ``.2``, and so on; the oldest is removed.
Tests: tests/kafka_zk/broker/process/test_log_file.py.
"""

import logging
import os
from pathlib import Path

LOG_FILE_BYTES = 10 << 20
LOG_FILE_COUNT = 5
"""The newest included."""


class LogFile:
    """``path`` takes the place of this process's stdout and stderr from now on; what is in it stays.

    Raises: OSError.
    """

    def __init__(self, path: Path, size_bytes: int = LOG_FILE_BYTES, count: int = LOG_FILE_COUNT) -> None:
        self._path = path
        self._size_bytes = size_bytes
        self._count = count
        self._redirect()

    def rotate_if_full(self) -> None:
        """Call it after a whole line. Raises: OSError; the file stays then."""
        if os.fstat(2).st_size < self._size_bytes:
            return
        _make_room(self._path, self._count)
        self._redirect()

    def beside(self, name: str) -> Path:
        """Where a file of that name lies in the same folder."""
        return self._path.with_name(name)

    def _redirect(self) -> None:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        os.close(descriptor)


def _make_room(path: Path, count: int) -> None:
    """Nothing lies at ``path`` afterwards: each of ``count`` files moves on by one, and the oldest is gone."""
    for number in range(count - 1, 0, -1):
        older = _numbered(path, number - 1)
        if older.exists():
            older.replace(_numbered(path, number))


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}") if number else path


class OwnFileHandler(logging.FileHandler):
    """Writes what one logger says to a file of its own, made with the first line and rotated as ``LogFile`` is."""

    def __init__(self, path: Path, size_bytes: int = LOG_FILE_BYTES, count: int = LOG_FILE_COUNT) -> None:
        super().__init__(path, delay=True, encoding="utf-8")
        self._path = path
        self._size_bytes = size_bytes
        self._count = count

    def emit(self, record: logging.LogRecord) -> None:
        try:
            super().emit(record)
            if self.stream is not None and self.stream.tell() >= self._size_bytes:
                self.close()
                _make_room(self._path, self._count)
        except OSError:
            self.handleError(record)


class LogFileHandler(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes to stderr, which is the file."""

    def __init__(self, log_file: LogFile) -> None:
        super().__init__()
        self._log_file = log_file

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        try:
            self._log_file.rotate_if_full()
        except OSError:
            self.handleError(record)

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
        for number in range(self._count - 1, 0, -1):
            older = self._numbered(number - 1)
            if older.exists():
                older.replace(self._numbered(number))
        self._redirect()

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}") if number else self._path

    def _redirect(self) -> None:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        os.close(descriptor)


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

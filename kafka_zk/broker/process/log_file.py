"""A log file of limited size for a process's stdout and stderr, including the interpreter's tracebacks.

The newest file is ``broker.log``. When it is full, it becomes ``broker.log.1``, ``broker.log.1`` becomes ``.2``, and so
on; the oldest file is deleted.
"""

import logging
import os
from pathlib import Path

LOG_FILE_BYTES = 10 << 20
LOG_FILE_COUNT = 5
"""Maximum number of files, including the newest."""


class LogFile:
    """Redirects stdout and stderr to ``path``, appending.

    Raises: OSError.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._redirect()

    def rotate_if_full(self) -> None:
        """Begin a new file if this one is full. Call this after a complete line. Raises: OSError; the file stays in
        use."""
        if os.fstat(2).st_size < LOG_FILE_BYTES:
            return
        _make_room(self._path)
        self._redirect()

    def beside(self, name: str) -> Path:
        """The path of ``name`` in the same folder."""
        return self._path.with_name(name)

    def _redirect(self) -> None:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        os.close(descriptor)


def _make_room(path: Path) -> None:
    """Rename each file to the next number. The oldest of LOG_FILE_COUNT files is overwritten."""
    for number in range(LOG_FILE_COUNT - 1, 0, -1):
        older = _numbered(path, number - 1)
        if older.exists():
            older.replace(_numbered(path, number))


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}") if number else path


class OwnFileHandler(logging.FileHandler):
    """One logger's own file, created by the first line and rotated like ``LogFile``."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, delay=True, encoding="utf-8")
        self._path = path

    def emit(self, record: logging.LogRecord) -> None:
        try:
            super().emit(record)
            if self.stream is not None and self.stream.tell() >= LOG_FILE_BYTES:
                self.close()
                _make_room(self._path)
        except OSError:
            self.handleError(record)


class LogFileHandler(logging.StreamHandler):  # type: ignore[type-arg]
    """Writes to stderr, which is redirected to the file."""

    def __init__(self, log_file: LogFile) -> None:
        super().__init__()
        self._log_file = log_file

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        try:
            self._log_file.rotate_if_full()
        except OSError:
            self.handleError(record)

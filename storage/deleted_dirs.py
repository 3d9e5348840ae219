"""Directories of deleted partitions, until their delay is over. Tests: tests/storage/test_log_manager.py."""

import shutil
from collections.abc import Callable
from typing import NamedTuple

from storage.log import Log


class _DeletedDir(NamedTuple):
    due_ms: int
    path: str
    log: Log | None


class DeletedDirs:
    """What is left of partitions that are gone; ``log`` is None for those that an earlier run deleted."""

    def __init__(self) -> None:
        self._waiting: list[_DeletedDir] = []

    def add(self, due_ms: int, path: str, log: Log | None = None) -> None:
        self._waiting.append(_DeletedDir(due_ms, path, log))

    def take_due(self, now_ms: int) -> tuple[int, Callable[[], None]]:
        """How many are due, and the work of removing them, which may run in any thread; their files are closed."""
        due = [deleted for deleted in self._waiting if deleted.due_ms <= now_ms]
        self._waiting = [deleted for deleted in self._waiting if deleted.due_ms > now_ms]
        for deleted in due:
            if deleted.log is not None:
                deleted.log.close_files()

        def work() -> None:
            for deleted in due:
                shutil.rmtree(deleted.path, ignore_errors=True)

        return len(due), work

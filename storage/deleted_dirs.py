"""Directories of deleted partitions, until their delay is over. Tests: tests/storage/test_log_manager.py."""

import shutil
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from kafka_zk.storage.log import Log
from kafka_zk.storage.log_dir import LogDir


class _DeletedDir(NamedTuple):
    due_ms: int
    log_dir: LogDir
    path: str
    log: Log | None


class DeletedDirs:
    """What is left of partitions that are gone; ``log`` is None for those that an earlier run deleted."""

    def __init__(self) -> None:
        self._waiting: list[_DeletedDir] = []

    def add(self, due_ms: int, log_dir: LogDir, path: str, log: Log | None = None) -> None:
        self._waiting.append(_DeletedDir(due_ms, log_dir, path, log))

    def take_due(self, now_ms: int) -> dict[LogDir, list[str]]:
        """The paths that are due, for ``remove_trees``; their files are closed."""
        due: dict[LogDir, list[str]] = {}
        for deleted in self._waiting:
            if deleted.due_ms <= now_ms:
                due.setdefault(deleted.log_dir, []).append(deleted.path)
                if deleted.log is not None:
                    deleted.log.close_files()
        self._waiting = [deleted for deleted in self._waiting if deleted.due_ms > now_ms]
        return due


def remove_trees(paths: Iterable[str]) -> None:
    """May run in any thread. Raises: OSError."""
    for path in paths:
        with suppress(FileNotFoundError):  # somebody else removes it, too
            shutil.rmtree(path)

"""Limits a process's open segment files, and chooses which to close.

The algorithm is second chance: a file that was used since the pool last considered it is skipped once. Pinned files
stay open.
Tests: tests/storage/manager/test_log_manager.py.
"""

import resource
from collections import OrderedDict
from typing import Protocol

MOST_OPEN_FILES = 4096


class PooledFile(Protocol):
    """The part of a segment's interface that the pool uses."""

    recently_used: bool

    @property
    def is_pinned(self) -> bool: ...

    def close_file(self) -> None: ...


class FilePool:
    """Limits the open files of all logs of a process; not thread-safe.

    ``max_open_files``: default MOST_OPEN_FILES, at most half of the process's limit. ``pinned_count``: updated by
    the segments, which refuse readers above ``max_open_files``.
    """

    __slots__ = ("_open", "max_open_files", "pinned_count")

    def __init__(self, max_open_files: int | None = None) -> None:
        self.max_open_files = _default_limit() if max_open_files is None else max_open_files
        self.pinned_count = 0
        self._open: OrderedDict[PooledFile, None] = OrderedDict()

    @property
    def open_count(self) -> int:
        return len(self._open)

    def opened(self, file: PooledFile) -> None:
        """Register an open file, and close others above the limit."""
        self._open[file] = None
        candidates = 2 * len(self._open)  # each file up to twice, because a used one gets a second chance
        while len(self._open) > self.max_open_files and candidates:
            candidates -= 1
            oldest = next(iter(self._open))
            if oldest is file or oldest.is_pinned or oldest.recently_used:
                oldest.recently_used = False
                self._open.move_to_end(oldest)
            else:
                del self._open[oldest]
                oldest.close_file()

    def closed(self, file: PooledFile) -> None:
        """Unregister a file that its owner closed."""
        del self._open[file]


def _default_limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_OPEN_FILES if soft == resource.RLIM_INFINITY else min(MOST_OPEN_FILES, soft // 2)

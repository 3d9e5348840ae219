"""How many segment files may be open at once in a process, and which is closed when there are too many.

Second chance: a segment used since the pool last looked at it is passed over once. Pinned ones (a slice of theirs is
being sent) stay open. Tests: tests/storage/manager/test_log_manager.py.
"""

import resource
from collections import OrderedDict
from typing import Protocol

MOST_OPEN_FILES = 4096


class PooledFile(Protocol):
    """What the pool needs of a segment."""

    recently_used: bool

    @property
    def is_pinned(self) -> bool: ...

    def close_file(self) -> None: ...


class FilePool:
    """Bounds the open files of all logs of a process; single-threaded like everything that owns a log.

    ``max_open_files``: None for MOST_OPEN_FILES, but at most half of what the process may open. Files that are pinned
    stay open; ``pinned_count`` is kept by their owners, who let readers pin no more than that.
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
        """A file was opened; closes others while there are too many."""
        self._open[file] = None
        candidates = 2 * len(self._open)  # each is looked at twice at most: its second chance, then the decision
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
        """A file was closed by its owner."""
        del self._open[file]


def _default_limit() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST_OPEN_FILES if soft == resource.RLIM_INFINITY else min(MOST_OPEN_FILES, soft // 2)

"""A file system for tests: it calls the operating system, counts the operations, and fails where a test demands it."""

import os
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from kafka_zk.storage.files.files import Data, Entry, FileSystem

NO_SPACE = OSError(28, "No space left on device")
IO_ERROR = OSError(5, "I/O error")
_WRITING = os.O_WRONLY | os.O_RDWR


class _Fault(NamedTuple):
    operation: str
    below: str
    error: OSError


class FaultyFiles(FileSystem):
    """Counts and fails operations.

    ``calls``: method name of ``FileSystem`` -> number of calls; opening a file only to read it counts as ``read``.
    ``writes``: results of the next writes, each the number of bytes written or an error; later writes succeed.
    """

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.writes: list[int | OSError] = []
        self._faults: list[_Fault] = []
        self._paths: dict[int, str] = {}

    def fail(self, operation: str, below: Path | str = "", error: OSError = IO_ERROR) -> None:
        """From now on, ``operation`` fails on all paths that begin with ``below``."""
        self._faults.append(_Fault(operation, str(below), error))

    def heal(self) -> None:
        self._faults.clear()

    def _count(self, operation: str, path: str) -> None:
        self.calls[operation] += 1
        for fault in self._faults:
            if fault.operation == operation and path.startswith(fault.below):
                raise fault.error

    def path_of(self, descriptor: int) -> str:
        """The path with which a file was opened."""
        return self._paths.get(descriptor, "")

    def open(self, path: str, flags: int) -> int:
        self._count("open" if flags & _WRITING else "read", path)
        descriptor = super().open(path, flags)
        self._paths[descriptor] = path
        return descriptor

    def close(self, descriptor: int) -> None:
        self._paths.pop(descriptor, None)
        super().close(descriptor)

    def write(self, descriptor: int, data: Data) -> int:  # type: ignore[override]
        size_bytes = self.writes.pop(0) if self.writes else len(data)
        if isinstance(size_bytes, OSError):
            raise size_bytes
        return os.write(descriptor, memoryview(data)[:size_bytes])

    def sync(self, descriptor: int) -> None:
        self._count("sync", self.path_of(descriptor))
        super().sync(descriptor)

    def sync_data(self, descriptor: int) -> None:
        self._count("sync_data", self.path_of(descriptor))
        super().sync_data(descriptor)

    def truncate(self, descriptor: int, size_bytes: int) -> None:
        self._count("truncate", self.path_of(descriptor))
        super().truncate(descriptor, size_bytes)

    def rename(self, path: str, target: str) -> None:
        self._count("rename", path)
        super().rename(path, target)

    def remove(self, path: str) -> None:
        self._count("remove", path)
        super().remove(path)

    def remove_tree(self, path: str) -> None:
        self._count("remove_tree", path)
        super().remove_tree(path)

    def make_directory(self, path: str) -> None:
        self._count("make_directory", path)
        super().make_directory(path)

    def entries(self, path: str) -> list[Entry]:
        self._count("entries", path)
        return super().entries(path)

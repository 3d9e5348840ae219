"""All of storage's access to files and directories.

``use`` replaces the operating system's ``FileSystem`` in this process, for example by one that fails or loses unsynced
data (the model is LevelDB's Env). Unless replaced, ``write`` and ``pread`` are the system's own functions, so appends
and reads have no overhead.
"""

import fcntl
import mmap
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from kafka_zk.base.operating_system import files as operating_system

Data = bytes | bytearray | memoryview

_READ = os.O_RDONLY | os.O_CLOEXEC
_READ_AND_APPEND = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
_WRITE_END = _WRITE | os.O_APPEND
_REPLACE = _WRITE | os.O_TRUNC
_CHUNK_BYTES = 64 * 1024


class Entry(NamedTuple):
    name: str
    is_directory: bool


class Status(NamedTuple):
    """The file or directory at a path, after following links."""

    size_bytes: int
    modified_ms: int
    is_directory: bool


_locked_here: set[str] = set()


class FileSystem:
    """The operating system's file system. Every method raises OSError."""

    write = staticmethod(os.write)
    pread = staticmethod(os.pread)

    @property
    def locked_here(self) -> set[str]:
        return _locked_here

    def open(self, path: str, flags: int) -> int:
        """Open like ``os.open``; all users can read new files."""
        return os.open(path, flags, 0o644)

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    def sync(self, descriptor: int) -> None:
        """Make a file, or a directory's entries, durable."""
        operating_system.sync(descriptor)

    def sync_data(self, descriptor: int) -> None:
        """Make a file's content durable, with the metadata to read it."""
        operating_system.sync_data(descriptor)

    def is_cached(self, descriptor: int, positions: Iterable[int]) -> bool:
        """True if the pages at these positions are in the page cache; False also if unknown."""
        return operating_system.is_cached(descriptor, positions)

    def truncate(self, descriptor: int, size_bytes: int) -> None:
        os.ftruncate(descriptor, size_bytes)

    @contextmanager
    def map(self, descriptor: int) -> Iterator[memoryview]:
        """The content of a non-empty file, without a copy."""
        with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as data, memoryview(data) as view:
            yield view

    def lock(self, descriptor: int) -> None:
        """Lock a file's first byte until it is closed. Raises OSError if another process has the lock.

        Java locks the whole file, so Java brokers are excluded too.
        """
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)

    def lock_inheritably(self, descriptor: int) -> None:
        """Lock the second byte until every process that inherited the descriptor has closed it.

        Raises OSError if another process has the lock. Does nothing on systems without such locks.
        """
        operating_system.lock_inheritably(descriptor, 1)

    def rename(self, path: str, target: str) -> None:
        """Rename a file or directory; an existing file at ``target`` is replaced."""
        os.rename(path, target)

    def set_modified(self, path: str, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def remove(self, path: str) -> None:
        os.unlink(path)

    def remove_tree(self, path: str) -> None:
        shutil.rmtree(path)

    def make_directory(self, path: str) -> None:
        os.mkdir(path)

    def entries(self, path: str) -> list[Entry]:
        """The entries of a directory, in arbitrary order."""
        with os.scandir(path) as entries:
            return [Entry(entry.name, entry.is_dir()) for entry in entries]

    def status(self, path: str) -> Status | None:
        """Size, modification time and type; None if the path does not exist."""
        try:
            found = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return Status(found.st_size, found.st_mtime_ns // 1_000_000, stat.S_ISDIR(found.st_mode))

    def is_taken(self, path: str) -> bool:
        """True if the name exists, even as a dangling link."""
        return os.path.lexists(path)

    def real_path(self, path: str) -> str:
        return os.path.realpath(path)


_system = FileSystem()
write: Callable[[int, Data], int] = os.write
"""(descriptor, data) -> number of bytes written."""
pread: Callable[[int, int, int], bytes] = os.pread
"""(descriptor, size, position) -> bytes; fewer than ``size`` only at the end of the file."""


@contextmanager
def use(system: FileSystem) -> Iterator[None]:
    """Use ``system`` for all file access of storage."""
    global _system, write, pread
    before = _system, write, pread
    _system, write, pread = system, system.write, system.pread
    try:
        yield
    finally:
        _system, write, pread = before


# -- open files -------------------------------------------------------------------------------------------------------


def open_to_append(path: str, *, is_new: bool = False) -> int:
    """Open a file to read anywhere and write at the end; ``is_new``: create or truncate it."""
    return _system.open(path, _READ_AND_APPEND | os.O_CREAT | os.O_TRUNC if is_new else _READ_AND_APPEND)


def open_new(path: str) -> int:
    """Create or truncate a file."""
    return _system.open(path, _REPLACE)


def open_locked(path: str) -> int | None:
    """Open (or create) and lock a file; None if another process holds the lock."""
    descriptor = _system.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    try:
        _system.lock(descriptor)
    except OSError:
        _system.close(descriptor)
        return None
    return descriptor


def locked_here() -> set[str]:
    """The directories that this process locked: POSIX locks do not exclude a second holder in one process."""
    return _system.locked_here


def lock_inheritably(descriptor: int) -> bool:
    """Lock a file until all processes that inherit the descriptor have closed it. Returns False if other processes hold
    the lock."""
    try:
        _system.lock_inheritably(descriptor)
    except OSError:
        return False
    return True


def close(descriptor: int) -> None:
    _system.close(descriptor)


@contextmanager
def opened(path: str) -> Iterator[int]:
    descriptor = _system.open(path, _READ)
    try:
        yield descriptor
    finally:
        _system.close(descriptor)


@contextmanager
def mapped(path: str) -> Iterator[memoryview]:
    """The content of a non-empty file, without a copy."""
    with opened(path) as descriptor, _system.map(descriptor) as view:
        yield view


def is_cached(descriptor: int, positions: Iterable[int]) -> bool:
    return _system.is_cached(descriptor, positions)


def truncate(descriptor: int, size_bytes: int) -> None:
    _system.truncate(descriptor, size_bytes)


def sync_file(descriptor: int) -> None:
    """Make a file's content durable, with the metadata to read it."""
    _system.sync_data(descriptor)


def sync_path(path: str) -> None:
    """Make a file, or a directory's entries, durable."""
    with opened(path) as descriptor:
        _system.sync(descriptor)


def write_all(descriptor: int, data: Data) -> None:
    """Write all data, even after short writes."""
    written = write(descriptor, data)
    while written < len(data):
        data = memoryview(data)[written:]
        written = write(descriptor, data)


# -- whole files ------------------------------------------------------------------------------------------------------


def read_file(path: str) -> bytes | None:
    """The content of a file; None if it does not exist. Errors contain the path."""
    try:
        with opened(path) as descriptor:
            parts = []
            position = 0
            while data := pread(descriptor, _CHUNK_BYTES, position):
                parts.append(data)
                position += len(data)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error
    return b"".join(parts)


def write_file(path: str, data: Data = b"") -> None:
    """Write a file in place. After a crash, the file may contain any part of the data."""
    descriptor = _system.open(path, _REPLACE)
    try:
        if data:
            write_all(descriptor, data)
    finally:
        _system.close(descriptor)


def write_end(path: str, position: int, data: Data) -> None:
    """Replace everything after ``position``, creating the file if needed."""
    descriptor = _system.open(path, _WRITE_END)
    try:
        _system.truncate(descriptor, position)
        write_all(descriptor, data)
    finally:
        _system.close(descriptor)


def write_atomically(path: str, data: Data, *, durable: bool = True) -> None:
    """Replace ``path`` with ``data`` through ``<path>.tmp``.

    ``durable=False`` skips the fsync, for content that can be rebuilt.
    """
    temporary = path + ".tmp"
    descriptor = _system.open(temporary, _REPLACE)
    try:
        write_all(descriptor, data)
        if durable:
            _system.sync(descriptor)
    finally:
        _system.close(descriptor)
    _system.rename(temporary, path)
    if durable:
        sync_path(os.path.dirname(path))


# -- names ------------------------------------------------------------------------------------------------------------


def rename(path: str, target: str) -> None:
    """Rename a file or directory; an existing file at ``target`` is replaced."""
    _system.rename(path, target)


def set_modified(path: str, modified_ms: int) -> None:
    _system.set_modified(path, modified_ms)


def remove_file(path: str) -> None:
    """Remove a file, if it exists."""
    with suppress(FileNotFoundError):
        _system.remove(path)


def remove_tree(path: str) -> None:
    """Remove a directory and its contents, if it exists."""
    with suppress(FileNotFoundError):
        _system.remove_tree(path)


def make_directory(path: str, *, durable: bool = False) -> None:
    """Create a directory and its parents, if they do not exist.

    ``durable``: the new directories survive a power loss.
    """
    parent = os.path.dirname(path)
    try:
        _system.make_directory(path)
    except FileNotFoundError:
        if parent in ("", path):
            raise
        make_directory(parent, durable=durable)
        _system.make_directory(path)
    except FileExistsError:
        if not is_directory(path):
            raise
        return
    if durable:
        sync_path(parent or ".")


def list_directory(path: str) -> list[Entry]:
    """The entries of a directory, in arbitrary order."""
    return _system.entries(path)


def status(path: str) -> Status | None:
    return _system.status(path)


def exists(path: str) -> bool:
    return _system.status(path) is not None


def is_directory(path: str) -> bool:
    found = _system.status(path)
    return found is not None and found.is_directory


def is_taken(path: str) -> bool:
    """True if the name exists, even as a dangling link."""
    return _system.is_taken(path)


def size_bytes(path: str) -> int:
    found = _system.status(path)
    if found is None:
        raise FileNotFoundError(2, "No such file", path)
    return found.size_bytes


def real_path(path: str) -> str:
    return _system.real_path(path)

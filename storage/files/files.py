"""The only way of storage to files and directories: opened, synced, renamed, truncated, removed and listed here.

A test or a simulator puts a ``FileSystem`` of its own in place of the operating system's (``use``; the model is
LevelDB's Env): one that fails, forgets what was not synced, or takes its time. There is one for the whole process;
whoever runs several brokers in it tells them apart by their directories. Bytes go through descriptors: ``write`` and
``pread`` are the operating system's own functions unless somebody replaced them, so that an append or a read pays
nothing for it.

Files are written so that a crash leaves either the old or the new content. Tests: tests/storage/files/test_files.py.
"""

import fcntl
import mmap
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from struct import Struct
from typing import NamedTuple

Data = bytes | bytearray | memoryview

_FLOCK = Struct("@hhqqi4x")  # type, whence, start, length, process id
_READ = os.O_RDONLY | os.O_CLOEXEC
_READ_AND_APPEND = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
_WRITE_END = _WRITE | os.O_APPEND
_REPLACE = _WRITE | os.O_TRUNC
_CHUNK_BYTES = 64 * 1024


class Entry(NamedTuple):
    """A name in a directory."""

    name: str
    is_directory: bool


class Status(NamedTuple):
    """What there is at a path; a link counts as what it leads to."""

    size_bytes: int
    modified_ms: int
    is_directory: bool


_locked_here: set[str] = set()


class FileSystem:
    """The operating system's. Paths are strings; everything raises OSError."""

    write = staticmethod(os.write)
    pread = staticmethod(os.pread)

    @property
    def locked_here(self) -> set[str]:
        """The directories that this process has locked."""
        return _locked_here

    def open(self, path: str, flags: int) -> int:
        """A descriptor, as ``os.open`` gives it; new files are readable by everybody."""
        return os.open(path, flags, 0o644)

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    def sync(self, descriptor: int) -> None:
        """Make a file or the entries of a directory durable."""
        os.fsync(descriptor)

    def sync_data(self, descriptor: int) -> None:
        """Make a file's content durable, and of its metadata what is needed to read that."""
        os.fdatasync(descriptor)

    def is_cached(self, descriptor: int, positions: Iterable[int]) -> bool:
        """Whether the pages at these positions can be read without waiting for the disk; False if nobody can tell."""
        page = bytearray(1)
        try:
            for position in positions:
                os.preadv(descriptor, [page], position, os.RWF_NOWAIT)
        except OSError:  # EAGAIN: not there; EOPNOTSUPP: a file system that cannot tell
            return False
        return True

    def truncate(self, descriptor: int, size_bytes: int) -> None:
        os.ftruncate(descriptor, size_bytes)

    @contextmanager
    def map(self, descriptor: int) -> Iterator[memoryview]:
        """The content of a file that is not empty, without a copy."""
        with mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) as data, memoryview(data) as view:
            yield view

    def lock(self, descriptor: int) -> None:
        """Lock a file's first byte for this process until it is closed; an OSError if another process has done so.

        Java locks all of a file, so the two exclude each other.
        """
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)

    def lock_inheritably(self, descriptor: int) -> None:
        """Lock the second byte until this descriptor is closed in every process that has inherited it.

        An OSError if others have locked it. Where the system has no such locks, nothing is done.
        """
        if hasattr(fcntl, "F_OFD_SETLK"):
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 1, 1, 0))

    def rename(self, path: str, target: str) -> None:
        """Give a file or a directory another name; a file that has it is replaced."""
        os.rename(path, target)

    def set_modified(self, path: str, modified_ms: int) -> None:
        os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))

    def remove(self, path: str) -> None:
        """Raises: FileNotFoundError."""
        os.unlink(path)

    def remove_tree(self, path: str) -> None:
        """Remove a directory with everything in it. Raises: FileNotFoundError."""
        shutil.rmtree(path)

    def make_directory(self, path: str) -> None:
        """Raises: FileExistsError."""
        os.mkdir(path)

    def entries(self, path: str) -> list[Entry]:
        """What is in a directory, in no order."""
        with os.scandir(path) as entries:
            return [Entry(entry.name, entry.is_dir()) for entry in entries]

    def status(self, path: str) -> Status | None:
        """None if nothing is there."""
        try:
            found = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return Status(found.st_size, found.st_mtime_ns // 1_000_000, stat.S_ISDIR(found.st_mode))

    def is_taken(self, path: str) -> bool:
        """Whether the name is given, be it to a link that leads nowhere."""
        return os.path.lexists(path)

    def real_path(self, path: str) -> str:
        """The one path that a directory has whatever links lead to it."""
        return os.path.realpath(path)


_system = FileSystem()
write: Callable[[int, Data], int] = os.write
"""(descriptor, data) -> how many bytes were written."""
pread: Callable[[int, int, int], bytes] = os.pread
"""(descriptor, size, position) -> the bytes, fewer at the end of the file."""


@contextmanager
def use(system: FileSystem) -> Iterator[None]:
    """Have everything of storage in this process go through ``system`` meanwhile."""
    global _system, write, pread
    before = _system, write, pread
    _system, write, pread = system, system.write, system.pread
    try:
        yield
    finally:
        _system, write, pread = before


# -- open files -------------------------------------------------------------------------------------------------------


def open_to_append(path: str, *, is_new: bool = False) -> int:
    """A descriptor of an existing file, or of one that is made or emptied, to read anywhere and to write at the end."""
    return _system.open(path, _READ_AND_APPEND | os.O_CREAT | os.O_TRUNC if is_new else _READ_AND_APPEND)


def open_new(path: str) -> int:
    """A descriptor of a file that is made, or emptied, to be written from its beginning on."""
    return _system.open(path, _REPLACE)


def open_locked(path: str) -> int | None:
    """A descriptor of a file, made if need be, that this process has locked; None if another process has."""
    descriptor = _system.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    try:
        _system.lock(descriptor)
    except OSError:
        _system.close(descriptor)
        return None
    return descriptor


def locked_here() -> set[str]:
    """The directories that this process has locked: POSIX locks do not keep two holders in one process apart."""
    return _system.locked_here


def lock_inheritably(descriptor: int) -> bool:
    """Lock a file for this process and for those that inherit the descriptor, until all have closed it; False if
    others hold that lock."""
    try:
        _system.lock_inheritably(descriptor)
    except OSError:
        return False
    return True


def close(descriptor: int) -> None:
    _system.close(descriptor)


@contextmanager
def opened(path: str) -> Iterator[int]:
    """A descriptor to read from."""
    descriptor = _system.open(path, _READ)
    try:
        yield descriptor
    finally:
        _system.close(descriptor)


@contextmanager
def mapped(path: str) -> Iterator[memoryview]:
    """The content of a file that is not empty, without a copy."""
    with opened(path) as descriptor, _system.map(descriptor) as view:
        yield view


def is_cached(descriptor: int, positions: Iterable[int]) -> bool:
    """See ``FileSystem.is_cached``."""
    return _system.is_cached(descriptor, positions)


def truncate(descriptor: int, size_bytes: int) -> None:
    _system.truncate(descriptor, size_bytes)


def sync_file(descriptor: int) -> None:
    """Make a file's content durable (data and the metadata needed to read them)."""
    _system.sync_data(descriptor)


def sync_path(path: str) -> None:
    """Make the file, or the entries of the directory, at ``path`` durable."""
    with opened(path) as descriptor:
        _system.sync(descriptor)


def write_all(descriptor: int, data: Data) -> None:
    """Write everything, however many calls it takes."""
    written = write(descriptor, data)
    while written < len(data):
        data = memoryview(data)[written:]
        written = write(descriptor, data)


# -- whole files ------------------------------------------------------------------------------------------------------


def read_file(path: str) -> bytes | None:
    """The whole content, None if there is no such file. Raises: OSError that names it."""
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
    """Write a file anew, in place: a crash may leave any part of it."""
    descriptor = _system.open(path, _REPLACE)
    try:
        if data:
            write_all(descriptor, data)
    finally:
        _system.close(descriptor)


def write_end(path: str, position: int, data: Data) -> None:
    """Replace what lies behind ``position`` in a file, which is made if need be."""
    descriptor = _system.open(path, _WRITE_END)
    try:
        _system.truncate(descriptor, position)
        write_all(descriptor, data)
    finally:
        _system.close(descriptor)


def write_atomically(path: str, data: Data, *, durable: bool = True) -> None:
    """Replace ``path`` with ``data`` by way of ``<path>.tmp``.

    Without ``durable`` no fsync is done: for content that can be rebuilt when a power loss left it empty.
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
    """Give a file or a directory another name; a file that has it is replaced."""
    _system.rename(path, target)


def set_modified(path: str, modified_ms: int) -> None:
    """Have a file say that it was written to at that time."""
    _system.set_modified(path, modified_ms)


def remove_file(path: str) -> None:
    """Remove a file that may be gone already."""
    with suppress(FileNotFoundError):
        _system.remove(path)


def remove_tree(path: str) -> None:
    """Remove a directory with everything in it; it may be gone already."""
    with suppress(FileNotFoundError):
        _system.remove_tree(path)


def make_directory(path: str, *, durable: bool = False) -> None:
    """Make a directory and those it lies in, unless they are there.

    ``durable``: what was made outlives a power loss.
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
    """What is in a directory, in no order."""
    return _system.entries(path)


def status(path: str) -> Status | None:
    """None if nothing is there."""
    return _system.status(path)


def exists(path: str) -> bool:
    return _system.status(path) is not None


def is_directory(path: str) -> bool:
    found = _system.status(path)
    return found is not None and found.is_directory


def is_taken(path: str) -> bool:
    """Whether the name is given, be it to a link that leads nowhere."""
    return _system.is_taken(path)


def size_bytes(path: str) -> int:
    """Raises: FileNotFoundError."""
    found = _system.status(path)
    if found is None:
        raise FileNotFoundError(2, "No such file", path)
    return found.size_bytes


def real_path(path: str) -> str:
    """The one path that a directory has whatever links lead to it."""
    return _system.real_path(path)

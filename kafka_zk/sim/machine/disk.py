"""The disks of the simulated world: one tree in memory for ``storage.files``, with a folder for each process.

A write is visible immediately, as in a page cache, and durable after a sync. ``lose_power`` changes a folder to the
state that the next start finds. A file then has its last synced content, plus any part of later writes, possibly with
blocks of zeros. A name is in its state at the last sync of its directory, or in its current one. Real file systems
order more than POSIX promises. This model is stricter: it preserves only the order of removals and the atomicity of
renames. ``tests/soak/power.py`` does the same to real folders.
"""

import errno
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from random import Random
from typing import NamedTuple

from kafka_zk.storage.files.files import Data, Entry, FileSystem, Status

BLOCK_BYTES = 512
_FIRST_DESCRIPTOR = 1 << 24  # the operating system gives no such descriptor
_WRITING = os.O_WRONLY | os.O_RDWR


class _File:
    __slots__ = ("content", "durable", "is_cached", "modified_ms")

    def __init__(self, now_ms: int) -> None:
        self.content = bytearray()
        self.durable = b""
        self.is_cached = True  # the whole file is in the page cache, which a power loss empties
        self.modified_ms = now_ms


class _Directory:
    __slots__ = ("durable", "entries", "modified_ms")

    def __init__(self, now_ms: int) -> None:
        self.entries: dict[str, _File | _Directory] = {}
        self.durable: dict[str, _File | _Directory] = {}
        self.modified_ms = now_ms


_Node = _File | _Directory


class _Open(NamedTuple):
    path: str
    node: _Node
    flags: int


class SimDisk(FileSystem):
    """``fault``: returns the error that an operation on a path raises now, or None."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._root = _Directory(0)
        self._open: dict[int, _Open] = {}
        self._locked: dict[str, int] = {}  # path -> the descriptor that holds the lock
        self._next = _FIRST_DESCRIPTOR
        self._locked_here: set[str] = set()
        self.fault: Callable[[str, str], OSError | None] = lambda operation, path: None
        self.write = self._write  # type: ignore[assignment]
        self.pread = self._pread

    @property
    def locked_here(self) -> set[str]:
        return self._locked_here

    # -- the operating system's calls -----------------------------------------------------------------------------

    def open(self, path: str, flags: int) -> int:
        self._meet("open" if flags & _WRITING else "read", path)
        parent, name = self._parent(path)
        node = parent.entries.get(name) if name else parent
        if node is None:
            if not flags & os.O_CREAT:
                raise _error(errno.ENOENT, path)
            node = parent.entries[name] = _File(self._now_ms())
        elif isinstance(node, _Directory) and flags & _WRITING:
            raise _error(errno.EISDIR, path)
        if flags & os.O_TRUNC and isinstance(node, _File):
            node.content = bytearray()
            node.modified_ms = self._now_ms()
        self._next += 1
        self._open[self._next] = _Open(path, node, flags)
        return self._next

    def close(self, descriptor: int) -> None:
        opened = self._opened(descriptor)
        del self._open[descriptor]
        if self._locked.get(opened.path) == descriptor:
            del self._locked[opened.path]

    def sync(self, descriptor: int) -> None:
        self._sync("sync", descriptor)

    def sync_data(self, descriptor: int) -> None:
        self._sync("sync_data", descriptor)

    def is_cached(self, descriptor: int, positions: Iterable[int]) -> bool:
        return self._file(self._opened(descriptor)).is_cached

    def truncate(self, descriptor: int, size_bytes: int) -> None:
        opened = self._opened(descriptor)
        self._meet("truncate", opened.path)
        content = self._file(opened).content
        if size_bytes < len(content):
            del content[size_bytes:]
        else:
            content.extend(bytes(size_bytes - len(content)))

    @contextmanager
    def map(self, descriptor: int) -> Iterator[memoryview]:
        file = self._file(self._opened(descriptor))
        file.is_cached = True
        yield memoryview(bytes(file.content))

    def lock(self, descriptor: int) -> None:
        path = self._opened(descriptor).path
        if path in self._locked:
            raise _error(errno.EACCES, path)
        self._locked[path] = descriptor

    def lock_inheritably(self, descriptor: int) -> None:
        """No process inherits a descriptor here."""

    def rename(self, path: str, target: str) -> None:
        self._meet("rename", path)
        old_parent, old_name = self._parent(path)
        parent, name = self._parent(target)
        node = old_parent.entries.get(old_name)
        if node is None:
            raise _error(errno.ENOENT, path)
        replaced = parent.entries.get(name)
        if target.startswith(f"{path}/"):
            raise _error(errno.EINVAL, path)
        if path.startswith(f"{target}/"):
            raise _error(errno.ENOTEMPTY, target)
        if replaced is node:
            return
        if replaced is not None and isinstance(replaced, _Directory) != isinstance(node, _Directory):
            raise _error(errno.ENOTDIR if isinstance(node, _Directory) else errno.EISDIR, target)
        if isinstance(replaced, _Directory) and replaced.entries:
            raise _error(errno.ENOTEMPTY, target)
        del old_parent.entries[old_name]
        parent.entries[name] = node

    def remove(self, path: str) -> None:
        self._meet("remove", path)
        parent, name = self._parent(path)
        if name not in parent.entries:
            raise _error(errno.ENOENT, path)
        if isinstance(parent.entries[name], _Directory):
            raise _error(errno.EISDIR, path)
        del parent.entries[name]

    def remove_tree(self, path: str) -> None:
        self._meet("remove_tree", path)
        parent, name = self._parent(path)
        if name not in parent.entries:
            raise _error(errno.ENOENT, path)
        if isinstance(parent.entries[name], _File):
            raise _error(errno.ENOTDIR, path)
        del parent.entries[name]

    def make_directory(self, path: str) -> None:
        self._meet("make_directory", path)
        parent, name = self._parent(path)
        if not name or name in parent.entries:
            raise _error(errno.EEXIST, path)
        parent.entries[name] = _Directory(self._now_ms())

    def entries(self, path: str) -> list[Entry]:
        self._meet("entries", path)
        node = self._node(path)
        if node is None:
            raise _error(errno.ENOENT, path)
        if isinstance(node, _File):
            raise _error(errno.ENOTDIR, path)
        return [Entry(name, isinstance(child, _Directory)) for name, child in node.entries.items()]

    def status(self, path: str) -> Status | None:
        try:
            node = self._node(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        if node is None:
            return None
        size_bytes = len(node.content) if isinstance(node, _File) else 0
        return Status(size_bytes, node.modified_ms, isinstance(node, _Directory))

    def set_modified(self, path: str, modified_ms: int) -> None:
        self._meet("set_modified", path)
        node = self._node(path)
        if node is None:
            raise _error(errno.ENOENT, path)
        node.modified_ms = modified_ms

    def is_taken(self, path: str) -> bool:
        return self.status(path) is not None

    def real_path(self, path: str) -> str:
        return path

    def _write(self, descriptor: int, data: Data) -> int:
        opened = self._opened(descriptor)
        self._meet("write", opened.path)
        file = self._file(opened)
        if opened.flags & os.O_APPEND or not file.content:
            file.content += data
        else:
            raise AssertionError(f"{opened.path}: storage writes to empty files or to the end")
        file.modified_ms = self._now_ms()
        return len(data)

    def _pread(self, descriptor: int, size_bytes: int, position: int) -> bytes:
        opened = self._opened(descriptor)
        self._meet("pread", opened.path)
        file = self._file(opened)
        file.is_cached = True
        with memoryview(file.content) as content:
            return bytes(content[position : position + size_bytes])

    # -- faults ---------------------------------------------------------------------------------------------------

    def close_all(self, folder: str) -> None:
        """Close the files and release the locks of the process that used this folder."""
        for descriptor, opened in list(self._open.items()):
            if _lies_in(opened.path, folder):
                self.close(descriptor)
        self._locked_here -= {path for path in self._locked_here if _lies_in(path, folder)}

    def lose_power(self, folder: str, random: Random) -> None:
        self.close_all(folder)
        node = self._node(folder)
        if isinstance(node, _Directory):
            _after_power_loss(node, random)

    def everything(self, folder: str) -> dict[str, bytes]:
        """Every file below a folder, by path."""
        node = self._node(folder)
        return dict(_walk(folder, node)) if isinstance(node, _Directory) else {}

    def durable_bytes(self, descriptor: int) -> int:
        """Number of bytes at the beginning of a file that survive a power loss."""
        file = self._file(self._opened(descriptor))
        if file.content.startswith(file.durable):
            return len(file.durable)
        return len(_common_start(file.durable, bytes(file.content)))

    @property
    def open_count(self) -> int:
        return len(self._open)

    # -- internals ------------------------------------------------------------------------------------------------

    def _meet(self, operation: str, path: str) -> None:
        error = self.fault(operation, path)
        if error is not None:
            raise error

    def _opened(self, descriptor: int) -> _Open:
        opened = self._open.get(descriptor)
        if opened is None:
            raise _error(errno.EBADF, str(descriptor))
        return opened

    @staticmethod
    def _file(opened: _Open) -> _File:
        if isinstance(opened.node, _Directory):
            raise _error(errno.EISDIR, opened.path)
        return opened.node

    def _sync(self, operation: str, descriptor: int) -> None:
        opened = self._opened(descriptor)
        self._meet(operation, opened.path)
        if isinstance(opened.node, _Directory):
            opened.node.durable = dict(opened.node.entries)
        else:
            opened.node.durable = bytes(opened.node.content)

    def _node(self, path: str) -> _Node | None:
        parent, name = self._parent(path)
        return parent.entries.get(name) if name else parent

    def _parent(self, path: str) -> tuple[_Directory, str]:
        if not path:
            raise _error(errno.ENOENT, path)
        *folders, name = [part for part in path.split("/") if part] or [""]
        node = self._root
        for folder in folders:
            child = node.entries.get(folder)
            if child is None:
                raise _error(errno.ENOENT, path)
            if isinstance(child, _File):
                raise _error(errno.ENOTDIR, path)
            node = child
        return node, name


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)


def _lies_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _walk(path: str, directory: _Directory) -> Iterator[tuple[str, bytes]]:
    for name, node in sorted(directory.entries.items()):
        if isinstance(node, _Directory):
            yield from _walk(f"{path}/{name}", node)
        else:
            yield f"{path}/{name}", bytes(node.content)


def _after_power_loss(directory: _Directory, random: Random) -> None:
    then, now = directory.durable, directory.entries
    vanished = sorted(then.keys() - now.keys())
    forgotten = set(vanished[: random.randint(0, len(vanished))])  # a journal preserves the order of removals
    found: dict[str, _Node] = {}
    for name in sorted(now.keys() | then.keys()):
        node = random.choice((now[name], then.get(name))) if name in now else then[name]
        if node is not None and name not in forgotten:
            found[name] = node
    _make_renames_atomic(found, then, now)
    for name, node in found.items():
        if isinstance(node, _Directory):
            _after_power_loss(node, random)
        else:
            node.durable = survivor(random, name, node.durable, bytes(node.content))
            node.content = bytearray(node.durable)
            node.is_cached = False
    directory.entries = found
    directory.durable = dict(found)


def _make_renames_atomic(found: dict[str, _Node], then: dict[str, _Node], now: dict[str, _Node]) -> None:
    """A renamed node has exactly one of its names, as in every journaling file system."""
    new_names = {id(node): name for name, node in now.items()}
    for old_name, node in then.items():
        new_name = new_names.get(id(node), old_name)
        if new_name == old_name:
            continue
        has_old, has_new = found.get(old_name) is node, found.get(new_name) is node
        if has_old and has_new:
            del found[old_name]
        elif not has_old and not has_new:
            found[new_name] = node


def survivor(random: Random, name: str, durable: bytes, current: bytes) -> bytes:
    """The content of a file after a power loss."""
    if current == durable:
        return durable
    if not current.startswith(durable):  # truncated and appended to, or rewritten: truncation keeps the common part
        common = _common_start(durable, current) if ".log" in name else b""
        return random.choice((durable, current, common + _partly(random, current[len(common) :])))
    if not durable and len(current) <= BLOCK_BYTES:
        return random.choice((b"", current, bytes(len(current))))  # a block is written as a whole, or not at all
    return durable + _partly(random, current[len(durable) :])


def _common_start(one: bytes, other: bytes) -> bytes:
    length = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return one[:length]


def _partly(random: Random, appended: bytes) -> bytes:
    """The part of the bytes that remains, possibly with blocks of zeros."""
    kept = random.choice((0, len(appended), random.randint(0, len(appended))))
    data = bytearray(appended[:kept])
    if random.random() < 0.3:
        for position in range(0, len(data), BLOCK_BYTES):
            if random.random() < 0.5:
                end = min(position + BLOCK_BYTES, len(data))
                data[position:end] = bytes(end - position)
    return bytes(data)

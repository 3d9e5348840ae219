"""Durability, page cache, locks and temporary files."""

import errno
import fcntl
import os
import struct
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)
_NO_FULL_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.ENOTTY)
_NOWAIT: int | None = getattr(os, "RWF_NOWAIT", None)
_LOCK_OF_FILE: int | None = getattr(fcntl, "F_OFD_SETLK", None)


def _sync_drive(descriptor: int) -> None:
    assert _FULL_SYNC is not None
    try:
        fcntl.fcntl(descriptor, _FULL_SYNC)
    except OSError as error:
        if error.errno not in _NO_FULL_SYNC:  # not supported, for example by a network file system
            raise
        os.fsync(descriptor)


sync: Callable[[int], None] = os.fsync if _FULL_SYNC is None else _sync_drive
"""Make a file, or a directory's entries, durable. Raises OSError.

On macOS, ``fsync`` alone leaves the data in the drive's cache, so this is ``F_FULLFSYNC``.
"""
sync_data: Callable[[int], None] = getattr(os, "fdatasync", sync) if _FULL_SYNC is None else _sync_drive
"""Make a file's content durable, with the metadata to read it. Raises OSError. Without ``fdatasync``, this is
``sync``."""


def is_cached(descriptor: int, positions: Iterable[int]) -> bool:
    """True if the pages at these positions can be read without disk access. False if that is unknown, as on every
    system other than Linux."""
    if _NOWAIT is None:
        return False
    page = bytearray(1)
    try:
        for position in positions:
            os.preadv(descriptor, [page], position, _NOWAIT)
    except OSError:  # EAGAIN: not cached; EOPNOTSUPP: unknown in this file system
        return False
    return True


def lock_inheritably(descriptor: int, byte: int) -> None:
    """Lock one byte of a file until every process that inherited the descriptor has closed it.

    Raises: OSError if another process has the lock. Does nothing on systems without such locks.
    """
    if _LOCK_OF_FILE is not None:
        fcntl.fcntl(descriptor, _LOCK_OF_FILE, _write_lock(byte))


def _write_lock(byte: int) -> bytes:
    """The C structure ``flock``."""
    if sys.platform == "darwin":
        return struct.pack("@qqihh", byte, 1, 0, fcntl.F_WRLCK, os.SEEK_SET)
    return struct.pack("@hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)


@contextmanager
def secret_file(data: bytes) -> Iterator[str]:
    """The path of a file with ``data`` that only this user can read: in memory, or else in the temporary folder. It is
    deleted at the end of the block."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("secret")
        try:
            os.write(descriptor, data)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        with tempfile.NamedTemporaryFile() as file:  # mode 0600
            file.write(data)
            file.flush()
            yield file.name

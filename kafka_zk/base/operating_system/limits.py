"""Limits of processes."""

import errno
import resource
from contextlib import suppress

_DESCRIPTORS_OF_MACOS = 10_240
"""OPEN_MAX, the most that macOS accepts although its hard limit is infinite."""


def raise_descriptor_limit() -> None:
    """Raise this process's limit of open files to the system's maximum."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (_DESCRIPTORS_OF_MACOS, hard))


def limit_memory(limit_bytes: int) -> None:
    """Limit this process's address space. Has no effect on systems that do not limit it, such as macOS."""
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (limit_bytes, limit_bytes))


def file_size_limit() -> int:
    """Maximum size in bytes of a file that this process writes; RLIM_INFINITY: no limit."""
    return resource.getrlimit(resource.RLIMIT_FSIZE)[0]


def limit_file_size(limit_bytes: int) -> None:
    """Limit the size of this process's files. With 0, every write fails. Raises: ValueError above the hard limit."""
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, hard))


def limit_file_size_of(pid: int, limit_bytes: int | None) -> None:
    """Like ``limit_file_size``, for another process of this user; None: no limit.

    Raises: OSError, always on systems other than Linux.
    """
    if not hasattr(resource, "prlimit"):
        raise OSError(errno.ENOSYS, "only Linux limits the files of another process")
    hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)[1]
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard if limit_bytes is None else limit_bytes, hard))

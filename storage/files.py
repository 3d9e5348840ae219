"""Writing files so that a crash leaves either the old or the new content. Every fsync of storage goes through here."""

import os

Data = bytes | bytearray | memoryview


def sync_file(descriptor: int) -> None:
    """Make a file's content durable (data and the metadata needed to read them)."""
    os.fdatasync(descriptor)


def sync_path(path: str) -> None:
    """Make the file, or the entries of the directory, at ``path`` durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, data: Data) -> None:
    """Write everything, however many calls it takes."""
    written = os.write(descriptor, data)
    while written < len(data):
        data = memoryview(data)[written:]
        written = os.write(descriptor, data)


def write_atomically(path: str, data: Data, *, durable: bool = True) -> None:
    """Replace ``path`` with ``data`` by way of ``<path>.tmp``.

    Without ``durable`` no fsync is done: for content that can be rebuilt when a power loss left it empty.
    """
    temporary = path + ".tmp"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        write_all(descriptor, data)
        if durable:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
    os.replace(temporary, path)
    if durable:
        sync_path(os.path.dirname(path))


def read_file(path: str) -> bytes | None:
    """The whole content, None if there is no such file."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def remove_file(path: str) -> None:
    """Remove a file that may be gone already."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return

"""A segment's file: opened on first use, pinned by readers, renamed and removed.

Unless the file is pinned, the ``FilePool`` may close it. Tests: tests/storage/log/test_log_files.py.
"""

from collections.abc import Callable

from kafka_zk.storage.files import files
from kafka_zk.storage.files.errors import TooManyOpenFiles
from kafka_zk.storage.files.file_pool import FilePool
from kafka_zk.storage.files.filenames import (
    DELETED_SUFFIX,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    offset_file,
)
from kafka_zk.storage.files.files import remove_file, write_all
from kafka_zk.storage.records.record_batch import HEADER_SIZE, BatchHeader, read_header
from kafka_zk.storage.segments import segment_scan

MADE_SUFFIXES = (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX)
"""Suffixes of the files that every segment has."""
_SUFFIXES = (*MADE_SUFFIXES, TRANSACTION_INDEX_SUFFIX)


class SegmentHandle:
    """The ``.log`` file of the segment at ``base_offset``, and the names of the segment's other files.

    ``is_unmade``: no files exist yet. ``is_active``: the log writes here.
    """

    __slots__ = (
        "_close_on_unpin", "_descriptor", "_is_abandoned", "_pins", "_pool", "_suffix", "base_offset", "created_ms",
        "directory", "is_active", "is_unmade", "recently_used", "size_bytes",
    )  # fmt: skip

    def __init__(self, directory: str, base_offset: int, pool: FilePool, size_bytes: int, created_ms: int) -> None:
        self.directory = directory
        self.base_offset = base_offset
        self.size_bytes = size_bytes
        self.created_ms = created_ms
        self.is_active = False
        self.is_unmade = False
        self.recently_used = False
        self._pool = pool
        self._suffix = ""
        self._descriptor = -1
        self._pins = 0
        self._close_on_unpin = False
        self._is_abandoned = False

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path}, {self.size_bytes} bytes)"

    def _path(self, suffix: str) -> str:
        return f"{self.directory}/{offset_file(self.base_offset, suffix)}"

    @property
    def path(self) -> str:
        """Path of the ``.log`` file, also when renamed for deletion."""
        return self._path(LOG_SUFFIX) + self._suffix

    def fileno(self) -> int:
        """The descriptor, valid until the next call into storage or while a slice pins it."""
        if self._descriptor < 0:
            self._descriptor = self._make() if self.is_unmade else files.open_to_append(self.path)
            self._pool.opened(self)
        self.recently_used = True
        return self._descriptor

    def _make(self) -> int:
        """Create three empty files. Returns the ``.log`` file's descriptor."""
        descriptor = files.open_to_append(self.path, is_new=True)
        try:
            for suffix in MADE_SUFFIXES[1:]:
                files.write_file(self._path(suffix))
        except OSError:
            files.close(descriptor)
            raise
        self.is_unmade = False
        return descriptor

    @property
    def is_open(self) -> bool:
        return self._descriptor >= 0

    @property
    def is_pinned(self) -> bool:
        return self._pins > 0

    def pin(self) -> None:
        """Keep the descriptor open, and even a deleted file readable, until ``unpin``."""
        if self._descriptor < 0:
            self.fileno()
        if not self._pins:
            self._pool.pinned_count += 1
        self._pins += 1

    def pin_for_reader(self) -> None:
        """Like ``pin``, for a slow reader. Raises: TooManyOpenFiles above the pool's limit."""
        if not self._pins and self._pool.pinned_count >= self._pool.max_open_files:
            raise TooManyOpenFiles(f"{self._pool.pinned_count} segment files are in use by slow readers")
        self.pin()

    def unpin(self) -> None:
        assert self._pins > 0, "released more often than retained"
        self._pins -= 1
        if not self._pins:
            self._pool.pinned_count -= 1
            if self._close_on_unpin:
                self.release_file()

    def release_resources(self) -> None:
        """Close the file of an idle log and free index entries, until the next use."""
        if self._descriptor >= 0 and not self._pins:
            self._pool.closed(self)
            self.close_file()

    def close_file(self) -> None:
        """Close the file, for the pool only; the next use opens it again."""
        files.close(self._descriptor)
        self._descriptor = -1

    def release_file(self) -> None:
        """Close the descriptor now, or when the last slice is released."""
        self._close_on_unpin = self._pins > 0
        if self._descriptor >= 0 and not self._pins:
            self._pool.closed(self)
            files.close(self._descriptor)
            self._descriptor = -1

    def _write_again(self, descriptor: int, batches: bytes | bytearray | memoryview, position: int) -> None:
        """Complete a short write, or truncate the file at ``position``."""
        try:
            files.truncate(descriptor, position)
            write_all(descriptor, batches)
        except OSError:
            files.truncate(descriptor, position)
            raise

    def header_at(self, position: int) -> BatchHeader:
        """The header of the batch at ``position``. Raises CorruptRecord after the end of the file."""
        return read_header(files.pread(self.fileno(), HEADER_SIZE, position))

    def read(self, position: int, size_bytes: int) -> bytes:
        return segment_scan.read_range(self.fileno(), position, size_bytes)

    def modified_ms(self) -> int:
        """The file's modification time. Raises: FileNotFoundError."""
        if self.is_unmade:
            return self.created_ms
        found = files.status(self.path)
        if found is None:
            raise FileNotFoundError(2, "No such file", self.path)
        return found.modified_ms

    def leave(self) -> None:
        """Stop writes and close the file, because the segment leaves the log's directory. Slices stay readable."""
        self.is_active = False
        self.abandon()
        self.release_file()

    def abandon(self) -> None:
        """Stop all writes. Slices stay readable."""
        self._is_abandoned = True

    def mark_deleted(self) -> None:
        """Rename the files to ``.deleted``. Slices stay readable."""
        for suffix in _SUFFIXES:
            path = self._path(suffix)
            if files.exists(path):
                files.rename(path, path + DELETED_SUFFIX)
        self._suffix = DELETED_SUFFIX
        self._is_abandoned = True

    def prepare_removal(self) -> Callable[[], None]:
        """A function for any thread that deletes the files (milliseconds for 20 MB); it raises OSError.

        A pinned descriptor stays readable, and frees the space when closed.
        """
        self.release_file()
        paths = [self._path(suffix) + self._suffix for suffix in _SUFFIXES]

        def remove() -> None:
            for path in paths:
                remove_file(path)

        return remove

"""Slices of segment files, which a connection can send without reading them.

Tests: tests/storage/log/test_log_files.py.
"""

from kafka_zk.storage.segments import segment_scan
from kafka_zk.storage.segments.segment import Segment


class FileSlice:
    """A byte range of a segment that contains whole batches. Call ``retain`` to keep a slice beyond the current
    call."""

    __slots__ = ("position", "segment", "size_bytes")

    def __init__(self, segment: Segment, position: int, size_bytes: int) -> None:
        self.segment = segment
        self.position = position
        self.size_bytes = size_bytes

    def __len__(self) -> int:
        return self.size_bytes

    def __repr__(self) -> str:
        return f"FileSlice({self.segment.path}, {self.position}, {self.size_bytes})"

    @property
    def in_active_segment(self) -> bool:
        """True for a slice of the active segment, whose end is in the page cache."""
        return self.segment.is_active

    def fileno(self) -> int:
        """The descriptor to send from, beginning at ``position``."""
        return self.segment.fileno()

    def retain(self) -> "FileSlice":
        """Keep the descriptor open until ``release``, even if the segment is closed or deleted.

        Raises: OSError if the file cannot be opened, TooManyOpenFiles.
        """
        self.segment.pin_for_reader()
        return self

    def release(self) -> None:
        self.segment.unpin()

    def read(self) -> bytes:
        """The bytes; fewer than ``size_bytes`` if the file has been truncated."""
        return segment_scan.read_range(self.segment.fileno(), self.position, self.size_bytes)

"""Decides where to begin reading a partition.

Pure.
"""

from typing import NamedTuple

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.list_offsets import EARLIEST, LATEST


class Timestamp(NamedTuple):
    """Start at the first record at or after this timestamp."""

    timestamp_ms: int


Start = int | str | Timestamp
"""An offset, ``"earliest"``, ``"latest"``, or a Timestamp (the end, if no record is at or after it)."""

RESETS = {"earliest": EARLIEST, "latest": LATEST}
"""Named start -> timestamp for ListOffsets."""


def parse_start(tp: TopicPartition, start: Start) -> tuple[int | None, int | None]:
    """(Offset, timestamp for ListOffsets), one of which is None. Raises ValueError for an invalid start."""
    if isinstance(start, Timestamp):
        if start.timestamp_ms < 0:
            raise ValueError(f"{tp}: a timestamp must not be negative, got {start.timestamp_ms}")
        return None, start.timestamp_ms
    if isinstance(start, str):
        if start not in RESETS:
            raise ValueError(f"{tp}: start {start!r} must be earliest, latest or an offset")
        return None, RESETS[start]
    if start < 0:
        raise ValueError(f"{tp}: an offset must not be negative, got {start}")
    return start, None

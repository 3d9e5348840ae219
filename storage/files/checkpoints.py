"""Kafka's checkpoint files: the version ``0``, the number of entries, then one entry per line, with spaces between its
fields.

Entries are (topic, partition, offset) in ``recovery-point-offset-checkpoint``, ``replication-offset-checkpoint``,
``log-start-offset-checkpoint`` and ``cleaner-offset-checkpoint``, and (epoch, start offset) in
``leader-epoch-checkpoint``. The files have no checksum, and a wrong number could lose records, so content that no
broker writes is rejected.
Source: CheckpointFile.java, OffsetCheckpointFile.scala@3.9.
Tests: tests/storage/test_partition_files.py.
"""

import re
from collections.abc import Iterable, Mapping

from kafka_zk.base.integers import decimal_integer
from kafka_zk.base.types import TopicPartition
from kafka_zk.storage.files.errors import CorruptCheckpoint
from kafka_zk.storage.files.files import read_file, write_atomically

MAX_OFFSET = (1 << 63) - 1 - (1 << 31)
"""The largest offset at which a log may begin or end; it leaves room for one more segment."""
MAX_INT = (1 << 31) - 1

CONTIGUOUS = TopicPartition("__kafka_zk_contiguous", 0)
"""A row in ``recovery-point-offset-checkpoint``. With this row, the broker that wrote the file promises to leave no
gaps between segments after the recovery points. A Kafka broker ignores the row, and drops it when it rewrites the file
(docs/decisions/0018)."""

_VERSION = "0"
_TOPIC = re.compile("[a-zA-Z0-9._-]{1,249}")


def format_checkpoint(rows: Iterable[tuple[object, ...]]) -> bytes:
    lines = [" ".join(map(str, row)) for row in rows]
    return "\n".join([_VERSION, str(len(lines)), *lines, ""]).encode()


def parse_checkpoint(data: bytes, field_count: int, path: str) -> list[list[str]]:
    """Raises CorruptCheckpoint."""
    try:
        lines = data.decode("ascii").splitlines()
    except UnicodeDecodeError:
        raise CorruptCheckpoint(f"{path} is not a text file") from None
    if data and not data.endswith(b"\n"):
        raise CorruptCheckpoint(f"{path}: the last line does not end with a newline, so it may be incomplete")
    if not lines or lines[0] != _VERSION:
        raise CorruptCheckpoint(f"{path}: expected version {_VERSION} in the first line")
    count = parse_number(lines[1] if len(lines) > 1 else "", MAX_INT, path)
    rows = [line.split() for line in lines[2:] if line]
    if len(rows) != count:
        raise CorruptCheckpoint(f"{path}: {count} entries announced, {len(rows)} found")
    if any(len(row) != field_count for row in rows):
        raise CorruptCheckpoint(f"{path}: an entry does not have {field_count} fields")
    return rows


def parse_number(text: str, maximum: int, path: str) -> int:
    """A number from 0 to ``maximum``. Raises CorruptCheckpoint."""
    number = decimal_integer(text, range(maximum + 1))
    if number is None:
        raise CorruptCheckpoint(f"{path}: {text[:30]!r} is not a number from 0 to {maximum}")
    return number


def read_offsets(path: str) -> dict[TopicPartition, int]:
    """The offsets in a checkpoint file; empty if the file does not exist.

    Raises: CorruptCheckpoint, OSError.
    """
    data = read_file(path)
    if data is None:
        return {}
    offsets: dict[TopicPartition, int] = {}
    for topic, partition, offset in parse_checkpoint(data, 3, path):
        tp = TopicPartition(topic, parse_number(partition, MAX_INT, path))
        if not _TOPIC.fullmatch(topic):
            raise CorruptCheckpoint(f"{path}: {topic[:30]!r} is not the name of a topic")
        if tp in offsets:
            raise CorruptCheckpoint(f"{path}: {tp} occurs twice")
        offsets[tp] = parse_number(offset, MAX_OFFSET, path)
    return offsets


def write_offsets(path: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace a checkpoint file atomically and durably."""
    rows = ((tp.topic, tp.partition, offset) for tp, offset in sorted(offsets.items()))
    write_atomically(path, format_checkpoint(rows))

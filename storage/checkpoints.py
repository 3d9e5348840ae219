"""Kafka's checkpoint files: a version line ``0``, a line with the count, then one entry a line, fields by blanks.

Used by ``recovery-point-offset-checkpoint``, ``replication-offset-checkpoint``, ``log-start-offset-checkpoint`` and
``cleaner-offset-checkpoint`` (topic, partition, offset) and by ``leader-epoch-checkpoint`` (epoch, start offset).
Source: CheckpointFile.java, OffsetCheckpointFile.scala@3.9. Tests: tests/storage/test_partition_files.py.
"""

from collections.abc import Iterable, Mapping

from storage.errors import CorruptCheckpoint
from storage.files import read_file, write_atomically
from storage.types import TopicPartition

_VERSION = "0"


def format_checkpoint(rows: Iterable[tuple[object, ...]]) -> bytes:
    """The content of a checkpoint file."""
    lines = [" ".join(map(str, row)) for row in rows]
    return "\n".join([_VERSION, str(len(lines)), *lines, ""]).encode()


def parse_checkpoint(data: bytes, field_count: int, path: str) -> list[list[str]]:
    """The rows of a checkpoint file; raises CorruptCheckpoint if it is not one."""
    lines = data.decode(errors="replace").splitlines()
    if len(lines) < 2 or lines[0] != _VERSION or not lines[1].isdigit():
        raise CorruptCheckpoint(f"{path}: expected version {_VERSION} and a count in the first two lines")
    rows = [line.split() for line in lines[2:] if line]
    if len(rows) != int(lines[1]):
        raise CorruptCheckpoint(f"{path}: {lines[1]} entries announced, {len(rows)} found")
    if any(len(row) != field_count for row in rows):
        raise CorruptCheckpoint(f"{path}: an entry does not have {field_count} fields")
    return rows


def read_offsets(path: str) -> dict[TopicPartition, int]:
    """The offsets of a checkpoint file, empty if there is no such file.

    Raises: CorruptCheckpoint if the file cannot be read as one.
    """
    data = read_file(path)
    if data is None:
        return {}
    try:
        return {
            TopicPartition(topic, int(partition)): int(offset)
            for topic, partition, offset in parse_checkpoint(data, 3, path)
        }
    except ValueError as error:
        raise CorruptCheckpoint(f"{path}: {error}") from error


def write_offsets(path: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace a checkpoint file, durably and at once."""
    rows = ((tp.topic, tp.partition, offset) for tp, offset in sorted(offsets.items()))
    write_atomically(path, format_checkpoint(rows))

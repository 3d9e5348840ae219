"""``kafka-zk lake verify``: checks that a target's folders contain every extracted offset once.

The folders' descriptions (``inventory.py``) are compared with their files, the group's offsets and the log ends.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kafka_zk.base.types import TopicPartition
from kafka_zk.spark_jobs.extraction import inventory as inventories
from kafka_zk.spark_jobs.extraction.inventory import Inventory, is_data
from kafka_zk.spark_jobs.extraction.range_folders import Files, RangeFolders


@dataclass(frozen=True)
class Verified:
    """``ends``: the ends of the requested group's folders. ``faults``: a sentence for each fault."""

    folders: int
    files: int
    records: int
    ends: Mapping[TopicPartition, int]
    faults: tuple[str, ...]

    def as_document(self) -> dict[str, Any]:
        ends = [{"topic": tp.topic, "partition": tp.partition, "until_offset": end} for tp, end in self.ends.items()]
        return {
            "folders": self.folders,
            "files": self.files,
            "records": self.records,
            "partitions": ends,
            "faults": list(self.faults),
        }


def verify(files: Files, count_rows: Callable[[Sequence[str]], int], target: str, group: str | None = None) -> Verified:
    """Check the folders of all groups, without the cluster. ``group``: if None, report the ends of all groups.

    Raises: ExtractionFailed if a description is invalid.
    """
    found = RangeFolders(files, count_rows).found(target)
    told = [
        f"{name} has no {inventories.FILE_NAME}: it is being published, or an older version wrote it"
        for name, each in found.items()
        if each is None
    ]
    described = {name: each for name, each in found.items() if each is not None}
    current = inventories.current(described)
    for name, each in current.items():
        told += _faults_of_files(files, count_rows, f"{target}/{name}", each)
    told += [f"{name} still exists, although its records are in another folder" for name in described.keys() - current]
    told += inventories.faults(current)
    ends: dict[TopicPartition, int] = {}
    for each in current.values():
        for piece in each.ranges if group in (None, each.group) else ():
            ends[piece.tp] = max(piece.until_offset, ends.get(piece.tp, 0))
    file_count = sum(len(each.files) for each in current.values())
    records = sum(each.records for each in current.values())
    return Verified(len(current), file_count, records, dict(sorted(ends.items())), tuple(told))


def _faults_of_files(
    files: Files, count_rows: Callable[[Sequence[str]], int], folder: str, described: Inventory
) -> list[str]:
    there = {path: size for path, size in files.walk(folder) if is_data(path)}
    told = []
    for path, size in described.files.items():
        if path not in there:
            told.append(f"{folder}/{path} does not exist")
        elif there[path] != size:
            told.append(f"{folder}/{path} has {there[path]:,} bytes, not {size:,}")
    told += [f"{folder}/{path} is in no description" for path in sorted(there.keys() - described.files.keys())]
    if not told and described.files and described.format == "parquet":
        rows = count_rows([f"{folder}/{path}" for path in described.files])
        if rows != described.records:
            told.append(f"{folder} has {rows:,} records, not {described.records:,}")
    return told


def against_cluster(
    verified: Verified, offsets: Mapping[TopicPartition, int], log_ends: Mapping[TopicPartition, int]
) -> list[str]:
    """Sentences about differences from the group's offsets (-1: none) and the log ends."""
    told = []
    for tp, end in verified.ends.items():
        if tp in log_ends and end > log_ends[tp]:
            ends = f"the folders end at offset {end} of {tp}, the log at {log_ends[tp]}"
            told.append(f"{ends}: the topic was recreated")
        if (offset := offsets.get(tp, -1)) != end:
            where = "nowhere" if offset < 0 else f"at offset {offset}"
            told.append(f"the folders end at offset {end} of {tp}, and the group is {where}")
    return told

"""The inventory of a range folder: its ranges, record count and files. It is written when the staging is complete.

    <target>/_kafka_zk_staging/<name>-<attempt>.json    beside the staging folder
    <target>/<name>/_kafka_zk_range.json                in the published folder, which is then complete

The publication and ``kafka-zk lake verify`` use the file names in the inventory instead of listing the folder. Spark
and other readers ignore names with a leading underscore.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from kafka_zk.spark_jobs.errors import ExtractionFailed
from kafka_zk.spark_jobs.source.offset_ranges import OffsetRange

FILE_NAME = "_kafka_zk_range.json"


@dataclass(frozen=True, slots=True)
class Inventory:
    """``files``: paths in the folder and sizes in bytes. ``replaces``: names of the folders whose records this folder
    contains. ``schema_version``: the version of the target's schema (``schemas/folder_schemas.py``); 0 if unknown.
    """

    group: str
    ranges: tuple[OffsetRange, ...]
    records: int
    format: str
    files: Mapping[str, int]
    replaces: tuple[str, ...] = ()
    schema_version: int = 0

    @property
    def partitioned_by(self) -> tuple[str, ...]:
        path = next(iter(self.files), "")
        return tuple(unquote(part.partition("=")[0]) for part in path.split("/")[:-1])

    def as_document(self) -> dict[str, Any]:
        """Offsets are strings, as in the manifest's znode."""
        return {
            "version": 1,
            "group": self.group,
            "ranges": [
                [each.topic, each.partition, str(each.from_offset), str(each.until_offset)] for each in self.ranges
            ],
            "records": self.records,
            "format": self.format,
            "files": dict(self.files),
            "replaces": list(self.replaces),
            "schemaVersion": self.schema_version,
        }


def is_data(path: str) -> bool:
    """True if Spark reads the file as data: no name in its path begins with ``_`` or ``.``.

    ``_column=value`` is a partition's folder. ``_temporary`` contains files of tasks that the job abandoned.
    """
    return not any(part.startswith(".") or (part.startswith("_") and "=" not in part) for part in path.split("/"))


def decode(where: str, data: bytes) -> Inventory:
    """Raises ExtractionFailed if the description is invalid."""
    try:
        document = json.loads(data)
        return Inventory(
            group=str(document["group"]),
            ranges=tuple(
                OffsetRange(str(topic), int(partition), int(start), int(end))
                for topic, partition, start, end in document["ranges"]
            ),
            records=int(document["records"]),
            format=str(document["format"]),
            files={str(path): int(size) for path, size in document["files"].items()},
            replaces=tuple(map(str, document["replaces"])),
            schema_version=int(document.get("schemaVersion", 0)),  # older descriptions lack it
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ExtractionFailed(f"{where} does not describe a range folder: {error}") from error


def current(found: Mapping[str, Inventory]) -> dict[str, Inventory]:
    """Folders that no other folder replaces."""
    replaced = {name for each in found.values() for name in each.replaces}
    return {name: each for name, each in found.items() if name not in replaced}


def first_overlap(found: Mapping[str, Inventory], ranges: Sequence[OffsetRange]) -> tuple[OffsetRange, str] | None:
    """The first part of ``ranges`` that a folder contains, and that folder's name; None if there is no such part."""
    wanted = {each.tp: each for each in ranges}
    for name, each in sorted(current(found).items()):
        for piece in each.ranges:
            if (other := wanted.get(piece.tp)) is not None:
                start = max(piece.from_offset, other.from_offset)
                end = min(piece.until_offset, other.until_offset)
                if start < end:
                    return OffsetRange(*piece.tp, start, end), name
    return None


def faults(found: Mapping[str, Inventory]) -> list[str]:
    """Overlaps and gaps between ranges, in sentences; empty if every offset occurs once."""
    by_tp: dict[str, list[tuple[OffsetRange, str]]] = {}
    for name, each in found.items():
        for piece in each.ranges:
            by_tp.setdefault(str(piece.tp), []).append((piece, name))
    told = []
    for tp, pieces in sorted(by_tp.items()):
        told += _faults_of(tp, sorted(pieces, key=lambda each: (each[0].from_offset, each[0].until_offset)))
    return told


def _faults_of(tp: str, pieces: Sequence[tuple[OffsetRange, str]]) -> list[str]:
    told = []
    reached, owner = pieces[0][0].from_offset, ""
    for piece, name in pieces:
        if piece.from_offset < reached:
            end = min(reached, piece.until_offset)
            told.append(f"offsets {piece.from_offset} to {end - 1} of {tp} are in {owner} and in {name}")
        elif piece.from_offset > reached:
            told.append(f"offsets {reached} to {piece.from_offset - 1} of {tp} are in no folder")
        if piece.until_offset >= reached:
            reached, owner = piece.until_offset, name
    return told

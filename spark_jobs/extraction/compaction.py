"""``kafka-zk lake compact``: merges many small Parquet files of range folders into a few files in a new folder.

The new folder lists the folders that it replaces (``replaces`` in ``inventory.py``). It is staged and published like a
range; then the old folders are removed. Readers that use the descriptions (``current_folders``) see every record
exactly once at any moment; readers that list files see records twice until the old folders are removed. A compaction is
a member of its group (``compaction_job.py``), so no extraction or other compaction of the group runs at that time.

    killed before the staging is complete   the next compaction removes it
    killed during or after the publication  the next one finishes it, and removes the old folders
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from kafka_zk.spark_jobs.errors import ExtractionFailed
from kafka_zk.spark_jobs.extraction import inventory as inventories
from kafka_zk.spark_jobs.extraction.inventory import Inventory
from kafka_zk.spark_jobs.extraction.manifest import STAGING_FOLDER, Manifest, planned
from kafka_zk.spark_jobs.extraction.range_folders import RangeFolders
from kafka_zk.spark_jobs.extraction.schemas.folder_schemas import UNKNOWN, FolderSchemas, Schema
from kafka_zk.spark_jobs.extraction.stores import Publication, publication
from kafka_zk.spark_jobs.source.offset_ranges import OffsetRange

_PREFIX = "compact"
"""Prefix of compaction attempts; attempts of extractions are hexadecimal."""
FORMAT = "parquet"


class Rewriter(Protocol):
    """Spark's part, implemented by ``rewriter.SparkRewriter``."""

    def rewrite(
        self, target: str, files: list[str], staging: str, file_count: int, partitioned_by: tuple[str, ...],
        schema: Schema | None,
    ) -> int:  # fmt: skip
        """``files``: paths in the target. ``schema``: has all columns of the files; None if the files must say which
        they have. Writes about ``file_count`` files; returns the number of records."""
        ...


@dataclass(frozen=True)
class Compacted:
    """``folder``: the new folder, empty if there was nothing to merge. ``finished``: folders of an earlier compaction
    that this compaction published."""

    folder: str
    replaced: tuple[str, ...]
    files_before: int
    files_after: int
    finished: tuple[str, ...]


def compact(
    folders: RangeFolders, schemas: FolderSchemas, rewriter: Rewriter, target: str, group: str, target_file_bytes: int,
    attempt: str, still_held: Callable[[], None],
) -> Compacted:  # fmt: skip
    """Files of different versions of the schema get the widest types. Raises ExtractionFailed and Spark's errors.

    ``still_held``: called before the publication; raises if this compaction has lost the group.
    """
    prefix = _prefix(group)
    finished = _finish(folders, target, prefix)
    found = {name: each for name, each in folders.found(target).items() if each is not None}
    _remove_replaced(folders, target, found)
    small = chosen(inventories.current(found), group, target_file_bytes)
    if len(small) < 2:
        return Compacted("", (), 0, 0, finished)
    manifest = planned(merged([piece for each in small.values() for piece in each.ranges]), target, FORMAT,
                       f"{prefix}{attempt}", 0)  # fmt: skip
    schema = _schema(schemas, target, small)
    rewritten = _rewrite(rewriter, target, small, folders.staging(manifest), target_file_bytes, schema)
    if rewritten != (expected := sum(each.records for each in small.values())):
        folders.discard(manifest)
        raise ExtractionFailed(f"{rewritten:,} records were rewritten, but the folders hold {expected:,}")
    folders.complete(manifest, group, rewritten, tuple(small), _version(small))
    still_held()
    folders.publish(manifest)
    found = {name: each for name, each in folders.found(target).items() if each is not None}
    _remove_replaced(folders, target, found)
    before = sum(len(each.files) for each in small.values())
    return Compacted(manifest.name, tuple(small), before, len(found[manifest.name].files), finished)


def _prefix(group: str) -> str:
    """The name depends on the group, because other groups may use the same target."""
    return f"{_PREFIX}{hashlib.sha256(group.encode()).hexdigest()[:8]}"


def _schema(schemas: FolderSchemas, target: str, small: Mapping[str, Inventory]) -> Schema | None:
    with_files = {name: each for name, each in small.items() if each.files}
    versions = {name: each.schema_version for name, each in with_files.items()}
    return schemas.schema_of_folders(target, versions, {name: min(each.files) for name, each in with_files.items()})


def _version(small: Mapping[str, Inventory]) -> int:
    """The version of the merged folder; unknown if one of the folders may have columns that no version has."""
    versions = {each.schema_version for each in small.values() if each.files}
    return UNKNOWN if UNKNOWN in versions else max(versions, default=UNKNOWN)


def _rewrite(
    rewriter: Rewriter, target: str, small: Mapping[str, Inventory], staging: str, target_file_bytes: int,
    schema: Schema | None,
) -> int:  # fmt: skip
    files = {f"{name}/{path}": size for name, each in small.items() for path, size in each.files.items()}
    if not files:
        return 0
    file_count = max(1, round(sum(files.values()) / target_file_bytes))
    (partitioned_by,) = {each.partitioned_by for each in small.values() if each.files}
    return rewriter.rewrite(target, list(files), staging, file_count, partitioned_by, schema)


def chosen(current: Mapping[str, Inventory], group: str, target_file_bytes: int) -> dict[str, Inventory]:
    """The group's Parquet folders whose average file is smaller than half of the target size.

    Only folders with the same partition columns can be merged: the largest such set is chosen, and folders without
    files belong to any set.
    """
    small = {
        name: each
        for name, each in current.items()
        if (each.group, each.format) == (group, FORMAT)
        and sum(each.files.values()) * 2 < target_file_bytes * max(1, len(each.files))
    }
    kinds = Counter(each.partitioned_by for each in small.values() if each.files)
    most = max(sorted(kinds), key=kinds.__getitem__, default=())
    return {name: each for name, each in small.items() if not each.files or each.partitioned_by == most}


def merged(ranges: list[OffsetRange]) -> list[OffsetRange]:
    """Join adjacent ranges."""
    joined: list[OffsetRange] = []
    for piece in sorted(ranges):
        if joined and (joined[-1].tp, joined[-1].until_offset) == (piece.tp, piece.from_offset):
            joined[-1] = joined[-1]._replace(until_offset=piece.until_offset)
        else:
            joined.append(piece)
    return joined


def current_folders(folders: RangeFolders, target: str) -> list[str]:
    """The folders that together contain every record once; folders without a description are left out."""
    found = {name: each for name, each in folders.found(target).items() if each is not None}
    return [f"{target}/{name}" for name in sorted(inventories.current(found))]


def _remove_replaced(folders: RangeFolders, target: str, found: Mapping[str, Inventory]) -> None:
    for name in sorted(found.keys() - inventories.current(found).keys()):
        folders.files.delete(f"{target}/{name}")


def _finish(folders: RangeFolders, target: str, prefix: str) -> tuple[str, ...]:
    """Finish the publication that an earlier compaction began, and remove the group's other staged compactions."""
    staging = f"{target}/{STAGING_FOLDER}"
    left = {path.partition("/")[0].removesuffix(".json") for path, _ in folders.files.walk(staging)}
    finished = []
    for staged in sorted(left):
        name, _, attempt = staged.rpartition("-")
        if not attempt.startswith(prefix):
            continue  # staged by an extraction or another group
        manifest = Manifest.of_staging(target, name, f"{STAGING_FOLDER}/{staged}", FORMAT)
        begun = publication(target) is Publication.COPY and folders.files.exists(folders.published(manifest))
        if begun:
            folders.publish(manifest)
            finished.append(name)
        else:
            folders.discard(manifest)
    return tuple(finished)

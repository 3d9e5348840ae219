"""``kafka-zk lake compact``: many small Parquet files of range folders become few, in a folder of a new generation.

The new folder says by ``replaces`` which folders it stands for (``inventory.py``). It is staged and published as a
range is, and then the old ones are removed. Readers that go by the descriptions (``current_folders``) see every record
once at any moment; those that list see records twice until the old folders are gone. One compaction of a group runs at
a time, and no extraction beside it: it is a member of the group (``compaction_job.py``).

    killed before the staging is complete   the next compaction removes it
    killed while or after it is published   the next one finishes it, and removes the old folders

Tests: tests/spark_jobs/extraction/test_compaction.py.
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
from kafka_zk.spark_jobs.extraction.stores import Publication, publication
from kafka_zk.spark_jobs.source.offset_ranges import OffsetRange

_PREFIX = "compact"
"""Of the attempts; an extraction's are hexadecimal."""
FORMAT = "parquet"


class Rewriter(Protocol):
    """Spark (``rewriter.SparkRewriter``)."""

    def rewrite(
        self, target: str, files: list[str], staging: str, file_count: int, partitioned_by: tuple[str, ...]
    ) -> int:
        """Write the records of the files (paths in the target) into about so many; returns how many records."""
        ...


@dataclass(frozen=True)
class Compacted:
    """``folder`` is the new one, empty if there was nothing to do; ``finished`` are those of an earlier compaction."""

    folder: str
    replaced: tuple[str, ...]
    files_before: int
    files_after: int
    finished: tuple[str, ...]


def compact(
    folders: RangeFolders, rewriter: Rewriter, target: str, group: str, target_file_bytes: int, attempt: str,
    still_held: Callable[[], None],
) -> Compacted:  # fmt: skip
    """Merge the folders of the group whose files are small. Raises: ExtractionFailed, and what Spark raises.

    ``still_held`` raises if the group is not this compaction's any more; it is asked before the folder is published.
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
    rewritten = _rewrite(rewriter, target, small, folders.staging(manifest), target_file_bytes)
    if rewritten != (expected := sum(each.records for each in small.values())):
        folders.discard(manifest)
        raise ExtractionFailed(f"{rewritten:,} records were rewritten, but the folders hold {expected:,}")
    folders.complete(manifest, group, rewritten, tuple(small))
    still_held()
    folders.publish(manifest)
    found = {name: each for name, each in folders.found(target).items() if each is not None}
    _remove_replaced(folders, target, found)
    before = sum(len(each.files) for each in small.values())
    return Compacted(manifest.name, tuple(small), before, len(found[manifest.name].files), finished)


def _prefix(group: str) -> str:
    """Of the attempts of this group's compactions: other groups may write into the target, too."""
    return f"{_PREFIX}{hashlib.sha256(group.encode()).hexdigest()[:8]}"


def _rewrite(
    rewriter: Rewriter, target: str, small: Mapping[str, Inventory], staging: str, target_file_bytes: int
) -> int:
    files = {f"{name}/{path}": size for name, each in small.items() for path, size in each.files.items()}
    if not files:
        return 0
    file_count = max(1, round(sum(files.values()) / target_file_bytes))
    (partitioned_by,) = {each.partitioned_by for each in small.values() if each.files}
    return rewriter.rewrite(target, list(files), staging, file_count, partitioned_by)


def chosen(current: Mapping[str, Inventory], group: str, target_file_bytes: int) -> dict[str, Inventory]:
    """The Parquet folders of the group whose files are on average less than half as large as wanted.

    Of those that are partitioned by other columns, the ones with the most folders; any goes with one without files."""
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
    """Ranges that follow one another made one."""
    joined: list[OffsetRange] = []
    for piece in sorted(ranges):
        if joined and (joined[-1].tp, joined[-1].until_offset) == (piece.tp, piece.from_offset):
            joined[-1] = joined[-1]._replace(until_offset=piece.until_offset)
        else:
            joined.append(piece)
    return joined


def current_folders(folders: RangeFolders, target: str) -> list[str]:
    """The folders that hold every record once, for readers; those without a description are not among them."""
    found = {name: each for name, each in folders.found(target).items() if each is not None}
    return [f"{target}/{name}" for name in sorted(inventories.current(found))]


def _remove_replaced(folders: RangeFolders, target: str, found: Mapping[str, Inventory]) -> None:
    for name in sorted(found.keys() - inventories.current(found).keys()):
        folders.files.delete(f"{target}/{name}")


def _finish(folders: RangeFolders, target: str, prefix: str) -> tuple[str, ...]:
    """Publish what an earlier compaction had begun to publish, remove what it had staged otherwise."""
    staging = f"{target}/{STAGING_FOLDER}"
    left = {path.partition("/")[0].removesuffix(".json") for path, _ in folders.files.walk(staging)}
    finished = []
    for staged in sorted(left):
        name, _, attempt = staged.rpartition("-")
        if not attempt.startswith(prefix):
            continue  # an extraction's, or another group's
        manifest = Manifest.of_staging(target, name, f"{STAGING_FOLDER}/{staged}", FORMAT)
        begun = publication(target) is Publication.COPY and folders.files.exists(folders.published(manifest))
        if begun:
            folders.publish(manifest)
            finished.append(name)
        else:
            folders.discard(manifest)
    return tuple(finished)

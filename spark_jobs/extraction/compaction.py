"""``kafka-zk lake compact``: many small Parquet files of range folders become few, in a folder of a new generation.

The new folder says by ``replaces`` which folders it stands for (``inventory.py``). It is staged and published as a
range is, and then the old ones are removed. Readers that go by the descriptions (``current_folders``) see every record
once at any moment; those that list see records twice until the old folders are gone. One compaction of a group runs at
a time, and no extraction beside it: it is a member of the group (``compaction_job.py``).

    killed before the staging is complete   the next compaction removes it
    killed while or after it is published   the next one finishes it, and removes the old folders

Tests: tests/spark_jobs/extraction/test_compaction.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from kafka_zk.spark_jobs.extraction import inventory as inventories
from kafka_zk.spark_jobs.extraction.errors import ExtractionFailed
from kafka_zk.spark_jobs.extraction.inventory import Inventory
from kafka_zk.spark_jobs.extraction.manifest import STAGING_FOLDER, Manifest, planned
from kafka_zk.spark_jobs.extraction.range_folders import RangeFolders
from kafka_zk.spark_jobs.extraction.stores import Publication, publication
from kafka_zk.spark_jobs.offset_ranges import OffsetRange

_PREFIX = "compact"
"""Of the attempts; an extraction's are hexadecimal."""
FORMAT = "parquet"


class Rewriter(Protocol):
    """Spark (``rewriter.SparkRewriter``)."""

    def rewrite(self, target: str, folders: list[str], staging: str, file_count: int) -> int:
        """Write the records of the folders into about so many files; returns how many records."""
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
    folders: RangeFolders, rewriter: Rewriter, target: str, group: str, target_file_bytes: int, attempt: str
) -> Compacted:
    """Merge the folders of the group whose files are small. Raises: ExtractionFailed, and what Spark raises."""
    finished = _finish(folders, target)
    found = {name: each for name, each in folders.found(target).items() if each is not None}
    _remove_replaced(folders, target, found)
    small = chosen(inventories.current(found), group, target_file_bytes)
    if len(small) < 2:
        return Compacted("", (), 0, 0, finished)
    manifest = planned(merged([piece for each in small.values() for piece in each.ranges]), target, FORMAT,
                       f"{_PREFIX}{attempt}", 0)  # fmt: skip
    size = sum(sum(each.files.values()) for each in small.values())
    file_count = max(1, round(size / target_file_bytes))
    rewritten = rewriter.rewrite(target, list(small), folders.staging(manifest), file_count)
    if rewritten != (expected := sum(each.records for each in small.values())):
        folders.discard(manifest)
        raise ExtractionFailed(f"{rewritten:,} records were rewritten, but the folders hold {expected:,}")
    folders.complete(manifest, group, rewritten, tuple(small))
    folders.publish(manifest)
    found = {name: each for name, each in folders.found(target).items() if each is not None}
    _remove_replaced(folders, target, found)
    before = sum(len(each.files) for each in small.values())
    return Compacted(manifest.name, tuple(small), before, len(found[manifest.name].files), finished)


def chosen(current: Mapping[str, Inventory], group: str, target_file_bytes: int) -> dict[str, Inventory]:
    """The Parquet folders of the group whose files are on average less than half as large as wanted."""
    return {
        name: each
        for name, each in current.items()
        if (each.group, each.format) == (group, FORMAT)
        and sum(each.files.values()) * 2 < target_file_bytes * max(1, len(each.files))
    }


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


def _finish(folders: RangeFolders, target: str) -> tuple[str, ...]:
    """Publish what an earlier compaction had begun to publish, remove what it had staged otherwise."""
    staging = f"{target}/{STAGING_FOLDER}"
    left = {path.partition("/")[0].removesuffix(".json") for path, _ in folders.files.walk(staging)}
    finished = []
    for staged in sorted(left):
        name, _, attempt = staged.rpartition("-")
        if not attempt.startswith(_PREFIX):
            continue  # an extraction's
        manifest = Manifest.of_staging(target, name, f"{STAGING_FOLDER}/{staged}", FORMAT)
        begun = publication(target) is Publication.COPY and folders.files.exists(folders.published(manifest))
        if begun:
            folders.publish(manifest)
            finished.append(name)
        else:
            folders.discard(manifest)
    return tuple(finished)

"""Compactions that are killed at every operation on a store in memory, without Spark."""

from collections.abc import Callable

import pytest

from kafka_zk.spark_jobs.errors import ExtractionFailed
from kafka_zk.spark_jobs.extraction import inventory as inventories
from kafka_zk.spark_jobs.extraction.compaction import Compacted, compact, current_folders, merged
from kafka_zk.spark_jobs.extraction.inventory import Inventory
from kafka_zk.spark_jobs.extraction.manifest import planned
from kafka_zk.spark_jobs.extraction.range_folders import RangeFolders
from kafka_zk.spark_jobs.extraction.schemas.folder_schemas import UNKNOWN, FolderSchemas, Schema
from kafka_zk.spark_jobs.source.offset_ranges import OffsetRange
from tests.spark_jobs.extraction.schemas.test_type_changes import struct
from tests.spark_jobs.extraction.test_range_folders import Disk, Killed, ObjectStore

OBJECTS, DISK = "s3a://bucket/lake", "file:/lake"
LARGE = 1000
SCHEMA = struct(a="integer")


class Records:
    """A lake in which a file is only a number of records, and its rewriter."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.store = ObjectStore() if target == OBJECTS else Disk()
        self.folders = RangeFolders(self.store, lambda paths: sum(len(self.store.objects[path]) for path in paths))
        self.schemas = FolderSchemas(self.folders, lambda _: SCHEMA, self.store.write)
        self.read_with: Schema | None = None
        self.lost = 0
        self.when_written: Callable[[], object] = lambda: None
        self._attempts = 0

    def extract(
        self, start: int, end: int, within: str = "", written: int | None = None, version: int = UNKNOWN
    ) -> None:  # fmt: skip
        """Publish a range's folder with ``written`` of its records; 0 writes no file."""
        manifest = planned([OffsetRange("t", 0, start, end)], self.target, "parquet", "abc", 0)
        data = bytes(range(start, end))[:written]
        self.store.objects[f"{self.folders.staging(manifest)}/_SUCCESS"] = b""
        if data:
            self.store.objects[f"{self.folders.staging(manifest)}/{within}part-{start}"] = data
        self.folders.complete(manifest, "g", len(data), schema_version=version)
        self.folders.publish(manifest)

    def rewrite(
        self, target: str, files: list[str], staging: str, file_count: int, partitioned_by: tuple[str, ...],
        schema: Schema | None,
    ) -> int:  # fmt: skip
        self.read_with = schema
        parts = [self.store.objects[f"{target}/{path}"] for path in files]
        assert {path.count("=") - 1 for path in files} == {len(partitioned_by)}, "Spark reads no others together"
        self.store._operate()
        within = files[0].split("/")[1:-1]
        self.store.objects["/".join((staging, *within, "part-merged"))] = b"".join(parts)
        self.when_written()
        return sum(map(len, parts)) - self.lost

    def compact(self, group: str = "g", still_held: Callable[[], None] = lambda: None) -> Compacted:
        self._attempts += 1
        return compact(
            self.folders, self.schemas, self, self.target, group, LARGE, f"{self._attempts}", still_held
        )  # fmt: skip

    def read(self) -> list[int]:
        """Read the folders that the descriptions name as current."""
        found = []
        for folder in current_folders(self.folders, self.target):
            for path, data in self.store.objects.items():
                if path.startswith(f"{folder}/") and inventories.is_data(path):
                    found += list(data)
        return sorted(found)


@pytest.fixture(params=[OBJECTS, DISK])
def lake(request: pytest.FixtureRequest) -> Records:
    made = Records(request.param)
    for start in range(0, 15, 5):
        made.extract(start, start + 5)
    return made


def test_small_folders_become_one(lake: Records) -> None:
    done = lake.compact()
    assert (len(done.replaced), done.files_before, done.files_after) == (3, 3, 1)
    assert lake.read() == list(range(15))
    assert lake.store.folders(lake.target) == [done.folder]
    assert lake.compact() == Compacted("", (), 0, 0, ()), "of one folder nothing is made"


@pytest.mark.parametrize("dies_at", range(16))
def test_killed_anywhere_readers_by_description_see_every_record_once(lake: Records, dies_at: int) -> None:
    lake.store.dies_at = dies_at
    try:
        lake.compact()
    except Killed:
        assert lake.read() == list(range(15))
    lake.store.dies_at = None
    lake.compact()
    assert lake.read() == list(range(15))
    assert len(lake.store.folders(lake.target)) == 1, "old folders and staging are gone"


def test_what_an_extraction_has_staged_is_left_alone(lake: Records) -> None:
    lake.store.objects[f"{lake.target}/_kafka_zk_staging/range=t@1-2-d-0af/part-0"] = b"x"
    lake.compact()
    assert f"{lake.target}/_kafka_zk_staging/range=t@1-2-d-0af/part-0" in lake.store.objects


def test_records_that_were_lost_stop_it(lake: Records) -> None:
    lake.lost = 1
    with pytest.raises(ExtractionFailed, match="14 records were rewritten, but the folders hold 15"):
        lake.compact()
    assert lake.read() == list(range(15))
    assert len(lake.store.folders(lake.target)) == 3


def test_of_two_groups_neither_removes_what_the_other_one_stages(lake: Records) -> None:
    """Groups may share a target, and each one compacts only its own folders."""
    lake.when_written = lambda: lake.compact("h")
    lake.compact("g")
    assert lake.read() == list(range(15))


def test_nothing_is_replaced_by_a_staging_folder_that_somebody_has_emptied(lake: Records) -> None:
    """Another compaction of the group emptied the folder while this one was paused beyond the end of its session."""
    lake.when_written = lambda: lake.store.delete(f"{lake.target}/_kafka_zk_staging")
    with pytest.raises(ExtractionFailed, match=r"15 records were written, but the files .* hold 0"):
        lake.compact()
    assert lake.read() == list(range(15))


def test_whoever_is_no_member_any_more_publishes_nothing(lake: Records) -> None:
    def lost() -> None:
        raise ExtractionFailed("no member")

    with pytest.raises(ExtractionFailed, match="no member"):
        lake.compact(still_held=lost)
    assert (len(lake.store.folders(lake.target)), lake.read()) == (4, list(range(15))), "with the staging folder"


def test_ranges_without_a_record_are_merged_too(lake: Records) -> None:
    """All records of these ranges were left out, and Spark writes no file for a partition without records."""
    lake.extract(15, 20, written=0)
    lake.extract(20, 25, written=0)
    done = lake.compact()
    assert (len(done.replaced), lake.read()) == (5, list(range(15)))
    found = lake.folders.found(lake.target)[done.folder]
    assert found is not None and found.ranges == (OffsetRange("t", 0, 0, 25),)


@pytest.mark.parametrize("target", [OBJECTS, DISK])
def test_ranges_without_any_record(target: str) -> None:
    lake = Records(target)
    lake.extract(0, 5, written=0)
    lake.extract(5, 9, written=0)
    done = lake.compact()
    assert (done.files_after, lake.read(), lake.store.folders(target)) == (0, [], [done.folder])


def test_folders_with_other_partitions_are_merged_by_themselves(lake: Records) -> None:
    """``--partition-by`` was changed between the runs; the larger set of folders is merged first."""
    for start in range(20, 40, 5):
        lake.extract(start, start + 5, "day=1/")
    assert len(lake.compact().replaced) == 4
    assert len(lake.compact().replaced) == 3
    assert lake.compact().folder == ""
    assert lake.read() == [*range(15), *range(20, 40)]


def test_folders_of_several_versions_of_the_schema_become_one_of_the_newest(lake: Records) -> None:
    target, wider = lake.target, struct(a="long")
    versions = [lake.schemas.record(target, SCHEMA), lake.schemas.record(target, wider)]
    for start, version in zip((15, 20), versions, strict=True):
        lake.extract(start, start + 5, version=version)
    mixed = lake.compact()
    assert (lake.read_with, described(lake, mixed).schema_version) == (wider, UNKNOWN), "the others name none"
    lake.store.delete(f"{target}/{mixed.folder}")
    for start, version in zip((25, 30), versions, strict=True):
        lake.extract(start, start + 5, version=version)
    assert described(lake, lake.compact()).schema_version == 2
    assert lake.read_with == wider


def described(lake: Records, done: Compacted) -> Inventory:
    found = lake.folders.described(lake.target, done.folder)
    assert found is not None
    return found


def test_ranges_that_follow_one_another_are_one() -> None:
    pieces = [("t", 1, 0, 3), ("t", 0, 5, 9), ("t", 0, 0, 5), ("t", 0, 11, 12)]
    joined = merged([OffsetRange(*piece) for piece in pieces])
    assert joined == [OffsetRange("t", 0, 0, 9), OffsetRange("t", 0, 11, 12), OffsetRange("t", 1, 0, 3)]

"""Compactions killed at every operation on a store in memory; no Spark."""

import pytest

from kafka_zk.spark_jobs.extraction import inventory as inventories
from kafka_zk.spark_jobs.extraction.compaction import Compacted, compact, current_folders, merged
from kafka_zk.spark_jobs.extraction.errors import ExtractionFailed
from kafka_zk.spark_jobs.extraction.manifest import planned
from kafka_zk.spark_jobs.extraction.range_folders import RangeFolders
from kafka_zk.spark_jobs.offset_ranges import OffsetRange
from tests.spark_jobs.extraction.test_range_folders import Killed, ObjectStore

OBJECTS, DISK = "s3a://bucket/lake", "file:/lake"
LARGE = 1000


class Disk(ObjectStore):
    """Folders are renamed at once."""

    def rename(self, source: str, target: str) -> bool:
        self._operate()
        for name in [name for name in self.objects if name.startswith(f"{source}/")]:
            self.objects[target + name.removeprefix(source)] = self.objects.pop(name)
        return True


class Records:
    """A lake whose files are numbers of records, and who rewrites them."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.store = ObjectStore() if target == OBJECTS else Disk()
        self.folders = RangeFolders(self.store, lambda paths: sum(len(self.store.objects[path]) for path in paths))
        self.lost = 0
        self._attempts = 0

    def extract(self, start: int, end: int) -> None:
        manifest = planned([OffsetRange("t", 0, start, end)], self.target, "parquet", "abc", 0)
        self.store.objects[f"{self.folders.staging(manifest)}/part-{start}"] = bytes(range(start, end))
        self.folders.complete(manifest, "g", end - start)
        self.folders.publish(manifest)

    def rewrite(self, target: str, folders: list[str], staging: str, file_count: int) -> int:
        parts = [
            data
            for name in folders
            for path, data in list(self.store.objects.items())
            if path.startswith(f"{target}/{name}/") and inventories.is_data(path)
        ]
        self.store._operate()
        self.store.objects[f"{staging}/part-merged"] = b"".join(parts)
        return sum(map(len, parts)) - self.lost

    def compact(self) -> Compacted:
        self._attempts += 1
        return compact(self.folders, self, self.target, "g", LARGE, f"{self._attempts}")

    def read(self) -> list[int]:
        """By the descriptions."""
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


def test_ranges_that_follow_one_another_are_one() -> None:
    pieces = [("t", 1, 0, 3), ("t", 0, 5, 9), ("t", 0, 0, 5), ("t", 0, 11, 12)]
    joined = merged([OffsetRange(*piece) for piece in pieces])
    assert joined == [OffsetRange("t", 0, 0, 9), OffsetRange("t", 0, 11, 12), OffsetRange("t", 1, 0, 3)]

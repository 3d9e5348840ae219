"""Faults in a target's folders, on a store in memory."""

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.spark_jobs.extraction.manifest import planned
from kafka_zk.spark_jobs.extraction.range_folders import RangeFolders
from kafka_zk.spark_jobs.extraction.verification import Verified, against_cluster, verify
from kafka_zk.spark_jobs.source.offset_ranges import OffsetRange
from tests.spark_jobs.extraction.test_range_folders import TARGET, ObjectStore

T0 = TopicPartition("t", 0)


def extracted(store: ObjectStore, start: int, end: int, tp: TopicPartition = T0, group: str = "g") -> str:
    """Publish a range of one file; returns the file."""
    manifest = planned([OffsetRange(*tp, start, end)], TARGET, "parquet", "attempt", 0)
    folders = RangeFolders(store, lambda _: end - start)
    store.objects[f"{folders.staging(manifest)}/part-0.parquet"] = b"data"
    folders.complete(manifest, group, end - start)
    folders.publish(manifest)
    return f"{folders.published(manifest)}/part-0.parquet"


def verified(store: ObjectStore, rows: int = 5, group: str | None = None) -> Verified:
    return verify(store, lambda _: rows, TARGET, group)


@pytest.fixture
def store() -> ObjectStore:
    made = ObjectStore()
    extracted(made, 0, 5)
    return made


def test_every_range_once(store: ObjectStore) -> None:
    extracted(store, 5, 10)
    found = verified(store)
    assert (found.folders, found.files, found.records, found.ends, found.faults) == (2, 2, 10, {T0: 10}, ())


def test_nothing_is_there() -> None:
    assert verified(ObjectStore()).as_document() == {
        "folders": 0, "files": 0, "records": 0, "partitions": [], "faults": []
    }  # fmt: skip


def test_gaps_are_told(store: ObjectStore) -> None:
    extracted(store, 7, 12)
    assert verified(store).faults == ("offsets 5 to 6 of t-0 are in no folder",)


def test_files_are_compared_with_their_description(store: ObjectStore) -> None:
    file = extracted(store, 5, 10)
    store.objects[file] = b"other data"
    assert verified(store).faults == (f"{file} has 10 bytes, not 4",)
    store.objects[f"{file}.copy"] = store.objects.pop(file)
    assert verified(store).faults == (f"{file} does not exist", f"{file}.copy is in no description")


def test_records_are_counted(store: ObjectStore) -> None:
    (fault,) = verified(store, rows=4).faults
    assert fault.endswith(" has 4 records, not 5")


def test_a_folder_that_is_half_published_is_told(store: ObjectStore) -> None:
    store.objects[f"{TARGET}/range=half/part-0.parquet"] = b""
    (fault,) = verified(store).faults
    assert fault.startswith("range=half has no _kafka_zk_range.json")


def test_the_group_and_the_log_are_asked(store: ObjectStore) -> None:
    found = verified(store)
    assert against_cluster(found, {T0: 5}, {T0: 9}) == []
    (behind,) = against_cluster(found, {T0: 3}, {T0: 9})
    assert behind == "the folders end at offset 5 of t-0, and the group is at offset 3"
    assert against_cluster(found, {}, {T0: 2}) == [
        "the folders end at offset 5 of t-0, the log at 2: the topic was recreated",
        "the folders end at offset 5 of t-0, and the group is nowhere",
    ]


def test_a_group_is_asked_for_what_it_has_extracted(store: ObjectStore) -> None:
    """Another group also extracts its topics into this target."""
    extracted(store, 0, 5, TopicPartition("other", 0), "h")
    found = verified(store, group="g")
    assert (found.folders, found.ends) == (2, {T0: 5})
    assert verified(store).ends == {T0: 5, TopicPartition("other", 0): 5}
    assert against_cluster(found, {T0: 5}, {T0: 9}) == []

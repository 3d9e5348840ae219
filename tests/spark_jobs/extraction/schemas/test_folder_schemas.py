"""The versions of a folder's schema, on a store in memory; runs are killed at every operation."""

import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_zk.spark_jobs.errors import ExtractionFailed
from kafka_zk.spark_jobs.extraction.manifest import planned
from kafka_zk.spark_jobs.extraction.range_folders import RangeFolders
from kafka_zk.spark_jobs.extraction.schemas.folder_schemas import UNKNOWN, FolderSchemas, Schema, Version
from kafka_zk.spark_jobs.extraction.schemas.parquet_schemas import common_metadata
from kafka_zk.spark_jobs.source.offset_ranges import OffsetRange
from tests.spark_jobs.extraction.schemas.test_type_changes import struct
from tests.spark_jobs.extraction.test_range_folders import Killed, ObjectStore

TARGET = "s3a://bucket/lake"
INT, BIGINT = struct(a="integer"), struct(a="long")
COMMON = f"{TARGET}/_common_metadata"


class Lake:
    """A folder in which each file is the JSON of its schema."""

    def __init__(self) -> None:
        self.store = ObjectStore()
        self.folders = RangeFolders(self.store, lambda paths: 1)
        self.schemas = FolderSchemas(self.folders, self._schema_of, self.store.write)

    def _schema_of(self, path: str) -> Schema:
        found: Schema = json.loads(self.store.objects[path])
        return found

    def publish(self, start: int, schema: Schema, version: int) -> str:
        """Publish a range of one record; returns the name of its folder."""
        manifest = planned([OffsetRange("t", 0, start, start + 1)], TARGET, "parquet", "abc", 0)
        self.store.write(f"{self.folders.staging(manifest)}/part-0.parquet", schema)
        self.folders.complete(manifest, "g", 1, schema_version=version)
        self.folders.publish(manifest)
        return manifest.name

    def extract(self, start: int, schema: Schema) -> str:
        return self.publish(start, schema, self.schemas.record(TARGET, schema))

    def common(self) -> Any:
        return json.loads(self.store.objects[COMMON]) if COMMON in self.store.objects else None


@pytest.fixture
def lake() -> Lake:
    return Lake()


def test_the_first_files_make_the_first_version(lake: Lake) -> None:
    assert lake.schemas.newest(TARGET) is None
    assert lake.schemas.changes(TARGET, INT) == []
    assert lake.schemas.record(TARGET, INT) == 1
    assert lake.schemas.newest(TARGET) == Version(1, INT)
    assert lake.common() is None, "the first file says the same"


def test_a_widened_type_makes_a_version_that_readers_find(lake: Lake) -> None:
    lake.extract(0, INT)
    assert [str(each) for each in lake.schemas.changes(TARGET, BIGINT)] == ["a: INT → BIGINT"]
    assert lake.schemas.record(TARGET, BIGINT) == 2
    assert (lake.schemas.newest(TARGET), lake.common()) == (Version(2, BIGINT), BIGINT)
    assert lake.schemas.version(TARGET, 1) == INT, "an earlier version stays"


def test_a_new_column_must_differ_in_more_than_case(lake: Lake) -> None:
    lake.extract(0, INT)
    with pytest.raises(ExtractionFailed, match="lake has a column a: name the column A like it"):
        lake.schemas.changes(TARGET, struct(A="integer"))


def test_narrower_types_and_fewer_columns_make_no_version(lake: Lake) -> None:
    lake.schemas.record(TARGET, struct(a="long", b="string"))
    assert lake.schemas.record(TARGET, INT) == 1


def test_a_new_column_makes_a_version(lake: Lake) -> None:
    lake.schemas.record(TARGET, INT)
    assert lake.schemas.record(TARGET, struct(b="string", a="integer")) == 2
    assert lake.common() == struct(a="integer", b="string")


def test_columns_that_name_folders_are_not_in_the_common_metadata(lake: Lake) -> None:
    """Spark would read them from the files, which do not have them."""
    lake.schemas.record(TARGET, struct(a="integer", day="string"), ["day"])
    lake.schemas.record(TARGET, struct(a="long", day="string"), ["day"])
    assert lake.common() == BIGINT
    assert lake.schemas.version(TARGET, 2) == struct(a="long", day="string")


def test_folders_of_earlier_versions_of_the_project_have_the_types_of_their_files(lake: Lake) -> None:
    lake.publish(0, INT, UNKNOWN)
    assert lake.schemas.newest(TARGET) == Version(UNKNOWN, INT)
    assert [str(each) for each in lake.schemas.changes(TARGET, BIGINT)] == ["a: INT → BIGINT"]
    assert (lake.schemas.record(TARGET, BIGINT), lake.common()) == (1, BIGINT)


@pytest.mark.parametrize("dies_at", range(3))
def test_killed_anywhere_the_next_run_completes_the_version(lake: Lake, dies_at: int) -> None:
    lake.extract(0, INT)
    lake.store.dies_at = dies_at
    try:
        lake.schemas.record(TARGET, BIGINT)
    except Killed:
        assert dies_at < 2
    lake.store.dies_at = None
    assert lake.schemas.record(TARGET, BIGINT) == 2
    assert (lake.schemas.newest(TARGET), lake.common()) == (Version(2, BIGINT), BIGINT)


def test_of_two_runs_that_make_one_version_only_one_goes_on(lake: Lake) -> None:
    """The store keeps the file of the other run, as HDFS does."""
    write, store = lake.store.write, lake.store

    def after_another(uri: str, document: Any) -> None:
        write(uri, struct(b="string") if uri.endswith("/1.json") else document)

    store.write = after_another  # type: ignore[method-assign]
    with pytest.raises(ExtractionFailed, match="another run has changed the schema of"):
        lake.schemas.record(TARGET, INT)


@pytest.mark.parametrize("damage", [b"", b"{}", b"[]", b"\xff", b'{"fields": [{"name": "a"}]}', b'{"fields": 1}'])
def test_a_damaged_version_is_named(lake: Lake, damage: bytes) -> None:
    lake.store.objects[f"{TARGET}/_kafka_zk_schemas/1.json"] = damage
    with pytest.raises(ExtractionFailed, match=r"_kafka_zk_schemas/1\.json does not have a schema of the folder"):
        lake.schemas.newest(TARGET)


def test_missing_versions_are_not_numbered_again(lake: Lake) -> None:
    """Otherwise a folder would name a version that has other columns, and a compaction would lose its own."""
    name = lake.extract(0, INT)
    lake.store.delete(f"{TARGET}/_kafka_zk_schemas")
    with pytest.raises(ExtractionFailed, match=f"_kafka_zk_schemas is empty, but {name} names version 1: restore"):
        lake.schemas.record(TARGET, BIGINT)


def schema_of(lake: Lake, versions: dict[str, int]) -> Schema | None:
    return lake.schemas.schema_of_folders(TARGET, versions, dict.fromkeys(versions, "part-0.parquet"))


def test_folders_of_several_versions_are_read_with_the_newest_of_them(lake: Lake) -> None:
    folders = {lake.extract(0, INT): 1, lake.extract(1, BIGINT): 2}
    lake.schemas.record(TARGET, struct(a="long", later="string"))
    assert schema_of(lake, folders) == BIGINT


def test_folders_without_a_version_add_the_columns_of_their_files(lake: Lake) -> None:
    """Otherwise a compaction would lose these columns."""
    older = lake.publish(0, struct(a="integer", gone="date"), UNKNOWN)
    newer = lake.publish(1, struct(a="integer"), UNKNOWN)
    newest = lake.extract(2, BIGINT)
    found = schema_of(lake, {older: UNKNOWN, newer: UNKNOWN, newest: 1})
    assert found == struct(a="long", gone="date")
    assert schema_of(lake, {older: UNKNOWN, newer: UNKNOWN}) is None


def test_the_common_metadata_are_a_parquet_file_of_the_schema() -> None:
    data = common_metadata(struct(a="long", d="decimal(20,2)", t="timestamp"))
    assert data is not None
    found = pq.read_schema(pa.BufferReader(data))
    assert found.types == [pa.int64(), pa.decimal128(20, 2), pa.timestamp("us", tz="UTC")]
    assert json.loads(found.metadata[b"org.apache.spark.sql.parquet.row.metadata"])["type"] == "struct"


def test_there_are_no_common_metadata_of_a_type_that_executors_do_not_write() -> None:
    assert common_metadata(struct(a="interval day to second")) is None

"""How a table fences a plan; tables and files are in memory. With Spark: tests/peers/spark/test_spark_tables.py."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_zk.spark_jobs.errors import ExtractionFailed, WronglyAsked
from kafka_zk.spark_jobs.extraction.manifest import Manifest, planned
from kafka_zk.spark_jobs.extraction.planning import Extraction
from kafka_zk.spark_jobs.extraction.schemas.type_changes import TypeChange
from kafka_zk.spark_jobs.extraction.table_compaction import compact_table
from kafka_zk.spark_jobs.extraction.table_lake import FENCE, RECORDS, TableLake, check_catalog
from kafka_zk.spark_jobs.extraction.undecodable import Staged
from kafka_zk.spark_jobs.source.offset_ranges import OffsetRange


class Tables:
    """The commit of each plan's sequence, by target."""

    def __init__(self) -> None:
        self.commits: dict[str, dict[int, str]] = {}
        self.because: str | None = None
        self.changes: list[TypeChange] = []
        self.widened: list[TypeChange] = []
        self.added: list[Any] = []

    def qualified(self, target: str, folders: Any) -> str:
        return f"file:{target}"

    def prepare(self, target: str, empty: Any, partition_by: Any) -> str:
        self.commits.setdefault(target, {})
        return target

    def location(self, target: str) -> str | None:
        return target if target in self.commits else None

    def commit_of(self, manifest: Manifest) -> str | None:
        return self.commits.get(manifest.target, {}).get(manifest.sequence)

    def type_changes(self, target: str, written: Any) -> list[TypeChange]:
        return self.changes

    def widen(self, target: str, changes: Sequence[TypeChange]) -> None:
        self.widened += changes

    def append(self, frame: Any, manifest: Manifest, what: str, extraction: Extraction) -> None:
        self.commits[manifest.target].setdefault(manifest.sequence, what)

    def sparks_writer_because(self, target: str, written: Any, extraction: Extraction) -> str | None:
        return self.because

    def file_spec(self, target: str, written: Any) -> Any:
        return "as the table needs them"

    def add(self, files: Any, written: Any, manifest: Manifest, extraction: Extraction) -> None:
        self.added += files
        self.append(None, manifest, RECORDS, extraction)


class Folders:
    """``needs``: what the table requires of each staging; ``because``: the folders' own reason for Spark's writer."""

    def __init__(self, because: str | None = None) -> None:
        self.needs: list[Any] = []
        self.because = because

    def check_columns(self) -> None: ...

    def empty(self) -> Any:
        return SimpleNamespace(schema=None)

    def stage(self, manifest: Manifest, tasks: Any, bootstrap_servers: str, table: Any) -> Staged:
        self.needs.append(table)
        return Staged(5, spark_because=self.because or (table if table == TABLES_REASON else None))

    def staged(self, manifest: Manifest) -> str:
        return "rows"

    def staged_files(self, manifest: Manifest) -> list[str]:
        return [f"{manifest.target}/part-0"]


@pytest.fixture
def tables() -> Tables:
    return Tables()


def fence(tables: Tables, target: str) -> bool:
    asked = Extraction(zookeeper="z", group="g", topics=("t",), target="/lake", format="delta")
    lake = TableLake(Folders(), tables, asked)  # type: ignore[arg-type]
    return lake.fence(planned([OffsetRange("t", 0, 0, 5)], target, "delta", "a", 0, "w", 3))


PLAN = planned([OffsetRange("t", 0, 0, 5)], "file:/lake", "delta", "a", 0, "w", 3)
TABLES_REASON = "the table's feature columnMapping"


@pytest.mark.parametrize("of_table", [None, TABLES_REASON])
@pytest.mark.parametrize("of_folders", [None, "--where"])
def test_files_are_added_only_if_executors_wrote_them(
    tables: Tables, of_table: str | None, of_folders: str | None
) -> None:
    asked = Extraction(zookeeper="z", group="g", topics=("t",), target="/lake", format="delta")
    tables.because, folders = of_table, Folders(of_folders)
    lake = TableLake(folders, tables, asked)  # type: ignore[arg-type]
    staged = lake.stage(PLAN, None, "b")  # type: ignore[arg-type]
    lake.publish(PLAN)
    assert folders.needs == [of_table or "as the table needs them"]
    assert staged.spark_because == (of_folders or of_table)
    assert tables.added == ([] if staged.spark_because else ["file:/lake/part-0"])
    assert lake.in_table(PLAN)


WIDER, NARROWER = TypeChange(("a",), "INT", "BIGINT"), TypeChange(("b",), "DOUBLE", "FLOAT")


def lake_of(tables: Tables, *, widen: bool) -> TableLake:
    asked = Extraction(zookeeper="z", group="g", topics=("t",), target="/lake", format="delta", widen=widen)
    return TableLake(Folders(), tables, asked)  # type: ignore[arg-type]


def test_a_changed_type_is_refused_before_anything_is_staged(tables: Tables) -> None:
    tables.changes = [WIDER]
    told = r"^file:/lake has columns of other types \(a: INT → BIGINT\): give --widen"
    with pytest.raises(WronglyAsked, match=told):
        lake_of(tables, widen=False).check()
    with pytest.raises(ExtractionFailed, match=told):  # another run has changed the table since the check
        lake_of(tables, widen=False).stage(PLAN, None, "b")  # type: ignore[arg-type]
    assert tables.widened == []


def test_types_are_widened_when_there_are_records(tables: Tables) -> None:
    tables.changes = [WIDER, NARROWER]
    lake = lake_of(tables, widen=True)
    lake.check()
    assert tables.widened == []
    lake.stage(PLAN, None, "b")  # type: ignore[arg-type]
    assert tables.widened == [WIDER]


def test_a_table_that_is_not_there_yet_is_made_to_be_fenced(tables: Tables) -> None:
    """If the table were not created, the sleeping run would create it and commit records that another run has extracted
    by then.
    """
    assert fence(tables, "file:/lake") is False
    assert tables.commits == {"file:/lake": {3: FENCE}}


def test_what_a_table_has_stays(tables: Tables) -> None:
    tables.commits = {"file:/lake": {3: RECORDS}}
    assert fence(tables, "file:/lake") is True
    assert tables.commits == {"file:/lake": {3: RECORDS}}


def test_a_table_of_an_earlier_target_is_not_made(tables: Tables) -> None:
    assert fence(tables, "file:/other") is False
    assert tables.commits == {}


class _Session:
    """Spark with the configuration of one catalog."""

    def __init__(self, **config: str) -> None:
        self.conf = config


def test_a_catalog_that_is_not_configured_is_named() -> None:
    """Spark's own error would say that its own catalog has no such namespace."""
    session = _Session(**{"spark.sql.catalog.my-lake": "org.apache.iceberg.spark.SparkCatalog"})
    check_catalog(session, "`my-lake`.db.t")
    with pytest.raises(ExtractionFailed, match=r"^no catalog lake is configured: --conf spark\.sql\.catalog\.lake=org"):
        check_catalog(session, "lake.db.t")


class _Sql:
    """The part of Spark that a compaction calls."""

    def __init__(self) -> None:
        self.conf = {"spark.sql.catalog.lake": "c"}
        self.asked: list[str] = []

    def sql(self, text: str) -> "_Sql":
        self.asked.append(text)
        return self

    def first(self) -> SimpleNamespace:
        return SimpleNamespace(rewritten_data_files_count=2, added_data_files_count=1)


def test_a_compaction_names_the_table_as_spark_sql_does() -> None:
    spark = _Sql()
    compact_table(spark, "iceberg", "lake.db.`my-table`", 1024)
    assert spark.asked[0].startswith("CALL lake.system.rewrite_data_files(table => 'db.`my-table`', options")

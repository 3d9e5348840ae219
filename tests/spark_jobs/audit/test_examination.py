"""Tables of foreign writers with one fault each."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.spark_jobs.audit import offset_runs
from kafka_zk.spark_jobs.audit.examination import AuditRequest, examine, exit_code
from kafka_zk.spark_jobs.audit.findings import Finding, Kind, Report
from kafka_zk.spark_jobs.audit.table import ColumnChoice
from kafka_zk.spark_jobs.audit.topic_log import LogBounds
from kafka_zk.spark_jobs.errors import AuditFailed
from tests.spark_jobs.audit.foreign_tables import DeltaFolder, IcebergFolder, PlainFolder, rows

T0 = TopicPartition("t", 0)
Make = Callable[[Path], Any]
TABLES = [DeltaFolder, IcebergFolder]


class Log:
    """Stands for TopicLog. ``records``: the offsets of committed records of each partition."""

    bootstrap_servers = "b1:9092"

    def __init__(self, records: Mapping[TopicPartition, list[int]], bounds: Mapping[TopicPartition, LogBounds]) -> None:
        self._records = records
        self._bounds = bounds

    def bounds(self, topics: Any) -> Mapping[TopicPartition, LogBounds]:
        return self._bounds

    def has_records(self, tp: TopicPartition, first: int, until: int) -> bool:
        return any(first <= offset < until for offset in self._records[tp])

    def missing(self, tp: TopicPartition, gaps: Any, covered: Any) -> Any:
        pairs = list(zip(*gaps, strict=True))
        assert all(high < self._bounds[tp].readable_end for _, high in pairs), "a fetch there would never return"
        asked = [offset for offset in self._records[tp] if any(low <= offset <= high for low, high in pairs)]
        return offset_runs.split(offset_runs.not_covered(np.array(asked, np.int64), covered))


def audited(table: Any, log: Any = None, **asked: Any) -> Report:
    return examine(AuditRequest(str(table.folder), **asked), log)


def only(report: Report) -> Finding:
    (finding,) = report.findings
    assert exit_code(report) == 1
    return finding


@pytest.mark.parametrize("make", [*TABLES, PlainFolder])
def test_clean_table_is_judged_by_its_statistics(make: Make, tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    for partition, first in ((0, 0), (0, 10), (1, 5), (0, 20)):
        table.append(rows(range(first, first + 10), partition))
    report = audited(table)
    assert (report.findings, report.not_checked, exit_code(report)) == ([], [], 0)
    assert (report.format, report.rows, report.files, report.files_read) == (table.format, 40, 4, 0)
    assert [each[:7] for each in report.partitions] == [("t", 0, 0, 29, 30, 0, 0), ("t", 1, 5, 14, 10, 0, 0)]


@pytest.mark.parametrize("make", TABLES)
def test_deleted_file_is_a_gap_with_the_commit_that_deleted_it(make: Make, tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    for first in (0, 10, 20):
        table.append(rows(range(first, first + 10)))
    table.delete(10, 19)
    finding = only(audited(table))
    assert (finding.kind, finding.tp, finding.first, finding.last, finding.count) == (Kind.GAP, T0, 10, 19, 10)
    assert len(finding.commits) == 1 and "delete" in finding.commits[0].lower()
    assert """'startingOffsets': '{"t": {"0": 10}}', 'endingOffsets': '{"t": {"0": 20}}'""" in finding.repair[0]


@pytest.mark.parametrize("make", TABLES)
def test_appended_twice_is_a_duplicate_with_both_commits(make: Make, tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    for first, last in ((0, 9), (10, 19), (5, 12)):
        table.append(rows(range(first, last + 1)))
    report = audited(table)
    assert report.files_read == 3, "only overlapping files are read"
    assert [(each.kind, each.first, each.last) for each in report.findings] == [
        (Kind.DUPLICATE, 5, 9), (Kind.DUPLICATE, 10, 12)
    ]  # fmt: skip
    assert all(len(each.commits) == 2 and len(each.repair) == 4 for each in report.findings)
    assert report.partitions[0].duplicates == 8


@pytest.mark.parametrize("make", TABLES)
def test_file_listed_twice_is_found(make: Make, tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    for first in (0, 10):
        table.append(rows(range(first, first + 10)))
    table.list_twice(0)
    finding = only(audited(table))
    assert (finding.kind, finding.first, finding.last, finding.count) == (Kind.TWICE, 0, 9, 10)


@pytest.mark.parametrize("make", TABLES)
def test_file_that_does_not_exist_is_found(make: Make, tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    for first in (0, 10, 20):
        table.append(rows(range(first, first + 10)))
    table.data_files()[1].unlink()
    report = audited(table)
    assert [(each.kind, each.first, each.last) for each in report.findings] == [(Kind.FILE, 10, 19), (Kind.GAP, 10, 19)]
    assert "is missing or damaged" in report.findings[1].said


@pytest.mark.parametrize("make", [*TABLES, PlainFolder])
def test_gap_inside_a_file_is_found_in_its_rows(make: Make, tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    table.append(rows([0, 1, 2, 4, 4, 5]))
    table.append(rows([6, 7, 9]))
    report = audited(table, read_all=False)
    found = [(each.kind, each.first, each.last) for each in report.findings]
    # The first file has as many rows as offsets between its bounds, so only --scan finds the fault.
    assert found == [(Kind.GAP, 8, 8)]
    report = audited(table, read_all=True)
    found = [(each.kind, each.first, each.last) for each in report.findings]
    assert found == [(Kind.DUPLICATE, 4, 4), (Kind.GAP, 3, 3), (Kind.GAP, 8, 8)]


def test_gaps_of_the_topic_itself_are_no_findings(tmp_path: Path) -> None:
    """Offset 3 is a marker, 10 to 14 were aborted, 15 to 19 are records that the table lacks."""
    table = DeltaFolder(tmp_path / "t")
    for offsets in ([0, 1, 2], [*range(4, 10)], [*range(20, 30)]):
        table.append(rows(offsets))
    records = [*range(3), *range(4, 10), *range(15, 30)]
    report = audited(table, Log({T0: records}, {T0: LogBounds(0, 30, 30)}))
    finding = only(report)
    assert (finding.kind, finding.first, finding.last) == (Kind.GAP, 15, 19)
    assert report.partitions[0][6:] == (5, 0, 30)
    assert exit_code(audited(table, Log({T0: records[:9] + records[14:]}, {T0: LogBounds(0, 30, 30)}))) == 0


def test_what_retention_removed_is_not_checked(tmp_path: Path) -> None:
    table = PlainFolder(tmp_path / "t")
    table.append(rows(range(10)))
    table.append(rows(range(20, 30)))
    report = audited(table, Log({T0: [*range(25, 30)]}, {T0: LogBounds(25, 30, 30)}))
    assert exit_code(report) == 2 and not report.findings
    assert report.not_checked[0].startswith("10 offsets that t-0 lacks are no longer in the topic")
    report = audited(table, Log({T0: []}, {T0: LogBounds(0, 5, 30)}))
    assert "where a transaction is open" in report.not_checked[0]


def test_from_earliest_the_start_and_every_partition_count(tmp_path: Path) -> None:
    table = PlainFolder(tmp_path / "t")
    table.append(rows(range(10, 20)))
    t1 = TopicPartition("t", 1)
    log = Log({T0: [*range(5, 25)], t1: [3]}, {T0: LogBounds(5, 25, 25), t1: LogBounds(0, 4, 4)})
    assert exit_code(audited(table, log)) == 0
    report = audited(table, log, from_earliest=True)
    assert [(each.kind, each.tp, each.first, each.last) for each in report.findings] == [
        (Kind.BEFORE, T0, 5, 9), (Kind.ABSENT, t1, 0, 3)
    ]  # fmt: skip


def test_offsets_after_the_end_of_the_topic_are_found(tmp_path: Path) -> None:
    table = PlainFolder(tmp_path / "t")
    table.append(rows(range(10)))
    assert only(audited(table, Log({T0: []}, {T0: LogBounds(0, 4, 4)}))).kind is Kind.AHEAD
    table.data_files()[0].unlink()
    table.append(rows(range(10, 20)))
    recreated = Log({T0: [1]}, {T0: LogBounds(0, 4, 4)})
    found = audited(table, recreated, from_earliest=True).findings
    assert [(each.kind, each.first, each.last) for each in found] == [(Kind.BEFORE, 1, 1), (Kind.AHEAD, 10, 19)]


def test_struct_columns_folders_and_nulls(tmp_path: Path) -> None:
    """The columns have the names of Iceberg's sink; one file has two partitions, and folder names contain partition
    columns.
    """
    places = [{"partition": 0, "offset": 1}, {"partition": 1, "offset": 7}, {"partition": 0, "offset": 2}, None]
    (tmp_path / "struct").mkdir()
    pq.write_table(pa.table({"_kafka_metadata": places, "a": [1, 2, 3, 4]}), tmp_path / "struct" / "a.parquet")
    with pytest.raises(AuditFailed, match="give --topic-column, or the topic itself with --topic"):
        examine(AuditRequest(str(tmp_path / "struct")), None)
    report = examine(AuditRequest(str(tmp_path / "struct"), topic="t"), None)
    assert [each[:5] for each in report.partitions] == [("t", 0, 1, 2, 2), ("t", 1, 7, 7, 1)]
    assert only(report).kind is Kind.NO_PLACE
    for partition in (0, 1):
        folder = tmp_path / "folders" / f"partition={partition}"
        folder.mkdir(parents=True)
        pq.write_table(rows([1, 2]).select(["topic", "offset"]), folder / "a.parquet")
    report = examine(AuditRequest(str(tmp_path / "folders")), None)
    assert [each[:5] for each in report.partitions] == [("t", 0, 1, 2, 2), ("t", 1, 1, 2, 2)]


def test_what_cannot_be_audited_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(AuditFailed, match="no Iceberg metadata, no Delta log, no Parquet files"):
        examine(AuditRequest(str(tmp_path)), None)
    table = PlainFolder(tmp_path / "t")
    table.append(rows([1]))
    with pytest.raises(AuditFailed, match="--offset-column: the table has no column x, only offset, partition, topic"):
        audited(table, choice=ColumnChoice(offset="x"))
    with pytest.raises(AuditFailed, match=r"part-00000\.parquet is a file: give the table's folder"):
        examine(AuditRequest(str(table.data_files()[0])), None)
    with pytest.raises(AuditFailed, match="topic, value, offset are not positions in a topic"):
        audited(table, choice=ColumnChoice(partition="value"), read_all=True)


def test_file_that_is_no_parquet_is_found(tmp_path: Path) -> None:
    table = PlainFolder(tmp_path / "t")
    for first in (0, 10):
        table.append(rows(range(first, first + 10)))
    (tmp_path / "t" / "part-00000.parquet").write_bytes(b"no Parquet file")
    finding = only(audited(table))
    assert finding.kind is Kind.FILE and "cannot be read: Parquet magic bytes not found" in finding.said


def test_columns_of_other_types(tmp_path: Path) -> None:
    """Strings are not in the order of their numbers: "9" comes after "10"."""
    for number, kind in enumerate((pa.string(), pa.int64(), pa.float64(), pa.decimal128(20, 0), pa.uint64())):
        folder = tmp_path / str(number)
        folder.mkdir()
        numbers = [8, 9, 10, 11]
        columns = {
            "topic": pa.array([b"t"] * 4, pa.binary()),
            "partition": pa.array([0] * 4, pa.int32()).cast(kind),
            "offset": pa.array(numbers, pa.int32()).cast(kind),
        }
        pq.write_table(pa.table(columns), folder / "a.parquet")
        report = examine(AuditRequest(str(folder)), None)
        assert [each[:7] for each in report.partitions] == [("t", 0, 8, 11, 4, 0, 0)], kind
        assert exit_code(report) == 0
    pq.write_table(pa.table({**columns, "topic": pa.nulls(4, pa.string())}), folder / "a.parquet")
    assert only(examine(AuditRequest(str(folder)), None)).kind is Kind.NO_PLACE


def test_topic_that_does_not_exist_any_more(tmp_path: Path) -> None:
    table = PlainFolder(tmp_path / "t")
    table.append(rows([0, 2, 3]))
    report = audited(table, Log({}, {}))
    assert exit_code(report) == 2 and report.not_checked[0].startswith("topic t does not exist at b1:9092")
    with pytest.raises(AuditFailed, match="topic t does not exist"):
        audited(table, Log({}, {}), topic="t")
    other = TopicPartition("t", 1)
    assert only(audited(table, Log({}, {other: LogBounds(0, 9, 9)}))).kind is Kind.AHEAD


def test_row_group_that_was_not_read_is_read_where_files_overlap(tmp_path: Path) -> None:
    """The first row group has as many rows as offsets between its bounds, but lacks offset 2. The second row group is
    read in any case.
    """
    (tmp_path / "t").mkdir()
    pq.write_table(rows([0, 1, 1, 3, 4, 6, 7]), tmp_path / "t" / "a.parquet", row_group_size=4)
    pq.write_table(rows([2, 3]), tmp_path / "t" / "b.parquet")
    found = [(each.kind, each.first, each.last) for each in examine(AuditRequest(str(tmp_path / "t")), None).findings]
    assert found == [(Kind.DUPLICATE, 1, 1), (Kind.DUPLICATE, 3, 3), (Kind.GAP, 5, 5)]


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("_delta_log/00000000000000000000.json", '{"metaData": [1]}', "are not understood"),
        ("_delta_log/00000000000000000000.json", "{}", "has no metadata"),
        ("_delta_log/00000000000000000000.json", "{", "is not a Delta commit"),
        ("_delta_log/00000000000000000001.json", "{}", "lacks version 0"),
        ("metadata/v1.metadata.json", "{}", "is not an Iceberg metadata file"),
        ("metadata/v1.metadata.json", '{"format-version": 4}', "version 4 of the Iceberg format"),
        ("metadata/v1.metadata.json", '{"format-version": 2}', "are not understood"),
    ],
)
def test_torn_metadata_are_one_sentence(name: str, content: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.parent.mkdir()
    path.write_text(content)
    with pytest.raises(AuditFailed, match=told):
        examine(AuditRequest(str(tmp_path)), None)


def test_checkpoint_stands_for_the_commits_before_it(tmp_path: Path) -> None:
    import deltalake

    table = DeltaFolder(tmp_path / "t")
    for first in (0, 10, 30):
        table.append(rows(range(first, first + 10)))
    deltalake.DeltaTable(str(table.folder)).create_checkpoint()
    table.append(rows(range(40, 50)))
    finding = only(audited(table))
    assert [each.split()[1] for each in finding.commits] == ["1", "2"]
    for version in (0, 1):
        (table.folder / "_delta_log" / f"{version:020d}.json").unlink()
    assert only(audited(table)).last == 29

"""Iceberg tables with features that pyiceberg does not write."""

import json
from pathlib import Path
from typing import Any

import fastavro
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import IdentityTransform

from kafka_zk.spark_jobs.audit.examination import AuditRequest, examine, exit_code
from kafka_zk.spark_jobs.audit.findings import Kind
from kafka_zk.spark_jobs.errors import AuditFailed
from tests.spark_jobs.audit.foreign_tables import IcebergFolder, rows


@pytest.fixture
def table(tmp_path: Path) -> IcebergFolder:
    found = IcebergFolder(tmp_path / "t")
    for first in (0, 10):
        found.append(rows(range(first, first + 10)))
    return found


def current(table: IcebergFolder) -> Path:
    return max((table.folder / "metadata").glob("v*.metadata.json"))


def test_files_that_delete_rows_are_not_checked(table: IcebergFolder) -> None:
    metadata = json.loads(current(table).read_text())
    (snapshot,) = [each for each in metadata["snapshots"] if each["snapshot-id"] == metadata["current-snapshot-id"]]
    path = Path(snapshot["manifest-list"].removeprefix("file://"))
    with path.open("rb") as source:
        reader = fastavro.reader(source)
        manifests: list[Any] = list(reader)
    with path.open("wb") as out:
        fastavro.writer(out, reader.writer_schema, [*manifests, {**manifests[0], "content": 1}])
    report = examine(AuditRequest(str(table.folder)), None)
    assert exit_code(report) == 2 and report.rows == 20
    assert report.not_checked[0].startswith("1 files delete rows")


def test_long_topics_have_cut_bounds(tmp_path: Path) -> None:
    """Iceberg's bounds have at most 16 characters, so the full names are read from the footers."""
    table = IcebergFolder(tmp_path / "t")
    table.append(rows(range(5), topic="orders-of-customers-in-europe"))
    report = examine(AuditRequest(str(table.folder)), None)
    assert [each[:5] for each in report.partitions] == [("orders-of-customers-in-europe", 0, 0, 4, 5)]
    assert report.files_read == 0


def test_values_of_partitions_need_no_file(tmp_path: Path) -> None:
    spec = PartitionSpec(PartitionField(source_id=1, field_id=1000, transform=IdentityTransform(), name="topic"))
    table = IcebergFolder(tmp_path / "t", spec)
    table.append(rows(range(5), topic="orders-of-customers-in-europe"))
    (path,) = table.data_files()
    path.write_bytes(b"x" * path.stat().st_size)
    report = examine(AuditRequest(str(table.folder)), None)
    assert [each[:5] for each in report.partitions] == [("orders-of-customers-in-europe", 0, 0, 4, 5)]


def test_renamed_columns_are_found_by_their_ids(table: IcebergFolder) -> None:
    table.append(rows([20, 22]))
    table.rename(offset="kafka_offset", partition="kafka_partition")
    (finding,) = examine(AuditRequest(str(table.folder), topic="t"), None).findings
    assert (finding.kind, finding.first, finding.last) == (Kind.GAP, 21, 21)


def test_rewritten_rows_name_the_commit(table: IcebergFolder) -> None:
    table.delete(12, 13)
    (finding,) = examine(AuditRequest(str(table.folder)), None).findings
    assert (finding.kind, finding.first, finding.last) == (Kind.GAP, 12, 13)
    assert len(finding.commits) == 1 and finding.commits[0].startswith("snapshot")


def test_a_metadata_file_may_be_given(table: IcebergFolder) -> None:
    assert exit_code(examine(AuditRequest(str(current(table))), None)) == 0
    first = table.folder / "metadata" / "v2.metadata.json"
    assert examine(AuditRequest(f"file://{first}"), None).rows == 10
    (table.folder / "metadata" / "00003-other.metadata.json").write_bytes(current(table).read_bytes())
    with pytest.raises(AuditFailed, match="only the catalog knows which of"):
        examine(AuditRequest(str(table.folder)), None)

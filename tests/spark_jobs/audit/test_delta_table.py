"""Delta logs with features that deltalake does not write."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_zk.spark_jobs.audit.examination import AuditRequest, examine, exit_code
from kafka_zk.spark_jobs.audit.findings import Report
from kafka_zk.spark_jobs.audit.table import ColumnChoice

DV = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4, "sizeInBytes": 40, "cardinality": 2}


def field(name: str, kind: Any, physical: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": kind,
        "nullable": True,
        "metadata": {"delta.columnMapping.physicalName": physical},
    }


def written(folder: Path, *more: dict[str, Any]) -> Report:
    """Audit a table partitioned by the partition, whose files use other names for its columns."""
    place = {"type": "struct", "fields": [field("topic", "string", "col-2"), field("offset", "long", "col-3")]}
    schema = {"type": "struct", "fields": [field("partition", "integer", "col-4"), field("kafka", place, "col-1")]}
    (folder / "_delta_log").mkdir()
    pq.write_table(pa.table({"col-1": [{"col-2": "t", "col-3": offset} for offset in (5, 6, 8)]}), folder / "a.parquet")
    statistics = {
        "numRecords": 3, "nullCount": {"col-1": {"col-2": 0, "col-3": 0}},
        "minValues": {"col-1": {"col-2": "t", "col-3": 5}}, "maxValues": {"col-1": {"col-2": "t", "col-3": 8}},
    }  # fmt: skip
    add = {
        "path": "a.parquet", "partitionValues": {"col-4": "7"}, "dataChange": True,
        "size": (folder / "a.parquet").stat().st_size, "stats": json.dumps(statistics),
    }  # fmt: skip
    features = ["columnMapping", "deletionVectors", "futureFeature"]
    actions = [
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features}},
        {"metaData": {"schemaString": json.dumps(schema), "partitionColumns": ["col-4"]}},
        {"add": add},
        *({"add": {**add, **each}} for each in more),
    ]
    lines = "\n".join(map(json.dumps, actions))
    (folder / "_delta_log" / f"{0:020d}.json").write_text(lines)
    names = {"topic": "kafka.topic", "partition": "partition", "offset": "kafka.offset"}
    return examine(AuditRequest(str(folder), ColumnChoice(**names)), None)


def test_columns_are_mapped_to_their_names_in_files(tmp_path: Path) -> None:
    report = written(tmp_path)
    assert [each[:7] for each in report.partitions] == [("t", 7, 5, 8, 3, 0, 1)]
    assert [(each.first, each.last) for each in report.findings] == [(7, 7)]
    assert report.not_checked == ["the table's feature futureFeature is not understood"]


def test_deletion_vectors_are_not_checked(tmp_path: Path) -> None:
    pq.write_table(pa.table({"col-1": [{"col-2": "t", "col-3": 7}]}), tmp_path / "b.parquet")
    size = (tmp_path / "b.parquet").stat().st_size
    report = written(tmp_path, {"path": "b.parquet", "size": size, "deletionVector": DV})
    assert exit_code(report) == 2
    assert report.not_checked[1].startswith("1 files have deletion vectors")

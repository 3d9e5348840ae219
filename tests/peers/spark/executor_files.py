"""Files of executors in a table; ``observe`` reports on them, in a session of ``table_process``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_zk.spark_jobs.errors import ExtractionFailed
from kafka_zk.spark_jobs.extraction import partitioning
from kafka_zk.spark_jobs.extraction.direct.staged_files import StagedFile
from kafka_zk.spark_jobs.extraction.manifest import Manifest, planned
from kafka_zk.spark_jobs.extraction.parquet import job
from kafka_zk.spark_jobs.extraction.parquet.row_groups import RowGroup
from kafka_zk.spark_jobs.extraction.parquet.task import OpenFiles
from kafka_zk.spark_jobs.extraction.planning import Extraction
from kafka_zk.spark_jobs.extraction.table_formats import DELTA, ICEBERG
from kafka_zk.spark_jobs.extraction.table_lake import FENCE, DeltaTables, IcebergTables
from kafka_zk.spark_jobs.source.offset_ranges import OffsetRange

COLUMNS = "value STRING, ratio DOUBLE, timestamp TIMESTAMP"
LONG = "z" * 5001
"""Too many bytes for pyarrow to write a bound."""
NAN = float("nan")
ROW_GROUPS = [[("b", 1.0), ("c", 1.0)], [("a", NAN), (LONG, 1.0)]]
FOUND = ("value > 'y'", "ratio > 5")
"""Conditions that one row of ``ROW_GROUPS`` fulfils: NaN is Spark's greatest number."""
DELETED = ("value >= 'b' AND value <= 'c'", "ratio <= 1")
"""Conditions of deletes; Iceberg would remove a whole file by bounds that are too narrow."""


class Files:
    """Writes files as the executors do, and adds them to one table."""

    def __init__(self, spark: Any, format: str, target: str, staging: Path) -> None:
        self._spark = spark
        self._format = format
        self._target = target
        self._staging = staging
        self.tables = DeltaTables(spark) if format == DELTA else IcebergTables(spark)
        self.written = spark.createDataFrame([], COLUMNS).schema
        self.extraction = Extraction(
            zookeeper="z", group="g", topics=("t",), target=target, format=format, partition_by=("days(timestamp)",)
        )

    def plan(self, sequence: int, attempt: str = "a") -> Manifest:
        return planned([OffsetRange("t", 0, 0, 10)], self._target, self._format, attempt, 0, "files", sequence)

    def stage(self, name: str) -> list[StagedFile]:
        """Stage one file of ``ROW_GROUPS``."""
        spec = self.tables.file_spec(self._target, self.written) or job.file_spec(self.written, "snappy")
        folder = f"{partitioning.columns(self.extraction.partition_by)[0]}=1970-01-01"
        with OpenFiles(self._staging, f"part-{name}", spec) as files:
            for rows in ROW_GROUPS:
                columns = [*zip(*rows, strict=True), [0] * len(rows)]
                batch = pa.RecordBatch.from_arrays(
                    [pa.array(each, field.type) for each, field in zip(columns, spec.schema, strict=True)],
                    names=spec.schema.names,
                )
                files.write_all(iter([RowGroup(folder, [batch])]))
        return [StagedFile(str(self._staging / path), folder) for path in files.names]

    def add(self, manifest: Manifest, files: list[StagedFile]) -> None:
        self.tables.add(files, self.written, manifest, self.extraction)

    def count(self, where: str = "true") -> int:
        is_delta = self._format == DELTA
        table = self._spark.read.format(DELTA).load(self._target) if is_delta else self._spark.table(self._target)
        return int(table.where(where).count())

    def delete(self, where: str) -> int:
        """Delete rows; returns the number of remaining rows."""
        self._spark.sql(f"DELETE FROM {self._target} WHERE {where}")
        return self.count()

    def with_other_columns(self, sequence: int) -> str:
        """Drop a column and add it again, after files were staged."""
        staged = self.stage("other")
        for change in ("DROP COLUMN ratio", "ADD COLUMN ratio DOUBLE AFTER value"):
            self._spark.sql(f"ALTER TABLE {self._target} {change}")
        try:
            self.add(self.plan(sequence), staged)
        except ExtractionFailed as error:
            return str(error)
        return "accepted"


def observe(spark: Any, format: str, target: str, staging: Path) -> dict[str, Any]:
    """The number of the table's rows after each operation; a file has four."""
    staging.mkdir()
    files, told = Files(spark, format, target, staging), dict[str, Any]()
    empty = spark.createDataFrame([], COLUMNS)
    place = Path(job.local_path(files.tables.prepare(target, empty, files.extraction.partition_by)))

    def tell(what: str, sequence: int) -> None:
        told[what] = [files.count(), files.tables.commit_of(files.plan(sequence))]

    files.add(files.plan(1), files.stage("1"))
    tell("committed", 1)
    told["found"] = [files.count(where) for where in FOUND]
    files.add(files.plan(1, "b"), files.stage("1-b"))
    tell("by a second run", 1)
    files.tables.append(None, files.plan(2), FENCE, files.extraction)
    files.add(files.plan(2, "sleeper"), files.stage("2"))
    tell("by who slept past a fence", 2)
    killed = files.stage("3")[0]
    os.rename(killed.path, place / killed.name)
    there = len(list(place.rglob("*.parquet")))
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Exception, match="no number"):
        patch.setattr(pq, "read_metadata", lambda _: spark._jvm.java.lang.Integer.parseInt("no number"))
        files.add(files.plan(3), files.stage("3-failed"))
    told["left by a failed commit"] = len(list(place.rglob("*.parquet"))) - there
    files.add(files.plan(3, "b"), files.stage("3-b"))
    tell("after a kill and a failure", 3)
    if format == ICEBERG:
        told["deleted"] = [files.delete(where) for where in DELETED]
        told["with other columns"] = files.with_other_columns(4)
    return told

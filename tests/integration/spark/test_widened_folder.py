"""A folder whose types are widened between two runs, read by several readers before and after its compaction.

Tables: tests/peers/spark/test_widened_tables.py.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import StructType

from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.spark_jobs.errors import WronglyAsked
from kafka_zk.spark_jobs.extraction.compaction_job import compact_target
from kafka_zk.spark_jobs.extraction.hadoop_files import HadoopFiles
from kafka_zk.spark_jobs.extraction.job import extract
from kafka_zk.spark_jobs.extraction.planning import Extraction
from kafka_zk.testing.plugin import MakeTopic
from tests.integration.spark.sessions import spark  # noqa: F401
from tests.integration.spark.test_spark_extraction import write
from tests.integration.spark.widened_values import CHANGES, COLUMNS, NARROW, WIDE, Row, avro_schema, in_avro

pytestmark = [pytest.mark.integration, pytest.mark.spark]

MEBIBYTE = 1 << 20


def rows_of(table: pa.Table) -> list[Row]:
    columns = [table[name].to_pylist() for name in COLUMNS]
    return sorted(zip(*columns, strict=True))


def readings(spark: Any, folder: Path) -> dict[str, list[Row]]:  # noqa: F811
    """The rows that each reader finds, as docs/how-to/spark.md tells readers to read."""
    newest = max((folder / "_kafka_zk_schemas").glob("*.json"), key=lambda path: int(path.stem))
    schema = StructType.fromJson(json.loads(newest.read_text()))
    frames = {
        "Spark": spark.read.parquet(str(folder)),
        "Spark, with the version": spark.read.schema(schema).parquet(str(folder)),
    }
    found = {name: sorted(map(tuple, frame.select(*COLUMNS).collect())) for name, frame in frames.items()}
    files = f"read_parquet('{folder}/range=*/*.parquet', union_by_name = true)"
    found["DuckDB"] = sorted(duckdb.execute(f"SELECT {', '.join(COLUMNS)} FROM {files}").fetchall())
    common = pq.read_schema(folder / "_common_metadata")
    found["pyarrow"] = rows_of(pa.dataset.dataset(folder, format="parquet", schema=common).to_table())
    return found


def test_a_widened_folder_has_every_value_and_is_compacted(
    spark: Any, kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, tmp_path: Path  # noqa: F811
) -> None:  # fmt: skip
    topic, target = make_topic(partitions=2), tmp_path / "lake"
    connect, group = kafka_zk_cluster.zookeeper_connect, f"g-{topic}"
    narrow = Extraction(
        zookeeper=connect, group=group, topics=(topic,), target=str(target), decode="avro",
        schema=avro_schema(wide=False),
    )  # fmt: skip
    wide = replace(narrow, schema=avro_schema(wide=True))
    write(kafka_zk_cluster, topic, [in_avro(row, wide=False) for row in NARROW])
    assert extract(spark, narrow).writer == "executors"
    before = sorted(target.rglob("*"))

    write(kafka_zk_cluster, topic, [in_avro(row, wide=True) for row in WIDE])
    with pytest.raises(WronglyAsked) as refused:
        extract(spark, wide)
    told = f"file:{target} has columns of other types ({CHANGES}): give --widen to widen the types in the target"
    assert str(refused.value).startswith(told)
    assert sorted(target.rglob("*")) == before, "nothing was written"

    assert extract(spark, replace(wide, widen=True)).records == len(WIDE)
    write(kafka_zk_cluster, topic, [in_avro(row, wide=False) for row in NARROW])
    assert extract(spark, narrow).records == len(NARROW), "narrower types fit"
    expected = sorted([*NARROW, *WIDE, *NARROW])
    found = readings(spark, target)
    assert found == dict.fromkeys(found, expected)

    done = compact_target(spark, connect, group, str(target), MEBIBYTE)
    assert (len(done.replaced), done.files_after) == (3, 1)
    found = readings(spark, target)
    assert found == dict.fromkeys(found, expected)
    described = json.loads((target / done.folder / "_kafka_zk_range.json").read_text())
    assert described["schemaVersion"] == 2


def test_readers_with_the_first_files_types_lose_digits_without_an_error(tmp_path: Path) -> None:
    """The documentation says so."""
    for name, kind in (("1", pa.float32()), ("2", pa.float64())):
        pq.write_table(pa.table({"f": pa.array([0.1], kind)}), tmp_path / f"{name}.parquet")
    rounded = pa.array([0.1], pa.float32()).to_pylist()
    assert pa.dataset.dataset(tmp_path, format="parquet").to_table()["f"].to_pylist() == rounded * 2
    query = "SELECT f FROM read_parquet('{}/*.parquet'{})"
    assert duckdb.execute(query.format(tmp_path, "")).fetchall() == [(rounded[0],)] * 2
    by_name = duckdb.execute(query.format(tmp_path, ", union_by_name = true")).fetchall()
    assert sorted(by_name) == [(0.1,), (rounded[0],)]


def test_the_common_metadata_are_replaced(spark: Any, tmp_path: Path) -> None:  # noqa: F811
    """Readers that open the file see the old one or the new one."""
    files, place = HadoopFiles(spark), tmp_path / "lake" / "_common_metadata"
    for data in (b"one", b"another"):
        files.replace(f"file:{place}", data)
        assert place.read_bytes() == data == files.read(f"file:{place}")
    assert [path.name for path in place.parent.iterdir() if "partial" in path.name] == []

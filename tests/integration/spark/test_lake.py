"""Folders of real extractions are compacted and verified: partitions by time, and lost files."""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.registry.client.errors import RegistryError
from kafka_zk.spark_jobs.errors import ExtractionFailed
from kafka_zk.spark_jobs.extraction.compaction import Compacted
from kafka_zk.spark_jobs.extraction.compaction_job import compact_target
from kafka_zk.spark_jobs.extraction.hadoop_files import HadoopFiles
from kafka_zk.spark_jobs.extraction.job import extract
from kafka_zk.spark_jobs.extraction.planning import Extraction
from kafka_zk.spark_jobs.extraction.rewriter import SparkRewriter
from kafka_zk.spark_jobs.extraction.steps import Phase, Step
from kafka_zk.spark_jobs.extraction.verification import Verified, verify
from kafka_zk.testing.plugin import MakeTopic
from tests.integration.spark.sessions import spark  # noqa: F401
from tests.integration.spark.test_spark_extraction import write

pytestmark = [pytest.mark.integration, pytest.mark.spark]

MEBIBYTE = 1 << 20


def found_in(spark: Any, target: Path) -> Verified:  # noqa: F811
    files = HadoopFiles(spark)
    return verify(files, lambda paths: int(spark.read.parquet(*paths).count()), files.qualified(str(target)))


def dying_at(point: Step) -> Callable[[Step, Phase], None]:
    def observe(step: Step, phase: Phase) -> None:
        if step is point:
            raise RegistryError("the run ended here")

    return observe


def test_three_runs_become_one_folder_with_every_record(
    spark: Any, kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, tmp_path: Path  # noqa: F811
) -> None:
    topic = make_topic(partitions=2)
    target, connect = tmp_path / "lake", kafka_zk_cluster.zookeeper_connect
    wanted = Extraction(
        zookeeper=connect, group=f"g-{topic}", topics=(topic,), target=str(target), decode="string",
        partition_by=("days(timestamp)",),
    )  # fmt: skip
    for run in range(3):
        write(kafka_zk_cluster, topic, [b"%d" % number for number in range(run * 10, run * 10 + 10)])
        extract(spark, wanted)
    day = spark.read.parquet(str(target)).select("timestamp_day").distinct().collect()
    assert [str(row.timestamp_day)[:2] for row in day] == ["20"], "folders by the day"
    assert (found_in(spark, target).folders, found_in(spark, target).faults) == (3, ())

    done = compact_target(spark, connect, wanted.group, str(target), MEBIBYTE)
    assert (len(done.replaced), done.files_after) == (3, 1)
    rows = spark.read.parquet(str(target)).orderBy("partition", "offset").collect()
    assert sorted(int(row.value) for row in rows) == list(range(30))
    assert {row.timestamp_day for row in rows} == {day[0].timestamp_day}
    after = found_in(spark, target)
    assert (after.folders, after.files, after.records, after.faults) == (1, 1, 30, ())
    assert compact_target(spark, connect, wanted.group, str(target), MEBIBYTE) == Compacted("", (), 0, 0, ())

    write(kafka_zk_cluster, topic, [b"30", b"31"])
    with pytest.raises(RegistryError, match="ended here"):
        extract(spark, wanted, observe=dying_at(Step.PUBLISH))
    with pytest.raises(ExtractionFailed, match="was not completed: run it again first"):
        compact_target(spark, connect, wanted.group, str(target), MEBIBYTE)
    assert extract(spark, wanted).recovered == "its folder is published"
    next(target.glob("range=*/timestamp_day=*/*.parquet")).unlink()
    (fault,) = found_in(spark, target).faults
    assert fault.endswith(".parquet does not exist")


def test_files_get_the_size_that_is_wanted(
    spark: Any, kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, tmp_path: Path  # noqa: F811
) -> None:
    """The folder has files of many small tasks and of a few large ones, with a subfolder for each value."""
    topic = make_topic(partitions=2)
    target = tmp_path / "lake"
    wanted = Extraction(
        zookeeper=kafka_zk_cluster.zookeeper_connect, group=f"g-{topic}", topics=(topic,), target=str(target),
        max_records_per_task=5, select="value, topic, partition, offset, offset % 2 AS half", partition_by=("half",),
        target_file_bytes=MEBIBYTE,
    )  # fmt: skip
    records = [bytes([number]) for number in range(40)]
    write(kafka_zk_cluster, topic, records)
    assert extract(spark, wanted).records == 40
    assert len(list(target.glob("range=*/half=*/*.parquet"))) == 2, "eight tasks, two folders"
    large = [random.Random(number).randbytes(50_000) for number in range(80)]
    write(kafka_zk_cluster, topic, large)
    assert extract(spark, replace(wanted, max_records_per_task=None)).records == 80
    sizes = [path.stat().st_size for path in target.glob("range=*/half=*/*.parquet")]
    assert len(sizes) >= 2 + 4 and max(sizes) < 2 * MEBIBYTE, sizes
    assert sorted(bytes(row.value) for row in spark.read.parquet(str(target)).collect()) == sorted([*records, *large])
    assert found_in(spark, target).faults == ()
    assert spark.conf.get("spark.sql.adaptive.advisoryPartitionSizeInBytes", None) is None, "as it was"


def test_a_column_called_range_is_kept_or_refused(spark: Any, tmp_path: Path) -> None:  # noqa: F811
    """Spark reads ``range=...`` as a column of that name, and ignores the column in the files."""
    frame = spark.createDataFrame([(1, "x", 7), (2, "y", 8)], "offset INT, kind STRING, range INT").coalesce(1)

    def rewritten(*by: str) -> list[Any]:
        target = f"file:{tmp_path}/lake-{len(by)}"
        for number in (1, 2):
            frame.write.partitionBy(*by).parquet(f"{target}/range=t@{number}")
        files = [path for path, _ in HadoopFiles(spark).walk(target) if path.endswith(".parquet")]
        assert SparkRewriter(spark).rewrite(target, files, f"{target}/_staging", 1, by, None) == 4
        return sorted(tuple(row) for row in spark.read.parquet(f"{target}/_staging").select(*frame.columns).collect())

    assert rewritten() == [(1, "x", 7), (1, "x", 7), (2, "y", 8), (2, "y", 8)]
    with pytest.raises(ExtractionFailed, match="has a column range of its own and is partitioned by kind"):
        rewritten("kind")

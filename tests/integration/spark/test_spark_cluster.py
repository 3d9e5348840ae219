"""The data source and the extraction on a standalone Spark cluster, one of whose executors is killed."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.spark_jobs.extraction.job import extract
from kafka_zk.spark_jobs.extraction.parquet import job as parquet_job
from kafka_zk.spark_jobs.extraction.planning import Extraction
from kafka_zk.spark_jobs.session import spark_session
from kafka_zk.testing.plugin import MakeTopic
from kafka_zk.testing.timings import SESSION_TIMEOUT_MS
from tests.integration.processes import wait_for
from tests.integration.spark.extraction_process import EXECUTOR, MIDDLE, Kill, executors, killing_read
from tests.integration.spark.sessions import SMALL, stop_shared
from tests.integration.spark.spark_cluster import SMALL_EXECUTORS, WORKERS, StandaloneCluster, spark_cluster  # noqa: F401

pytestmark = [pytest.mark.integration, pytest.mark.spark]

RECORDS = 40
EXECUTORS_TIMEOUT_S = 300


@pytest.fixture(scope="module")
def spark(spark_cluster: StandaloneCluster) -> Iterator[Any]:  # noqa: F811
    stop_shared()
    session = spark_session("tests", spark_cluster.master, {**SMALL, **SMALL_EXECUTORS})
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture
def topic(kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic) -> str:
    name = make_topic(partitions=2)
    with BlockingProducer(None, bootstrap_servers=kafka_zk_cluster.bootstrap) as producer:
        for number in range(RECORDS):
            producer.send(name, b"%d" % number, partition=number % 2)
        producer.flush()
    return name


def rows(frame: Any) -> list[tuple[int, int, int]]:
    return sorted((row.partition, row.offset, int(row.value)) for row in frame.collect())


WRITTEN = sorted((number % 2, number // 2, number) for number in range(RECORDS))


@pytest.mark.weekly
def test_a_read_by_two_executors(spark: Any, kafka_zk_cluster: EmbeddedCluster, topic: str) -> None:
    reader = spark.read.format("kafka_zk").option("kafka.bootstrap.servers", kafka_zk_cluster.bootstrap)
    assert rows(reader.option("subscribe", topic).load()) == WRITTEN


def test_an_extraction_that_loses_an_executor_in_the_middle_of_reading(
    spark: Any, kafka_zk_cluster: EmbeddedCluster, topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    application = spark.sparkContext.applicationId
    wait_for(lambda: len(executors(application)) == WORKERS, "two executors", EXECUTORS_TIMEOUT_S)
    before = set(executors(application))
    kill = Kill("STAGE", MIDDLE, EXECUTOR, str(tmp_path / "killed"))
    monkeypatch.setattr(parquet_job, "read_range", partial(killing_read, kill, {}))
    extraction = Extraction(
        zookeeper=kafka_zk_cluster.zookeeper_connect,
        group="cluster-lake",
        topics=(topic,),
        target=str(tmp_path / "lake"),
        session_timeout_ms=SESSION_TIMEOUT_MS,
    )
    report = extract(spark, extraction)
    assert Path(kill.once).exists() and before - set(executors(application)), "no executor was killed"
    assert report.records == RECORDS
    assert [each.lag_after for each in report.partitions] == [0, 0]
    assert rows(spark.read.parquet(extraction.target)) == WRITTEN

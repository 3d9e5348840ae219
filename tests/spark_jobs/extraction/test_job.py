"""How a run reports failures, without Spark, brokers and ZooKeeper."""

from contextlib import nullcontext
from typing import Any

import pytest

from kafka_zk.registry.client.errors import ConnectionLoss, ConnectionTimeout, RegistryError, SessionLost
from kafka_zk.spark_jobs.errors import WronglyAsked, ZooKeeperLost
from kafka_zk.spark_jobs.extraction import job
from kafka_zk.spark_jobs.extraction.planning import Extraction


class Nothing:
    """Stands for Spark, its lake, the connections, and ZooKeeper."""

    @property
    def zookeeper(self) -> "Nothing":
        return self

    def check(self) -> None: ...

    def process(self, duration_ms: float) -> None: ...


@pytest.mark.parametrize("error", [ConnectionLoss, ConnectionTimeout, SessionLost])
def test_a_run_that_loses_zookeeper_says_so_and_that_the_next_goes_on(
    monkeypatch: pytest.MonkeyPatch, error: type[RegistryError]
) -> None:
    class Run:
        def __init__(self, *_: Any) -> None: ...

        def run(self) -> None:
            raise error("words")

    monkeypatch.setattr("kafka_zk.spark_jobs.extraction.lakes_by_format.Lakes", lambda *_: Nothing())
    monkeypatch.setattr(job, "Connections", lambda *_: nullcontext(Nothing()))
    monkeypatch.setattr(job, "_idle_report", lambda *_: None)
    monkeypatch.setattr(job, "ExtractionRun", Run)
    extraction = Extraction(zookeeper="z", group="g", topics=("t",), target="/lake")
    with pytest.raises(ZooKeeperLost, match=r"^the connection to ZooKeeper broke: words; run it again, it continues"):
        job.extract(Nothing(), extraction)


def test_a_session_of_spark_connect_is_refused() -> None:
    """Without this check, an error about its missing ``_jvm`` would come in the middle of the run."""
    connect = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    for given in (connect, lambda: connect):
        with pytest.raises(WronglyAsked, match="a Spark Connect session, which has no JVM: use a classic session"):
            job.started(given, lambda _: None)

"""What a run's failures are told as, without Spark, brokers and ZooKeeper."""

from contextlib import nullcontext
from typing import Any

import pytest

from kafka_zk.registry.errors import ConnectionLoss, ConnectionTimeout, RegistryError, SessionLost
from kafka_zk.spark_jobs.extraction import job
from kafka_zk.spark_jobs.extraction.errors import ZooKeeperLost
from kafka_zk.spark_jobs.extraction.planning import Extraction


class Nothing:
    """Stands for Spark, its lake, and the connections."""

    def check(self) -> None: ...


@pytest.mark.parametrize("error", [ConnectionLoss, ConnectionTimeout, SessionLost])
def test_a_run_that_loses_zookeeper_says_so_and_that_the_next_goes_on(
    monkeypatch: pytest.MonkeyPatch, error: type[RegistryError]
) -> None:
    class Run:
        def __init__(self, *_: Any) -> None: ...

        def run(self) -> None:
            raise error("words")

    monkeypatch.setattr(job, "SparkLake", lambda *_: Nothing())
    monkeypatch.setattr(job, "KazooBlockingClient", lambda *_: nullcontext())
    monkeypatch.setattr(job, "Driver", lambda *_: nullcontext())
    monkeypatch.setattr(job, "ExtractionRun", Run)
    extraction = Extraction(zookeeper="z", group="g", topics=("t",), target="/lake")
    with pytest.raises(ZooKeeperLost, match=r"^the connection to ZooKeeper broke: words; run it again, it goes on"):
        job.extract(Nothing(), extraction)

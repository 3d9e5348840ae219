"""Repeated extractions: the cost of an idle round, the time of a small one, and their end by SIGTERM."""

import os
import signal
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient
from kafka_zk.spark_jobs.errors import FetchFailed
from kafka_zk.spark_jobs.extraction import job
from kafka_zk.spark_jobs.extraction.planning import Extraction
from kafka_zk.spark_jobs.extraction.rounds import Round, Rounds
from kafka_zk.spark_jobs.extraction.steps import Phase, Step
from kafka_zk.spark_jobs.source.broker_connection import BrokerConnection
from kafka_zk.spark_jobs.source.cluster_client import ClientSettings, ClusterClient
from kafka_zk.testing.plugin import MakeTopic
from tests.integration.spark.sessions import spark  # noqa: F401

pytestmark = [pytest.mark.integration, pytest.mark.spark]



class World:
    def __init__(self, cluster: EmbeddedCluster, topic: str, target: Path) -> None:
        self.topic = topic
        self.done: list[Round] = []
        self._bootstrap = cluster.bootstrap
        self.extraction = Extraction(
            zookeeper=cluster.zookeeper_connect, group=f"g-{topic}", topics=(topic,), target=str(target)
        )

    def leaders(self) -> set[str]:
        """The addresses of the brokers that lead the topic's partitions."""
        with ClusterClient(ClientSettings(self._bootstrap)) as cluster:
            cluster.partition_counts([self.topic])
            return {found.address for number in range(2)
                    if (found := cluster.leader(TopicPartition(self.topic, number)))}  # fmt: skip

    def write(self, count: int) -> None:
        with BlockingProducer(None, bootstrap_servers=self._bootstrap) as producer:
            for number in range(count):
                producer.send(self.topic, b"v%d" % number, partition=number % 2)

    def rounds(self, spark: Any, actions: list[Callable[[Rounds], object]]) -> Rounds:  # noqa: F811
        """After each round, the next of ``actions`` runs; after the last action, the rounds stop."""

        def tell(done: Round) -> None:
            self.done.append(done)
            action = actions[len(self.done) - 1] if len(self.done) <= len(actions) else Rounds.stop
            action(made)

        made = Rounds(self.extraction, lambda: spark, 0.0, tell=tell)
        return made


@pytest.fixture
def world(kafka_zk_cluster: EmbeddedCluster, make_topic: MakeTopic, tmp_path: Path) -> World:
    return World(kafka_zk_cluster, make_topic(partitions=2), tmp_path / "lake")


def outcomes(world: World) -> list[tuple[int, int]]:
    return [(each.report.records, len(each.report.published)) for each in world.done if each.report is not None]


def test_rounds_go_on_where_the_last_one_was(
    spark: Any, world: World, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:
    """New records are extracted once; an idle round only reads; a round waits for unreachable brokers."""
    asked: Counter[str] = Counter()
    request, run = BrokerConnection.request, job.run

    def counted(connection: BrokerConnection, api_key: ApiKey, *more: Any) -> Any:
        asked.update([f"{ApiKey(api_key).name} {connection.address}"])
        return request(connection, api_key, *more)

    monkeypatch.setattr(BrokerConnection, "request", counted)
    for name in ("create", "set", "delete", "multi"):
        original = getattr(KazooBlockingClient, name)
        monkeypatch.setattr(KazooBlockingClient, name, lambda *args, name=name, original=original, **more: (
            asked.update([name]), original(*args, **more))[1])  # fmt: skip
    leaders = {f"LIST_OFFSETS {address}" for address in world.leaders()}
    asked.clear()
    failing: list[bool] = []

    def run_or_fail(*arguments: Any, **more: Any) -> Any:
        if failing:
            failing.clear()
            raise FetchFailed("no broker answers")
        return run(*arguments, **more)

    monkeypatch.setattr(job, "run", run_or_fail)
    world.write(10)

    def begin_counting(_: Rounds) -> None:
        asked.clear()

    def fail_next(_: Rounds) -> None:
        assert asked == dict.fromkeys(leaders, 1), "an idle round: one request a leader, and reads of ZooKeeper"
        world.write(1000)
        failing.append(True)

    world.rounds(spark, [lambda _: world.write(6), lambda _: None, begin_counting, fail_next, lambda _: None]).run()
    assert outcomes(world) == [(10, 1), (6, 1), (0, 0), (0, 0), (1000, 1)]
    assert [each.failure for each in world.done] == [None, None, None, None, "no broker answers", None]
    rows = spark.read.parquet(world.extraction.target).select("partition", "offset").collect()
    assert len(rows) == len(set(rows)) == 1016


def test_sigterm_lets_the_round_come_to_its_end(
    spark: Any, world: World, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:
    world.write(1000)

    def observe(step: Step, phase: Phase) -> None:
        if (step, phase) == (Step.STAGE, Phase.BEGIN):
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(job, "run", partial(job.run, observe=observe))
    rounds = world.rounds(spark, [lambda _: None] * 9)
    before = signal.signal(signal.SIGTERM, lambda *_: rounds.stop())
    try:
        rounds.run()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert outcomes(world) == [(1000, 1)]
    assert world.done[0].report is not None
    print(f"a round of 1,000 records: {world.done[0].report.seconds:.2f} s")

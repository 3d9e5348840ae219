"""``kafka-zk watch --cluster`` on a cluster of Apache Kafka's brokers, which a broker of ours then joins."""

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.integration.processes import start
from tests.peers.clusters.mixed_cluster import APACHE_KAFKA, mixed_properties
from tests.peers.processes import wait_until
from tests.soak.replicated_cluster import OURS, ReplicatedCluster

pytestmark = pytest.mark.peers

_TOPIC = "watched-states"
_TIMEOUT_S = 120


class _Watch:
    """The command, and its output without the times."""

    def __init__(self, cluster: ReplicatedCluster, file: Path) -> None:
        self._file = file
        with file.open("w") as out:
            self._process = start("watch", "--cluster", "--zookeeper", cluster.zookeeper.connect_string, stdout=out)

    def lines(self) -> list[str]:
        return [line[14:] for line in self._file.read_text().splitlines()]

    def wait_for(self, *texts: str) -> None:
        """Wait for lines of the observer that begin with these texts."""
        for text in texts:
            wanted = f"znodes        {text}"
            wait_until(lambda wanted=wanted: any(line.startswith(wanted) for line in self.lines()), _TIMEOUT_S, wanted)  # type: ignore[misc]

    def end(self) -> int:
        self._process.send_signal(signal.SIGINT)
        try:
            return self._process.wait(_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise


@pytest.fixture
def cluster(peer_tools: None, tmp_path: Path) -> Iterator[ReplicatedCluster]:
    patient = {"replica.lag.time.max.ms": "30000"}  # the ISR must not shrink on a slow machine
    with ReplicatedCluster(tmp_path, [APACHE_KAFKA, APACHE_KAFKA], {**mixed_properties("3.9"), **patient}) as two:
        yield two


def test_brokers_controller_and_leaders_of_both_kinds(cluster: ReplicatedCluster, tmp_path: Path) -> None:
    watch = _Watch(cluster, tmp_path / "watch.txt")
    try:
        watch.wait_for("/brokers/ids: 0, 1 registered", f"/controller names broker {cluster.controller()}")
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 2})
        created = NewTopic(_TOPIC, 1, replica_assignment=[[0, 1]])
        wait_until(lambda: len(admin.list_topics(timeout=_TIMEOUT_S).brokers) == 2, _TIMEOUT_S, "both brokers")
        admin.create_topics([created])[_TOPIC].result(_TIMEOUT_S)
        watch.wait_for(f"state of {_TOPIC}-0 (leader 0, epoch 0, ISR 0,1)")

        cluster.add(OURS)
        watch.wait_for("/brokers/ids: 2 registered")
        cluster.move_controller(OURS)
        watch.wait_for("/controller names broker 2")
        cluster.brokers[0].stop()
        watch.wait_for(f"state of {_TOPIC}-0 (leader 1, epoch 1, ISR 1)", "/brokers/ids: 0 gone, with its session")
    finally:
        code = watch.end()
    assert code == 130 and not cluster.complaints()

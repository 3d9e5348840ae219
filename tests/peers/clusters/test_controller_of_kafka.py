"""A broker of ours controls a cluster of Apache Kafka 3.9.1 brokers, which judge its requests.

They lead, follow, propose ISRs, die and come back, stop cleanly; Kafka's tools elect leaders and move partitions.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kafka_zk.embedded.ports import free_port
from kafka_zk.testing.zookeeper import Chroot
from tests.peers import apache_kafka, java, targets, wire_probe
from tests.peers.jars import ORACLE_VERSION
from tests.peers.processes import ServerProcess, wait_until

pytestmark = pytest.mark.peers

_ASSIGNED = [[1, 2], [2, 3], [3, 1]]
_TIMEOUT_S = 60
_RECORDS = 300
_REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
_ELECT = "org.apache.kafka.tools.LeaderElectionCommand"
_OVERRIDES = {
    "zookeeper.session.timeout.ms": "6000",
    "replica.lag.time.max.ms": "5000",
    "auto.leader.rebalance.enable": "false",
    "controlled.shutdown.retry.backoff.ms": "1000",
}

Shape = dict[int, tuple[int, list[int], list[int]]]  # partition -> leader, replicas, sorted ISR


class Mixed:
    """Broker 0 is ours, and the controller; brokers 1 to 3 are Kafka's."""

    def __init__(self, zookeeper: str, folder: Path) -> None:
        self.ports = [free_port() for _ in range(4)]
        self._folders = [folder / f"broker-{number}" for number in range(4)]
        for number, (port, home) in enumerate(zip(self.ports, self._folders, strict=True)):
            log_dir = home / "logs"
            log_dir.mkdir(parents=True)
            properties = apache_kafka.server_properties(number, port, log_dir, zookeeper, _OVERRIDES)
            apache_kafka.write_properties(home / "server.properties", properties)
        self.brokers: dict[int, ServerProcess] = {}

    def start(self, number: int) -> None:
        path = self._folders[number] / "server.properties"
        command = apache_kafka.broker_command(path) if number else targets.kafka_zk_command(path)
        broker = self.brokers[number] = ServerProcess(f"broker-{number}", command, path.parent / "broker.out")
        broker.wait_ready(lambda: wire_probe.is_ready(self.ports[number], len(self.brokers)), _TIMEOUT_S)

    def kill(self, number: int) -> None:
        os.kill(self.brokers[number].pid, signal.SIGKILL)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.ports[0]}"

    def shape(self) -> Shape:
        """Leader, replicas and ISR of each partition, according to our broker."""
        told = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 2}).list_topics("t", timeout=10)
        return {p: (each.leader, each.replicas, sorted(each.isrs)) for p, each in told.topics["t"].partitions.items()}

    def until(self, condition: Callable[[Shape], bool], what: str) -> Shape:
        wait_until(lambda: condition(self.shape()), _TIMEOUT_S, what)
        return self.shape()

    def produce(self) -> None:
        """Write _RECORDS to each partition, and check that every one is acknowledged."""
        producer = confluent_kafka.Producer(
            {"bootstrap.servers": self.bootstrap, "acks": "all", "enable.idempotence": True, "log_level": 2}
        )
        failures: list[object] = []
        for number in range(_RECORDS * len(_ASSIGNED)):
            producer.produce(
                "t",
                b"%d" % number,
                partition=number % len(_ASSIGNED),
                on_delivery=lambda error, _: failures.append(error) if error else None,
            )
        assert producer.flush(_TIMEOUT_S) == 0 and not failures

    def tool(self, main_class: str, *arguments: str) -> str:
        return java.run_tool(ORACLE_VERSION, main_class, ["--bootstrap-server", self.bootstrap, *arguments]).text

    def stop(self) -> None:
        for broker in reversed(self.brokers.values()):
            broker.kill()


@pytest.fixture
def mixed(zookeeper: Chroot, tmp_path: Path) -> Iterator[Mixed]:
    cluster = Mixed(zookeeper.connect_string, tmp_path)
    try:
        for number in range(4):
            cluster.start(number)
        yield cluster
    finally:
        cluster.stop()


def _is_full(shape: Shape) -> bool:
    return all(isr == sorted(replicas) for _, replicas, isr in shape.values())


def test_kafka_brokers_obey_our_controller(mixed: Mixed, tmp_path: Path) -> None:
    admin = AdminClient({"bootstrap.servers": mixed.bootstrap, "log_level": 2})
    assert admin.list_topics(timeout=10).controller_id == 0
    created = NewTopic("t", len(_ASSIGNED), replica_assignment=_ASSIGNED, config={"min.insync.replicas": "1"})
    admin.create_topics([created], operation_timeout=30)["t"].result(60)
    mixed.produce()

    mixed.kill(2)
    shape = mixed.until(lambda shape: all(2 not in (leader, *isr) for leader, _, isr in shape.values()), "2 to be gone")
    assert {p: leader for p, (leader, _, _) in shape.items()} == {0: 1, 1: 3, 2: 3}
    mixed.produce()

    mixed.start(2)
    mixed.until(_is_full, "the leaders to propose full ISRs")
    said = mixed.tool(_ELECT, "--election-type", "preferred", "--all-topic-partitions")
    assert "t-1" in said
    assert [leader for leader, _, _ in mixed.shape().values()] == [1, 2, 3]
    mixed.produce()

    moves = tmp_path / "moves.json"
    targets_of = {0: [3, 2], 1: [1, 3, 2], 2: [3]}
    partitions = [{"topic": "t", "partition": p, "replicas": replicas} for p, replicas in targets_of.items()]
    moves.write_text(json.dumps({"version": 1, "partitions": partitions}))
    mixed.tool(_REASSIGN, "--execute", "--reassignment-json-file", str(moves), "--throttle", "100000000")
    verify = ("--verify", "--reassignment-json-file", str(moves))
    wait_until(lambda: mixed.tool(_REASSIGN, *verify).count("is completed") == 3, _TIMEOUT_S, "the moves")
    shape = mixed.until(_is_full, "full ISRs")
    assert {p: replicas for p, (_, replicas, _) in shape.items()} == targets_of
    assert (shape[0][0], shape[2][0]) == (3, 3)
    mixed.produce()

    assert mixed.brokers[3].stop() == 143
    shape = mixed.until(lambda shape: 3 not in shape[0][2] + shape[1][2], "3 to be out of the ISRs")
    assert shape[0][0] == 2 and shape[1][0] in (1, 2)
    mixed.start(3)
    mixed.until(_is_full, "full ISRs")
    consumer = confluent_kafka.Consumer({"bootstrap.servers": mixed.bootstrap, "group.id": "none", "log_level": 2})
    ends = [consumer.get_watermark_offsets(confluent_kafka.TopicPartition("t", p), 10)[1] for p in range(3)]
    consumer.close()
    assert ends == [4 * _RECORDS] * 3
    ours = mixed.brokers[0].output.read_text(errors="replace")
    assert "Traceback" not in ours and " ERROR " not in ours

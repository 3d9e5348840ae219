"""Apache Kafka 3.9.1 with tiered storage in a folder, by the LocalTieredStorage of its own tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from kafka_zk.embedded.ports import free_port
from tests.peers import apache_kafka, jars
from tests.peers.processes import ServerProcess

_START_TIMEOUT_S = 60


@dataclass(frozen=True)
class TieredKafka:
    """``tier``: the folder for ``--storage``."""

    bootstrap: str
    tier: Path


@contextmanager
def tiered_kafka(zookeeper: str, folder: Path) -> Iterator[TieredKafka]:
    """One broker, which copies closed segments within half a second."""
    port = free_port()
    [jar] = jars.jars(jars.TIERED_STORAGE).glob("*.jar")
    tier = folder / "tier"
    overrides = {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
        "remote.log.storage.manager.class.path": str(jar),
        "rsm.config.dir": str(tier),
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        "rlmm.config.remote.log.metadata.topic.num.partitions": "5",
        "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
        "remote.log.manager.task.interval.ms": "500",
        "log.initial.task.delay.ms": "500",
        "log.retention.check.interval.ms": "500",
    }
    properties = apache_kafka.server_properties(0, port, folder / "logs", zookeeper, overrides)
    output = folder / "broker.out"
    path = apache_kafka.write_properties(folder / "server.properties", properties)
    broker = ServerProcess("Apache Kafka", apache_kafka.broker_command(path), output)
    try:
        broker.wait_ready(lambda: "started (kafka.server.KafkaServer)" in output.read_text(), _START_TIMEOUT_S)
        yield TieredKafka(f"127.0.0.1:{port}", tier)
    finally:
        broker.stop()

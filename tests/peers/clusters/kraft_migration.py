"""The nodes of Apache Kafka's own migration from ZooKeeper to KRaft: a controller, and a broker that changes its mode.

The module also counts records, the offsets of a group, and configurations after each step.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ConfigSource, ResourceType

from kafka_zk.embedded.ports import free_port
from tests.peers import apache_kafka, java
from tests.peers.clusters.mixed_cluster import small_kafka
from tests.peers.jars import ORACLE_VERSION
from tests.peers.processes import ServerProcess, wait_until

NODE_ID = 3000
MIGRATED = "Completed migration of metadata from ZooKeeper to KRaft"
NOTHING_DIFFERS = "Did not make any ZK writes when reconciling with KRaft state"
ENDED = "Completing the ZK migration since this controller was configured with"
WAITS_FOR = "Still waiting for ZK brokers [{}] to register with KRaft"
_STORAGE_TOOL = "kafka.tools.StorageTool"
_PROTOCOLS = {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"}
_MIGRATION = {"zookeeper.metadata.migration.enable": "true"}
_TIMEOUT_S = 120


class Node:
    """A process whose server.properties depend on its mode; ``said`` is its output so far."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.name = folder / name, name
        self.log_dir = self.folder / "logs"
        self.log_dir.mkdir(parents=True)
        self.port = free_port()
        self.process: ServerProcess | None = None

    def run(self, command: list[str]) -> ServerProcess:
        self.process = ServerProcess(self.name, command, self.folder / "node.out")
        return self.process

    def write(self, properties: Mapping[str, str]) -> Path:
        return apache_kafka.write_properties(self.folder / "server.properties", properties)

    def says(self, text: str) -> bool:
        return text in (self.folder / "node.out").read_text(errors="replace")

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.running

    def stop(self) -> int:
        assert self.process is not None
        return self.process.stop()

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()


class KRaftController(Node):
    """One controller of Apache Kafka 3.9.1."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "controller")

    @property
    def quorum(self) -> dict[str, str]:
        """The keys that all nodes of the cluster have."""
        voters = {"controller.quorum.voters": f"{NODE_ID}@127.0.0.1:{self.port}"}
        return {**_PROTOCOLS, **voters, "controller.listener.names": "CONTROLLER"}

    def start(self, cluster_id: str = "", zookeeper: str = "", overrides: Mapping[str, str] | None = None) -> None:
        """Start the controller. With a ZooKeeper, it migrates the data; only the first start needs the cluster's id."""
        old = {"zookeeper.connect": zookeeper, "inter.broker.listener.name": "PLAINTEXT", **_MIGRATION}
        path = self.write({
            "process.roles": "controller", "node.id": str(NODE_ID), "listeners": f"CONTROLLER://127.0.0.1:{self.port}",
            "log.dirs": str(self.log_dir), **self.quorum, **(old if zookeeper else {}),
            **(overrides or {}),
        })  # fmt: skip
        if not (self.log_dir / "meta.properties").exists():
            java.run_tool(ORACLE_VERSION, _STORAGE_TOOL, ["format", f"--cluster-id={cluster_id}", "-c", str(path)])
        self.run(small_kafka(path))


class MigratingBroker(Node):
    """A broker of Apache Kafka 3.9.1, first with ZooKeeper and in migration mode, then with KRaft."""

    def __init__(self, folder: Path, broker_id: int, quorum: Mapping[str, str]) -> None:
        super().__init__(folder, f"broker-{broker_id}")
        self._broker_id = broker_id
        self._quorum = quorum

    def start_before_the_migration(self, zookeeper: str, overrides: Mapping[str, str]) -> None:
        self._start(apache_kafka.server_properties(self._broker_id, self.port, self.log_dir, zookeeper, overrides))

    def start_with_zookeeper(self, zookeeper: str, overrides: Mapping[str, str]) -> None:
        """Start the broker in migration mode."""
        more = {**overrides, **self._quorum, **_MIGRATION}
        self._start(apache_kafka.server_properties(self._broker_id, self.port, self.log_dir, zookeeper, more))

    def start_with_kraft(self, overrides: Mapping[str, str]) -> None:
        """Start the broker on the same log directory."""
        properties = apache_kafka.server_properties(self._broker_id, self.port, self.log_dir, "", {
            **overrides, **self._quorum, "process.roles": "broker", "node.id": str(self._broker_id),
        })  # fmt: skip
        old = ("broker.id", "inter.broker.protocol.version")
        self._start({
            key: value for key, value in properties.items() if key not in old and not key.startswith("zookeeper.")
        })  # fmt: skip

    def _start(self, properties: Mapping[str, str]) -> None:
        self.run(small_kafka(self.write(properties)))


class Counted:
    """A topic that one transactional id writes and one group reads, some records at each step; ``check`` counts all."""

    def __init__(self, topic: str, partitions: int) -> None:
        self._topic = topic
        self._written: dict[int, list[bytes]] = {number: [] for number in range(partitions)}

    def step(self, bootstrap: str, count: int) -> None:
        """Write ``count`` records to each partition, let the group consume, and check that no record is missing."""
        self._write(bootstrap, count)
        new = [value for values in self._written.values() for value in values[-count:]]
        assert sorted(self._read_by_group(bootstrap, len(new))) == sorted(new), "the group's new records differ"
        assert self._read(bootstrap) == self._written

    def _write(self, bootstrap: str, count: int) -> None:
        """Write records. Each call has another producer epoch, because the coordinator already knows the id."""
        producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "writer", "log_level": 2})
        producer.init_transactions(_TIMEOUT_S)
        producer.begin_transaction()
        for number, values in self._written.items():
            for _ in range(count):
                values.append(b"%d-%d" % (number, len(values)))
                producer.produce(self._topic, values[-1], partition=number)
        producer.commit_transaction(_TIMEOUT_S)

    def _read_by_group(self, bootstrap: str, count: int) -> list[bytes]:
        """The records behind the group's committed offsets, which are then committed."""
        consumer = self._consumer(bootstrap, "readers")
        consumer.subscribe([self._topic])
        try:
            values = _values(consumer, count)
            consumer.commit(asynchronous=False)
        finally:
            consumer.close()
        return values

    def _read(self, bootstrap: str) -> dict[int, list[bytes]]:
        """The values of each partition from its start; a value begins with the number of its partition."""
        consumer = self._consumer(bootstrap, "none")
        try:
            consumer.assign([TopicPartition(self._topic, number, 0) for number in self._written])
            values = _values(consumer, sum(map(len, self._written.values())))
        finally:
            consumer.close()
        return {number: [each for each in values if each.startswith(b"%d-" % number)] for number in self._written}

    def _consumer(self, bootstrap: str, group: str) -> Consumer:
        return Consumer({
            "bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False, "log_level": 2,
            "auto.offset.reset": "earliest", "isolation.level": "read_committed",
        })  # fmt: skip


def _values(consumer: Consumer, count: int) -> list[bytes]:
    """Read ``count`` records, plus any that arrive within a second after them. Raises: TimeoutError."""
    found: list[bytes] = []

    def is_there() -> bool:
        found.extend(each.value() or b"" for each in consumer.consume(1000, 0.1) if each.error() is None)
        return len(found) >= count

    wait_until(is_there, _TIMEOUT_S, f"{count} records")
    is_there()
    return found


def configs(bootstrap: str, kind: ResourceType, name: str) -> dict[str, str]:
    """The values set on a topic or a broker itself, without defaults."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    (described,) = admin.describe_configs([ConfigResource(kind, name)]).values()
    return {
        key: entry.value for key, entry in described.result(_TIMEOUT_S).items()
        if entry.source in (ConfigSource.DYNAMIC_TOPIC_CONFIG.value, ConfigSource.DYNAMIC_BROKER_CONFIG.value,
                            ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG.value)
    }  # fmt: skip

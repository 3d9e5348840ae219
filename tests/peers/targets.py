"""The two clusters under test, from the same server.properties: Apache Kafka (the oracle) and kafka-zk."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import confluent_kafka
import confluent_kafka.admin
from confluent_kafka.cimpl import NewTopic

from kafka_zk.base.types import TopicPartition
from kafka_zk.embedded.ports import free_port
from kafka_zk.embedded.probe import ask_leaders
from tests.peers import apache_kafka, wire_probe
from tests.peers.processes import ProcessFailed, ServerProcess, pinned, wait_until

APACHE_KAFKA = "apache-kafka"
KAFKA_ZK = "kafka-zk"
NAMES = (KAFKA_ZK, APACHE_KAFKA)

#: A JVM that is stopped by SIGTERM has the exit code 143.
_CLEAN_EXIT_CODES = {APACHE_KAFKA: (0, 143), KAFKA_ZK: (0,)}
_START_TIMEOUT_S = 60
_ADMIN_TIMEOUT_S = 30


@dataclass
class Target:
    """A running cluster: its addresses, processes and log folders, by broker id."""

    name: str
    zookeeper: str
    ports: list[int]
    log_dirs: list[Path]
    brokers: list[ServerProcess] = field(default_factory=list)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    def create_topic(
        self,
        topic: str,
        *,
        partitions: int = 1,
        replication_factor: int = 1,
        config: Mapping[str, str] | None = None,
        timeout_s: float = _ADMIN_TIMEOUT_S,
    ) -> None:
        """Create a topic, through librdkafka; every broker knows its leaders when this returns.

        Raises: KafkaException, TimeoutError.
        """
        self._create([NewTopic(topic, partitions, replication_factor, config=dict(config or {}))], timeout_s)
        self._wait_for_leaders(topic, partitions)

    def create_assigned_topic(self, topic: str, replicas: Sequence[Sequence[int]]) -> None:
        """Like ``create_topic``, with the brokers of each partition, the leader first."""
        assignment = [list(each) for each in replicas]
        self._create([NewTopic(topic, len(assignment), replica_assignment=assignment)])
        self._wait_for_leaders(topic, len(assignment))

    def create_topics(self, topics: Sequence[str]) -> None:
        """Create topics of one partition in one request; when this returns, their leaders may not know yet that they
        lead.

        Raises: KafkaException.
        """
        self._create([NewTopic(topic, 1, 1) for topic in topics])

    def _create(self, new: list[NewTopic], timeout_s: float = _ADMIN_TIMEOUT_S) -> None:
        admin = confluent_kafka.admin.AdminClient(self._librdkafka_config())
        for created in admin.create_topics(new, operation_timeout=timeout_s, request_timeout=2 * timeout_s).values():
            created.result(3 * timeout_s)

    def _wait_for_leaders(self, topic: str, partitions: int) -> None:
        """Wait until the leaders serve. CreateTopics returns when the controller's broker knows the leaders. A broker
        whose metadata contain the leaders also leads: LeaderAndIsr comes before UpdateMetadata.
        """
        created = {TopicPartition(topic, number) for number in range(partitions)}
        for port in self.ports:
            wait_until(
                lambda port=port: created <= (ask_leaders("127.0.0.1", port) or {}).keys(),  # type: ignore[misc]
                _ADMIN_TIMEOUT_S,
                f"leaders of {topic} at port {port}",
            )

    def delete_topic(self, topic: str) -> None:
        """Delete a topic. Raises: KafkaException."""
        admin = confluent_kafka.admin.AdminClient(self._librdkafka_config())
        admin.delete_topics([topic], operation_timeout=_ADMIN_TIMEOUT_S)[topic].result(2 * _ADMIN_TIMEOUT_S)

    def end_offset(self, topic: str, partition: int) -> int:
        """The partition's log end, through librdkafka. Raises: KafkaException."""
        consumer = confluent_kafka.Consumer(self._librdkafka_config() | {"group.id": "never-joined"})
        try:
            where = confluent_kafka.TopicPartition(topic, partition)
            end: int = consumer.get_watermark_offsets(where, timeout=_ADMIN_TIMEOUT_S)[1]
            return end
        finally:
            consumer.close()

    def _librdkafka_config(self) -> dict[str, str | int | float | bool]:
        """librdkafka logs to stderr; only errors are enabled."""
        return {"bootstrap.servers": self.bootstrap, "log_level": 3}

    def partition_dir(self, topic: str, partition: int) -> Path:
        """The folder of a partition, on the broker that has it. Raises: FileNotFoundError."""
        for log_dir in self.log_dirs:
            folder = log_dir / f"{topic}-{partition}"
            if folder.is_dir():
                return folder
        raise FileNotFoundError(f"no broker of {self.name} has a folder for {topic}-{partition}")

    def restart(self, cores: str | None = None, module: str | None = None) -> None:
        """Stop the only broker, if it still runs, and start it again on its port and folders; `module` is a Python
        module to run instead of the command line, for kafka-zk only. Raises: ProcessFailed."""
        (broker,) = self.brokers
        broker.stop()
        (port,) = self.ports
        path = self.log_dirs[0].parent / "server.properties"
        if module is None:
            started = launch(self.name, path, cores)
        else:
            started = ServerProcess(self.name, pinned([sys.executable, "-m", module, str(path)], cores), broker.output)
        self.brokers[0] = started
        started.wait_ready(lambda: wire_probe.is_ready(port), _START_TIMEOUT_S)

    def stop_broker(self, broker_id: int) -> None:
        """Stop one broker by SIGTERM; the others stay running."""
        self.brokers[broker_id].stop()

    def start_broker(self, broker_id: int, cores: str | None = None) -> None:
        """Start a stopped broker, with its port and folders; it serves when this returns. Raises: ProcessFailed."""
        path = self.log_dirs[broker_id].parent / "server.properties"
        started = self.brokers[broker_id] = launch(self.name, path, cores)
        port = self.ports[broker_id]
        started.wait_ready(lambda: wire_probe.is_ready(port, len(self.brokers)), _START_TIMEOUT_S)

    def stop(self) -> list[str]:
        """Stop all brokers by SIGTERM. Returns faults: unexpected exit codes, and tracebacks in our brokers' logs."""
        complaints = []
        for broker in self.brokers:
            code = broker.stop()
            if code not in _CLEAN_EXIT_CODES[self.name]:
                complaints.append(f"{broker.name} (pid {broker.pid}) ended with {code}:\n{broker.tail()}")
            output = broker.output.read_text(errors="replace")
            if self.name == KAFKA_ZK and "Traceback" in output:
                complaints.append(
                    f"{broker.name} logged a traceback:\n{output[output.index('Traceback') - 300 :][:3000]}"
                )
        return complaints

    def kill(self) -> None:
        """Send SIGKILL to all brokers, if their files are not needed any more."""
        for broker in self.brokers:
            broker.kill()


def start(
    name: str,
    zookeeper: str,
    folder: Path,
    *,
    broker_count: int = 1,
    overrides: Mapping[str, str] | None = None,
    racks: Sequence[str] = (),
    cores: str | None = None,
    chroot: str | None = None,
    ports: Sequence[int] = (),
    timeout_s: float = _START_TIMEOUT_S,
) -> Target:
    """Start a cluster of `broker_count` brokers in its own chroot of ZooKeeper, its files under `folder`.

    With the `chroot` (default: the target's name) and `folder` of an ended cluster, the new one has its topics. `racks`
    and `ports` (of the plain listeners; default: free ones) are in the order of broker ids. Every broker responds to
    Metadata and sees all others when this returns. Raises: ProcessFailed, also after `timeout_s`.
    """
    zookeeper = f"{zookeeper}/{chroot or name}"
    ports = list(ports) or [free_port() for _ in range(broker_count)]
    target = Target(name, zookeeper, ports, [folder / f"broker-{n}" / "logs" for n in range(broker_count)])
    try:
        for broker_id, (port, log_dir) in enumerate(zip(ports, target.log_dirs, strict=True)):
            log_dir.mkdir(parents=True, exist_ok=True)
            own = {**(overrides or {}), **({"broker.rack": racks[broker_id]} if racks else {})}
            properties = apache_kafka.server_properties(broker_id, port, log_dir, zookeeper, own)
            path = apache_kafka.write_properties(log_dir.parent / "server.properties", properties)
            target.brokers.append(launch(name, path, cores))
        for broker, port in zip(target.brokers, ports, strict=True):
            broker.wait_ready(lambda port=port: wire_probe.is_ready(port, broker_count), timeout_s)  # type: ignore[misc]
    except ProcessFailed:
        target.kill()
        raise
    return target


def kafka_zk_command(properties: Path) -> list[str]:
    """The command line that starts one kafka-zk broker with a server.properties file."""
    return [sys.executable, "-m", "kafka_zk", "broker", str(properties)]


def launch(name: str, properties: Path, cores: str | None) -> ServerProcess:
    """Start one broker process and return at once."""
    commands = {APACHE_KAFKA: apache_kafka.broker_command, KAFKA_ZK: kafka_zk_command}
    return ServerProcess(name, pinned(commands[name](properties), cores), properties.parent / "broker.out")

"""Runs another client's own test suite with the cluster that it requires, of Apache Kafka 3.9.1 or of kafka-zk.

    python -m tests.peers.suite_cluster {kafka-zk,apache-kafka} {sarama,kafka-go,librdkafka} FOLDER COMMAND …

Each suite expects fixed ports; `unshare -n sh -c 'ip link set lo up && exec …'` gives each run its own network. The
command's PATH contains a replacement for the `docker` that sarama calls: it stops and starts brokers, shows their
output and runs Kafka's scripts. sarama also needs Toxiproxy's server, as `toxiproxy-server` on PATH.
"""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.peers import apache_kafka, jars, java, targets, wire_probe
from tests.peers.processes import ServerProcess

_START_TIMEOUT_S = 400
_TOXIPROXY_PORT = 8474
_AUTHORIZER = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
}
_JAAS = (
    "KafkaServer {\n"
    "org.apache.kafka.common.security.scram.ScramLoginModule required\n"
    ' username="adminscram"\n password="admin-secret";\n'
    "org.apache.kafka.common.security.plain.PlainLoginModule required\n"
    ' username="adminplain"\n password="admin-secret"\n user_adminplain="admin-secret";\n};\n'
)
_SCRIPT_CLASSES = {
    "kafka-acls": "kafka.admin.AclCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "kafka.tools.ConsoleProducer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
}
_DOCKER = "tests.peers.suite_docker"
_SCRAM = "SCRAM-SHA-256=[password=admin-secret-256],SCRAM-SHA-512=[password=admin-secret-512]"


def sarama(zookeeper: str) -> dict[int, dict[str, str]]:
    """Like docker-compose.yml of sarama 1.61.1: five brokers, to which clients connect through Toxiproxy."""
    return {
        number: {
            "listeners": f"LISTENER_INTERNAL://127.0.0.1:{9100 + number},LISTENER_LOCAL://127.0.0.1:{39090 + number}",
            "advertised.listeners": f"LISTENER_INTERNAL://127.0.0.1:{9100 + number},"
            f"LISTENER_LOCAL://localhost:{29090 + number}",
            "inter.broker.listener.name": "LISTENER_INTERNAL",
            "listener.security.protocol.map": "LISTENER_INTERNAL:PLAINTEXT,LISTENER_LOCAL:PLAINTEXT",
            "broker.rack": str(number),
            "default.replication.factor": "2",
            "offsets.topic.replication.factor": "2",
            "transaction.state.log.replication.factor": "2",
            "zookeeper.session.timeout.ms": "6000",
            "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
            "auto.create.topics.enable": "false",
        }
        for number in range(1, 6)
    }


def kafka_go(zookeeper: str) -> dict[int, dict[str, str]]:
    """Like docker-compose.yml of kafka-go 0.4.51, which creates SCRAM users before the broker's first start."""
    arguments = ["--zookeeper", zookeeper, "--alter", "--add-config", _SCRAM, "--entity-type", "users"]
    java.run_tool(jars.ORACLE_VERSION, "kafka.admin.ConfigCommand", [*arguments, "--entity-name", "adminscram"])
    listeners = "PLAINTEXT://localhost:9092,SASL_PLAINTEXT://localhost:9093"
    return {
        1: {
            "listeners": listeners,
            "advertised.listeners": listeners,
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            "message.max.bytes": "200000000",
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
        }
    }


def librdkafka(zookeeper: str) -> dict[int, dict[str, str]]:
    """Three brokers; the tests write ACLs with Kafka's scripts."""
    return {
        number: {
            "listeners": f"PLAINTEXT://127.0.0.1:{9091 + number},SASL_PLAINTEXT://127.0.0.1:{9191 + number}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{9091 + number},SASL_PLAINTEXT://127.0.0.1:{9191 + number}",
            "sasl.enabled.mechanisms": "PLAIN",
            "num.partitions": "4",
            "default.replication.factor": "3",
            "offsets.topic.replication.factor": "3",
            "transaction.state.log.replication.factor": "3",
            "group.min.session.timeout.ms": "1000",
            "connections.max.idle.ms": "20000",
            **_AUTHORIZER,
        }
        for number in range(1, 4)
    }


SUITES = {"sarama": sarama, "kafka-go": kafka_go, "librdkafka": librdkafka}


class SuiteCluster:
    """Brokers by id, as child processes."""

    def __init__(self, name: str, folder: Path) -> None:
        self._name = name
        self._folder = folder
        self.brokers: dict[int, ServerProcess] = {}

    def start(self, broker_id: int) -> None:
        """Start a broker without waiting for it, as `docker compose start` does."""
        self.brokers[broker_id] = targets.launch(self._name, self._properties(broker_id), None)

    def write(self, broker_id: int, zookeeper: str, overrides: Mapping[str, str]) -> None:
        properties = apache_kafka.server_properties(
            broker_id, 0, self._folder / f"{broker_id}/logs", zookeeper, overrides
        )
        apache_kafka.write_properties(self._properties(broker_id), properties)

    def run(self, command: str, service: str) -> str:
        """Handle a request of the replacement for docker. ``service``: kafka-1 … kafka-5."""
        broker_id = int(service.rpartition("-")[2])
        if command == "logs":
            return self.brokers[broker_id].output.read_text(errors="replace")
        if command == "stop":
            self.brokers[broker_id].stop()
        elif command == "start":
            self.start(broker_id)
        return ""

    def _properties(self, broker_id: int) -> Path:
        return self._folder / str(broker_id) / "server.properties"


@contextmanager
def running(name: str, suite: str, folder: Path) -> Iterator[tuple[SuiteCluster, str]]:
    """Run the suite's cluster; every broker knows all others. Yields it and its ZooKeeper. Raises: ProcessFailed."""
    with ExitStack() as stack:
        zookeeper = apache_kafka.start_zookeeper(folder / "zookeeper", force_sync=False)
        stack.callback(zookeeper.kill)
        cluster = SuiteCluster(name, folder)
        brokers = SUITES[suite](zookeeper.connect_string)
        (folder / "jaas.conf").write_text(_JAAS)
        login = f"-Djava.security.auth.login.config={folder / 'jaas.conf'}"
        os.environ.update(KAFKA_OPTS=login, JAVA_TOOL_OPTIONS=login)
        for broker_id, overrides in brokers.items():
            cluster.write(broker_id, zookeeper.connect_string, overrides)
            cluster.start(broker_id)
            stack.callback(lambda each=broker_id: cluster.brokers[each].kill())  # type: ignore[misc]
        for broker_id, overrides in brokers.items():
            port = int(overrides["listeners"].split(",")[0].rpartition(":")[2])
            cluster.brokers[broker_id].wait_ready(
                lambda port=port: wire_probe.is_ready(port, len(brokers)),  # type: ignore[misc]
                _START_TIMEOUT_S,
            )
        if suite == "sarama":
            stack.callback(_start_toxiproxy(folder, sorted(brokers)).kill)
        yield cluster, zookeeper.connect_string


def _start_toxiproxy(folder: Path, brokers: Sequence[int]) -> ServerProcess:
    process = ServerProcess("Toxiproxy", ["toxiproxy-server"], folder / "toxiproxy.out")
    process.wait_ready(lambda: _is_open(_TOXIPROXY_PORT), _START_TIMEOUT_S)
    for number in brokers:
        proxy = {
            "name": f"kafka{number}",
            "listen": f"0.0.0.0:{29090 + number}",
            "upstream": f"127.0.0.1:{39090 + number}",
        }
        request = urllib.request.Request(
            f"http://127.0.0.1:{_TOXIPROXY_PORT}/proxies", json.dumps({**proxy, "enabled": True}).encode()
        )
        urllib.request.urlopen(request, timeout=30).close()
    return process


def _is_open(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def write_scripts(folder: Path) -> None:
    """A folder `bin/` with the scripts of Kafka 3.9.1 that a suite runs beside its own clients."""
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    for name, main_class in _SCRIPT_CLASSES.items():
        command = shlex.join(java.tool_command(jars.ORACLE_VERSION, main_class))
        _write_script(folder / "bin" / f"{name}.sh", f'#!/bin/sh\nexec {command} "$@"\n')


def _write_script(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def _serve(listener: socket.socket, cluster: SuiteCluster) -> None:
    while True:
        connection, _ = listener.accept()
        with connection:
            command, service = connection.recv(1000).decode().split()
            connection.sendall(cluster.run(command, service).encode())


def main(name: str, suite: str, folder: Path, command: Sequence[str]) -> int:
    """Run the command while the cluster runs. Returns its exit code."""
    folder.mkdir(parents=True, exist_ok=True)
    write_scripts(folder / "kafka")
    docker = shlex.join([sys.executable, "-m", _DOCKER, str(folder)])
    _write_script(folder / "kafka/bin/docker", f'#!/bin/sh\nexec {docker} "$@"\n')
    with running(name, suite, folder) as (cluster, zookeeper), socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "docker.socket"))
        listener.listen()
        threading.Thread(target=_serve, args=(listener, cluster), daemon=True).start()
        environment = {
            **os.environ,
            "PATH": f"{folder / 'kafka/bin'}:{os.environ['PATH']}",
            "KAFKA_PATH": str(folder / "kafka"),
            "KAFKA_VERSION": jars.ORACLE_VERSION,
            "ZK_ADDRESS": zookeeper,
        }
        return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4:]))

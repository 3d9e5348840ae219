"""A real KRaft controller of Apache Kafka on 127.0.0.1, as a process."""

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from kafka_zk.embedded.java import Java
from kafka_zk.embedded.kafka_jars import KafkaJars
from kafka_zk.embedded.ports import free_port
from kafka_zk.embedded.process import ChildProcess, describe_exit
from kafka_zk.embedded.properties_file import properties_text
from kafka_zk.embedded.zookeeper import QUICK_START
from kafka_zk.migration.rehearsal.controller_log import LOG4J_PROPERTIES, ControllerLog
from kafka_zk.migration.rehearsal.loopback import LOOPBACK
from kafka_zk.protocol.uuids import random_topic_id, to_text

_MAIN_CLASS = "kafka.Kafka"
_MAX_HEAP = "-Xmx1g"
_LEAST_ID = 3000
_SESSION_TIMEOUT_MS = 30_000
"""Of brokers: stand-ins share a busy machine."""


def controller_id(broker_ids: frozenset[int]) -> int:
    """An id that no broker has."""
    return max(_LEAST_ID, *(broker_id + 1 for broker_id in broker_ids)) if broker_ids else _LEAST_ID


def properties(node_id: int, port: int, log_dir: Path, zookeeper: str | None) -> Mapping[str, object]:
    """``zookeeper``: None for a controller without the migration flag, which finalises."""
    migration = {"zookeeper.connect": zookeeper, "zookeeper.metadata.migration.enable": "true"} if zookeeper else {}
    return {
        "process.roles": "controller",
        "node.id": node_id,
        "listeners": f"CONTROLLER://{LOOPBACK}:{port}",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"{node_id}@{LOOPBACK}:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "broker.session.timeout.ms": _SESSION_TIMEOUT_MS,
        "log.dirs": log_dir,
        **migration,
    }


class Controller:
    """Its files are in ``folder``. The JVM resolves no host names but localhost.

    ``log``: of all starts of this controller.
    """

    def __init__(self, folder: Path, node_id: int, java: Java, jars: KafkaJars) -> None:
        self.node_id = node_id
        self.port = free_port()
        self.log = ControllerLog()
        self._folder = folder
        self._log_dir = folder / "metadata"
        self._output = folder / "controller.log"
        self._position = 0
        self._rest = ""
        self._process = ChildProcess("the KRaft controller", self._command(java, jars), self._output, self._environ())

    def _command(self, java: Java, jars: KafkaJars) -> list[str]:
        return [
            str(java.path), _MAX_HEAP, *QUICK_START, "-Djava.awt.headless=true",
            f"-Dlog4j.configuration=file:{self._folder / 'log4j.properties'}",
            f"-Djdk.net.hosts.file={self._folder / 'hosts'}",
            "-cp", jars.class_path, _MAIN_CLASS, str(self._folder / "controller.properties"),
        ]  # fmt: skip

    @staticmethod
    def _environ() -> Mapping[str, str]:
        return {**os.environ, "LC_ALL": "C.UTF-8"}

    def format(self, cluster_id: str) -> None:
        """What ``kafka-storage.sh format`` writes, with the newest ``metadata.version``, which needs no file."""
        self._log_dir.mkdir(parents=True)
        (self._folder / "log4j.properties").write_text(LOG4J_PROPERTIES)
        (self._folder / "hosts").write_text(f"{LOOPBACK} localhost {os.uname().nodename}\n")
        (self._log_dir / "meta.properties").write_text(properties_text({
            "version": 1, "cluster.id": cluster_id, "node.id": self.node_id, "directory.id": to_text(random_topic_id()),
        }))  # fmt: skip

    def start(self, zookeeper: str | None) -> None:
        """Raises: ProcessFailed."""
        settings = properties(self.node_id, self.port, self._log_dir, zookeeper)
        (self._folder / "controller.properties").write_text(properties_text(settings))
        self._process.start()

    @property
    def is_running(self) -> bool:
        return self._process.alive

    def describe_end(self) -> str:
        """Its log names the cause, and is gone with the copy."""
        return f"the controller ended with {describe_exit(self._process.exit_code)}"

    def read_log(self) -> ControllerLog:
        """``log`` with what was written since the last call."""
        self.log.read(self._new_lines())
        return self.log

    def _new_lines(self) -> Iterator[str]:
        with contextlib.suppress(FileNotFoundError), self._output.open("rb") as file:
            file.seek(self._position)
            data = file.read()
            self._position += len(data)
            *lines, self._rest = (self._rest + data.decode(errors="replace")).split("\n")
            yield from lines

    def stop(self) -> None:
        """What it logs while it stops is not read: it reports its own sockets as errors."""
        self.read_log()
        self._process.stop()
        self._position, self._rest = self._output.stat().st_size, ""

    def kill(self) -> None:
        self._process.kill()

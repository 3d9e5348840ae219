"""The KRaft controllers of a rehearsal: a quorum of real processes."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from kafka_zk.embedded.java import Java
from kafka_zk.embedded.kafka_jars import KafkaJars
from kafka_zk.embedded.ports import free_port
from kafka_zk.embedded.properties_file import properties_text
from kafka_zk.migration.rehearsal.controller_log import ControllerLog
from kafka_zk.migration.rehearsal.kafka_process import KafkaProcess
from kafka_zk.migration.rehearsal.loopback import LOOPBACK
from kafka_zk.protocol.uuids import random_topic_id, to_text

LISTENER = "REHEARSAL_CONTROLLER"
FLAG = {"zookeeper.metadata.migration.enable": "true"}
PLAIN: Mapping[str, str] = {
    "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{LISTENER}:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
}
"""Settings with which the controllers reach brokers over a listener that needs no login."""
_LEAST_ID = 3000
_SESSION_TIMEOUT_MS = 30_000
"""The brokers' session timeout; it is long, because they share a busy machine."""


def controller_ids(broker_ids: frozenset[int], count: int) -> list[int]:
    """Ids for ``count`` controllers that no broker has."""
    first = max(_LEAST_ID, *(broker_id + 1 for broker_id in broker_ids)) if broker_ids else _LEAST_ID
    return [first + number for number in range(count)]


class Controllers:
    """The controllers of one quorum, which start and stop together.

    Args:
        ids: one for each controller; at least one.
        settings: how they reach the brokers, such as ``PLAIN``, and whom they trust.
        secrets: strings that are hidden in the log.
    """

    def __init__(
        self, folder: Path, ids: Sequence[int], java: Java, jars: KafkaJars, settings: Mapping[str, str] = PLAIN,
        secrets: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self._settings = settings
        self._secrets = secrets
        self.ports = {node_id: free_port() for node_id in ids}
        self._nodes = {
            node_id: KafkaProcess(f"controller {node_id}", folder / f"controller-{node_id}", java, jars)
            for node_id in ids
        }
        self._logs = {node_id: ControllerLog(secrets) for node_id in ids}
        self._have_started = False

    def __str__(self) -> str:
        return f"controller{'s' * (len(self._nodes) > 1)} {', '.join(map(str, self._nodes))}"

    @property
    def quorum(self) -> Mapping[str, str]:
        """The settings that all nodes of the cluster need."""
        voters = ",".join(f"{node_id}@{LOOPBACK}:{port}" for node_id, port in self.ports.items())
        return {"controller.quorum.voters": voters, "controller.listener.names": LISTENER}

    def format(self, cluster_id: str, release: str | None = None) -> None:
        """``release``: the ``metadata.version``. None: the newest, for which meta.properties is the only file.

        Raises: ProcessFailed.
        """
        for node_id, node in self._nodes.items():
            node.write(self._properties(node_id, None))
            if release is not None:
                node.format(cluster_id, release)
                continue
            _log_dir(node).mkdir(parents=True)
            directory_id = to_text(random_topic_id())
            meta = {"version": 1, "cluster.id": cluster_id, "node.id": node_id, "directory.id": directory_id}
            (_log_dir(node) / "meta.properties").write_text(properties_text(meta))

    def start(self, zookeeper: str | None) -> None:
        """``zookeeper``: None without the migration flag, which finalises. Raises: ProcessFailed."""
        self._have_started = True
        for node_id, node in self._nodes.items():
            node.start_process(self._properties(node_id, zookeeper))

    def _properties(self, node_id: int, zookeeper: str | None) -> Mapping[str, object]:
        return {
            **self._settings,
            **self.quorum,
            "process.roles": "controller",
            "node.id": node_id,
            "listeners": f"{LISTENER}://{LOOPBACK}:{self.ports[node_id]}",
            "broker.session.timeout.ms": _SESSION_TIMEOUT_MS,
            "log.dirs": _log_dir(self._nodes[node_id]),
            **({"zookeeper.connect": zookeeper, **FLAG} if zookeeper else {}),
        }

    def ended(self) -> str:
        """The controllers that have ended but should run, as a sentence; empty if none has ended."""
        ended = (node.describe_end() for node in self._nodes.values() if not node.is_running)
        return "; ".join(ended) if self._have_started else ""

    @property
    def log(self) -> ControllerLog:
        """The log of all controllers since their first start, up to the last ``read_log``."""
        found = ControllerLog()
        for each in self._logs.values():
            found.add(each)
        return found

    def read_log(self) -> ControllerLog:
        for node_id, node in self._nodes.items():
            self._logs[node_id].read(node.new_lines())
        return self.log

    def stop(self) -> None:
        """Stop all controllers. Their last logs are not read, because nodes report each closed socket as an error."""
        self.read_log()
        self._have_started = False
        for node in self._nodes.values():
            node.terminate()
        for node in self._nodes.values():
            node.stop()
            node.skip_lines()

    def kill(self) -> None:
        for node in self._nodes.values():
            node.kill()


def _log_dir(node: KafkaProcess) -> Path:
    return node.folder / "metadata"

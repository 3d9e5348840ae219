"""The three systems under comparison, three brokers each: Kafka 3.9.1 on ZooKeeper, Kafka 4.3.0 with KRaft, kafka-zk.

All three have sessions of ``SESSION_TIMEOUT_MS``, the same server.properties as far as they have the keys, and wait for
their disks. A node of KRaft is broker and controller in one process, so each system has three processes that serve
clients; ZooKeeper is another one, which runs before the brokers start.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
import urllib.request
import uuid
from abc import ABC, abstractmethod
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from kafka_zk.embedded.ports import free_port
from kafka_zk.embedded.probe import ask_broker
from kafka_zk.embedded.process import ChildProcess
from kafka_zk.embedded.session_expiry import session_password
from kafka_zk.embedded.supervisor import Supervisor
from kafka_zk.registry.client import connect_string
from kafka_zk.registry.client.close_session import close_session
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
from tests.bench.compare.sent import in_log, in_metrics
from tests.bench.compare.written import Written, of_kraft, of_zookeeper
from tests.bench.partition_wire import Wire
from tests.peers import apache_kafka, jars, java, targets
from tests.peers.processes import wait_until

BROKERS = 3
SESSION_TIMEOUT_MS = 6_000
ON_ZOOKEEPER, KRAFT, OURS = "kafka-3.9-zookeeper", "kafka-4.3-kraft", "kafka-zk"
NAMES = (ON_ZOOKEEPER, KRAFT, OURS)
READY_TIMEOUT_S = 120.0
STOP_TIMEOUT_S = 120.0
_METRICS_TIMEOUT_S = 30.0
_ANSWER_TIMEOUT_S = 10.0
HOST = "127.0.0.1"

COMMON = {
    "auto.create.topics.enable": "false",
    "default.replication.factor": str(BROKERS),
    "log.segment.delete.delay.ms": "1000",
    "min.insync.replicas": "2",
}
"""Settings beyond Kafka's config/server.properties."""

_LOGGING = "*reload4j*.jar"
"""Maven resolves no logging backend for 4.3.0; with that of 3.9.1, it logs like 3.9.1."""
_SESSION_OF_JAVA = re.compile(r"Session establishment complete on server .*session id = (0x[0-9a-f]+)")
_ACTIVE = re.compile(r"\[QuorumController id=(\d+)\].*[Bb]ecoming the active controller at epoch (\d+)")
_FENCED = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\].*[Ff]encing broker (\d+) ")


class System(ABC):
    """A cluster whose brokers are started, stopped and killed; broker ids are 0, 1, 2."""

    name: str

    def __init__(self, folder: Path, cores: str | None = None) -> None:
        self._folder = folder
        self._cores = cores
        self.ports = [free_port() for _ in range(BROKERS)]
        self._brokers: list[ChildProcess] = []

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{HOST}:{port}" for port in self.ports)

    @property
    def pids(self) -> list[int]:
        """The process ids of the running brokers."""
        return [broker.pid for broker in self._brokers if broker.alive]

    def prepare(self) -> None:
        """Set up everything that exists before the brokers start, which is not measured. Raises: ProcessFailed,
        JavaFailed.
        """
        self._brokers = [self._new_broker(broker_id) for broker_id in range(BROKERS)]

    def start(self) -> float:
        """Start all brokers; returns the seconds until each of them lists all. Raises: EmbeddedError, TimeoutError."""
        begun_s = time.monotonic()
        for broker in self._brokers:
            broker.start()
        wait_until(self._all_listed, READY_TIMEOUT_S, f"{self.name}: all brokers listed by all")
        return time.monotonic() - begun_s

    def start_broker(self, broker_id: int) -> None:
        """Restart the broker, and wait until each broker lists all brokers."""
        self._brokers[broker_id].start()
        wait_until(self._all_listed, READY_TIMEOUT_S, f"{self.name}: broker {broker_id} listed by all")

    def stop_broker(self, broker_id: int) -> float:
        """Send SIGTERM; returns the seconds until the broker's process has ended."""
        begun_s = time.monotonic()
        self._brokers[broker_id].stop(STOP_TIMEOUT_S)
        return time.monotonic() - begun_s

    def kill_broker(self, broker_id: int, *, supervised: bool) -> float:
        """Send SIGKILL; returns the time (``time.time``) of the kill. ``supervised``: a supervisor closes the session,
        if there is one.
        """
        at = time.time()
        self._brokers[broker_id].kill()
        return at

    def stop(self) -> None:
        for broker in self._brokers:
            if broker.alive:
                broker.terminate()
        for broker in self._brokers:
            broker.stop(STOP_TIMEOUT_S)

    def leaders(self, broker_id: int, topic: str) -> dict[int, int] | None:
        """The leader of each partition that has one, according to a broker; None while the broker does not respond."""
        try:
            with Wire(self.ports[broker_id], _ANSWER_TIMEOUT_S) as wire:
                return wire.leaders(topic)
        except OSError:
            return None

    def serves(self, broker_id: int, topic: str, partitions: Sequence[int]) -> bool:
        """Whether the broker responds for each of the partitions as its leader."""
        try:
            with Wire(self.ports[broker_id], _ANSWER_TIMEOUT_S) as wire:
                return not wire.unanswered(topic, partitions)
        except OSError:
            return False

    @property
    def can_be_supervised(self) -> bool:
        """Whether the system has sessions that another process can close."""
        return True

    @abstractmethod
    def controller(self) -> int:
        """The broker id of the active controller; -1: none."""

    @abstractmethod
    def fenced_at(self, broker_id: int, killed_at: float) -> float | None:
        """When the cluster detected that the killed broker is dead (``time.time``); None: not yet."""

    @abstractmethod
    def written(self) -> Written:
        """The writes so far to the place where the cluster keeps its state."""

    def sent(self) -> dict[int, int] | None:
        """The control requests that arrived at each running broker; None: this system has none."""
        return None

    @property
    @abstractmethod
    def keeper_pid(self) -> int | None:
        """The process that keeps the state, if it is not a broker."""

    @abstractmethod
    def _new_broker(self, broker_id: int) -> ChildProcess: ...

    def _all_listed(self) -> bool:
        for broker in self._brokers:
            broker.check_alive()
        views = [ask_broker(HOST, port) for port in self.ports]
        return all(view is not None and len(view.broker_ids) == BROKERS and view.controller_id >= 0 for view in views)

    def _properties(self, broker_id: int, more: Mapping[str, str]) -> Path:
        """Kafka's config/server.properties with our values and ``more``, without keys that the system does not have."""
        home = self._folder / f"broker-{broker_id}"
        merged = apache_kafka.server_properties(broker_id, self.ports[broker_id], home / "logs", "", {**COMMON, **more})
        known = {key: value for key, value in merged.items() if value}
        return apache_kafka.write_properties(home / "server.properties", known)

    def _child(self, broker_id: int, command: Sequence[str], supervisor: Supervisor | None = None) -> ChildProcess:
        pinned = ["taskset", "-c", self._cores, *command] if self._cores else list(command)
        log = self._folder / f"broker-{broker_id}" / "broker.out"
        environ = {**os.environ, "PYTHONUNBUFFERED": "1"}
        return ChildProcess(f"{self.name} {broker_id}", pinned, log, environ, supervisor=supervisor)


class _OnZooKeeper(System):
    """One of the two systems that use ZooKeeper."""

    _asked = 0  # requests of the harness itself, which do not belong to the system

    def prepare(self) -> None:
        self._data = self._folder / "zookeeper"
        self._zookeeper = apache_kafka.start_zookeeper(self._data, cores=self._cores)
        self._client = KazooBlockingClient(self._zookeeper.connect_string, SESSION_TIMEOUT_MS)
        self._client.start()
        self._servers = connect_string.parse(self._zookeeper.connect_string).servers
        super().prepare()

    def stop(self) -> None:
        super().stop()
        if hasattr(self, "_client"):
            self._client.close()
        if hasattr(self, "_zookeeper"):
            self._zookeeper.stop()

    def controller(self) -> int:
        view = next((view for view in map(lambda port: ask_broker(HOST, port), self.ports) if view), None)
        return -1 if view is None else view.controller_id

    def fenced_at(self, broker_id: int, killed_at: float) -> float | None:
        self._asked += 1

        async def is_registered() -> bool:
            return await self._client.exists(f"/brokers/ids/{broker_id}") is not None

        return None if run_blocking(is_registered()) else time.time()

    def written(self) -> Written:
        written = of_zookeeper(self._data / "data", int(self._zookeeper.connect_string.rpartition(":")[2]))
        return written._replace(requests=(written.requests or 0) - self._asked)

    @property
    def keeper_pid(self) -> int:
        return self._zookeeper.process.pid

    def _properties_on_zookeeper(self, broker_id: int) -> Path:
        own = {
            "zookeeper.connect": self._zookeeper.connect_string,
            "zookeeper.session.timeout.ms": str(SESSION_TIMEOUT_MS),
        }
        return self._properties(broker_id, own)


class KafkaOnZooKeeper(_OnZooKeeper):
    """Kafka does not report its session to a supervisor, but its log names it: the harness acts as the supervisor."""

    name = ON_ZOOKEEPER

    def sent(self) -> dict[int, int]:
        logs = {number: broker.log_file for number, broker in enumerate(self._brokers) if broker.alive}
        return {broker_id: in_log(log.read_text(errors="replace")) for broker_id, log in logs.items()}

    def _new_broker(self, broker_id: int) -> ChildProcess:
        return self._child(broker_id, apache_kafka.broker_command(self._properties_on_zookeeper(broker_id)))

    def kill_broker(self, broker_id: int, *, supervised: bool) -> float:
        at = super().kill_broker(broker_id, supervised=supervised)
        if supervised:
            session_id = int(_SESSION_OF_JAVA.findall(self._brokers[broker_id].output())[-1], 16)
            close_session(self._servers, session_id, session_password(session_id))
        return at


class KafkaZk(_OnZooKeeper):
    """Our brokers with the product's own supervisor, which does nothing for a death without supervision."""

    name = OURS
    _supervising = False

    def kill_broker(self, broker_id: int, *, supervised: bool) -> float:
        self._supervising = supervised
        return super().kill_broker(broker_id, supervised=supervised)

    def prepare(self) -> None:
        self._metrics_ports = [free_port() for _ in range(BROKERS)]
        super().prepare()

    def sent(self) -> dict[int, int]:
        running = [broker_id for broker_id, broker in enumerate(self._brokers) if broker.alive]
        urls = {broker_id: f"http://{HOST}:{self._metrics_ports[broker_id]}/metrics" for broker_id in running}
        return {broker_id: in_metrics(_get(url)) for broker_id, url in urls.items()}

    def _new_broker(self, broker_id: int) -> ChildProcess:
        command = targets.kafka_zk_command(self._properties_on_zookeeper(broker_id))
        command += ["--metrics-port", str(self._metrics_ports[broker_id])]
        return self._child(broker_id, command, Supervisor(self._perhaps_close))

    def _perhaps_close(self, session_id: int, password: bytes) -> None:
        if self._supervising:
            close_session(self._servers, session_id, password)


def _get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=_METRICS_TIMEOUT_S) as answer:
        text: str = answer.read().decode()
        return text


class Kraft(System):
    """Three nodes that are brokers and controllers at the same time."""

    name = KRAFT

    def prepare(self) -> None:
        self._controller_ports = [free_port() for _ in range(BROKERS)]
        self._cluster_id = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        super().prepare()

    def controller(self) -> int:
        """The controller according to the nodes' logs."""
        active = [(int(epoch), int(node)) for log in self._logs() for node, epoch in _ACTIVE.findall(log)]
        return max(active)[1] if active else -1

    def fenced_at(self, broker_id: int, killed_at: float) -> float | None:
        told = [datetime.strptime(at, "%Y-%m-%d %H:%M:%S,%f").timestamp()
                for log in self._logs() for at, node in _FENCED.findall(log) if int(node) == broker_id]  # fmt: skip
        return min((at for at in told if at >= killed_at), default=None)

    def written(self) -> Written:
        node = max(0, self.controller())
        return of_kraft(self._folder / f"broker-{node}" / "logs" / "__cluster_metadata-0")

    @property
    def keeper_pid(self) -> None:
        return None

    @property
    def can_be_supervised(self) -> bool:
        return False

    def _logs(self) -> Iterator[str]:
        for broker_id in range(BROKERS):
            with contextlib.suppress(FileNotFoundError):
                yield (self._folder / f"broker-{broker_id}" / "broker.out").read_text(errors="replace")

    def _new_broker(self, broker_id: int) -> ChildProcess:
        voters = ",".join(f"{node}@{HOST}:{port}" for node, port in enumerate(self._controller_ports))
        client, quorum = f"PLAINTEXT://{HOST}:{self.ports[broker_id]}", self._controller_ports[broker_id]
        own = {
            "node.id": str(broker_id),
            "process.roles": "broker,controller",
            "controller.quorum.voters": voters,
            "controller.listener.names": "CONTROLLER",
            "listeners": f"{client},CONTROLLER://{HOST}:{quorum}",
            "advertised.listeners": client,
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "broker.session.timeout.ms": str(SESSION_TIMEOUT_MS),
            "broker.id": "", "zookeeper.connect": "", "zookeeper.connection.timeout.ms": "",
        }  # fmt: skip
        properties = self._properties(broker_id, own)
        arguments = ["format", "-t", self._cluster_id, "-c", str(properties)]
        java.run_tool(jars.NEWEST_VERSION, "kafka.tools.StorageTool", arguments)
        return self._child(broker_id, _kraft_command(properties))


def _kraft_command(properties: Path) -> list[str]:
    """The command of Kafka 4.3.0's own scripts."""
    folder, logging = properties.parent, sorted(jars.jars(jars.ORACLE_VERSION).glob(_LOGGING))
    return [
        "java",
        *apache_kafka.BROKER_JVM_FLAGS,
        f"-Xlog:gc*:file={folder / 'kafkaServer-gc.log'}:time,tags:filecount=10,filesize=100M",
        f"-Dkafka.logs.dir={folder}",
        f"-Dlog4j.configuration=file:{java.SOURCES / 'broker-log4j.properties'}",
        "-cp",
        ":".join([jars.class_path(jars.NEWEST_VERSION), *map(str, logging)]),
        "kafka.Kafka",
        str(properties),
    ]


SYSTEMS: Mapping[str, type[System]] = {ON_ZOOKEEPER: KafkaOnZooKeeper, KRAFT: Kraft, OURS: KafkaZk}

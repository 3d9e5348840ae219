"""Brokers that can be cut from ZooKeeper, and from each other in one direction; Kafka's or ours.

Each broker has its own proxy to ZooKeeper, and one through which the other brokers connect to it. Clients connect
directly, to another listener.
"""

import asyncio
import contextlib
import json
import os
import re
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from kafka_zk.broker.config.inter_broker_protocol import alter_partition_version
from kafka_zk.embedded.ports import LOCALHOST, free_port
from kafka_zk.embedded.proxy import TcpProxy
from kafka_zk.embedded.zookeeper import EmbeddedZooKeeper
from tests.peers.apache_kafka import write_properties
from tests.peers.processes import ServerProcess, wait_until
from tests.peers.targets import kafka_zk_command
from tests.soak import zookeeper_log
from tests.soak.machine import Machine

SESSION_TIMEOUT_S = 3.0
PROPERTIES = {
    "auto.create.topics.enable": "false",
    "controller.socket.timeout.ms": "5000",
    "default.replication.factor": "3",
    "inter.broker.listener.name": "REPLICATION",
    "leader.imbalance.check.interval.seconds": "5",
    "listener.security.protocol.map": "CLIENT:PLAINTEXT,REPLICATION:PLAINTEXT",
    "log.retention.ms": "-1",
    "log.segment.bytes": "300000",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "replica.fetch.backoff.ms": "200",
    "replica.lag.time.max.ms": "2000",
    "replica.socket.timeout.ms": "5000",
    "zookeeper.connection.timeout.ms": "18000",
    "zookeeper.session.timeout.ms": str(int(SESSION_TIMEOUT_S * 1000)),
}
START_S = 90

_TICK_TIME_MS = 500
_STOP_S = 40
_LAST_LINES = 40

Command = Callable[[Path], list[str]]
"""Returns the command that starts a broker with a server.properties file."""


class Kind(NamedTuple):
    """The program that a broker runs.

    ``restarts_at_once``: it can start while its previous session lasts (Kafka's brokers refuse to).
    """

    name: str
    command: Command
    restarts_at_once: bool


OURS = Kind("kafka-zk", kafka_zk_command, restarts_at_once=True)


class State(dict[str, Any]):
    """A partition's state znode."""

    @property
    def leader(self) -> int:
        return int(self["leader"])

    @property
    def isr(self) -> set[int]:
        return set(self["isr"])


class Door(TcpProxy):
    """The proxy through which other brokers connect to one broker; it can be closed for some of them.

    Args:
        whose: returns the broker to which a connection from a local port belongs.
    """

    def __init__(self, target_port: int, whose: Callable[[int, int], int]) -> None:
        super().__init__(LOCALHOST, target_port)
        self._whose = whose
        self._closed_for: set[int] = set()
        self._incoming: set[asyncio.StreamWriter] = set()

    def close_for(self, broker_id: int) -> None:
        """Reset the broker's connections and all new ones, until ``open_for``."""
        self._call(self._close_for(broker_id))

    def open_for(self, broker_id: int) -> None:
        self._closed_for.discard(broker_id)

    async def _close_for(self, broker_id: int) -> None:
        self._closed_for.add(broker_id)
        for writer in self._incoming:
            if self._owner(writer) == broker_id:
                writer.transport.abort()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._closed_for and self._owner(writer) in self._closed_for:
            writer.transport.abort()
            return
        self._incoming.add(writer)
        await super()._forward(reader, writer)
        self._incoming.discard(writer)

    def _owner(self, writer: asyncio.StreamWriter) -> int:
        """The broker to which the connection belongs. The lookup takes hundreds of system calls (seconds on a busy
        machine), and nothing is forwarded during that time.
        """
        return self._whose(writer.get_extra_info("peername")[1], self.port)


class Links:
    """A broker's proxies to all ZooKeeper servers. ``black_hole``: the address of another, dead server."""

    def __init__(self, ports: Sequence[int], black_hole: str | None = None) -> None:
        self._black_hole = [] if black_hole is None else [black_hole]
        self._proxies = [TcpProxy(LOCALHOST, port).start() for port in ports]

    @property
    def connect_string(self) -> str:
        return ",".join([*self._black_hole, *(proxy.address for proxy in self._proxies)])

    def cut(self) -> None:
        for proxy in self._proxies:
            proxy.cut()

    def restore(self) -> None:
        for proxy in self._proxies:
            proxy.restore()

    def stop(self) -> None:
        for proxy in self._proxies:
            proxy.stop()


class Broker:
    """One broker, with its proxies, files and machine."""

    def __init__(self, cluster: "ReplicatedCluster", broker_id: int, kind: Kind) -> None:
        self.broker_id = broker_id
        self.kind = kind
        self.folder = cluster.folder / f"broker-{broker_id}"
        self.log_dir = self.folder / "logs"
        self.log_dir.mkdir(parents=True)
        self.machine = cluster.machine(self.folder, self.log_dir)
        self.port, inner = free_port(), free_port()
        self.to_zookeeper = Links(cluster.zookeeper_ports, cluster.black_hole)
        self.door = Door(inner, cluster.whose).start()
        self.properties = write_properties(
            self.folder / "server.properties",
            {
                **PROPERTIES,
                **cluster.properties,
                "broker.id": str(broker_id),
                "listeners": f"CLIENT://{LOCALHOST}:{self.port},REPLICATION://{LOCALHOST}:{inner}",
                "advertised.listeners": f"CLIENT://{LOCALHOST}:{self.port},REPLICATION://{self.door.address}",
                "log.dirs": str(self.log_dir),
                "zookeeper.connect": self.to_zookeeper.connect_string,
            },
        )
        self.process = self.start()

    def start(self, environment: Mapping[str, str] | None = None) -> ServerProcess:
        """Start or restart the broker; it may take seconds until it serves."""
        self.process = ServerProcess(
            f"broker {self.broker_id}",
            self.kind.command(self.properties),
            self.folder / "broker.out",
            environment={**self.machine.environment, **(environment or {})},
        )
        return self.process

    def kill(self) -> None:
        self.process.kill()

    def stop(self) -> None:
        """Stop the broker cleanly; the cluster remembers problems."""
        self.process.stop(_STOP_S)

    def pause(self) -> None:
        os.kill(self.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)

    def log(self, topic: str, partition: int) -> bytes:
        """The content of its replica."""
        return b"".join(file.read_bytes() for file in sorted((self.log_dir / f"{topic}-{partition}").glob("*.log")))

    def close(self) -> None:
        self.process.kill()
        self.door.stop()
        self.to_zookeeper.stop()
        self.machine.close()


class ReplicatedCluster:
    """Brokers with ids from 0, and their own ZooKeeper.

    Args:
        kinds: of the first brokers, by id.
        properties: for all brokers, in addition to PROPERTIES.
        black_hole: a server of ZooKeeper that drops packets, in the brokers' connection strings.
    """

    def __init__(
        self,
        folder: Path,
        kinds: Sequence[Kind] = (OURS, OURS, OURS),
        properties: Mapping[str, str] | None = None,
        black_hole: str | None = None,
    ) -> None:
        self.folder = folder
        self.black_hole = black_hole
        self.properties = dict(properties or {})
        self.brokers: list[Broker] = []
        self._removed: list[Broker] = []
        self.zookeeper = EmbeddedZooKeeper(folder / "zookeeper", tick_time_ms=_TICK_TIME_MS, force_sync=False)
        self._kinds = kinds

    def machine(self, folder: Path, log_dir: Path) -> Machine:
        """The machine of a broker with this folder, before its first start."""
        return Machine()

    @property
    def zookeeper_ports(self) -> list[int]:
        return [self.zookeeper.port]

    def zookeeper_writes(self) -> list[zookeeper_log.Write]:
        """All changes of znodes, oldest first."""
        return zookeeper_log.writes(self.zookeeper.data_dir / "data")

    def _start_zookeeper(self) -> str:
        """Start it; returns its connect string."""
        return self.zookeeper.start().connect_string

    def _kill_zookeeper(self) -> None:
        self.zookeeper.kill_if_started()

    def __enter__(self) -> Self:
        self._client = KazooClient(self._start_zookeeper(), command_retry={"max_tries": -1, "backoff": 1})
        try:
            self._client.start()
            for kind in self._kinds:  # in turn: Kafka ends if it loses its session while many JVMs start
                self.add(kind)
            wait_until(self._is_complete, START_S, "all brokers to register")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for broker in self.brokers:
            broker.close()
        self._client.stop()
        self._client.close()
        self._kill_zookeeper()

    def _is_complete(self) -> bool:
        return self.registered() == set(self.ids) and self.controller() >= 0

    def add(self, kind: Kind) -> Broker:
        """Start another broker, with the next id; returns when it is registered."""
        broker = Broker(self, len(self.brokers) + len(self._removed), kind)
        self.brokers.append(broker)
        wait_until(lambda: broker.broker_id in self.registered(), START_S, f"broker {broker.broker_id} to register")
        return broker

    def remove(self, broker: Broker) -> None:
        """Stop a broker for good; it should have no replicas any more."""
        broker.stop()
        broker.close()
        self.brokers.remove(broker)
        self._removed.append(broker)

    def move_controller(self, kind: Kind) -> None:
        """Repeat elections until the controller is a broker of this kind."""
        def is_done() -> bool:
            holder = self.controller()
            if any(each.broker_id == holder and each.kind is kind for each in self.brokers):
                return True
            if holder >= 0:
                with contextlib.suppress(NoNodeError):
                    self._client.delete("/controller")
            return False

        wait_until(is_done, START_S, f"a controller that is {kind.name}", interval_s=0.5)

    @property
    def leaders_write_isr(self) -> bool:
        """True if the inter-broker protocol is older than 2.7, which has no AlterPartition."""
        return alter_partition_version(self.properties.get("inter.broker.protocol.version", "3.9")) is None

    @property
    def ids(self) -> list[int]:
        return [broker.broker_id for broker in self.brokers]

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{LOCALHOST}:{broker.port}" for broker in self.brokers)

    def whose(self, port: int, peer_port: int) -> int:
        """The broker to which this machine's connection from ``port`` to ``peer_port`` belongs; -1 for no broker."""
        inode = _inode(port, peer_port)
        owners = (each.broker_id for each in self.brokers if inode and _has_socket(each.process.pid, inode))
        return next(owners, -1)

    def registered(self) -> set[int]:
        return set(map(int, self._children("/brokers/ids")))

    def _children(self, path: str) -> list[str]:
        """The names of the children; none if the znode is absent. ZooKeeper may be unavailable for some time."""
        try:
            return list(self._client.retry(self._client.get_children, path))
        except NoNodeError:
            return []

    def _document(self, path: str) -> dict[str, Any]:
        """The JSON of a znode. Raises: NoNodeError."""
        found: dict[str, Any] = json.loads(self._client.retry(self._client.get, path)[0])
        return found

    def controller(self) -> int:
        """The controller's id; -1 if there is none."""
        try:
            return int(self._document("/controller")["brokerid"])
        except NoNodeError:
            return -1

    def states(self, topic: str) -> dict[int, State]:
        """The state of each partition that has one."""
        folder = f"/brokers/topics/{topic}/partitions"
        found = {}
        for number in self._children(folder):
            with contextlib.suppress(NoNodeError):
                found[int(number)] = State(self._document(f"{folder}/{number}/state"))
        return found

    def assignment(self, topic: str) -> dict[int, list[int]]:
        """The replicas of each partition, the preferred leader first."""
        document = self._document(f"/brokers/topics/{topic}")
        return {int(number): replicas for number, replicas in document["partitions"].items()}

    def moving(self, topic: str) -> bool:
        """True if replicas are being added or removed."""
        document = self._document(f"/brokers/topics/{topic}")
        return bool(document.get("adding_replicas") or document.get("removing_replicas"))

    def complaints(self) -> list[str]:
        """Tracebacks in the logs of our brokers."""
        found = []
        for broker in (*self.brokers, *self._removed):
            output = (broker.folder / "broker.out").read_text(errors="replace")
            if "Traceback (most recent call last)" in output:
                place = output.index("Traceback (most recent call last)")
                found.append(f"broker {broker.broker_id} logged a traceback:\n{output[max(0, place - 300) :][:3000]}")
        return found

    def recent_output(self) -> list[str]:
        """The end of each broker's log, which explains why a client got no response."""
        found = []
        for broker in self.brokers:
            lines = (broker.folder / "broker.out").read_text(errors="replace").splitlines()[-_LAST_LINES:]
            found.append("\n".join([f"the end of the log of broker {broker.broker_id}, {broker.kind.name}:", *lines]))
        return found


def _inode(port: int, peer_port: int) -> str | None:
    """The inode of the socket from one port of this machine to another."""
    wanted = re.compile(rf"^\s*\d+: \w+:{port:04X} \w+:{peer_port:04X} (?:\S+\s+){{6}}(\d+)", re.MULTILINE)
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        if match := wanted.search(Path(table).read_text()):
            return match[1]
    return None


def _has_socket(pid: int, inode: str) -> bool:
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return False
    return any(_link(f"/proc/{pid}/fd/{name}") == f"socket:[{inode}]" for name in names)


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:  # already closed
        return ""

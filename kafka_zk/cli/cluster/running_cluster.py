"""A cluster that ``kafka-zk up`` runs for this user on this machine, as ``kafka-zk break`` uses it."""

from pathlib import Path
from typing import Any

from kafka_zk.base.integers import NATURAL_INT32, decimal_integer
from kafka_zk.cli.cluster.cluster_actions import DESCRIBE, TOLD
from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.cli.terminal.options import zookeeper_properties
from kafka_zk.cli.terminal.zookeeper_client import zookeeper_client
from kafka_zk.embedded import control_socket
from kafka_zk.embedded.control_socket import NotReached
from kafka_zk.embedded.session_expiry import SessionUnknown, expire_session
from kafka_zk.registry.client import connect_string
from kafka_zk.registry.client.errors import NoNode
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.registry.client.security_keys import zookeeper_security
from kafka_zk.registry.controller import ControllerRegistry
from kafka_zk.registry.znodes.brokers import broker_path

CONTROLLER = "controller"
EXPIRE = "expire"

Document = dict[str, Any]


class RunningCluster:
    """``description``: the cluster's description, which ``up`` returns."""

    def __init__(self, socket: Path, description: Document) -> None:
        self._socket = socket
        self._description = description

    @property
    def data(self) -> str:
        data: str = self._description["data"]
        return data

    @property
    def zookeeper(self) -> str:
        zookeeper: str = self._description["zookeeper"]
        return zookeeper

    @property
    def trace(self) -> Path | None:
        trace: str | None = self._description["trace"]
        return None if trace is None else Path(trace)

    @property
    def client_file(self) -> Path | None:
        """The properties of a client of its brokers; None if they need no security."""
        file: str | None = self._description.get("client_properties")
        return None if file is None else Path(file)

    @property
    def session_s(self) -> float:
        milliseconds: int = self._description["session_timeout_ms"]
        return milliseconds / 1000

    @property
    def supervised(self) -> bool:
        """A dead broker's session is closed immediately instead of at its timeout."""
        supervised: bool = self._description.get("supervised", False)
        return supervised

    @property
    def broker_ids(self) -> tuple[int, ...]:
        return tuple(sorted(broker["id"] for broker in self._description["brokers"]))

    @property
    def paused_broker_ids(self) -> frozenset[int]:
        return frozenset(broker["id"] for broker in self._description["brokers"] if broker.get("state") == "paused")

    def broker_id(self, named: str) -> int:
        """``named``: an id or "controller". Raises CommandFailed, RegistryError."""
        if named == CONTROLLER:
            return self._controller_id()
        ids = [broker["id"] for broker in self._description["brokers"]]
        broker_id = decimal_integer(named, NATURAL_INT32)
        if broker_id is None or broker_id not in ids:
            known = ", ".join(map(str, ids))
            raise CommandFailed(f"there is no broker {named}: it must be {known} or {CONTROLLER}")
        return broker_id

    def do(self, action: str, broker_id: int, **options: object) -> Document:
        """Returns the broker's new state. Raises ActionRefused, NotReached."""
        return self.ask({"action": action, "broker": broker_id, **options})

    def ask(self, request: Document) -> Document:
        """See ``cluster_actions``. Raises ActionRefused, NotReached."""
        return control_socket.ask(self._socket, request)

    def expire(self, broker_id: int) -> int:
        """Returns the id of the session in which the broker was registered. Raises CommandFailed, RegistryError."""
        if zookeeper_security(zookeeper_properties()).tls is not None:
            raise CommandFailed("a session of a ZooKeeper with TLS cannot be ended from outside")
        with zookeeper_client(self.zookeeper) as client:
            session_id = _session_of(client, broker_id)
        errors = []
        for host, port in connect_string.parse(self.zookeeper).servers:
            try:
                expire_session(host, port, session_id)
                self.ask({"action": TOLD, "what": EXPIRE, "broker": broker_id})
                return session_id
            except (OSError, SessionUnknown) as error:
                errors.append(str(error))
        raise CommandFailed(f"the session of broker {broker_id} cannot be ended: {'; '.join(errors)}")

    def _controller_id(self) -> int:
        with zookeeper_client(self.zookeeper) as client:
            controller_id = run_blocking(ControllerRegistry(client).current())
        if controller_id is None:
            raise CommandFailed("there is no controller now")
        return controller_id


def _session_of(client: KazooBlockingClient, broker_id: int) -> int:
    try:
        _, stat = run_blocking(client.get(broker_path(broker_id)))
    except NoNode:
        raise CommandFailed(f"broker {broker_id} is not registered in ZooKeeper: it has no session") from None
    return stat.ephemeral_owner


def find_cluster(data: Path | None, zookeeper: str | None) -> RunningCluster:
    """Find the cluster with this data directory or ZooKeeper; without either, the only cluster that is running.

    Raises: CommandFailed, NotReached.
    """
    if data is not None:
        try:
            return _reach(control_socket.socket_of(data))
        except NotReached:
            raise CommandFailed(f"no kafka-zk up cluster is running in {data}") from None
    running = _all_running()
    found = [cluster for cluster in running if zookeeper in (None, cluster.zookeeper)]
    if len(found) == 1:
        return found[0]
    if found:
        named = ", ".join(cluster.data for cluster in found)
        raise CommandFailed(f"{len(found)} clusters are running: choose one with --data ({named})")
    if running:
        named = ", ".join(cluster.zookeeper for cluster in running)
        raise CommandFailed(f"no kafka-zk up cluster with ZooKeeper {zookeeper} is running here, only {named}")
    raise CommandFailed("no kafka-zk up cluster is running here; kafka-zk up starts one")


def _all_running() -> list[RunningCluster]:
    clusters = []
    for socket in control_socket.sockets():
        try:
            clusters.append(_reach(socket))
        except NotReached:
            continue  # its ``up`` was killed
    return clusters


def _reach(socket: Path) -> RunningCluster:
    return RunningCluster(socket, control_socket.ask(socket, {"action": DESCRIBE}))

"""A real ZooKeeper in a container, alone or as an ensemble, for testcontainers.

    with ZooKeeperContainer() as zookeeper:
        connect(zookeeper.connect_string)

Any image with the official layout works (``/conf/zoo.cfg``, ``/data``, ``JVMFLAGS``), from 3.4 to 3.9. The interface is
that of ``EmbeddedZooKeeper``. A server keeps its port and data when it is stopped, killed or restarted. Needs ``pip
install 'kafka-zk[containers]'`` and a Docker engine.
"""

import contextlib
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Self

from docker.errors import APIError
from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network

from kafka_zk.base.clock import monotonic_s
from kafka_zk.embedded.errors import ProcessFailed
from kafka_zk.embedded.health import Health, Report, probe
from kafka_zk.embedded.ports import LOCALHOST, free_port
from kafka_zk.embedded.properties_file import properties_text
from kafka_zk.embedded.server_security import ServerSecurity
from kafka_zk.testing.timings import TICK_TIME_MS
from kafka_zk.testing.variants import HOSTS, Variant, server_security

IMAGE = "zookeeper:3.9.3"
CLIENT_PORT, TLS_PORT, PEER_PORT, ELECTION_PORT = 2181, 2281, 2888, 3888
CONF, DATA = PurePosixPath("/conf"), PurePosixPath("/data")
SECURITY = CONF / "security"
START_TIMEOUT_S = 120
CONNECT_TO_PEER_MS = 1_000  # the address of a killed container does not even refuse connections
POLL_INTERVAL_S = 0.2
PORT_ATTEMPTS = 5
JVM_FLAGS = "-Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1"
QUOTED_LOG_CHARACTERS = 500


def published_at(container: DockerContainer, port: int) -> str:
    """The address of a container's published port: this machine's own, or the engine's."""
    with contextlib.suppress(OSError), socket.create_connection((LOCALHOST, port), 1):
        return LOCALHOST
    return container.get_container_host_ip()


class ZooKeeperContainer(DockerContainer):
    """One ZooKeeper server in a container.

    Args:
        image: an image of ZooKeeper 3.4 to 3.9 with the official layout.
        variant: the server's security (see ``variants``); ``client_properties`` are Kafka's keys for its clients.
        tick_time_ms: sessions last 2 to 20 ticks.
        config: additional ``zoo.cfg`` keys, which override the defaults.
        security: files to use instead of a ``variant``.
        alias: the server's name in ``network``.
        server_id, peers: its number, and the names of all servers by number, in an ensemble.

    ``stop`` ends the server and keeps its data for the next ``start``; the end of the ``with`` block, ``remove`` or
    ``stop(force=True)`` removes the container.
    """

    def __init__(
        self,
        image: str = IMAGE,
        *,
        variant: Variant = "open",
        tick_time_ms: int = TICK_TIME_MS,
        config: Mapping[str, str] | None = None,
        security: ServerSecurity | None = None,
        network: Network | None = None,
        alias: str = "zookeeper",
        server_id: int = 0,
        peers: Mapping[int, str] | None = None,
    ) -> None:
        super().__init__(image)
        self._files = TemporaryDirectory(prefix="kafka-zk-zookeeper-")
        self._security = security or server_security(variant, Path(self._files.name), [*HOSTS, alias])
        self._tick_time_ms = tick_time_ms
        self._config = dict(config or {})
        self._peers = dict(peers or {})
        self._server_id = server_id
        self.alias = alias
        self.port = 0
        self.tls_port = 0
        if network is not None:
            self.with_network(network).with_network_aliases(alias)
        self._write_files()

    # Interface of EmbeddedZooKeeper

    @property
    def host(self) -> str:
        """The host of the ports, for processes outside of containers."""
        return published_at(self, self.port)

    @property
    def connect_string(self) -> str:
        """``host:port`` for clients outside of containers."""
        return f"{self.host}:{self.tls_port or self.port}"

    @property
    def internal_connect_string(self) -> str:
        """The connection string for containers of the same network."""
        return f"{self.alias}:{TLS_PORT if self.tls_port else CLIENT_PORT}"

    @property
    def client_properties(self) -> Mapping[str, str]:
        """Kafka's keys for brokers and tools; files that they name are on this machine."""
        return self._security.client_properties

    @property
    def alive(self) -> bool:
        """True if the container runs."""
        if self._container is None:
            return False
        self._container.reload()
        return bool(self._container.status == "running")

    def start(self, timeout_s: float = START_TIMEOUT_S, meanwhile: Callable[[], None] = lambda: None) -> Self:
        """Start the server and wait until it responds. ``meanwhile`` is called while the server starts, once its
        address is known. Raises ProcessFailed and docker's errors.
        """
        self.launch()
        meanwhile()
        self.wait_serving(timeout_s)
        return self

    def launch(self) -> None:
        """Start without waiting, because the servers of an ensemble serve only together."""
        if self._container is not None:
            self._container.start()
            return
        for attempt in range(PORT_ATTEMPTS):
            self._choose_ports()
            try:
                super().start()
                return
            except APIError as error:
                taken = "port is already allocated" in str(error) or "address already in use" in str(error)
                self.remove()
                if not taken or attempt == PORT_ATTEMPTS - 1:
                    raise

    def wait_serving(self, timeout_s: float = START_TIMEOUT_S) -> None:
        """Wait until the server serves. Raises ProcessFailed if it ends first, or after the timeout."""
        deadline_s = monotonic_s() + timeout_s
        while not self.serving():
            ended = not self.alive
            if ended or monotonic_s() > deadline_s:
                how = "ended" if ended else f"did not serve within {timeout_s:g} s ({self.report().health.value})"
                raise ProcessFailed(f"ZooKeeper in a container {how}, saying: {self.output()[-QUOTED_LOG_CHARACTERS:]}")
            time.sleep(POLL_INTERVAL_S)

    def report(self) -> Report:
        """The server's health, its mode, and the commands that it allows."""
        return probe(self.port, self.host)

    def serving(self) -> bool:
        """True if the server serves requests."""
        return self.report().health is Health.SERVING

    def stop(self, force: bool = False, delete_volume: bool = False) -> None:
        """Stop cleanly and keep the data. With ``force`` or ``delete_volume``, remove the container, as in
        testcontainers.
        """
        if force or delete_volume:
            self.remove()
        elif self._container is not None:
            self._container.stop()

    def remove(self) -> None:
        """Kill the server and remove the container with its data."""
        if self._container is not None:
            self._container.remove(force=True, v=True)
            self._container = None

    def kill(self) -> None:
        """SIGKILL; data and port remain for the next ``start``."""
        self.get_wrapped_container().kill()

    def kill_if_started(self) -> None:
        """Like ``kill``; does nothing if the container does not run."""
        if self.alive:
            self.kill()

    def pause(self) -> None:
        """Freeze the server: it keeps its connections and responds to nothing."""
        self.get_wrapped_container().pause()

    def resume(self) -> None:
        """End ``pause``."""
        self.get_wrapped_container().unpause()

    def restart(self) -> None:
        """Restart with the same port and data. Sessions that have not expired continue."""
        self.stop()
        self.start()

    def output(self, since_s: float | None = None) -> str:
        """The whole log, or the log since a time; empty once the container is removed."""
        return bytes(self._container.logs(since=since_s)).decode(errors="replace") if self._container else ""

    def __exit__(self, *_: object) -> None:
        self.remove()
        self.get_docker_client().client.close()
        self._files.cleanup()

    # Files and ports

    def _choose_ports(self) -> None:
        """Choose ports before the start: those chosen by the engine change with every restart."""
        self.port = free_port()
        self.with_bind_ports(CLIENT_PORT, self.port)
        if self._security.tls:
            self.tls_port = free_port()
            self.with_bind_ports(TLS_PORT, self.tls_port)

    def _write_files(self) -> None:
        flags = [JVM_FLAGS]
        if self._security.jaas_file:
            flags.append(f"-Djava.security.auth.login.config={SECURITY / self._security.jaas_file.name}")
        self.with_env("JVMFLAGS", " ".join(flags))
        self.with_copy_into_container(properties_text(self._settings()).encode(), str(CONF / "zoo.cfg"))
        for file in sorted(self._security.folder.iterdir()):
            self.with_copy_into_container(file, str(SECURITY / file.name))
        if self._peers:
            self.with_copy_into_container(f"{self._server_id}\n".encode(), str(DATA / "myid"))

    def _settings(self) -> dict[str, object]:
        servers = {
            f"server.{number}": f"{name}:{PEER_PORT}:{ELECTION_PORT}" for number, name in sorted(self._peers.items())
        }
        return {
            "tickTime": self._tick_time_ms,
            "initLimit": 50,
            "syncLimit": 10,
            "dataDir": DATA,
            "clientPort": CLIENT_PORT,
            "maxClientCnxns": 0,
            "admin.enableServer": "false",
            "forceSync": "no",
            "cnxTimeout": CONNECT_TO_PEER_MS,
            "4lw.commands.whitelist": "srvr",
            **self._security.zoo_cfg(SECURITY),
            **({"secureClientPort": TLS_PORT} if self._security.tls else {}),
            **servers,
            **self._config,
        }


class ZooKeeperEnsemble:
    """Several ZooKeeper servers that elect a leader, in containers of one network.

    Arguments: as for ZooKeeperContainer. The ``size`` servers are named zookeeper-1 and so on; ``servers`` contains
    them.
    """

    def __init__(
        self,
        image: str = IMAGE,
        size: int = 3,
        *,
        variant: Variant = "open",
        tick_time_ms: int = TICK_TIME_MS,
        config: Mapping[str, str] | None = None,
        network: Network | None = None,
    ) -> None:
        self._own_network = network is None
        self.network = network or Network()
        self._files = TemporaryDirectory(prefix="kafka-zk-ensemble-")
        names = {number: f"zookeeper-{number}" for number in range(1, size + 1)}
        self._security = server_security(variant, Path(self._files.name), [*HOSTS, *names.values()])
        self.servers = [
            ZooKeeperContainer(
                image,
                security=self._security,
                tick_time_ms=tick_time_ms,
                config=config,
                network=self.network,
                alias=name,
                server_id=number,
                peers=names,
            )
            for number, name in names.items()
        ]

    @property
    def connect_string(self) -> str:
        return ",".join(server.connect_string for server in self.servers)

    @property
    def client_properties(self) -> Mapping[str, str]:
        """Like ``ZooKeeperContainer.client_properties``."""
        return self._security.client_properties

    @property
    def internal_connect_string(self) -> str:
        """The connection string for containers of the same network."""
        return ",".join(server.internal_connect_string for server in self.servers)

    def start(self, timeout_s: float = START_TIMEOUT_S) -> Self:
        """Start all servers and wait until each serves. Raises ProcessFailed and docker's errors."""
        if self._own_network:
            self.network.create()
        for server in self.servers:
            server.launch()
        for server in self.servers:
            server.wait_serving(timeout_s)
        return self

    def leader(self) -> ZooKeeperContainer | None:
        """The leading server; None if no server leads."""
        modes = [(server, server.report().mode) for server in self.servers if server.alive]
        return next((server for server, mode in modes if mode == "leader"), None)

    def remove(self) -> None:
        """Kill all servers and remove everything."""
        for server in self.servers:
            server.__exit__()
        if self._own_network:
            self.network.remove()
        self._files.cleanup()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.remove()
            raise

    def __exit__(self, *_: object) -> None:
        self.remove()

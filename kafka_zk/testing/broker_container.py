"""Brokers and clusters in containers, for testcontainers.

    with KafkaZkContainer() as kafka:
        connect(kafka.bootstrap)

The image is built from ``docker/Dockerfile``. A broker keeps its port and data when it is stopped, killed or restarted.
Needs ``pip install 'kafka-zk[containers]'`` and a Docker engine.
"""

import contextlib
import itertools
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self, cast

from testcontainers.core.container import DockerContainer
from testcontainers.core.network import Network

from kafka_zk import __version__
from kafka_zk.base.clock import monotonic_s
from kafka_zk.embedded.broker import BrokerProcess
from kafka_zk.embedded.cluster import EmbeddedCluster, wait_ready
from kafka_zk.embedded.cluster_security import HOSTS, PROTOCOL
from kafka_zk.embedded.errors import ProcessFailed
from kafka_zk.embedded.fault_token import FAULTS_TOKEN_VARIABLE, new_token
from kafka_zk.embedded.ports import LOCALHOST, free_port
from kafka_zk.embedded.probe import ClusterView, ask_broker
from kafka_zk.embedded.properties_file import properties_text
from kafka_zk.security.client_security import NO_SECURITY, ClientSecurity
from kafka_zk.testing import zookeeper_container
from kafka_zk.testing.broker_keys import BROKER_KEYS, cluster_keys
from kafka_zk.testing.zookeeper_container import ZooKeeperContainer, ZooKeeperEnsemble, published_at

IMAGE = f"kafka-zk:{__version__}"
INTERNAL = "INTERNAL"
INTERNAL_PORT, PUBLISHED_PORT, FAULTS_PORT = 9092, 19092, 9600
CONFIGURATION, DATA = "/etc/kafka", "/var/lib/kafka/data"
QUOTED_LOG_CHARACTERS = 500
CHECK_INTERVAL_S = 0.5
_clusters = itertools.count(1)


class ContainerProcess:
    """A container's process with the interface of ``ChildProcess``: state, exit code, output."""

    def __init__(self, container: DockerContainer, name: str) -> None:
        self._container = container
        self._checked_s = 0.0
        self.name = name

    @property
    def alive(self) -> bool:
        return self._state().get("Running", False) is True

    @property
    def pid(self) -> int:
        """The process id on the engine's machine; it changes with each start."""
        return int(self._state().get("Pid", 0))

    @property
    def is_paused(self) -> bool:
        return self._state().get("Paused", False) is True

    @property
    def exit_code(self) -> int | None:
        """The exit code; None while the process runs or before it starts."""
        state = self._state()
        return int(state["ExitCode"]) if state.get("Status") == "exited" else None

    def check_alive(self) -> None:
        """Raises ProcessFailed if the process has ended. Asks the engine at most twice a second."""
        if monotonic_s() - self._checked_s > CHECK_INTERVAL_S:
            self._checked_s = monotonic_s()
            if not self.alive:
                raise ProcessFailed(self.describe_end())

    def describe_end(self) -> str:
        return f"{self.name} ended with exit code {self.exit_code}{self.recent_output()}"

    def recent_output(self) -> str:
        return f", saying: {self.output()[-QUOTED_LOG_CHARACTERS:]}"

    def output(self, since_s: float | None = None) -> str:
        """All output of all runs, or the output since a time; empty once the container is removed."""
        container = self._container._container
        return bytes(container.logs(since=since_s)).decode(errors="replace") if container else ""

    def terminate(self) -> None:
        """Send SIGTERM, without waiting."""
        self._container.get_wrapped_container().kill("SIGTERM")

    def _state(self) -> dict[str, Any]:
        container = self._container._container
        if container is None:
            return {}
        container.reload()
        state: dict[str, Any] = container.attrs["State"]
        return state


class KafkaZkContainer(DockerContainer):
    """One broker in a container.

    Args:
        image: an image built from ``docker/Dockerfile``.
        zookeeper: a container or an ensemble in ``network``, or a connection string that the broker's container can
            reach. None creates a ZooKeeperContainer of ``zookeeper_image``, which stops with the broker.
        broker_id: Kafka's ``broker.id``.
        properties: Kafka's keys, which override the defaults. If a value names a file on this machine, the file is
            copied into the container and the value adapted.
        network: the network of the brokers and ZooKeeper; None creates one.
        alias: the broker's name in the network; by default ``kafka-`` and its id.
        port: the published port on this machine; 0: a free port.
        chroot: in ``zookeeper``, if that is a container or an ensemble.
        data_dir: a folder on this machine for the log; by default it is in the container.
        login: the security of ``view``'s connections.
        takes_faults: serve the JSON API for faults on a free port that only this machine can reach.

    ``stop`` ends the broker and keeps its data for the next ``start``; the end of the ``with`` block, ``remove`` or
    ``stop(force=True)`` removes the container.
    """

    def __init__(
        self,
        image: str = IMAGE,
        *,
        zookeeper: ZooKeeperContainer | ZooKeeperEnsemble | str | None = None,
        zookeeper_image: str = zookeeper_container.IMAGE,
        broker_id: int = 0,
        properties: Mapping[str, str] | None = None,
        network: Network | None = None,
        alias: str | None = None,
        port: int = 0,
        chroot: str = "",
        data_dir: Path | None = None,
        login: ClientSecurity = NO_SECURITY,
        takes_faults: bool = False,
    ) -> None:
        super().__init__(image)
        self._login = login
        self.faults_port = free_port() if takes_faults else None
        self.faults_token = new_token() if takes_faults else ""
        self.broker_id = broker_id
        self.alias = alias or f"kafka-{broker_id}"
        self.port = port or free_port()
        self.process = ContainerProcess(self, f"broker {broker_id}")
        self._own_network = Network() if network is None else None
        self._network_used = self._own_network or network
        self._own_zookeeper: ZooKeeperContainer | None = None
        if zookeeper is None:
            zookeeper = self._own_zookeeper = ZooKeeperContainer(zookeeper_image, network=self._network_used)
        self._zookeeper = zookeeper
        self._chroot = chroot
        self._properties = dict(properties or {})
        assert self._network_used is not None
        self.with_network(self._network_used).with_network_aliases(self.alias)
        self.with_bind_ports(PUBLISHED_PORT, self.port)
        if self.faults_port is not None:
            self.ports[str(FAULTS_PORT)] = (LOCALHOST, self.faults_port)  # type: ignore[assignment]  # docker takes both
            self.with_env("KAFKA_ZK_FAULTS_PORT", str(FAULTS_PORT))
            self.with_env(FAULTS_TOKEN_VARIABLE, self.faults_token)
        self.data_dir = data_dir
        options: dict[str, Any] = {"healthcheck": {"test": ["NONE"]}}  # disables the image's health check
        if data_dir is not None:
            data_dir.mkdir(parents=True, exist_ok=True)
            self.with_volume_mapping(data_dir.resolve(), DATA, "rw")
            options["user"] = f"{os.getuid()}:{os.getgid()}"
        self.with_kwargs(**options)

    @property
    def bootstrap(self) -> str:
        """The address for processes outside of containers; others use ``internal_bootstrap``."""
        return f"{published_at(self, self.port)}:{self.port}"

    @property
    def internal_bootstrap(self) -> str:
        return f"{self.alias}:{INTERNAL_PORT}"

    @property
    def alive(self) -> bool:
        return self.process.alive

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def is_paused(self) -> bool:
        return self.process.is_paused

    @property
    def log_dir(self) -> Path | None:
        """The folder on this machine with the log, if there is one."""
        return self.data_dir

    def start(self) -> Self:
        """Start the broker. If no ``zookeeper`` was given, also wait until it serves (``EmbeddedCluster`` waits for all
        its brokers together). Raises ProcessFailed and docker's errors.
        """
        if self._container is not None:
            self._container.start()
            return self
        if self._own_network:
            self._own_network.create()
        if self._own_zookeeper:
            self._own_zookeeper.start()
        self._write_properties()
        super().start()
        return self

    def view(self, login: ClientSecurity | None = None) -> ClusterView | None:
        """The broker's view of the cluster; None while it does not respond or rejects the login."""
        host, _, port = self.bootstrap.rpartition(":")
        return ask_broker(host, int(port), login or self._login)

    def stop(self, timeout_s: float = 30, *, force: bool = False, delete_volume: bool = False) -> int:  # type: ignore[override]
        """Stop cleanly and keep the data. Returns the exit code. ``force`` or ``delete_volume`` removes the
        container.
        """
        if force or delete_volume:
            self.remove()
            return 0
        if self._container is not None:
            self._container.stop(timeout=int(timeout_s))
        return self.process.exit_code or 0

    def remove(self) -> None:
        """Kill the broker and remove everything that was created for it."""
        if self._container is not None:
            self._container.remove(force=True, v=True)
            self._container = None
        if self._own_zookeeper:
            self._own_zookeeper.remove()
        if self._own_network and self._own_network._network is not None:
            self._own_network.remove()
            self._own_network._network = None

    def kill(self) -> None:
        """SIGKILL; data and port remain for the next ``start``."""
        if self.alive:
            self.get_wrapped_container().kill()

    def pause(self) -> None:
        self.get_wrapped_container().pause()

    def resume(self) -> None:
        self.get_wrapped_container().unpause()

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Pause the broker within the block."""
        self.pause()
        try:
            yield
        finally:
            self.resume()

    def __enter__(self) -> Self:
        try:
            self.start()
            wait_ready([as_process(self)])
            return self
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        self.remove()
        self.get_docker_client().client.close()

    def _write_properties(self) -> None:
        properties = {
            "broker.id": str(self.broker_id),
            # The published address first: old consumers use the first one in ZooKeeper.
            "listeners": f"PLAINTEXT://0.0.0.0:{PUBLISHED_PORT},{INTERNAL}://0.0.0.0:{INTERNAL_PORT}",
            "advertised.listeners": f"PLAINTEXT://{LOCALHOST}:{self.port},{INTERNAL}://{self.alias}:{INTERNAL_PORT}",
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,{INTERNAL}:PLAINTEXT",
            "inter.broker.listener.name": INTERNAL,
            "log.dirs": DATA,
            **BROKER_KEYS,
        }
        if isinstance(self._zookeeper, str):
            properties["zookeeper.connect"] = self._zookeeper
        else:
            properties["zookeeper.connect"] = self._zookeeper.internal_connect_string + self._chroot
            properties |= self._zookeeper.client_properties
        properties |= self._properties
        for key, value in properties.items():
            if value.startswith("/") and Path(value).is_file():
                properties[key] = f"{CONFIGURATION}/{Path(value).name}"
                self.with_copy_into_container(Path(value), properties[key])
        self.with_copy_into_container(properties_text(properties).encode(), f"{CONFIGURATION}/server.properties")


def as_process(container: KafkaZkContainer) -> BrokerProcess:
    """Use a container in place of a process: it has all methods that ``EmbeddedCluster`` calls."""
    return cast(BrokerProcess, container)


class ContainerCluster(EmbeddedCluster):
    """Brokers with ids from 0, each in a container, with a ZooKeeper container in the same network.

    Arguments as for EmbeddedCluster; the logs are in ``data_dir``. ``chroot`` is within ``container``.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        image: str,
        network: Network,
        container: ZooKeeperContainer | ZooKeeperEnsemble,
        chroot: str = "",
        broker_count: int = 3,
        properties: Mapping[str, str] | None = None,
        secured: bool = False,
    ) -> None:
        super().__init__(
            data_dir,
            broker_count=broker_count,
            zookeeper=container.connect_string + chroot,
            properties={**cluster_keys(broker_count), **container.client_properties, **(properties or {})},
            secured=secured,
            takes_faults=True,
        )
        self._image = image
        self._network = network
        self._container = container
        self._chroot = chroot
        self._name = f"kafka-{next(_clusters)}"

    def load_brokers(self) -> None:
        """Does nothing: a broker in a container cannot be loaded before it is started."""

    def _new_broker(self, folder: Path, broker_id: int, port: int) -> BrokerProcess:
        alias = f"{self._name}-{broker_id}"
        broker = KafkaZkContainer(
            self._image,
            zookeeper=self._container,
            broker_id=broker_id,
            properties={**self._secured_container(broker_id, alias, port), **self._properties},
            network=self._network,
            alias=alias,
            port=port,
            chroot=self._chroot,
            data_dir=folder / "data",
            login=self.login,
            takes_faults=True,
        )
        return as_process(broker)

    def _secured_container(self, broker_id: int, alias: str, port: int) -> dict[str, str]:
        if self.security is None:
            return {}
        return {
            **self._security_properties(broker_id, (INTERNAL, PROTOCOL), (*HOSTS, alias)),
            "listeners": f"{PROTOCOL}://0.0.0.0:{PUBLISHED_PORT},{INTERNAL}://0.0.0.0:{INTERNAL_PORT}",
            "advertised.listeners": f"{PROTOCOL}://{LOCALHOST}:{port},{INTERNAL}://{alias}:{INTERNAL_PORT}",
        }

    def kill(self) -> None:
        super().kill()
        self._remove()

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._remove()

    def _remove(self) -> None:
        for broker in self.brokers:
            cast(KafkaZkContainer, broker).remove()

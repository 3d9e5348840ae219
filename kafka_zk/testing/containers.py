"""The fixtures' servers in containers: ``pytest --containers``."""

from collections.abc import Mapping
from pathlib import Path
from typing import Self, cast

from docker.client import DockerClient
from docker.errors import DockerException
from testcontainers.core.network import Network

from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.embedded.zookeeper import EmbeddedZooKeeper
from kafka_zk.testing import broker_container, zookeeper_container
from kafka_zk.testing.variants import Variant
from kafka_zk.testing.zookeeper import quick_cluster


def why_no_engine() -> str | None:
    """Why containers cannot run, in one sentence; None if they can."""
    try:
        DockerClient.from_env().ping()
    except DockerException as error:
        return f"no Docker engine responds ({str(error).splitlines()[0]})"
    return None


class Containers:
    """Servers in containers of one network, which is removed at the end of the ``with`` block.

    ``zookeeper_image``, ``broker_image``: as for ZooKeeperContainer and KafkaZkContainer.
    """

    def __init__(
        self, zookeeper_image: str = zookeeper_container.IMAGE, broker_image: str = broker_container.IMAGE
    ) -> None:
        self._zookeeper_image = zookeeper_image
        self._broker_image = broker_image
        self._network = Network()
        self._servers: list[zookeeper_container.ZooKeeperContainer] = []

    def zookeeper(self, data_dir: Path, variant: Variant = "open") -> EmbeddedZooKeeper:
        server = zookeeper_container.ZooKeeperContainer(
            self._zookeeper_image,
            variant=variant,
            network=self._network,
            alias=f"zookeeper-{len(self._servers)}",
        )
        self._servers.append(server)
        return cast(EmbeddedZooKeeper, server)  # the same interface, except for the process

    def cluster(
        self,
        data_dir: Path,
        broker_count: int,
        zookeeper: str | EmbeddedZooKeeper,
        properties: Mapping[str, str] | None = None,
        *,
        secured: bool = False,
    ) -> EmbeddedCluster:
        """Create a cluster in containers if ``zookeeper`` is a container. A container may be unable to reach other
        addresses (such as a proxy), so with a connection string the brokers are processes.
        """
        connect = zookeeper if isinstance(zookeeper, str) else zookeeper.connect_string
        servers, slash, path = connect.partition("/")
        ours = next((server for server in self._servers if server.alive and server.connect_string == servers), None)
        if ours is None:
            return quick_cluster(data_dir, broker_count, zookeeper, properties, secured=secured)
        return broker_container.ContainerCluster(
            data_dir,
            image=self._broker_image,
            network=self._network,
            container=ours,
            chroot=slash + path,
            broker_count=broker_count,
            properties=properties,
            secured=secured,
        )

    def __enter__(self) -> Self:
        self._network.create()
        return self

    def __exit__(self, *_: object) -> None:
        self._network.remove()

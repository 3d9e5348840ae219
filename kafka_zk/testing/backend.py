"""Creates the fixtures' servers as processes, or with ``containers`` in containers."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.embedded.zookeeper import EmbeddedZooKeeper
from kafka_zk.testing.variants import Variant
from kafka_zk.testing.zookeeper import quick_cluster, quick_zookeeper


class Backend(Protocol):
    """Creates servers, not yet started, that stop at the end of their ``with`` blocks."""

    def zookeeper(self, data_dir: Path, variant: Variant = "open") -> EmbeddedZooKeeper: ...

    def cluster(
        self,
        data_dir: Path,
        broker_count: int,
        zookeeper: str | EmbeddedZooKeeper,
        properties: Mapping[str, str] | None = None,
        *,
        secured: bool = False,
    ) -> EmbeddedCluster:
        """``zookeeper``: a server of this backend, or a connection string."""


class Processes:
    def zookeeper(self, data_dir: Path, variant: Variant = "open") -> EmbeddedZooKeeper:
        return quick_zookeeper(data_dir, variant)

    def cluster(
        self,
        data_dir: Path,
        broker_count: int,
        zookeeper: str | EmbeddedZooKeeper,
        properties: Mapping[str, str] | None = None,
        *,
        secured: bool = False,
    ) -> EmbeddedCluster:
        return quick_cluster(data_dir, broker_count, zookeeper, properties, secured=secured)

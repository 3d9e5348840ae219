"""A cluster for tests and scripts without pytest.

    with Cluster(brokers=3) as cluster:
        cluster.create_topic("orders", partitions=4)
        ...connect to cluster.bootstrap
"""

import shutil
import tempfile
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.embedded.zookeeper import EmbeddedZooKeeper
from kafka_zk.testing.broker_keys import cluster_keys
from kafka_zk.testing.clients import create_topic
from kafka_zk.testing.timings import TICK_TIME_MS


class Cluster(EmbeddedCluster):
    """Brokers and a ZooKeeper as processes on free ports of 127.0.0.1; starts as fast as the fixtures.

    Args:
        brokers: number of brokers; their ids are 0, 1, and so on.
        properties: Kafka's keys for every broker.
        zookeeper: a connection string, or a running ``EmbeddedZooKeeper``; by default the cluster starts its own.
        security: True if brokers and clients must log in over TLS. Clients use the keys of
            ``cluster.security.properties()`` or ``librdkafka_properties()``; ``add_user`` makes more users.
        data: the data directory; a later cluster with the same directory continues. By default a temporary folder,
            which is removed at the end, unless the start fails: then the error names a log in it.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        properties: Mapping[str, str] | None = None,
        zookeeper: str | EmbeddedZooKeeper | None = None,
        security: bool = False,
        data: Path | str | None = None,
    ) -> None:
        if brokers < 1:
            raise ValueError(f"a cluster of {brokers} brokers")
        self._temporary = data is None
        super().__init__(
            Path(data) if data is not None else Path(tempfile.gettempdir(), f"kafka-zk-{uuid.uuid4()}"),
            broker_count=brokers,
            zookeeper=zookeeper,
            properties={**cluster_keys(brokers), **(properties or {})},
            tick_time_ms=TICK_TIME_MS,
            force_sync=False,
            secured=security,
            takes_faults=True,
        )

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        """Create a topic and wait until every broker knows the leader of each partition. Raises KafkaError."""
        create_topic(self.bootstrap, name, partitions, config or {}, self.login)

    def start(self) -> Self:
        """Like ``EmbeddedCluster.start``. Raises EmbeddedError."""
        if self._temporary:
            self.data_dir.mkdir(mode=0o700)
        return super().start()

    def stop(self) -> list[str]:
        """Like ``EmbeddedCluster.stop``; also removes a temporary folder."""
        complaints = super().stop()
        if self._temporary:
            shutil.rmtree(self.data_dir, ignore_errors=True)
        return complaints

"""ZooKeepers and clusters for tests: short ticks and sessions, no fsync."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.embedded.ports import LOCALHOST
from kafka_zk.embedded.session_expiry import expire_session
from kafka_zk.embedded.zookeeper import EmbeddedZooKeeper
from kafka_zk.testing.broker_keys import cluster_keys
from kafka_zk.testing.timings import TICK_TIME_MS
from kafka_zk.testing.variants import Variant, server_security


def quick_zookeeper(data_dir: Path, variant: Variant = "open") -> EmbeddedZooKeeper:
    security = server_security(variant, data_dir / "security")
    return EmbeddedZooKeeper(data_dir, tick_time_ms=TICK_TIME_MS, force_sync=False, security=security)


def quick_cluster(
    data_dir: Path,
    broker_count: int,
    zookeeper: str | EmbeddedZooKeeper,
    properties: Mapping[str, str] | None = None,
    *,
    supervised: bool = True,
    secured: bool = False,
) -> EmbeddedCluster:
    """A cluster on free ports, not yet started. Sessions last ``timings.SESSION_TIMEOUT_MS``; with ``supervised`` the
    session of a dead broker is closed.
    """
    merged = {**cluster_keys(broker_count), **(properties or {})}
    return EmbeddedCluster(
        data_dir,
        broker_count=broker_count,
        zookeeper=zookeeper,
        properties=merged,
        supervised=supervised,
        secured=secured,
        takes_faults=True,
    )


class Chroot(NamedTuple):
    """A chroot on a ZooKeeper for one test. As in Kafka, the first client that connects creates it."""

    server: EmbeddedZooKeeper
    path: str

    @property
    def connect_string(self) -> str:
        return self.server.connect_string + self.path

    def restart(self) -> None:
        """Sessions that have not expired continue."""
        self.server.restart()

    def expire_session(self, session_id: int) -> None:
        """End any session, of any process. Raises: SessionUnknown."""
        expire_session(LOCALHOST, self.server.port, session_id)

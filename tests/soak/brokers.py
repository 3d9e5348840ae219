"""A separate broker for a campaign, which crashes and restarts quickly."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.testing.zookeeper import Chroot, quick_cluster


@contextlib.contextmanager
def one_broker(chroot: Chroot, folder: Path, properties: Mapping[str, str] | None = None) -> Iterator[EmbeddedCluster]:
    """A cluster of one broker."""
    with quick_cluster(folder, 1, chroot.connect_string, properties) as cluster:
        yield cluster


def kill_broker(cluster: EmbeddedCluster) -> None:
    """Send SIGKILL. The supervisor closes the broker's ZooKeeper session, so that no one waits for its end."""
    cluster.brokers[0].kill()


def crashed_broker_returns(cluster: EmbeddedCluster) -> None:
    """Kill the broker and start it again; returns when it serves."""
    kill_broker(cluster)
    cluster.restart_broker(0)

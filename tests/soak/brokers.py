"""A broker of its own for a campaign, which crashes and comes back quickly."""

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from kafka_zk.embedded.cluster import EmbeddedCluster
from kafka_zk.registry.kazoo_blocking import run_blocking
from kafka_zk.testing.clients import blocking_client
from kafka_zk.testing.sessions import SessionUnknown, expire_session
from kafka_zk.testing.zookeeper import Chroot, quick_cluster


@contextlib.contextmanager
def one_broker(chroot: Chroot, folder: Path, properties: Mapping[str, str] | None = None) -> Iterator[EmbeddedCluster]:
    """A cluster of one broker."""
    with quick_cluster(folder, 1, chroot.connect_string, properties) as cluster:
        yield cluster


def kill_broker(cluster: EmbeddedCluster) -> None:
    """SIGKILL, and the end of the session that outlives it, so that nobody waits for that."""
    with blocking_client(cluster.zookeeper_connect) as client:

        async def session_id() -> int:
            stat = await client.exists("/brokers/ids/0")
            return stat.ephemeral_owner if stat else 0

        holder = run_blocking(session_id())
        cluster.brokers[0].kill()
        if holder:
            host, _, port = cluster.zookeeper_connect.partition("/")[0].partition(":")
            with contextlib.suppress(SessionUnknown):
                expire_session(host, int(port), holder)


def crashed_broker_returns(cluster: EmbeddedCluster) -> None:
    """Kill the broker and start it again; returns when it serves."""
    kill_broker(cluster)
    cluster.restart_broker(0)

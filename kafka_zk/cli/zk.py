"""A ZooKeeper client for one command."""

import contextlib
from collections.abc import Iterator

from kafka_zk.cli.errors import CommandFailed
from kafka_zk.cli.options import zookeeper_properties
from kafka_zk.registry import connect_string
from kafka_zk.registry.client import ZnodeStat
from kafka_zk.registry.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.registry.security import Security
from kafka_zk.security.zookeeper import zookeeper_security

DEFAULT_ZOOKEEPER = "127.0.0.1:2181"
CONNECT_TIMEOUT_MS = 5_000
SESSION_TIMEOUT_MS = 10_000


@contextlib.contextmanager
def zookeeper_client(servers: str) -> Iterator[KazooBlockingClient]:
    """A connected client, secured as the command's ``--zk-tls-config-file`` says.

    A chroot that is not there is an error here: looking must not create it.

    Raises: CommandFailed, RegistryError.
    """
    parsed = connect_string.parse(servers)
    security = zookeeper_security(zookeeper_properties())
    if parsed.chroot:
        with _client(parsed.hosts, security) as client:
            if run_blocking(_exists(client, parsed.chroot)) is None:
                raise CommandFailed(f"ZooKeeper at {parsed.hosts} has no {parsed.chroot}")
    with _client(servers, security) as client:
        yield client


def _client(servers: str, security: Security) -> KazooBlockingClient:
    return KazooBlockingClient(
        servers, SESSION_TIMEOUT_MS, connection_timeout_ms=CONNECT_TIMEOUT_MS, security=security
    )


async def _exists(client: KazooBlockingClient, path: str) -> ZnodeStat | None:
    return await client.exists(path)

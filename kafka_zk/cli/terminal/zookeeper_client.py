"""A ZooKeeper client for one command."""

import contextlib
from collections.abc import Iterator

from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.cli.terminal.options import zookeeper_properties
from kafka_zk.cli.terminal.waiting import shortened_list, waiting
from kafka_zk.registry.client import connect_string
from kafka_zk.registry.client.client import ZnodeStat
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.registry.client.security import Security
from kafka_zk.registry.client.security_keys import zookeeper_security

DEFAULT_ZOOKEEPER = "127.0.0.1:2181"
CONNECT_TIMEOUT_MS = 5_000
SESSION_TIMEOUT_MS = 10_000


@contextlib.contextmanager
def zookeeper_client(servers: str) -> Iterator[KazooBlockingClient]:
    """Only sends requests to ZooKeeper; a long wait is reported on stderr.

    Otherwise like ``zookeeper_session``.
    """
    answer = waiting(f"a response from ZooKeeper at {shortened_list(servers)}", SESSION_TIMEOUT_MS / 1000)
    with zookeeper_session(servers) as client, answer:
        yield client


@contextlib.contextmanager
def zookeeper_session(servers: str, security: Security | None = None) -> Iterator[KazooBlockingClient]:
    """A connected client. ``security``: by default that of the command's ``--zk-tls-config-file``.

    A missing chroot is an error, because reading must not create it.

    Raises: CommandFailed, RegistryError.
    """
    parsed = connect_string.parse(servers)
    security = security or zookeeper_security(zookeeper_properties())
    if parsed.chroot:
        with connected(parsed.hosts, security) as client:
            if run_blocking(_exists(client, parsed.chroot)) is None:
                raise CommandFailed(f"ZooKeeper at {parsed.hosts} has no {parsed.chroot}")
    with connected(servers, security) as client:
        yield client


@contextlib.contextmanager
def connected(servers: str, security: Security) -> Iterator[KazooBlockingClient]:
    """A long wait is reported on stderr. Raises RegistryError."""
    client = KazooBlockingClient(
        servers, SESSION_TIMEOUT_MS, connection_timeout_ms=CONNECT_TIMEOUT_MS, security=security
    )
    with waiting(f"ZooKeeper at {shortened_list(servers)}", CONNECT_TIMEOUT_MS / 1000):
        client.start()
    try:
        yield client
    finally:
        client.close()


async def _exists(client: KazooBlockingClient, path: str) -> ZnodeStat | None:
    return await client.exists(path)

"""Clients for fixtures."""

import contextlib
import time
from collections.abc import Iterator, Mapping

from kafka_zk.base.clock import monotonic_s
from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient
from kafka_zk.security.client_security import NO_SECURITY, ClientSecurity
from kafka_zk.testing.timings import CONNECTION_TIMEOUT_MS, SESSION_TIMEOUT_MS

LEADERS_TIMEOUT_S = 20
POLL_INTERVAL_S = 0.02


@contextlib.contextmanager
def blocking_client(connect_string: str, session_timeout_ms: int = SESSION_TIMEOUT_MS) -> Iterator[KazooBlockingClient]:
    """A connected client, whose session ends with the block."""
    client = KazooBlockingClient(connect_string, session_timeout_ms, connection_timeout_ms=CONNECTION_TIMEOUT_MS)
    client.start()
    try:
        yield client
    finally:
        client.close()


def create_topic(
    bootstrap: str, name: str, partitions: int, configs: Mapping[str, str], login: ClientSecurity = NO_SECURITY
) -> None:
    """Returns when every broker knows the leader of each partition. Raises KafkaError."""
    with BlockingAdmin(bootstrap_servers=bootstrap, security=login) as admin:
        admin.create_topic(name, partitions, 1, configs)
    deadline_s = monotonic_s() + LEADERS_TIMEOUT_S
    for address in bootstrap.split(","):
        while not _knows_leaders(address, name, partitions, login):
            if monotonic_s() > deadline_s:
                raise TimeoutError(f"{address} knew no leaders of topic {name} after {LEADERS_TIMEOUT_S} s")
            time.sleep(POLL_INTERVAL_S)


def _knows_leaders(address: str, name: str, partitions: int, login: ClientSecurity) -> bool:
    with BlockingAdmin(bootstrap_servers=address, security=login) as admin:  # a new client asks this broker first
        topic = admin.describe_cluster().topics.get(name)
    return topic is not None and len(topic.available) == partitions

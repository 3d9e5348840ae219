"""Asks the ZooKeeper servers who is connected to them."""

import socket
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kafka_zk.migration.facts import ClusterFacts, Examples, Fact, Unknown

if TYPE_CHECKING:
    from kafka_zk.migration.connections import Connected
    from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient

_WORD = "cons"


def read_strangers(connect_string: str, client: "KazooBlockingClient", facts: ClusterFacts) -> Fact[Examples]:
    """Clients that do not belong to the cluster. Raises RegistryError."""
    from kafka_zk.migration.cluster_collector import controller_hosts
    from kafka_zk.migration.connections import read_owners, strangers
    from kafka_zk.migration.nodes import CONTROLLER_FILES
    from kafka_zk.migration.znode_reads import IDENTITY
    from kafka_zk.registry.client.connect_string import parse
    from kafka_zk.registry.client.errors import NoAuth
    from kafka_zk.registry.client.kazoo_blocking import run_blocking

    servers, chroot = parse(connect_string)
    connected = _connected(servers)
    if isinstance(connected, Unknown):
        return connected
    try:
        owners = run_blocking(read_owners(client))
    except NoAuth:
        return Unknown("ZooKeeper does not let this client read /brokers/ids or /consumers", IDENTITY)
    hosts = controller_hosts(facts.brokers, facts.broker_files, facts.controller_files)
    controllers = set(_addresses(hosts))
    found = strangers(connected, owners, client.session_id, controllers)
    if found.count and not controllers and facts.zookeeper.migration is not None:
        reason = f"other hosts are connected to ZooKeeper, maybe those of the controllers: {found}"
        return Unknown(reason, CONTROLLER_FILES)
    if found.count and chroot:
        reason = f"other hosts are connected to ZooKeeper, which other clusters may share: {found}"
        return Unknown(reason, "a look at what runs there")
    return found


def _connected(servers: Iterable[tuple[str, int]]) -> "Fact[list[Connected]]":
    from kafka_zk.embedded.health import NoAnswer, NotAllowed, ask
    from kafka_zk.embedded.ports import AnswerTooLong
    from kafka_zk.migration.connections import parse

    found: list[Connected] = []
    for host, port in servers:
        try:
            found += parse(ask(_WORD, port, host))
        except NotAllowed as error:
            return Unknown(str(error), f"4lw.commands.whitelist={_WORD} in zoo.cfg of each server")
        except (NoAnswer, AnswerTooLong) as error:
            return Unknown(str(error), "all servers in --zookeeper, at ports without TLS")
    return found


def _addresses(hosts: Iterable[str]) -> Iterator[str]:
    """The addresses of these hosts as ZooKeeper writes them. Skips names that cannot be resolved."""
    for host in hosts:
        try:
            for _, _, _, _, address in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM):
                yield str(address[0])
        except OSError:
            continue

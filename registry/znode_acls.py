"""Kafka's existing znodes get the ACLs that ``zookeeper.set.acl`` gives to new ones, or are opened again.

Source: ZkSecurityMigrator.scala and ZkData.SecureRootPaths in Kafka 3.9. Unlike Kafka's tool this one creates no znode:
a ``/migration`` with null data stops a later migration to KRaft (KAFKA-19480).
"""

from collections.abc import AsyncIterator, Awaitable
from typing import Protocol

from kafka_zk.registry.client.client import RegistryClient, ZnodeStat
from kafka_zk.registry.client.pipeline import READS_AT_ONCE, found

PRESENT_IN_EVERY_CLUSTER = ("/admin", "/brokers", "/config")

ROOTS = (
    *PRESENT_IN_EVERY_CLUSTER,
    "/cluster", "/controller", "/controller_epoch", "/delegation_token", "/feature", "/isr_change_notification",
    "/kafka-acl", "/kafka-acl-changes", "/kafka-acl-extended", "/kafka-acl-extended-changes", "/kafka-zk",
    "/latest_producer_id_block", "/log_dir_event_notification", "/migration",
)  # fmt: skip
"""All of these but ``/kafka-zk`` are Kafka's. ``/consumers`` is not among them: it stays open."""


class AclClient(RegistryClient, Protocol):
    """A client that can change the ACLs of znodes."""

    def reset_acl(self, path: str) -> Awaitable[ZnodeStat]:
        """Give a znode the ACL that it would get if this client created it. Raises NoNode, NoAuth."""


async def missing_roots(client: RegistryClient) -> list[str]:
    """Which of PRESENT_IN_EVERY_CLUSTER are not there: the sign of a wrong chroot."""
    stats = await found(client.exists(path) for path in PRESENT_IN_EVERY_CLUSTER)
    return [path for path, stat in zip(PRESENT_IN_EVERY_CLUSTER, stats, strict=True) if stat is None]


async def kafka_znodes(client: RegistryClient) -> AsyncIterator[list[str]]:
    """The chroot itself, then the znodes at and below ROOTS, parents first, at most READS_AT_ONCE in a list.

    Children are listed after the caller has dealt with their parents, so that none slips in between.
    """
    yield ["/"]
    stats = await found(client.exists(path) for path in ROOTS)
    waiting = [path for path, stat in zip(ROOTS, stats, strict=True) if stat is not None]
    while waiting:
        window, waiting = waiting[-READS_AT_ONCE:], waiting[:-READS_AT_ONCE]
        yield window
        listed = await found(client.children(path) for path in window)
        for parent, answer in zip(window, listed, strict=True):
            waiting += [f"{parent}/{name}" for name in (answer[0] if answer else ())]


async def reset_acls(client: AclClient) -> int:
    """Give all of ``kafka_znodes`` the ACLs of the client's ``Security``; returns how many have them now.

    A znode that vanishes meanwhile does not count. Raises: NoAuth for one that belongs to another identity.
    """
    count = 0
    async for paths in kafka_znodes(client):
        count += sum(outcome is not None for outcome in await found(map(client.reset_acl, paths)))
    return count

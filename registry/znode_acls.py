"""Gives Kafka's existing znodes the ACLs that new znodes get with ``zookeeper.set.acl``, or opens them.

Unlike Kafka's tool, it creates no znode, because a ``/migration`` with null data prevents a later migration to KRaft
(KAFKA-19480). Source: ZkSecurityMigrator.scala and ZkData.SecureRootPaths in Kafka 3.9.
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
"""Kafka's root znodes and ``/kafka-zk``, but not ``/consumers``, which stays open."""


class AclClient(RegistryClient, Protocol):
    """A client that can change the ACLs of znodes."""

    def reset_acl(self, path: str) -> Awaitable[ZnodeStat]:
        """Set the ACL that the znode would get if this client created it. Raises NoNode, NoAuth."""


async def missing_roots(client: RegistryClient) -> list[str]:
    """The missing znodes of PRESENT_IN_EVERY_CLUSTER; a missing one indicates a wrong chroot."""
    stats = await found(client.exists(path) for path in PRESENT_IN_EVERY_CLUSTER)
    return [path for path, stat in zip(PRESENT_IN_EVERY_CLUSTER, stats, strict=True) if stat is None]


async def kafka_znodes(client: RegistryClient) -> AsyncIterator[list[str]]:
    """The chroot, then znodes from ROOTS down, parents first, READS_AT_ONCE at a time.

    Children are listed when the caller has handled their parents, so that no new znode is missed.
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
    """Set the ACLs of all ``kafka_znodes`` according to the client's ``Security``. Returns their number, without those
    that have since been deleted.

    Raises: NoAuth for a znode that only another identity may change.
    """
    count = 0
    async for paths in kafka_znodes(client):
        count += sum(outcome is not None for outcome in await found(map(client.reset_acl, paths)))
    return count

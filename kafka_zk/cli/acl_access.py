"""ACLs through a broker, or directly through ZooKeeper, as kafka-acls does with ``--authorizer-properties``."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from kafka_zk.cli.terminal.access import open_access
from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.security.acl import Acl, AclFilter, Acls, Pattern

Found = Mapping[Pattern, Sequence[Acl]]


class AclAccess(Protocol):
    """``find`` also returns the patterns with invalid ACLs, which deny everyone, and the reasons; a broker returns
    none."""

    def find(self, wanted: AclFilter) -> tuple[Found, Mapping[Pattern, str]]: ...

    def add(self, added: Mapping[Pattern, Acls], *, replace_unknown: bool) -> None: ...

    def remove(self, wanted: AclFilter) -> Found: ...


def acl_access(bootstrap: str, zookeeper: str | None) -> AbstractContextManager[AclAccess]:
    """Raises the errors of ``open_access``."""
    return open_access(bootstrap, zookeeper, _BrokerAcls, _ZooKeeperAcls)


class _BrokerAcls:
    def __init__(self, admin: Any) -> None:
        self._admin = admin.acls

    def find(self, wanted: AclFilter) -> tuple[Found, Mapping[Pattern, str]]:
        return self._admin.list_acls(wanted), {}

    def add(self, added: Mapping[Pattern, Acls], *, replace_unknown: bool) -> None:
        if replace_unknown:
            raise CommandFailed("--replace-unreadable needs --zookeeper")
        self._admin.add_acls(added)

    def remove(self, wanted: AclFilter) -> Found:
        removed: Found = self._admin.remove_acls([wanted])
        return removed


class _ZooKeeperAcls:
    def __init__(self, client: Any) -> None:
        from kafka_zk.registry.acls import AclRegistry

        self._registry: Any = AclRegistry(client)

    def find(self, wanted: AclFilter) -> tuple[Found, Mapping[Pattern, str]]:
        from kafka_zk.registry.client.kazoo_blocking import run_blocking

        async def read() -> list[tuple[Pattern, Any]]:
            patterns = [each for each in await self._registry.patterns() if wanted.takes_pattern(each)]
            return [each async for each in self._registry.read(sorted(patterns))]

        found: dict[Pattern, list[Acl]] = {}
        unknown: dict[Pattern, str] = {}
        for pattern, stored in run_blocking(read()):
            if not isinstance(stored, frozenset):
                unknown[pattern] = str(stored)
            elif taken := sorted(filter(wanted.takes, stored)):
                found[pattern] = taken
        return found, unknown

    def add(self, added: Mapping[Pattern, Acls], *, replace_unknown: bool) -> None:
        from kafka_zk.registry.client.kazoo_blocking import run_blocking

        for pattern, acls in added.items():
            update = self._registry.update(pattern, lambda present, acls=acls: present | acls, replace=replace_unknown)
            run_blocking(update)

    def remove(self, wanted: AclFilter) -> Found:
        from kafka_zk.registry.client.kazoo_blocking import run_blocking

        removed: dict[Pattern, list[Acl]] = {}
        for pattern in self.find(wanted)[0]:
            taken: set[Acl] = set()

            def without(present: Acls, taken: set[Acl] = taken) -> Acls:
                taken.update(filter(wanted.takes, present))
                return present - taken

            run_blocking(self._registry.update(pattern, without))
            removed[pattern] = sorted(taken)
        return removed

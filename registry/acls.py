"""The ACLs of the cluster, as Kafka's AclAuthorizer keeps them, and the announcements that they changed.

Every write is conditional, so that of two writers none undoes what the other did, and is announced in the same
transaction, so no change goes without its announcement.

Source: AclAuthorizer.updateResourceAcls, KafkaZkClient.scala@3.9.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence

from kafka_zk.base.events import SILENT, EventSource
from kafka_zk.registry import change_watcher
from kafka_zk.registry.change_watcher import ChangeWatcher
from kafka_zk.registry.client.client import Create, Delete, Operation, RegistryClient, SetData
from kafka_zk.registry.client.errors import (
    BadVersion,
    InvalidZnode,
    MultiFailed,
    NoAuth,
    NodeExists,
    NoNode,
    RegistryError,
)
from kafka_zk.registry.client.pipeline import READS_AT_ONCE, Found, ensure_paths, read_all
from kafka_zk.registry.znodes import acl as znodes
from kafka_zk.registry.znodes import acl_change
from kafka_zk.security.acl import Acls, Pattern

MOST_ATTEMPTS = 200
"""A conditional write fails when another writer's succeeds. After this number of failures the writer gives up."""

Stored = Acls | InvalidZnode | NoAuth
"""The ACLs of a pattern, empty if it has none, or why they are not known."""


class AclRegistry:
    """``/kafka-acl`` and ``/kafka-acl-extended``."""

    def __init__(self, client: RegistryClient, events: EventSource = SILENT) -> None:
        self._client = client
        self._events = events

    async def ensure_paths(self) -> None:
        """Make the parents that Kafka's authorizer makes at its start."""
        types = [znodes.type_path(root, each) for root in znodes.ROOTS for each in znodes.STORED_TYPES]
        await ensure_paths(self._client, [*types, *acl_change.PARENTS.values()])

    async def patterns(self) -> list[Pattern]:
        """All that have a znode; what was written before the call is among them. Raises: NoAuth if an ACL of
        ZooKeeper hides which there are."""
        await self._client.sync()
        wanted = [(root, each) for root in znodes.ROOTS for each in znodes.STORED_TYPES]
        pending = [self._client.children(znodes.type_path(*each)) for each in wanted]
        listed: list[Pattern] = []
        failures: list[RegistryError] = []
        for (pattern_type, resource_type), answer in zip(wanted, pending, strict=True):
            try:
                names, _ = await answer
                listed += [Pattern(resource_type, name, pattern_type) for name in names]
            except NoNode:
                pass
            except RegistryError as error:
                failures.append(error)  # all that were sent are awaited
        if failures:
            raise failures[0]
        return listed

    async def read(self, patterns: Sequence[Pattern]) -> AsyncIterator[tuple[Pattern, Stored]]:
        """The ACLs of each, read in portions. Raises: ConnectionLoss, SessionLost."""
        for start in range(0, len(patterns), READS_AT_ONCE):
            portion = patterns[start : start + READS_AT_ONCE]
            answers = await read_all(self._client, map(znodes.pattern_path, portion))
            for pattern, answer in zip(portion, answers, strict=True):
                yield pattern, _stored(pattern, answer)

    async def update(self, pattern: Pattern, change: Callable[[Acls], Acls], *, replace: bool = False) -> None:
        """Write what ``change`` makes of a pattern's ACLs, and announce it; ``change`` may be called several times.

        Not over connection losses: a write whose outcome is unknown may be done again (``until_answered``).
        Args:
            replace: what cannot be understood is replaced as if it were empty.
        Raises: InvalidZnode if the present ACLs cannot be understood or the pattern's name can be no znode's; NoAuth;
            BadVersion if other writers were faster MOST_ATTEMPTS times.
        """
        path = znodes.pattern_path(pattern)
        if not znodes.is_possible(pattern):
            raise InvalidZnode(f"{path}: a resource with such a name can have no ACLs in ZooKeeper")
        for _ in range(MOST_ATTEMPTS):
            try:
                found: Found | None = await self._client.get(path)
            except NoNode:
                found = None
            present = _present(path, found, replace=replace)
            changed = change(present or frozenset())
            if changed == present or not (changed or found):
                return
            if await self._written(pattern, path, found, changed):
                return
        raise BadVersion(f"{path}: other writers were faster {MOST_ATTEMPTS} times")

    async def _written(self, pattern: Pattern, path: str, found: Found | None, changed: Acls) -> bool:
        """False: it has become something else meanwhile."""
        write: Operation
        if found is None:
            write = Create(path, znodes.encode(changed))
        elif changed:
            write = SetData(path, znodes.encode(changed), found[1].version)
        else:
            write = Delete(path, found[1].version)
        parent = acl_change.PARENTS[pattern.pattern_type]
        announcement = Create(f"{parent}/{acl_change.PREFIX}", acl_change.encode(pattern), sequential=True)
        try:
            await self._client.multi([write, announcement])
        except MultiFailed as error:
            if not isinstance(error.cause, NodeExists | NoNode | BadVersion):
                raise error.cause from None
            if isinstance(error.cause, NoNode) and (found is None or error.index == 1):
                await self.ensure_paths()
            return False
        return True

    async def purge_changes(
        self, now_ms: int, expiration_ms: int = change_watcher.CHANGE_EXPIRATION_MS
    ) -> int:
        """Delete announcements made more than ``expiration_ms`` before ``now_ms`` (wall clock). Returns how many."""
        parents = acl_change.PARENTS.values()
        return sum([await change_watcher.purge(self._client, each, now_ms, expiration_ms) for each in parents])

    def watch_changes(self, on_change: Callable[[Pattern | None], None]) -> list[ChangeWatcher]:
        """Call ``on_change`` with the pattern of each announcement, those already there first; None: it cannot be
        understood or was gone before it was read, so anything may have changed."""

        def report(path: str, data: bytes | NoAuth | None) -> None:
            try:
                pattern = None if isinstance(data, NoAuth) else acl_change.decode(path, data)
            except InvalidZnode:
                pattern = None
            on_change(pattern)

        return [
            ChangeWatcher(self._client, parent, acl_change.PREFIX, report, self._events, lambda: on_change(None))
            for parent in acl_change.PARENTS.values()
        ]


def _present(path: str, found: Found | None, *, replace: bool) -> Acls | None:
    """None: it is to be replaced, whatever it is."""
    if found is None:
        return frozenset()
    try:
        return znodes.decode(path, found[0])
    except InvalidZnode:
        if not replace:
            raise
        return None


def _stored(pattern: Pattern, answer: Found | NoAuth | None) -> Stored:
    if answer is None or isinstance(answer, NoAuth):
        return frozenset() if answer is None else answer
    try:
        return znodes.decode(znodes.pattern_path(pattern), answer[0])
    except InvalidZnode as error:
        return error


def faults(stored: Iterable[tuple[Pattern, Stored]]) -> dict[Pattern, str]:
    """The patterns whose ACLs are not known, and why."""
    return {pattern: str(found) for pattern, found in stored if isinstance(found, RegistryError)}

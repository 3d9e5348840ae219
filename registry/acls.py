"""The cluster's ACLs in Kafka's AclAuthorizer format, with notifications of changes.

Writes are conditional, so that no concurrent write is lost. Each write includes its notification. Source:
AclAuthorizer.updateResourceAcls, KafkaZkClient.scala@3.9.
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
"""Maximum number of attempts of a conditional write, which fails if another writer was faster."""

Stored = Acls | InvalidZnode | NoAuth
"""A pattern's ACLs (possibly none), or the error if they cannot be read."""


class AclRegistry:
    """Reads and writes ``/kafka-acl`` and ``/kafka-acl-extended``."""

    def __init__(self, client: RegistryClient, events: EventSource = SILENT) -> None:
        self._client = client
        self._events = events

    async def ensure_paths(self) -> None:
        """Create the same parent znodes as Kafka's authorizer at startup."""
        types = [znodes.type_path(root, each) for root in znodes.ROOTS for each in znodes.STORED_TYPES]
        await ensure_paths(self._client, [*types, *acl_change.PARENTS.values()])

    async def patterns(self) -> list[Pattern]:
        """All patterns with a znode, including all that were written before the call. Raises: NoAuth if an ACL of
        ZooKeeper hides them."""
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
                failures.append(error)  # raised after all answers have been awaited
        if failures:
            raise failures[0]
        return listed

    async def read(self, patterns: Sequence[Pattern]) -> AsyncIterator[tuple[Pattern, Stored]]:
        """Read the ACLs of each pattern, many per request. Raises: ConnectionLoss, SessionLost."""
        for start in range(0, len(patterns), READS_AT_ONCE):
            portion = patterns[start : start + READS_AT_ONCE]
            answers = await read_all(self._client, map(znodes.pattern_path, portion))
            for pattern, answer in zip(portion, answers, strict=True):
                yield pattern, _stored(pattern, answer)

    async def update(self, pattern: Pattern, change: Callable[[Acls], Acls], *, replace: bool = False) -> None:
        """Replace the ACLs by the result of ``change`` and notify brokers. ``change`` may be called several times.

        The call can be repeated after a ConnectionLoss (``retry_until_connected``).
        Args:
            replace: if True, ACLs that cannot be parsed count as empty.
        Raises: InvalidZnode for ACLs that cannot be parsed, or a pattern that cannot have a znode; NoAuth; BadVersion
            after MOST_ATTEMPTS.
        """
        path = znodes.pattern_path(pattern)
        if not znodes.is_possible(pattern):
            raise InvalidZnode(f"{path}: a resource with this name cannot have ACLs in ZooKeeper")
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
        raise BadVersion(f"{path}: other writers changed it during all {MOST_ATTEMPTS} attempts")

    async def _written(self, pattern: Pattern, path: str, found: Found | None, changed: Acls) -> bool:
        """Write the changed ACLs. Returns False if they have changed in ZooKeeper since they were read."""
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

    async def purge_changes(self, now_ms: int) -> int:
        """Delete old notifications and return their number."""
        return sum([await change_watcher.purge(self._client, each, now_ms) for each in acl_change.PARENTS.values()])

    def watch_changes(self, on_change: Callable[[Pattern | None], None]) -> list[ChangeWatcher]:
        """Call ``on_change`` with the pattern of each notification, even old ones; None: any ACL may have changed,
        because a notification is invalid or was deleted unread."""

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
    """The current ACLs; None if they cannot be parsed and must be replaced."""
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
    """Pattern -> why its ACLs are unknown."""
    return {pattern: str(found) for pattern, found in stored if isinstance(found, RegistryError)}

"""Kafka's AclAuthorizer: decides by the ACLs in ZooKeeper, follows their changes, and changes them for clients.

All ACLs are in memory. A notification names the pattern to read again. In a new session, all ACLs are read again, since
notifications may have been missed. Until all are read, everything is denied except to super users.
Source: AclAuthorizer.scala@3.9.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from sys import getsizeof

from twisted.internet.defer import DeferredLock, ensureDeferred
from twisted.logger import Logger

from kafka_zk.base.clock import Timers
from kafka_zk.base.turns import Turns
from kafka_zk.broker.security.acl_rules import AclRules, Reach
from kafka_zk.broker.security.authorizer import Authorizer, AuthorizerCounts, Operation, Resource
from kafka_zk.broker.security.denials import Denials
from kafka_zk.broker.security.visible_topics import VisibleTopics
from kafka_zk.protocol.request import RequestContext
from kafka_zk.registry.acls import AclRegistry, Stored
from kafka_zk.registry.change_watcher import ChangeWatcher
from kafka_zk.registry.client.client import RegistryClient, SessionState
from kafka_zk.registry.client.errors import ConnectionLoss, RegistryError, SessionLost
from kafka_zk.registry.client.security import Security
from kafka_zk.registry.client.session import retry_until_connected
from kafka_zk.security.acl import Acl, AclFilter, Acls, Pattern, ResourceType, named

_log = Logger()

MOST_DECISIONS = 50_000
"""Maximum number of cached decisions of all clients; usually 15 MB, at most 40 MB."""

LONGEST_REMEMBERED = 512
"""Maximum bytes of both names in a cached decision; clients choose the names, up to 32 KB."""

RETRY_S = 5

def warn_if_open(security: Security) -> None:
    """Log a warning if clients can change the ACLs in ZooKeeper."""
    if not security.set_acl:
        _log.warn(
            "everyone who can connect to ZooKeeper can change ACLs and users there; protect them with "
            "zookeeper.set.acl=true, and log in to ZooKeeper with zookeeper.sasl.client or a client certificate"
        )


_Decision = tuple[str, str, Operation, Resource]


class _Decisions(dict[_Decision, bool]):
    """Cache: (principal, host, operation, resource) -> allowed."""

    def __init__(self, decide: Callable[[str, str, Operation, str, str], bool]) -> None:
        super().__init__()
        self._decide = decide

    def __missing__(self, key: _Decision) -> bool:
        principal, host, operation, resource = key
        allowed = self._decide(principal, host, operation, *resource)
        if getsizeof(principal) + getsizeof(resource.name) <= LONGEST_REMEMBERED:
            if len(self) >= MOST_DECISIONS:
                self.clear()
            self[key] = allowed
        return allowed


class AclAuthorizer(Authorizer):
    """Decides by ACLs.

    Attributes:
        rules: empty at first.
        is_loaded: ``rules`` is complete; until then, everything is denied except to super users.
    """

    def __init__(
        self, client: RegistryClient, registry: AclRegistry, clock: Timers, rules: AclRules, denials: Denials
    ) -> None:
        self._client = client
        self._registry = registry
        self._clock = clock
        self._lock = DeferredLock()  # an earlier read must not overwrite a later one
        self._decisions = _Decisions(self._decide)
        self._decisions_on_any: dict[tuple[str, str, Operation, str], bool] = {}
        self._visible = VisibleTopics(self._visible_to, clock.seconds, MOST_DECISIONS, LONGEST_REMEMBERED)
        self._generation = rules.generation
        self._watchers: list[ChangeWatcher] = []
        self._changed_patterns: set[Pattern] = set()
        self._wants_all = False
        self._is_following = False
        self._is_closed = False
        self._session_id: int | None = None
        self._remove_listener: Callable[[], None] = lambda: None
        self.acls = self
        self.rules = rules
        self.denials = denials
        denials.explain = self.explain
        self.is_loaded = False

    @property
    def counts(self) -> AuthorizerCounts:
        return AuthorizerCounts(self.denials.count, len(self.rules.acls), len(self.rules.unknown))

    # -- decisions ----------------------------------------------------------------------------------------------------

    def authorize(self, context: RequestContext, operation: Operation, resource: Resource) -> bool:
        return self._decisions[context.principal, context.peer_host, operation, resource] or self.denials.add(
            context, operation, resource
        )

    def may(self, context: RequestContext, operation: Operation, resource: Resource) -> bool:
        return self._decisions[context.principal, context.peer_host, operation, resource]

    def may_any(self, context: RequestContext, operation: Operation, resource_type: str) -> bool:
        if not self.is_loaded:
            return self.rules.is_super_user(context.principal)
        asked = context.principal, context.peer_host, operation, resource_type
        known = self._decisions_on_any.get(asked)
        if known is None:
            known = self.rules.allows_any(*asked)
            if len(context.principal) <= LONGEST_REMEMBERED:
                if len(self._decisions_on_any) >= MOST_DECISIONS:
                    self._decisions_on_any.clear()
                self._decisions_on_any[asked] = known
        return known

    def visible_topics(self, context: RequestContext, names: Sequence[str]) -> Iterable[str]:
        """Decide all names in one call, so that the cached ones are not looked up one by one in Python."""
        principal, host = context.principal, context.peer_host
        if self.rules.is_super_user(principal):
            return names
        if not self.is_loaded:
            return []
        return self._visible.among(principal, host, names)

    def _visible_to(self, principal: str, host: str) -> Reach:
        return self.rules.reach(principal, host, Operation.DESCRIBE, "Topic")

    def _decide(self, principal: str, host: str, operation: Operation, resource_type: str, name: str) -> bool:
        if not self.is_loaded:
            return self.rules.is_super_user(principal)
        return self.rules.allows(principal, host, operation, resource_type, name)

    def explain(self, principal: str, host: str, operation: Operation, resource: Resource) -> str:
        """Why an operation is allowed or denied, in a few words."""
        resource_type = named(ResourceType, resource.type)
        if not self.is_loaded or resource_type is None:
            return "the ACLs are not known yet"
        return str(self.rules.explain(principal, host, operation, resource_type, resource.name))

    # -- the ACLs in ZooKeeper ----------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Read all ACLs and follow changes. Raises SessionLost, NoAuth."""
        await retry_until_connected(self._client, self._registry.ensure_paths)
        self._watchers = self._registry.watch_changes(self._changed)
        await retry_until_connected(self._client, self._load_all)
        self._remove_listener = self._client.add_session_listener(self._session_changed)
        self._session_changed(self._client.state)

    async def purge_changes(self, now_ms: int) -> None:
        await self._registry.purge_changes(now_ms)

    def close(self) -> None:
        self._is_closed = True
        self._remove_listener()
        for watcher in self._watchers:
            watcher.close()

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED:
            self._wants_all = self._wants_all or self._session_id != self._client.session_id
            self._follow()

    def _changed(self, pattern: Pattern | None) -> None:
        if pattern is None:
            self._wants_all = True
        else:
            self._changed_patterns.add(pattern)
        self._follow()

    def _follow(self) -> None:
        if self._session_id is not None and not self._is_following and not self._is_closed:
            self._is_following = True
            ensureDeferred(self._read_changed())

    async def _read_changed(self) -> None:
        try:
            while self._wants_all or self._changed_patterns:
                if self._wants_all:
                    await self._load_all()
                else:
                    await self._load(self._changed_patterns)
        except (ConnectionLoss, SessionLost):
            pass  # the watcher continues after the reconnect
        except RegistryError as error:
            _log.error("only super users may do anything, because the ACLs cannot be read: {error}", error=error)
            self._forget()
        except Exception:  # a bug: DENY rules may be missing
            _log.failure("only super users may do anything, because the ACLs could not be processed")
            self._forget()
        finally:
            self._is_following = False

    def _forget(self) -> None:
        """Deny everything except to super users until all ACLs are read again after RETRY_S, because DENY rules may be
        missing."""
        self._wants_all = True
        self.is_loaded = False
        self._decide_anew()
        self._clock.callLater(RETRY_S, self._follow)

    def _decide_anew(self) -> None:
        self._generation = self.rules.generation
        self._decisions.clear()
        self._decisions_on_any.clear()
        self._visible.clear()

    async def _load_all(self) -> None:
        async with self._lock:
            session_id = self._client.session_id
            self._wants_all = False
            try:
                patterns = await self._registry.patterns()
                await self._read(patterns)
            except BaseException:
                self._wants_all = True
                raise
            self.rules.keep_only(set(patterns))
            self.is_loaded = True
            self._decide_anew()
            self._session_id = session_id

    async def _load(self, patterns: Collection[Pattern]) -> None:
        """Read patterns. Those that change during the read are read again."""
        wanted = list(patterns)
        async with self._lock:
            self._changed_patterns.difference_update(wanted)
            try:
                await self._read(wanted)
            except BaseException:
                self._changed_patterns.update(wanted)
                raise

    async def _read(self, patterns: Collection[Pattern]) -> None:
        turns = Turns(self._clock, ignores_disconnect=True)
        async for pattern, stored in self._registry.read(list(patterns)):
            self._put(pattern, stored)
            if turns.is_over:
                await turns.next()

    def _put(self, pattern: Pattern, stored: Stored) -> None:
        if isinstance(stored, frozenset):
            self.rules.put(pattern, stored)
        else:
            if self.rules.unknown.get(pattern) != str(stored):
                _log.error("{pattern} is denied to everyone: {why}", pattern=str(pattern), why=str(stored))
            self.rules.put(pattern, frozenset(), str(stored))
        if self._generation != self.rules.generation:
            self._decide_anew()

    # -- changes ------------------------------------------------------------------------------------------------------

    def described(self, wanted: AclFilter) -> dict[Pattern, list[Acl]]:
        found: dict[Pattern, list[Acl]] = {}
        for pattern, acls in self.rules.acls.items():
            if wanted.takes_pattern(pattern) and pattern not in self.rules.unknown:
                taken = sorted(filter(wanted.takes, acls))
                if taken:
                    found[pattern] = taken
        return dict(sorted(found.items()))

    async def add(self, pattern: Pattern, added: Acls) -> None:
        await self._update(pattern, lambda present: present | added)

    async def remove(self, pattern: Pattern, wanted: AclFilter) -> Acls:
        removed: set[Acl] = set()

        def without(present: Acls) -> Acls:
            taken = frozenset(filter(wanted.takes, present))
            removed.update(taken)
            return present - taken

        await self._update(pattern, without)
        return frozenset(removed)

    async def _update(self, pattern: Pattern, change: Callable[[Acls], Acls]) -> None:
        await retry_until_connected(self._client, lambda: self._registry.update(pattern, change))
        await retry_until_connected(self._client, lambda: self._load([pattern]))

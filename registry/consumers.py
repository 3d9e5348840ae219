"""A group's members: registration, takeover, duplicate ids, lists and watches.

``/consumers/<group>/ids/<consumer id>`` is an ephemeral. It is never rewritten, because a rewrite fires no child watch;
so each registration is read once. If a member left and returned between two reads, only the parent's ``cversion`` shows
this, because it counts creations and deletions. If ``cversion`` grew by more than the number of changed names, all
members are read again.
Source: ZookeeperConsumerConnector.scala@0.8.2 and @0.10.2, AdminUtils.deleteConsumerGroupInZK@0.10.2.
"""

from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import NamedTuple

from twisted.logger import Logger

from kafka_zk.base.clock import Timers
from kafka_zk.base.events import SILENT, EventSource
from kafka_zk.base.integers import INT64
from kafka_zk.registry.client.client import Create, Delete, Operation, RegistryClient, SetData, WatchedEvent, ZnodeStat
from kafka_zk.registry.client.errors import DuplicateConsumerId, FencedInstanceId, InvalidZnode, NoAuth, NoNode
from kafka_zk.registry.client.pipeline import Found, children_of, ensure_paths, readable
from kafka_zk.registry.client.watches import Rereader, Watcher, Zxids, read_or_watch_creation
from kafka_zk.registry.registration import Holder, remove_own, take, wait_until_expired
from kafka_zk.registry.znodes import consumers as znodes
from kafka_zk.registry.znodes.consumers import ConsumerRegistration

_log = Logger()

_YOUNGEST = INT64[-1]


class Member(NamedTuple):
    """``czxid``: the czxid of the registration's znode; the oldest member has the smallest one."""

    registration: ConsumerRegistration
    czxid: int


Members = dict[str, Member]  # by consumer id, sorted


class ConsumerRegistry:
    """Reads and writes ``/consumers/<group>/ids``. Tools that never call ``register`` may pass None as ``clock``."""

    def __init__(
        self,
        client: RegistryClient,
        group: str,
        clock: Timers | None = None,
        events: EventSource = SILENT,
    ) -> None:
        self._client = client
        self._group = group
        self._clock = clock
        self._events = events

    async def register(
        self, consumer_id: str, registration: ConsumerRegistration, own_previous_session_ids: Collection[int] = ()
    ) -> int:
        """Register this member in the client's session. Returns the czxid.

        Waits ``registration.max_leftover_ms`` for another session's znode to disappear; a connection loss restarts the
        wait. In the same session, an equal registration stays; a different one replaces it.
        Raises: FencedInstanceId (static member) or DuplicateConsumerId if the other znode stays; SessionLost.
        """
        assert self._clock is not None, "register needs a clock"
        path = znodes.id_path(self._group, consumer_id)
        data = znodes.encode_registration(registration)
        creation: list[Operation] = [Create(path, ephemeral=True), SetData(path, data, 0)]

        async def present(holder: Holder) -> int:
            if holder.data == data:
                return holder.stat.czxid
            stat = (await self._client.multi([Delete(path, holder.stat.version), *creation]))[-1]
            assert isinstance(stat, ZnodeStat)
            return stat.czxid

        def refusal(_: Holder) -> Exception:
            if registration.instance_id is not None:
                return FencedInstanceId(self._group, registration.instance_id)
            return DuplicateConsumerId(self._group, consumer_id)

        async def attempt() -> int | Holder:
            while True:
                try:
                    return await take(self._client, path, creation, own_previous_session_ids, present)
                except NoNode:  # the group is new, or was just deleted
                    await ensure_paths(self._client, [znodes.ids_path(self._group)])

        return await wait_until_expired(self._client, self._clock, path, attempt, refusal)

    async def unregister(self, consumer_id: str) -> None:
        """Delete this member's registration if it belongs to the client's session."""
        await remove_own(self._client, znodes.id_path(self._group, consumer_id))

    async def members(self) -> Members:
        """All members. A member whose registration cannot be parsed has no subscriptions or strategies."""
        names = await children_of(self._client, znodes.ids_path(self._group))
        return await _read_members(self._client, self._group, names)

    def watch(self, on_change: Callable[[Members], None]) -> Watcher:
        """Report all members, now and when one joins, leaves or is replaced. A join costs two reads."""
        return MemberWatch(self._client, self._group, on_change, self._events).rereader


class MemberWatch:
    """The last known state: only changes are read."""

    def __init__(
        self,
        client: RegistryClient,
        group: str,
        on_change: Callable[[Members], None],
        events: EventSource,
    ) -> None:
        self._client = client
        self._group = group
        self._path = znodes.ids_path(group)
        self._on_change = on_change
        self._parent: ZnodeStat | None = None
        self._names: set[str] = set()  # the children at ``_parent``
        self._members: Members = {}
        self.rereader = Rereader(client, self._path, self._read, events)

    async def _read(self, watch: Callable[[WatchedEvent], None]) -> tuple[Zxids, Callable[[], None]]:
        found_names = await read_or_watch_creation(self._client, self._client.children, self._path, watch)
        if found_names is None:
            self._parent, self._names, self._members = None, set(), {}
            return (), partial(self._on_change, {})
        names, stat = found_names
        known = {} if self._missed_a_change(stat, set(names)) else self._members
        fresh = await _read_members(self._client, self._group, [name for name in names if name not in known])
        self._parent, self._names = stat, set(names)
        self._members = {name: fresh.get(name) or known[name] for name in names if name in fresh or name in known}
        return (stat.czxid, stat.pzxid), partial(self._on_change, dict(self._members))

    def _missed_a_change(self, stat: ZnodeStat, names: set[str]) -> bool:
        """True unless ``names`` shows every change since the last read: see the module docstring."""
        if self._parent is None or self._parent.czxid != stat.czxid:
            return True
        return stat.cversion - self._parent.cversion != len(names ^ self._names)


async def _read_members(client: RegistryClient, group: str, names: Iterable[str]) -> Members:
    """The existing registrations among ``names``, read in one pipeline."""
    wanted = sorted(names)
    answers = await readable(client.get(znodes.id_path(group, name)) for name in wanted)
    return {
        name: _member(znodes.id_path(group, name), answer)
        for name, answer in zip(wanted, answers, strict=True)
        if answer is not None
    }


def _member(path: str, answer: Found | NoAuth) -> Member:
    """A member. If an ACL hides the znode, the member has no subscription and counts as the youngest."""
    if isinstance(answer, NoAuth):
        _log.warn("a member's registration counts as empty: {error}", error=answer)
        return Member(ConsumerRegistration({}), _YOUNGEST)
    return Member(_decode(path, answer[0]), answer[1].czxid)


def _decode(path: str, data: bytes | None) -> ConsumerRegistration:
    try:
        return znodes.decode_registration(path, data)
    except InvalidZnode as error:
        _log.warn("a member's registration counts as empty: {error}", error=error)
        return ConsumerRegistration({})

"""The live brokers: registration, takeover, duplicate ids, lists, watches.

``/brokers/ids/<id>`` is an ephemeral. A znode of this process's own earlier sessions is replaced immediately;
``registration`` handles the znodes of killed brokers.
Source: KafkaZkClient.registerBroker and CheckedEphemeral in Kafka 3.9; KAFKA-7165.
"""

from collections import deque
from collections.abc import Callable, Collection
from functools import partial

from twisted.logger import Logger

from kafka_zk.base.clock import Timers
from kafka_zk.base.events import SILENT, EventSource
from kafka_zk.registry.client.client import Create, Operation, RegistryClient, SetData, ZnodeStat
from kafka_zk.registry.client.errors import DuplicateBrokerId, InvalidZnode, NoAuth, NoNode
from kafka_zk.registry.client.pipeline import children_of, readable
from kafka_zk.registry.client.watches import ChildrenWatcher, DataWatcher
from kafka_zk.registry.registration import Holder, remove_own, take, wait_until_expired
from kafka_zk.registry.unclean_starts import announcement
from kafka_zk.registry.znodes import brokers as znodes
from kafka_zk.registry.znodes.brokers import BrokerInfo
from kafka_zk.registry.znodes.json_codec import number_of

_log = Logger()

READ_AT_ONCE = 50
"""Registrations read per reactor turn; each takes about 100 µs."""

LiveBrokers = dict[int, tuple[BrokerInfo, int]]  # broker id -> (registration, broker epoch)


class BrokerRegistry:
    """Reads and writes ``/brokers/ids``. Tools that never call ``register`` may pass None as ``clock``."""

    def __init__(self, client: RegistryClient, clock: Timers | None = None, events: EventSource = SILENT) -> None:
        self._client = client
        self._clock = clock
        self._events = events

    async def register(
        self, info: BrokerInfo, own_previous_session_ids: Collection[int] = (), *, unclean_start: bool = False
    ) -> int:
        """Register in the client's session. Returns the broker epoch (the znode's czxid).

        Waits up to ``registration.max_leftover_ms`` for another session's znode to disappear, and retries after
        connection losses. In the same session, another call rewrites the registration and keeps the epoch.

        Args:
            unclean_start: announce in the same multi that the previous shutdown was unclean. Set this only at a
                process's first registration, because the announcement outlives sessions.
        Raises: DuplicateBrokerId if the other znode stays; SessionLost: register in the next session.
        """
        assert self._clock is not None, "register needs a clock"
        path = znodes.broker_path(info.broker_id)
        data = znodes.encode(info)
        creation: list[Operation] = [Create(path, ephemeral=True), SetData(path, data, 0)]

        async def rewritten(present: Holder) -> int:
            return (await self._client.set(path, data)).czxid

        async def attempt() -> int | Holder:
            while True:
                news = await announcement(self._client, info.broker_id, info.timestamp_ms) if unclean_start else []
                try:
                    return await take(self._client, path, [*news, *creation], own_previous_session_ids, rewritten)
                except NoNode:
                    if len(news) < 2:  # otherwise, a controller has just deleted an announcement: try again
                        raise

        return await wait_until_expired(
            self._client, self._clock, path, attempt, partial(self._duplicate, info.broker_id)
        )

    async def unregister(self, broker_id: int) -> None:
        """Delete this broker's registration if it belongs to the client's session."""
        await remove_own(self._client, znodes.broker_path(broker_id))

    async def live(self) -> LiveBrokers:
        """All registered brokers, sorted by id. Invalid registrations, and those that an ACL hides, are logged and left
        out."""
        ids = _broker_ids(await children_of(self._client, znodes.BROKER_IDS))
        live: LiveBrokers = {}
        for start in range(0, len(ids), READ_AT_ONCE):
            some = ids[start : start + READ_AT_ONCE]
            answers = await readable(self._client.get(znodes.broker_path(broker_id)) for broker_id in some)
            for broker_id, answer in zip(some, answers, strict=True):
                if isinstance(answer, NoAuth):
                    _log.warn("a broker's registration is ignored: {error}", error=answer)
                elif answer is not None and (entry := _decode(broker_id, *answer)) is not None:
                    live[broker_id] = entry
        return live

    def watch(self, on_change: Callable[[LiveBrokers], None]) -> "BrokerWatcher":
        """Report all live brokers, now and after each start, failure, new epoch or change of endpoints."""
        return BrokerWatcher(self._client, on_change, self._events)

    def _duplicate(self, broker_id: int, holder: Holder) -> DuplicateBrokerId:
        try:
            info = znodes.decode(broker_id, holder.data)
        except InvalidZnode:
            return DuplicateBrokerId(broker_id, None, -1)
        endpoint = info.endpoints[0] if info.endpoints else None
        if info.host is None and endpoint is not None:
            return DuplicateBrokerId(broker_id, endpoint.host, endpoint.port)
        return DuplicateBrokerId(broker_id, info.host, info.port)


class BrokerWatcher:
    """Watches the list of live brokers and each registration."""

    def __init__(
        self, client: RegistryClient, on_change: Callable[[LiveBrokers], None], events: EventSource
    ) -> None:
        self._client = client
        self._on_change = on_change
        self._events = events
        self._watchers: dict[int, DataWatcher] = {}
        self._entries: dict[int, tuple[BrokerInfo, int] | None] = {}  # None: deleted, invalid, or hidden
        self._to_watch: deque[int] = deque()
        self._is_watching_more = False
        self._reported: LiveBrokers | None = None
        self._children = ChildrenWatcher(client, znodes.BROKER_IDS, self._listed, events)

    def close(self) -> None:
        self._children.close()
        self._to_watch.clear()
        for watcher in self._watchers.values():
            watcher.close()
        self._watchers.clear()

    def _listed(self, names: list[str]) -> None:
        ids = set(_broker_ids(names))
        for broker_id in sorted(self._watchers.keys() - ids):
            self._watchers.pop(broker_id).close()
            self._entries.pop(broker_id, None)
        self._to_watch = deque(sorted(ids - self._watchers.keys()))
        self._watch_more()
        self._report()

    def _watch_more(self) -> None:
        """Read and watch the brokers in ``_to_watch``, READ_AT_ONCE at a time."""
        if self._is_watching_more:
            return
        self._is_watching_more = True
        while self._to_watch and len(self._watchers) < len(self._entries) + READ_AT_ONCE:
            broker_id = self._to_watch.popleft()
            self._watchers[broker_id] = DataWatcher(
                self._client,
                znodes.broker_path(broker_id),
                partial(self._registration_read, broker_id),
                self._events,
                on_hidden=partial(self._registration_read, broker_id, None, None),
            )
        self._is_watching_more = False

    def _registration_read(self, broker_id: int, data: bytes | None, stat: ZnodeStat | None) -> None:
        self._entries[broker_id] = None if stat is None else _decode(broker_id, data, stat)
        self._watch_more()
        self._report()

    def _report(self) -> None:
        if self._to_watch or len(self._entries) != len(self._watchers):
            return  # some reads are still in progress
        live = {broker_id: entry for broker_id, entry in sorted(self._entries.items()) if entry is not None}
        if live != self._reported:
            self._reported = live
            self._on_change(dict(live))


def _broker_ids(names: list[str]) -> list[int]:
    numbers = (number_of(name, range(2**31)) for name in names)
    return sorted(number for number in numbers if number is not None)


def _decode(broker_id: int, data: bytes | None, stat: ZnodeStat) -> tuple[BrokerInfo, int] | None:
    try:
        return znodes.decode(broker_id, data), stat.czxid
    except InvalidZnode as error:
        _log.warn("a broker's registration is ignored: {error}", error=error)
        return None

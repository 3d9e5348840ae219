"""The partitions that one member owns in ZooKeeper, and all writes that need their tokens.

Each commit needs the token left by the previous write, so the commits and releases of one member run one after another;
the operations of each are pipelined. A write applies only to the ownership under which it was requested, never to a
later one of the same partition. After ``forget``, responses of the old session change nothing.
"""

from collections.abc import Callable, Collection, Mapping

from twisted.internet.defer import DeferredLock

from kafka_zk.base.events import EventSource
from kafka_zk.base.types import TopicPartition
from kafka_zk.registry.client.client import EventType, RegistryClient
from kafka_zk.registry.client.errors import SessionLost
from kafka_zk.registry.offsets import NOT_THE_OWNER, Commit, OffsetRefused, OffsetRegistry
from kafka_zk.registry.owners import Claim, Claimed, OwnerRegistry, Release, Taken

IN_DOUBT = OffsetRefused("the session is not certain to be alive")

Offsets = Mapping[TopicPartition, int]


class _Held:
    """``token``: required by the next write."""

    __slots__ = ("token",)

    def __init__(self, token: int) -> None:
        self.token = token


class Ownership:
    """One member's owned partitions and their tokens; see the module docstring."""

    def __init__(self, client: RegistryClient, group: str, source: EventSource) -> None:
        self.owners = OwnerRegistry(client, group, source)
        self._offsets = OffsetRegistry(client, group)
        self._held: dict[TopicPartition, _Held] = {}
        self._writing = DeferredLock()

    def forget(self) -> None:
        """Forget all partitions. From now on, responses to earlier requests change nothing."""
        self._held = {}

    def drop(self, partitions: frozenset[TopicPartition]) -> None:
        for tp in partitions:
            self._held.pop(tp, None)

    async def claim(
        self, threads: Mapping[TopicPartition, str], on_gone: Callable[[TopicPartition], None]
    ) -> Mapping[TopicPartition, Claimed | Taken]:
        """Claim partitions; for a Taken one, ``on_gone`` is called when its owner znode is deleted. Raises:
        SessionLost.
        """
        held = self._held
        outcomes = await self.owners.claim((Claim(tp, thread) for tp, thread in threads.items()), on_gone)
        held.update({tp: _Held(outcome.token) for tp, outcome in outcomes.items() if isinstance(outcome, Claimed)})
        return outcomes

    async def watch(
        self,
        on_change: Callable[[TopicPartition, EventType], None],
        partitions: Collection[TopicPartition] | None = None,
    ) -> frozenset[TopicPartition]:
        """Watch the owner znodes of ``partitions`` (None: all owned); returns those that are no longer ours.

        ``on_change`` is called at most once per partition, if its znode changes or is deleted before the ownership
        ends; to see further changes, watch again.
        Raises: ConnectionLoss (watch all again when connected), SessionLost.
        """
        held = self._held
        watched = {tp: held[tp] for tp in (list(held) if partitions is None else partitions) if tp in held}

        def changed(tp: TopicPartition, change: EventType) -> None:
            if held.get(tp) is watched[tp]:
                on_change(tp, change)

        gone = await self.owners.watch_owned(watched, changed)
        return frozenset(tp for tp in gone if held.get(tp) is watched[tp])

    async def release(self, offsets: Mapping[TopicPartition, int | None]) -> dict[TopicPartition, bool]:
        """Offsets that are not None are committed first. False: no longer owned. Raises SessionLost."""
        await self._writing.acquire()
        try:
            owned = {tp: self._held.pop(tp) for tp in offsets if tp in self._held}
            outcomes = await self.owners.release({tp: Release(offsets[tp], held.token) for tp, held in owned.items()})
        finally:
            self._writing.release()
        return {tp: outcomes.get(tp, False) for tp in offsets}

    async def commit(self, offsets: Offsets, may_act: Callable[[], bool]) -> dict[TopicPartition, OffsetRefused | None]:
        """The outcome of each partition. None: written. IN_DOUBT: not tried. Any other OffsetRefused: not owned."""
        held = self._held
        asked = {tp: held[tp] for tp in offsets if tp in held}
        await self._writing.acquire()
        try:
            owned = {tp: each for tp, each in asked.items() if held.get(tp) is each}
            if not may_act():
                return {tp: IN_DOUBT if tp in owned else NOT_THE_OWNER for tp in offsets}
            settled = await self._offsets.commit({tp: Commit(offsets[tp], each.token) for tp, each in owned.items()})
        except SessionLost:
            return dict.fromkeys(offsets, NOT_THE_OWNER)
        finally:
            self._writing.release()
        outcomes: dict[TopicPartition, OffsetRefused | None] = dict.fromkeys(offsets, NOT_THE_OWNER)
        for tp, outcome in settled.items():
            if isinstance(outcome, OffsetRefused):
                outcomes[tp] = outcome
            else:
                outcomes[tp] = None
                owned[tp].token = outcome
        return outcomes

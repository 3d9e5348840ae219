"""Kafka's old consumer on the in-memory ZooKeeper, reduced to what other members can observe. It has no fence and no
lease.

It deletes owner znodes without checking their owner and commits without checking a version. It attempts a rebalance
four times with pauses, and then owns nothing until the next event. It knows only the range strategy. Source:
ZookeeperConsumerConnector.scala@0.10.2 (syncedRebalance, rebalance, reflectPartitionOwnershipDecision).
"""

from contextlib import suppress
from typing import Protocol

from twisted.internet.defer import Deferred, ensureDeferred

from kafka_zk.base.types import TopicPartition
from kafka_zk.rebalance.assignment import consumer_of, group_snapshot
from kafka_zk.rebalance.range import RangeAssignor
from kafka_zk.registry.client.client import Create, SessionState
from kafka_zk.registry.client.errors import NodeExists, NoNode, RegistryError
from kafka_zk.registry.client.pipeline import create_with_parents, ensure_paths
from kafka_zk.registry.client.watches import ChildrenWatcher
from kafka_zk.registry.consumers import ConsumerRegistry
from kafka_zk.registry.offsets import OffsetRegistry
from kafka_zk.registry.topics import TopicRegistry
from kafka_zk.registry.znodes import consumers as znodes
from kafka_zk.registry.znodes.brokers import BROKER_IDS
from kafka_zk.registry.znodes.consumers import ConsumerRegistration
from kafka_zk.sim.judges.zookeeper_group import Fact, Kind
from kafka_zk.sim.machine.scheduler import Scheduler
from kafka_zk.sim.zookeeper.zookeeper import SimZooKeeper

GROUP = "g"
RETRIES = 4
BACKOFF_S = 2.0
TICK_S = 0.1
COMMIT_EVERY_TICKS = 5


class Surroundings(Protocol):
    """What an old consumer shares with the other members of its group (``world.Group``)."""

    zookeeper: SimZooKeeper
    scheduler: Scheduler
    session_timeout_ms: int
    log_ends: dict[TopicPartition, int]
    facts: list[Fact]


class OldConsumer:
    """Joins the group when it is constructed. It re-registers and rebalances by itself after a lost session."""

    def __init__(self, group: Surroundings, name: str) -> None:
        self.group = group
        self.name = name
        self.consumer_id = f"old_{name}"
        self.client = group.zookeeper.client(self.consumer_id, session_timeout_ms=group.session_timeout_ms)
        self.registration = ConsumerRegistration({tp.topic: 1 for tp in group.log_ends})
        self.positions: dict[TopicPartition, int] = {}
        self.alive = True
        self._owned: set[TopicPartition] = set()
        self._pending = False
        self._working = False
        self._ticks = 0
        self.client.add_session_listener(self._session_changed)
        ensureDeferred(self._join())
        self._tick()

    def kill(self) -> None:
        self.alive = False
        self.client.pause()

    def leave(self) -> "Deferred[None]":
        self.alive = False
        self.positions.clear()
        return self.client.close()

    async def _join(self) -> None:
        path = znodes.id_path(GROUP, self.consumer_id)
        try:
            await ensure_paths(self.client, [path.rpartition("/")[0]])
            await self.client.create(path, znodes.encode_registration(self.registration), ephemeral=True)
        except NodeExists:
            pass
        except RegistryError:
            return  # the next connection tries again
        self._watcher = ChildrenWatcher(self.client, znodes.ids_path(GROUP), lambda names: self._event())
        self._brokers = ChildrenWatcher(self.client, BROKER_IDS, lambda names: None)
        self._event()

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.LOST:
            self._owned.clear()
        elif state is SessionState.CONNECTED and self.alive:
            ensureDeferred(self._join())

    def _event(self) -> None:
        self._pending = True
        if not self._working and self.alive:
            self._working = True
            ensureDeferred(self._synced_rebalance())

    async def _synced_rebalance(self) -> None:
        while self._pending and self.alive:
            self._pending = False
            for _ in range(RETRIES):
                try:
                    if await self._rebalance():
                        break
                except RegistryError:
                    pass
                self.positions.clear()
                pause: Deferred[None] = Deferred()
                self.group.scheduler.clock.callLater(BACKOFF_S, pause.callback, None)
                await pause
        self._working = False

    async def _rebalance(self) -> bool:
        offsets = OffsetRegistry(self.client, GROUP)
        final, self.positions = dict(self.positions), {}
        await offsets.store(final)
        for tp in sorted(self._owned):
            with suppress(NoNode):
                await self.client.delete(znodes.owner_path(GROUP, *tp))
        self._owned.clear()
        members = await ConsumerRegistry(self.client, GROUP).members()
        topics = await TopicRegistry(self.client).assignments(self.registration.subscription)
        snapshot = group_snapshot(
            {name: member.registration for name, member in members.items()},
            {topic: sorted(assignment.partitions) for topic, assignment in topics.items()},
        )
        assignment = RangeAssignor().assign(snapshot)
        mine = {tp: thread for tp, thread in assignment.items() if consumer_of(thread) == self.consumer_id}
        stored = await offsets.fetch(mine)
        claimed: list[TopicPartition] = []
        for tp, thread in mine.items():
            path = znodes.owner_path(GROUP, *tp)
            try:
                await create_with_parents(self.client, Create(path, thread.encode(), ephemeral=True))
                claimed.append(tp)
            except NodeExists:
                continue
        if len(claimed) < len(mine):
            for tp in claimed:
                await self.client.delete(znodes.owner_path(GROUP, *tp))
            return False
        self._owned = set(mine)
        self.positions = {tp: max(0, stored[tp].offset) if tp in stored else 0 for tp in mine}
        return True

    def _tick(self) -> None:
        if not self.alive:
            return
        self._ticks += 1
        for tp in sorted(self.positions):
            while self.positions[tp] < self.group.log_ends[tp]:
                self.group.facts.append(
                    Fact(self.group.scheduler.now_ms, self.consumer_id, Kind.HANDED_OUT, tp, self.positions[tp])
                )
                self.positions[tp] += 1
        if self._ticks % COMMIT_EVERY_TICKS == 0 and self.positions and self.client.state is SessionState.CONNECTED:
            committing = ensureDeferred(OffsetRegistry(self.client, GROUP).store(dict(self.positions)))
            committing.addErrback(lambda failure: failure.trap(RegistryError) and None)
        self.group.scheduler.clock.callLater(TICK_S, self._tick)

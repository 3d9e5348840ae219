"""The targets of faults: a run's world, its brokers, and its group members by name."""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from random import Random

from kafka_zk.base.events import Event
from kafka_zk.base.types import TopicPartition
from kafka_zk.registry.client.errors import RegistryError
from kafka_zk.registry.znodes import consumers as znodes
from kafka_zk.sim.world.clients import GROUP, SimGroupMember
from kafka_zk.sim.world.history import Happened, History, Lifted
from kafka_zk.sim.world.world import SimBroker, World
from kafka_zk.sim.zookeeper.client import SimClient


class Targets(ABC):
    """``history`` and ``listeners`` receive every event of the product. ``random``: the faults' random source."""

    _tool: SimClient
    """The ZooKeeper client of an admin tool, created when the run begins."""

    def __init__(self, seed: int) -> None:
        self.history = History()
        self.world = World(seed, self._observed)
        self.random = Random(f"{seed} faults")
        self.members: dict[str, SimGroupMember] = {}
        self.listeners: list[Callable[[Event], None]] = []
        self._faulty: dict[tuple[str, tuple[str, ...], int], None] = {}
        self._peaceful = False

    @abstractmethod
    def _join(self, name: str) -> None:
        """Start a member of this name."""

    @abstractmethod
    def _consumed(self) -> list[TopicPartition]:
        """The partitions that the groups consume, sorted."""

    def broker(self, name: str) -> SimBroker:
        return self.world.brokers[int(name.rpartition("-")[2])]

    def hosts(self) -> list[str]:
        return [broker.name for broker in self.world.brokers.values()] + list(self.members)

    def client_of(self, name: str) -> SimClient | None:
        """The ZooKeeper client of a live broker or member; None if it is not alive."""
        if name in self.members:
            member = self.members[name]
            return None if member.is_over else member.client
        broker = self.broker(name)
        return broker.client if broker.is_alive else None

    def broker_starter(self, name: str) -> Callable[[], None]:
        def start() -> None:
            broker = self.broker(name)
            if not broker.is_alive:
                self.note(f"start {name}")
                broker.start()

        return start

    def disk_fault(self, folder: str, operations: tuple[str, ...], number: int) -> Callable[[], None]:
        self._faulty[folder, operations, number] = None

        def heal() -> None:
            self._faulty.pop((folder, operations, number), None)

        return heal

    def kill_member(self, name: str) -> None:
        if name in self.members:
            self.members[name].kill()

    def leave(self, name: str) -> None:
        member = self.members.get(name)
        if member is not None and not member.is_over and not member.process.is_paused:
            member.close().addErrback(self.world.failed)

    def replace_member(self, name: str) -> None:
        """If the member of this name has ended, start a new process with the name."""
        member = self.members.get(name)
        if member is not None and member.is_over:
            member.kill()
            self.world.graves.append(member)
            self._join(name)

    def owned(self, name: str) -> list[TopicPartition]:
        """The partitions that a member of the ZooKeeper group has claimed, sorted."""
        tree = self.world.zookeeper.tree
        owners = {tp: znodes.owner_path(GROUP, *tp) for tp in self._consumed()}
        return [
            tp
            for tp, path in owners.items()
            if tree.exists(path) is not None and (tree.get(path)[0] or b"").decode().startswith(f"{GROUP}_{name}-")
        ]

    def delete_znode(self, path: str) -> None:
        self._tool.delete(path).addErrback(lambda failure: failure.trap(RegistryError))

    def later(self, delay_s: float, act: Callable[[], object]) -> None:
        self.world.scheduler.clock.callLater(delay_s, lambda: None if self._peaceful else act())

    def note(self, text: str) -> None:
        self.history.add(Happened(self.world.now_ms, text))

    def _disk_fault(self, operation: str, path: str) -> OSError | None:
        for folder, operations, number in self._faulty:
            if operation in operations and path.startswith(folder):
                return OSError(number, os.strerror(number), path)
        return None

    def _observed(self, event: Event) -> None:
        self.history.add(Lifted(self.world.now_ms, event.actor, event))
        for listener in list(self.listeners):
            listener(event)

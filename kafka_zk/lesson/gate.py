"""Between ZooKeeper and the members of a lesson: every watch that fires is told, and waits until it may.

A watch that waits holds up its member's news of the change, nothing else: sessions go on.
"""

import queue
import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple

from kafka_zk.registry.client import EventType, RegistryClient, Watch, WatchedEvent, ZnodeStat
from kafka_zk.registry.counted_client import CountedClient

_STEP_S = 0.05


class Fire(NamedTuple):
    """A watch of a member that fires."""

    member: str
    event: WatchedEvent
    deliver: Callable[[], None]


class Gate:
    """Told on the reactor's thread, opened on the lesson's.

    Args:
        open_one: called for each fire, on the lesson's thread; returns when it may be passed on.
        call_on_reactor: runs a function on the reactor's thread.
    """

    def __init__(
        self, open_one: Callable[[Fire], None], call_on_reactor: Callable[[Callable[[], None]], None]
    ) -> None:
        self._open_one = open_one
        self._call_on_reactor = call_on_reactor
        self._waiting: queue.SimpleQueue[Fire] = queue.SimpleQueue()
        self.closed = True
        """While it is closed, fires wait for ``open_until``; else they pass unseen."""

    def arrived(self, fire: Fire) -> None:
        """A watch fires."""
        if self.closed and fire.event.type is not EventType.NONE:
            self._waiting.put(fire)
        else:
            fire.deliver()

    def open_until(self, done: Callable[[], bool], deadline_s: float) -> bool:
        """Pass on fire after fire until ``done()`` holds and none waits; False if the monotonic clock was faster."""
        while True:
            try:
                fire = self._waiting.get(timeout=_STEP_S)
            except queue.Empty:
                if done():
                    return True
                if time.monotonic() > deadline_s:
                    return False
            else:
                self._open_one(fire)
                self._call_on_reactor(fire.deliver)


class GatedClient(CountedClient):
    """A client whose watches go through a gate."""

    def __init__(self, client: RegistryClient, member: str, gate: Gate) -> None:
        super().__init__(client)
        self._member = member
        self._gate = gate

    def get(self, path: str, watch: Watch | None = None) -> Awaitable[tuple[bytes | None, ZnodeStat]]:
        return super().get(path, self._held(watch))

    def exists(self, path: str, watch: Watch | None = None) -> Awaitable[ZnodeStat | None]:
        return super().exists(path, self._held(watch))

    def children(self, path: str, watch: Watch | None = None) -> Awaitable[tuple[list[str], ZnodeStat]]:
        return super().children(path, self._held(watch))

    def _held(self, watch: Watch | None) -> Watch | None:
        if watch is None:
            return None
        passed_on = watch
        return lambda event: self._gate.arrived(Fire(self._member, event, partial(passed_on, event)))

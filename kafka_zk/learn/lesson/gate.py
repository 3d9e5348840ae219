"""A gate between ZooKeeper and the members of a lesson, which shows every watch that fires and then delays it.

A delayed watch delays only its member's notification; sessions stay alive. The lesson's clock stops during the delay.
"""

import queue
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from twisted.internet.defer import Deferred

from kafka_zk.base.clock import Timers
from kafka_zk.base.events import Observe, ignore
from kafka_zk.clients.connection.waiting import run
from kafka_zk.learn.lesson.clock import LessonClock
from kafka_zk.registry.client.client import EventType, Operation, RegistryClient, Watch, WatchedEvent, ZnodeStat

T = TypeVar("T")

_TOGETHER_S = 0.05
"""Fires within this time are shown together: one change reaches several members."""


class Fire(NamedTuple):
    member: str
    event: WatchedEvent
    deliver: Callable[[], None]


class Gate:
    """``arrived`` runs on the reactor thread, ``open_until`` on the lesson's thread.

    Args:
        tell: called on the lesson's thread with simultaneous fires; returns when they may be delivered.
        call_on_reactor: runs a function on the reactor thread.
        clock: stopped from the arrival of a fire until its delivery.
    """

    def __init__(
        self,
        tell: Callable[[list[Fire]], None],
        call_on_reactor: Callable[[Callable[[], None]], None],
        clock: LessonClock,
    ) -> None:
        self._tell = tell
        self._call_on_reactor = call_on_reactor
        self.clock = clock
        self._waiting: queue.SimpleQueue[Fire] = queue.SimpleQueue()
        self.observe: Observe = ignore
        """Called on the reactor thread with each event of a member, which has a wall-clock time."""
        self.closed = True
        """True: fires wait for ``open_until``. False: they pass unshown."""
        self.delay_s = 0.0
        """Additional delay of ZooKeeper's messages to members."""

    def arrived(self, fire: Fire) -> None:
        if self.closed and fire.event.type is not EventType.NONE:
            self.clock.hold()
            self._waiting.put(fire)
        else:
            fire.deliver()

    def open_until(self, done: Callable[[], bool], deadline_s: float) -> bool:
        """Deliver fires until ``done()`` is true and no fire waits; False if the monotonic deadline passes first."""
        while True:
            fires = list(self._come_together())
            if fires:
                try:
                    self._tell(fires)
                finally:
                    self._pass_on(fires)
            elif done():
                return True
            elif time.monotonic() > deadline_s:
                return False

    def release(self) -> None:
        while not self._waiting.empty():
            self._pass_on([self._waiting.get()])

    def _come_together(self) -> Iterator[Fire]:
        while True:
            try:
                yield self._waiting.get(timeout=_TOGETHER_S)
            except queue.Empty:
                return

    def _pass_on(self, fires: list[Fire]) -> None:
        def deliver() -> None:
            for fire in fires:
                self.clock.resume()
                fire.deliver()

        self._call_on_reactor(deliver)


class GatedClient:
    """Watches pass a gate, and ZooKeeper can appear slow.

    If ``gate.delay_s`` is not 0, every response and watch is delayed by that time.

    Args:
        clock: the reactor on which the client runs.
    """

    def __init__(self, client: RegistryClient, member: str, gate: Gate, clock: Timers) -> None:
        self._client = client
        self._member = member
        self._gate = gate
        self._clock = clock

    def __getattr__(self, name: str) -> Any:
        """All other methods are the client's own, neither held nor delayed."""
        return getattr(self._client, name)

    def get(self, path: str, watch: Watch | None = None) -> Awaitable[tuple[bytes | None, ZnodeStat]]:
        return self._late(self._client.get(path, self._held(watch)))

    def exists(self, path: str, watch: Watch | None = None) -> Awaitable[ZnodeStat | None]:
        return self._late(self._client.exists(path, self._held(watch)))

    def children(self, path: str, watch: Watch | None = None) -> Awaitable[tuple[list[str], ZnodeStat]]:
        return self._late(self._client.children(path, self._held(watch)))

    def create(
        self, path: str, data: bytes | None = None, *, ephemeral: bool = False, sequential: bool = False
    ) -> Awaitable[str]:
        return self._late(self._client.create(path, data, ephemeral=ephemeral, sequential=sequential))

    def set(self, path: str, data: bytes, version: int = -1) -> Awaitable[ZnodeStat]:
        return self._late(self._client.set(path, data, version))

    def delete(self, path: str, version: int = -1) -> Awaitable[None]:
        return self._late(self._client.delete(path, version))

    def multi(self, operations: Sequence[Operation]) -> Awaitable[list[str | ZnodeStat | None]]:
        return self._late(self._client.multi(operations))

    def _late(self, answer: Awaitable[T]) -> Awaitable[T]:
        if not self._gate.delay_s:
            return answer
        late: Deferred[T] = Deferred()

        async def wait() -> None:
            try:
                result = await answer
            except Exception as error:
                self._clock.callLater(self._gate.delay_s, late.errback, error)
            else:
                self._clock.callLater(self._gate.delay_s, late.callback, result)

        run(wait())
        return late

    def _held(self, watch: Watch | None) -> Watch | None:
        if watch is None:
            return None
        passed_on = watch

        def fired(event: WatchedEvent) -> None:
            fire = Fire(self._member, event, partial(passed_on, event))
            if self._gate.delay_s:
                self._clock.callLater(self._gate.delay_s, self._gate.arrived, fire)
            else:
                self._gate.arrived(fire)

        return fired

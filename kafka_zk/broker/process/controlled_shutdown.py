"""Moves leaderships away before a broker stops (ControlledShutdown), so that clients do not find a dead leader.

While some partitions have no other leader, the request is repeated: at most ``max_tries`` times, within ``max_tries``
times the backoff, and only while another broker is alive. The broker stops in any case. A new controller or broker
ends a pause early.

Source: KafkaServer.controlledShutdown@3.9.
"""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import TypeVar

from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.logger import Logger

from kafka_zk.base.clock import Timers
from kafka_zk.base.turns import after
from kafka_zk.base.types import TopicPartition

T = TypeVar("T")

_log = Logger()

LOOK_INTERVAL_S = 0.05


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The broker's view of the cluster: the controller's id (-1: none) and the live brokers."""

    controller_id: int
    live_broker_ids: frozenset[int]


class ControlledShutdown:
    """Call ``run`` once.

    Args:
        ask: asks this controller to move the leaderships, and returns those that remain.
    """

    def __init__(
        self,
        clock: Timers,
        broker_id: int,
        ask: Callable[[int], Awaitable[Collection[TopicPartition]]],
        view: Callable[[], ClusterView],
        max_tries: int,
        backoff_ms: int,
    ) -> None:
        self._clock = clock
        self._broker_id = broker_id
        self._ask = ask
        self._view = view
        self._max_tries = max_tries
        self._backoff_s = backoff_ms / 1000

    async def run(self) -> bool:
        """Returns True if all leaderships that another broker can take were moved."""
        deadline = self._clock.seconds() + self._max_tries * self._backoff_s
        for number in range(1, self._max_tries + 1):
            view = self._view()
            if await self._try(view, deadline):
                return True
            if not view.live_broker_ids - {self._broker_id}:
                return False
            if number < self._max_tries:
                await self._pause(view, deadline)
        _log.warn("stopping although not all leaderships were moved away")
        return False

    async def _try(self, view: ClusterView, deadline: float) -> bool:
        if view.controller_id < 0:
            return False
        try:
            remaining = await self._in_time(self._ask(view.controller_id), deadline)
        except Exception as error:  # the broker stops in any case
            _log.info("the controller did not move leaderships away: {error!r}", error=error)
            return False
        if remaining:
            _log.info("{count} partitions are still led by this broker", count=len(remaining))
        return not remaining

    async def _in_time(self, asked: Awaitable[T], deadline: float) -> T:
        async def answer() -> T:
            return await asked

        waiting: Deferred[T] = ensureDeferred(answer())
        timer = self._clock.callLater(max(0.0, deadline - self._clock.seconds()), waiting.cancel)
        try:
            return await waiting
        except CancelledError:
            raise TimeoutError("no response within the time limit") from None
        finally:
            if timer.active():
                timer.cancel()

    async def _pause(self, view: ClusterView, deadline: float) -> None:
        until = min(deadline, self._clock.seconds() + self._backoff_s)
        while self._clock.seconds() < until and self._view() == view:
            await after(self._clock, LOOK_INTERVAL_S)

"""A broker that stops has its leaderships moved away first (ControlledShutdown), so that no client meets a dead leader.

It asks the controller, again and again while the controller answers that some partitions have nobody else to lead them.
It gives up after ``max_tries``, when it is the last broker that lives, or when ``max_tries`` times the backoff are
over, whatever it waits for then: to stop matters more. A pause ends early when the controller or the live brokers
change.

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
    """What the broker knows of the others: who controls (-1: nobody), and whether anybody else lives."""

    controller_id: int
    live_broker_ids: frozenset[int]


class ControlledShutdown:
    """``run`` once.

    Args:
        ask: asks the controller of this id to move the leaderships away; the partitions that are left.
        view: the cluster now.
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
        """Whether everything was moved that another broker could lead."""
        deadline = self._clock.seconds() + self._max_tries * self._backoff_s
        for number in range(1, self._max_tries + 1):
            view = self._view()
            if await self._try(view, deadline):
                return True
            if not view.live_broker_ids - {self._broker_id}:
                return False  # nobody is there to take over
            if number < self._max_tries:
                await self._pause(view, deadline)
        _log.warn("stopping although not all leaderships were moved away")
        return False

    async def _try(self, view: ClusterView, deadline: float) -> bool:
        if view.controller_id < 0:
            return False
        try:
            remaining = await self._in_time(self._ask(view.controller_id), deadline)
        except Exception as error:  # whatever it was, the broker stops
            _log.info("the controller did not move leaderships away: {error!r}", error=error)
            return False
        if remaining:
            _log.info("{count} partitions have nobody else to lead them now", count=len(remaining))
        return not remaining

    async def _in_time(self, asked: Awaitable[T], deadline: float) -> T:
        async def answer() -> T:
            return await asked

        waiting: Deferred[T] = ensureDeferred(answer())
        timer = self._clock.callLater(max(0.0, deadline - self._clock.seconds()), waiting.cancel)
        try:
            return await waiting
        except CancelledError:
            raise TimeoutError("no answer in time") from None
        finally:
            if timer.active():
                timer.cancel()

    async def _pause(self, view: ClusterView, deadline: float) -> None:
        until = min(deadline, self._clock.seconds() + self._backoff_s)
        while self._clock.seconds() < until and self._view() == view:
            await after(self._clock, LOOK_INTERVAL_S)

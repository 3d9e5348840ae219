"""Helpers for Deferreds."""

from collections.abc import Coroutine
from typing import Any, TypeVar

from twisted.internet.defer import Deferred

from kafka_zk.registry.client.session import fires_within

T = TypeVar("T")

Reactor = Any
"""IReactorTime, IReactorTCP and, for the blocking facades, IReactorThreads."""

_ROUNDING_MS = 1e-6


def sleep(reactor: Reactor, delay_s: float) -> Deferred[None]:
    """``delay_s`` 0 waits for the next reactor turn."""
    waiting: Deferred[None] = Deferred(lambda _: call.cancel())
    call = reactor.callLater(max(0.0, delay_s), waiting.callback, None)
    return waiting


def now_ms(reactor: Reactor) -> int:
    """The reactor's clock in whole milliseconds. A timer for a millisecond never runs before this clock shows it."""
    return int(reactor.seconds() * 1000 + _ROUNDING_MS)  # 1.007 s are 1006.9999999999999 ms


def run(coroutine: Coroutine[Any, Any, T]) -> Deferred[T]:
    return Deferred.fromCoroutine(coroutine)


class Signal:
    """An event that can happen more than once."""

    def __init__(self, reactor: Reactor) -> None:
        self._reactor = reactor
        self._waiting: list[Deferred[None]] = []

    def fire(self) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            each.callback(None)

    def wait(self) -> Deferred[None]:
        waiting: Deferred[None] = Deferred(self._forget)
        self._waiting.append(waiting)
        return waiting

    async def wait_until(self, deadline_s: float) -> bool:
        """True if the event happened before the deadline, a time of the reactor's clock; else False."""
        return await fires_within(self._reactor, self.wait(), deadline_s - self._reactor.seconds())

    def _forget(self, waiting: "Deferred[None]") -> None:
        if waiting in self._waiting:
            self._waiting.remove(waiting)

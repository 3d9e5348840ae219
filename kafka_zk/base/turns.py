"""Divides long work on the reactor thread into slices, so that other requests wait for at most one slice.

Work for one request ends when its connection closes (``Turns``, ``in_turns``). Other work always finishes
(``in_slices``).
"""

from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

from twisted.internet.defer import Deferred

from kafka_zk.base.client_gone import ClientGone
from kafka_zk.base.clock import Timers

T = TypeVar("T")

SLICE_S = 0.003
TURN_COST = 64 * 1024
AT_ONCE = 32
"""Number of operations, of a few microseconds each, between two checks of whether the turn is over."""


def after(clock: Timers, seconds: float) -> Deferred[None]:
    """Fires after ``seconds``; 0 means in the reactor's next turn."""
    waiting: Deferred[None] = Deferred()
    clock.callLater(seconds, waiting.callback, None)
    return waiting


async def in_slices(clock: Timers, steps: Iterable[T]) -> list[T]:
    """Iterate ``steps``, which do the work, and return their values.

    After each SLICE_S the reactor runs other work, so state may change between two steps. ``clock`` is the reactor.
    """
    results: list[T] = []
    end_s = clock.seconds() + SLICE_S
    for result in steps:
        results.append(result)
        if clock.seconds() >= end_s:
            await after(clock, 0)
            end_s = clock.seconds() + SLICE_S
    return results


class ClientWait(Deferred[T]):
    """A Deferred that a request awaits, with methods for the request's connection."""

    @property
    def kept_bytes(self) -> int | None:
        """Bytes that the waiting request holds; None if its connection must not start the next request yet."""
        return None

    def abandon(self) -> None:
        """The connection closed: end the request without a response. Raises ClientGone in the handler."""
        if not self.called:
            self.errback(ClientGone())

    def expire_early(self) -> None:
        """End the wait as its timeout would, because other requests need this request's memory. No effect in this
        class.
        """


def pause(clock: Timers, seconds: float) -> ClientWait[None]:
    """Wait for ``seconds``. Raises ClientGone as soon as the client disconnects."""
    waiting: ClientWait[None] = ClientWait()
    call = clock.callLater(seconds, waiting.callback, None)

    def over(result: Any) -> Any:
        if call.active():
            call.cancel()
        return result

    waiting.addBoth(over)
    return waiting


class Turns:
    """Yields to other requests after SLICE_S, or after TURN_COST bytes that the handler copied, compressed or scanned.

    One instance serves one request. ``clock``: the reactor. ``ignores_disconnect``: finish the request even if its
    client disconnects.
    """

    def __init__(self, clock: Timers, *, ignores_disconnect: bool = False) -> None:
        self._clock = clock
        self._ignores_disconnect = ignores_disconnect
        self._cost_left = TURN_COST
        self._end_s = clock.seconds() + SLICE_S

    @property
    def is_over(self) -> bool:
        """True if the request should await ``next`` now."""
        return self._cost_left <= 0 or bool(self._clock.seconds() >= self._end_s)

    async def next(self) -> None:
        """Wait for the next turn. Raises ClientGone if the client disconnects, unless ``ignores_disconnect``."""
        await (after(self._clock, 0) if self._ignores_disconnect else pause(self._clock, 0))
        self._cost_left = TURN_COST
        self._end_s = self._clock.seconds() + SLICE_S

    async def spend(self, cost: int) -> None:
        """Charge ``cost`` bytes for the work that follows; first wait if the turn is over. Raises like ``next``."""
        if self.is_over:
            await self.next()
        self._cost_left -= cost


async def run_in_turns(clock: Timers, steps: Iterable[int]) -> Any:
    """Run ``steps`` to the end, even if the client disconnects. Each step yields its cost (see ``Turns``).

    Returns the return value of the generator.
    """
    turns = Turns(clock, ignores_disconnect=True)
    remaining = iter(steps)
    while True:
        try:
            cost = next(remaining)
        except StopIteration as end:
            return end.value
        await turns.spend(cost)
        if turns.is_over:
            await turns.next()


class in_turns(Generic[T]):
    """``async for item in in_turns(clock, items)`` yields to other work between two items after each SLICE_S.

    Raises ClientGone in the loop if the request's connection closes before the loop ends.
    """

    def __init__(self, clock: Timers, items: Iterable[T]) -> None:
        self._items: Iterator[T] = iter(items)
        self._turns = Turns(clock)

    def __aiter__(self) -> "in_turns[T]":
        return self

    async def __anext__(self) -> T:
        if self._turns.is_over:
            await self._turns.next()
        try:
            return next(self._items)
        except StopIteration:
            raise StopAsyncIteration from None

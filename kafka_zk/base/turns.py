"""Long work on the reactor thread in slices, so that nobody else waits longer than for one of them.

What is done for a request, and for nobody else, stops when its connection is over (``Turns``, ``in_turns``); what
others rely on is finished (``in_slices``).

Tests: tests/kafka_zk/base/test_turns.py.
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
"""So many small things, of some microseconds each, are done before it is looked whether the turn is over."""


def after(clock: Timers, seconds: float) -> Deferred[None]:
    """Fires after a time, with 0 in the reactor's next turn."""
    waiting: Deferred[None] = Deferred()
    clock.callLater(seconds, waiting.callback, None)
    return waiting


async def in_slices(clock: Timers, steps: Iterable[T]) -> list[T]:
    """Go through ``steps``, which do the work, and return what they gave.

    After each SLICE_S others get their turn: between two steps anything may happen. ``clock`` is the reactor.
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
    """A Deferred that a request awaits, with the operations that its connection needs while it waits."""

    @property
    def kept_bytes(self) -> int | None:
        """The memory that the request still holds if its connection may begin the next request now, else None."""
        return None

    def abandon(self) -> None:
        """End the request without a response, because its connection is lost. Raises ClientGone in the handler."""
        if not self.called:
            self.errback(ClientGone())

    def expire_early(self) -> None:
        """End the wait as its timeout would, because other requests need this request's memory. Does nothing here."""


def pause(clock: Timers, seconds: float) -> ClientWait[None]:
    """Fires after a time, at once if the client goes."""
    waiting: ClientWait[None] = ClientWait()
    call = clock.callLater(seconds, waiting.callback, None)

    def over(result: Any) -> Any:
        if call.active():
            call.cancel()
        return result

    waiting.addBoth(over)
    return waiting


class Turns:
    """Gives others their turn when a request has worked for SLICE_S, or for TURN_COST as its handler counts: bytes that
    are copied, compressed or looked through. For one request; ``clock`` is the reactor.

    ``goes_on``: the request is carried out even if its client goes.
    """

    def __init__(self, clock: Timers, *, goes_on: bool = False) -> None:
        self._clock = clock
        self._goes_on = goes_on
        self._cost_left = TURN_COST
        self._end_s = clock.seconds() + SLICE_S

    @property
    def is_over(self) -> bool:
        """Whether others should have their turn now: await ``next``."""
        return self._cost_left <= 0 or bool(self._clock.seconds() >= self._end_s)

    async def next(self) -> None:
        """Wait for the next turn. Raises: ClientGone if the client goes meanwhile, unless ``goes_on``."""
        await (after(self._clock, 0) if self._goes_on else pause(self._clock, 0))
        self._cost_left = TURN_COST
        self._end_s = self._clock.seconds() + SLICE_S

    async def spend(self, cost: int) -> None:
        """Say what is done next. Raises as ``next``."""
        if self.is_over:
            await self.next()
        self._cost_left -= cost


async def worked_off(clock: Timers, steps: Iterable[int]) -> Any:
    """Go through ``steps``, which do the work and give what each has cost (see ``Turns``); to the end, whoever goes.

    Returns what a generator returns.
    """
    turns = Turns(clock, goes_on=True)
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
    """``async for item in in_turns(clock, items)``: others have their turn between two items after each SLICE_S.

    Raises ClientGone out of the loop if the connection of the request ends meanwhile.
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

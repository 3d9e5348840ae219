"""Runs a request's ZooKeeper operations for many topics concurrently instead of one round trip after another."""

from collections.abc import Coroutine, Iterable
from itertools import islice
from typing import Any, TypeVar

from twisted.internet.defer import ensureDeferred

from kafka_zk.base.clock import Timers
from kafka_zk.base.turns import Turns
from kafka_zk.broker.handlers.error_map import EXPECTED

T = TypeVar("T")

AT_ONCE = 200


async def side_by_side(clock: Timers, work: Iterable[Coroutine[Any, Any, T]]) -> list[T | Exception]:
    """The results of ``work``, in order; an exception in EXPECTED counts as a result. At most AT_ONCE coroutines run at
    a time, and other requests get their turn between them."""
    turns = Turns(clock, ignores_disconnect=True)
    outcomes: list[T | Exception] = []
    remaining = iter(work)
    while begun := [ensureDeferred(one) for one in islice(remaining, AT_ONCE)]:
        for under_way in begun:
            try:
                outcomes.append(await under_way)
            except EXPECTED as error:
                outcomes.append(error.with_traceback(None))  # 40,000 tracebacks would keep 40,000 frames
        if turns.is_over:
            await turns.next()
    return outcomes

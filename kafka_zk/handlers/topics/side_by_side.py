"""Many topics of one request: their ZooKeeper operations are under way together, not one round trip after another."""

from collections.abc import Coroutine, Sequence
from typing import Any, TypeVar

from twisted.internet.defer import ensureDeferred

from kafka_zk.handlers.error_map import EXPECTED

T = TypeVar("T")

AT_ONCE = 200


async def side_by_side(work: Sequence[Coroutine[Any, Any, T]]) -> list[T | Exception]:
    """The results in order; where a coroutine raised one of EXPECTED, that exception."""
    outcomes: list[T | Exception] = []
    for first in range(0, len(work), AT_ONCE):
        for under_way in [ensureDeferred(one) for one in work[first : first + AT_ONCE]]:
            try:
                outcomes.append(await under_way)
            except EXPECTED as error:
                outcomes.append(error)
    return outcomes

"""Long work on the reactor thread in slices, so that nobody else waits longer than for one of them.

Tests: tests/kafka_zk/test_slices.py.
"""

from collections.abc import Iterable
from typing import Any, TypeVar

from twisted.internet.task import deferLater

T = TypeVar("T")

SLICE_S = 0.003


async def in_slices(clock: Any, steps: Iterable[T]) -> list[T]:
    """Go through ``steps``, which do the work, and return what they gave.

    After each SLICE_S others get their turn: between two steps anything may happen. ``clock`` is the reactor.
    """
    results: list[T] = []
    end_s = clock.seconds() + SLICE_S
    for result in steps:
        results.append(result)
        if clock.seconds() >= end_s:
            await deferLater(clock, 0)
            end_s = clock.seconds() + SLICE_S
    return results

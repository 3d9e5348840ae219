"""Decodes and encodes long messages in turns, with memory from the broker's budget.

Tests: tests/fuzz/test_request_attacks.py.
"""

from collections.abc import Generator
from typing import TypeVar

from kafka_zk.base.clock import Timers
from kafka_zk.base.turns import Turns
from kafka_zk.protocol.request import RequestContext

LARGE_BODY_BYTES = 16 * 1024
"""Larger requests are decoded in turns; smaller ones fit in a single turn."""

_RESERVE_AT_ONCE_BYTES = 64 * 1024

T = TypeVar("T")


async def coded_in_turns(clock: Timers, context: RequestContext, steps: Generator[int, None, T]) -> T:
    """Run ``steps``, which yield the number of bytes that they need or have used.

    Raises: ProtocolError; ClientGone.
    """
    turns = Turns(clock)
    needed_bytes = 0
    while True:
        try:
            needed_bytes += next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        if needed_bytes >= _RESERVE_AT_ONCE_BYTES:
            await context.memory.reserve(needed_bytes)
            needed_bytes = 0
        if turns.is_over:
            await turns.next()

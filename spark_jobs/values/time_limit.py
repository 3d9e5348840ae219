"""Bounds the processor time of a piece of work, also inside ``re``.

The limit is processor time, so that a busy machine does not change the result.
"""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class TimeLimitReached(Exception):
    """The work was interrupted."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raises TimeLimitReached in the block.

    Has no effect outside the main thread, because signals interrupt only the main thread, in which Spark's Python
    workers decode.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGVTALRM, _interrupt)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _interrupt(*_: Any) -> None:
    raise TimeLimitReached

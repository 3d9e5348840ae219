"""Handles Ctrl-C so that KeyboardInterrupt never separates the creation of a resource from its cleanup.

    signal.signal(signal.SIGINT, interrupt)
    with ExitStack() as cleanup:
        with held():
            folder = Path(tempfile.mkdtemp())
            cleanup.callback(shutil.rmtree, folder)

Only signals with the handler ``interrupt`` are delayed. Handlers run in the main thread, so no lock is needed.
"""

import contextlib
from collections.abc import Iterator
from types import FrameType

from kafka_zk.base.clock import monotonic_s

PATIENCE_S = 2
"""Signals within this time of the last one count as one, because a terminal and `timeout` signal a whole process group.
A later one interrupts the shutdown that the first one began.
"""


class _State:
    def __init__(self) -> None:
        self.last_s: float | None = None
        self.depth = 0
        self.pending = False


_state = _State()


def begin() -> None:
    """Reset the state at the start of a command."""
    _state.last_s, _state.pending = None, False


def interrupt(number: int, frame: FrameType | None) -> None:
    """A handler for ``signal.signal``. Raises KeyboardInterrupt, immediately or at the end of ``held``."""
    now_s = monotonic_s()
    if _state.last_s is not None and now_s - _state.last_s <= PATIENCE_S:
        return
    _state.last_s = now_s
    if _state.depth:
        _state.pending = True
    else:
        raise KeyboardInterrupt


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Interrupts wait for the end of the context. Raises: KeyboardInterrupt."""
    _state.depth += 1
    try:
        yield
    finally:
        _state.depth -= 1
    if _state.pending and not _state.depth:
        _state.pending = False
        raise KeyboardInterrupt

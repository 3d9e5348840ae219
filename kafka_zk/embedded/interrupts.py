"""Ctrl-C at any moment: a KeyboardInterrupt that never comes between making a thing and knowing of it.

    signal.signal(signal.SIGINT, interrupt)
    with ExitStack() as cleanup:
        with held():
            folder = Path(tempfile.mkdtemp())
            cleanup.callback(shutil.rmtree, folder)

Only signals whose handler is ``interrupt`` are held. Handlers run in the main thread, so no lock is needed.
"""

import contextlib
from collections.abc import Iterator
from types import FrameType

from kafka_zk.base.clock import monotonic_s

PATIENCE_S = 2
"""Signals that come so soon after one are the same request: a terminal and `timeout` signal a whole process group. One
that comes after it interrupts what the first one began: the orderly end."""


class _State:
    def __init__(self) -> None:
        self.last_s: float | None = None
        self.depth = 0
        self.pending = False


_state = _State()


def begin() -> None:
    """No signal has come yet: for the start of a command."""
    _state.last_s, _state.pending = None, False


def interrupt(number: int, frame: FrameType | None) -> None:
    """A handler for ``signal.signal``. Raises: KeyboardInterrupt, or has it raised at the end of ``held``."""
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
    """An interrupt that comes within the block is raised at its end. Raises: KeyboardInterrupt."""
    _state.depth += 1
    try:
        yield
    finally:
        _state.depth -= 1
    if _state.pending and not _state.depth:
        _state.pending = False
        raise KeyboardInterrupt

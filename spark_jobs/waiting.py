"""Bounded waits. After a second, a note gives the cause and the maximum. Work that hangs is abandoned."""

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import TypeVar

T = TypeVar("T")
Note = Callable[[str], None]
"""Receives a sentence for the user, perhaps from another thread."""
TOLD_AFTER_S = 1.0


class Wait:
    """Reports to ``note``, if any, that the block is waiting: after TOLD_AFTER_S, and again for each new cause.

    ``patience_ms``: the maximum to report. The block itself must end the wait.
    """

    def __init__(self, note: Note | None, patience_ms: float, cause: str) -> None:
        self._note = note
        self._patience_ms = patience_ms
        self._cause = cause
        self._told: str | None = None
        self._is_long = False
        self._lock = threading.Lock()
        self._timer = threading.Timer(TOLD_AFTER_S, self._lasts)
        self._timer.daemon = True

    def __enter__(self) -> "Wait":
        if self._note is not None:
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()

    def because(self, cause: str) -> None:
        with self._lock:
            self._cause = cause
            self._tell()

    def _lasts(self) -> None:
        with self._lock:
            self._is_long = True
            self._tell()

    def _tell(self) -> None:
        if self._note is not None and self._is_long and self._told != self._cause:
            self._told = self._cause
            self._note(f"waiting up to {self._patience_ms / 1000:.0f} s: {self._cause}")


def within(seconds: float, work: Callable[[], T]) -> T:
    """Run ``work`` on a thread and return its result. A socket's timeout is not enough, because a server may send a
    byte at a time.

    Raises: the errors of ``work``; TimeoutError, after which the thread continues until ``work`` ends.
    """
    done: SimpleQueue[T | _Failed] = SimpleQueue()

    def run() -> None:
        try:
            done.put(work())
        except Exception as error:
            done.put(_Failed(error))

    threading.Thread(target=run, name="bounded wait", daemon=True).start()
    try:
        found = done.get(timeout=seconds)
    except Empty:
        raise TimeoutError(f"no complete response within {seconds:g} s") from None
    if isinstance(found, _Failed):
        raise found.error
    return found


class _Failed:
    def __init__(self, error: Exception) -> None:
        self.error = error

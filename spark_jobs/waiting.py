"""After a second of waiting, a note gives the cause and the maximum wait."""

import threading
from collections.abc import Callable

Note = Callable[[str], None]
"""Receives a sentence for the user, perhaps from another thread."""
TOLD_AFTER_S = 1.0


class Wait:
    """The block may wait up to ``patience_ms`` for ``cause``; silent without ``note``."""

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

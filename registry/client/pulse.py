"""Detects whether the thread that owns a client is still running.

kazoo's thread pings as long as the process exists, even if the owner's thread hangs in a computation or system call.
Its ephemerals would then stay forever for a broker that serves no client. Therefore kazoo's thread pings and connects
only while the pulse beats: after each sign of life to the server it posts a call to the owner's thread, and sends no
further one before that call has run. The owner's own requests need no pulse.

Tests: tests/registry/client/test_pulse.py.
"""

from collections.abc import Callable


class Pulse:
    """``post`` schedules a call on the owner's thread; without it the pulse always beats (the owner has no loop).

    Used on kazoo's thread.
    """

    __slots__ = ("_post", "beats")

    def __init__(self, post: Callable[[Callable[[], None]], None] | None) -> None:
        self._post = post
        self.beats = True
        """True if the owner's thread has run since the last ``told``."""

    def told(self) -> None:
        """The server was just told that the client lives."""
        if self._post is not None:
            self.beats = False
            self._post(self._turned)

    def _turned(self) -> None:
        self.beats = True

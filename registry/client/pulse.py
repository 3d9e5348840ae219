"""Detects whether the thread that owns a client is still running.

kazoo's thread would ping ZooKeeper even if the owner's thread hangs, so the ephemerals of a broker that serves no
client would stay forever. Therefore kazoo's thread pings and connects only while the pulse beats: after each ping it
posts a call to the owner's thread, and it does not ping again before that call has run. The owner's own requests need
no pulse.
"""

from collections.abc import Callable


class Pulse:
    """Used on kazoo's thread.

    ``post`` schedules a call on the owner's thread. Without it the pulse always beats, because the owner has no loop.
    """

    __slots__ = ("_post", "beats")

    def __init__(self, post: Callable[[Callable[[], None]], None] | None) -> None:
        self._post = post
        self.beats = True
        """True if the owner's thread has run since the last ``told``."""

    def told(self) -> None:
        """Call this after a ping or a connect."""
        if self._post is not None:
            self.beats = False
            self._post(self._turned)

    def _turned(self) -> None:
        self.beats = True

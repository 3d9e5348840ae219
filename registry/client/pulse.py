"""Detects whether the thread that owns a client still runs.

kazoo's thread could ping ZooKeeper even if the owner's thread hangs, so a broker that serves no client would keep its
ephemerals. Therefore kazoo's thread pings and connects only while the pulse beats: each ping posts a call to the
owner's thread, and the next ping waits until that call has run. The owner's requests need no pulse.
"""

from collections.abc import Callable


class Pulse:
    """Used on kazoo's thread. ``post`` schedules a call on the owner's thread. None means that the owner has no loop;
    the pulse then always beats."""

    __slots__ = ("_post", "beats")

    def __init__(self, post: Callable[[Callable[[], None]], None] | None) -> None:
        self._post = post
        self.beats = True
        """True if the owner's thread has run since the last ``told``."""

    def told(self) -> None:
        """Post a call to the owner's thread. Call this after a ping or a connect."""
        if self._post is not None:
            self.beats = False
            self._post(self._turned)

    def _turned(self) -> None:
        self.beats = True

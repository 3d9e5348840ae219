"""Does the thread that owns a client still run?

kazoo's thread pings ZooKeeper even if that hangs, so a broker that serves no client would keep its ephemerals. So it
pings and connects only while the pulse beats: each ping posts a call to the owner's thread, and the next waits until
that has run. The owner's requests need no pulse.
"""

from collections.abc import Callable


class Pulse:
    """Used on kazoo's thread. ``post`` schedules a call on the owner's; without it, the owner has no loop, and the
    pulse always beats."""

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

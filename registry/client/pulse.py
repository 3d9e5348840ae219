"""Whether the thread that owns a client has turned since the server was last told that the client lives.

kazoo's thread pings for as long as the process exists, also when the owner's thread stands still: in an endless
computation, in a system call that hangs. Its ephemerals would stand for ever then, for a broker that serves nobody. So
kazoo's thread pings and connects only while the pulse beats: each time it has told the server, it posts a call to the
owner's thread, and says nothing more before that call was made. What the owner itself asks for needs no pulse.

Tests: tests/registry/client/test_pulse.py.
"""

from collections.abc import Callable


class Pulse:
    """``post`` has a call made on the owner's thread soon; without it the pulse always beats (the owner has no loop).

    Asked on kazoo's thread.
    """

    __slots__ = ("_post", "beats")

    def __init__(self, post: Callable[[Callable[[], None]], None] | None) -> None:
        self._post = post
        self.beats = True
        """Whether the owner has turned since the last ``told``."""

    def told(self) -> None:
        """The server has just heard that the client lives."""
        if self._post is not None:
            self.beats = False
            self._post(self._turned)

    def _turned(self) -> None:
        self.beats = True

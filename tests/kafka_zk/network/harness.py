"""A reactor for each test, driven by hand, and slices that count their references.

Sockets are real, time is bounded: ``until`` runs the reactor until a condition holds or its deadline has passed.
"""

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from twisted.internet.epollreactor import EPollReactor

DEADLINE_S = 60.0


class LocalReactor(EPollReactor):
    """A reactor that is not installed and never runs by itself: the test runs each turn."""

    doIteration: Callable[[float | None], None]

    def __init__(self) -> None:
        EPollReactor.__init__(self)

    def until(self, condition: Callable[[], Any], deadline_s: float = DEADLINE_S) -> Any:
        """Run turns until ``condition()`` is true and return its value; fails after ``deadline_s``."""
        end = time.monotonic() + deadline_s
        while True:
            result = condition()
            if result:
                return result
            if time.monotonic() > end:
                raise AssertionError(f"not within {deadline_s} s: {condition}")
            self.turn()

    def turn(self, wait_s: float = 0.001) -> None:
        self.runUntilCurrent()
        self.doIteration(wait_s)

    def result_of(self, deferred: Any) -> Any:
        """Run turns until the Deferred (or coroutine) has a result; returns it, or raises its failure."""
        from twisted.internet.defer import Deferred, ensureDeferred

        outcome: list[Any] = []
        waiting: Deferred[Any] = deferred if isinstance(deferred, Deferred) else ensureDeferred(deferred)
        waiting.addCallbacks(lambda value: outcome.append((value, None)), lambda why: outcome.append((None, why)))
        value, failure = self.until(lambda: outcome)[0]
        if failure is not None:
            failure.raiseException()
        return value

    def close(self) -> None:
        for selectable in EPollReactor.removeAll(self):
            lose: Any = getattr(selectable, "connectionLost", None)
            if lose is not None:
                from twisted.internet.error import ConnectionDone
                from twisted.python.failure import Failure

                lose(Failure(ConnectionDone()))
        self._poller.close()


class CountedSlice:
    """A slice of a real file; ``references`` must be 0 once it is no longer in use."""

    def __init__(self, path: Path, position: int, size_bytes: int, in_active_segment: bool = True) -> None:
        self.path = path
        self.position = position
        self.size_bytes = size_bytes
        self.in_active_segment = in_active_segment
        self.references = 0
        self.retained = 0
        self._descriptor = os.open(path, os.O_RDONLY)

    def __len__(self) -> int:
        return self.size_bytes

    def fileno(self) -> int:
        assert self.references > 0, "used without a reference"
        return self._descriptor

    def read(self) -> bytes:
        return os.pread(self._descriptor, self.size_bytes, self.position)

    def retain(self) -> "CountedSlice":
        self.references += 1
        self.retained += 1
        return self

    def release(self) -> None:
        assert self.references > 0, "released once too often"
        self.references -= 1

    def close(self) -> None:
        os.close(self._descriptor)


def receive_all(reactor: LocalReactor, peer: socket.socket, size_bytes: int) -> bytes:
    """Run turns until ``peer`` has received ``size_bytes`` or the end of the stream."""
    peer.setblocking(False)
    received = bytearray()

    def step() -> bool:
        try:
            data = peer.recv(1 << 20)
        except BlockingIOError:
            return False
        except ConnectionResetError:
            return True
        received.extend(data)
        return not data or len(received) >= size_bytes

    reactor.until(step)
    return bytes(received)


def is_closed(peer: socket.socket) -> bool:
    """True if the other side has closed or reset the connection; data that it sent before are discarded."""
    peer.setblocking(False)
    try:
        while peer.recv(1 << 20):
            pass
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True
    return True

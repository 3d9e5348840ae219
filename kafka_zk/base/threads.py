"""Work off the reactor's thread: the only module that hands work to the reactor's thread pool.

Only for calls that block in C (fsync, unlink, cold reads) and for users' listeners. A simulated world does the work at
once, or later, as it likes.
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool

T = TypeVar("T")


class RunInThread(Protocol):
    """Does work in another thread; what it returned or raised arrives on the reactor's thread."""

    def __call__(self, work: Callable[[], T], /) -> "Deferred[T]": ...


class ReactorThreads:
    """The thread pool of a reactor."""

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor

    def __call__(self, work: Callable[[], T], /) -> "Deferred[T]":
        done: Deferred[T] = deferToThreadPool(self._reactor, self._reactor.getThreadPool(), work)
        return done

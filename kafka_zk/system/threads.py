"""Work off the reactor's thread: the only module that hands work to the reactor's thread pool.

For calls that block in C only (fsync, unlink, cold reads, listeners of a user's). A simulated world does the work at
once, or later, as it likes.
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool

T = TypeVar("T")


class RunInThread(Protocol):
    """Does work in another thread; what it returned or raised comes on the reactor's."""

    def __call__(self, work: Callable[[], T], /) -> "Deferred[T]": ...


class ReactorThreads:
    """The thread pool of a reactor."""

    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor

    def __call__(self, work: Callable[[], T], /) -> "Deferred[T]":
        done: Deferred[T] = deferToThreadPool(self._reactor, self._reactor.getThreadPool(), work)
        return done

"""The only module that uses the reactor's thread pool.

Use it only for calls that block in C (fsync, unlink, cold reads) and for users' callbacks. The simulator runs the work
on its own thread.
"""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool

T = TypeVar("T")


class RunInThread(Protocol):
    """The result or exception of ``work`` arrives on the reactor thread."""

    def __call__(self, work: Callable[[], T], /) -> "Deferred[T]": ...


class ReactorThreads:
    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor

    def __call__(self, work: Callable[[], T], /) -> "Deferred[T]":
        done: Deferred[T] = deferToThreadPool(self._reactor, self._reactor.getThreadPool(), work)
        return done

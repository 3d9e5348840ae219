"""The only module that uses thread pools.

Use the reactor's pool only for calls that block in C (fsync, unlink, cold reads) and for users' callbacks. The
simulator runs the work on its own thread.
"""

import threading
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool
from twisted.python.threadpool import ThreadPool

T = TypeVar("T")


class RunInThread(Protocol):
    """The result or exception of ``work`` arrives on the reactor thread."""

    def __call__(self, work: Callable[[], T], /) -> "Deferred[T]": ...


class DaemonThreads:
    """Up to ``count`` threads of its own, for calls that may hang: they delay neither other work nor the exit of the
    process."""

    def __init__(self, reactor: Any, name: str, count: int) -> None:
        self._reactor = reactor
        self._pool = _DaemonPool(0, count, name)
        self._pool.start()

    def __call__(self, work: Callable[[], T], /) -> "Deferred[T]":
        done: Deferred[T] = deferToThreadPool(self._reactor, self._pool, work)
        return done


class _DaemonThread(threading.Thread):
    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, daemon=True, **named)


class _DaemonPool(ThreadPool):
    threadFactory = _DaemonThread


class ReactorThreads:
    def __init__(self, reactor: Any) -> None:
        self._reactor = reactor

    def __call__(self, work: Callable[[], T], /) -> "Deferred[T]":
        done: Deferred[T] = deferToThreadPool(self._reactor, self._reactor.getThreadPool(), work)
        return done

"""The reactor thread that all blocking clients of a process share.

A Twisted reactor runs once in a process and cannot be restarted, so the first blocking client starts it in a daemon
thread. If the program already runs the reactor in another thread, the clients use that thread.

Twisted's reactors measure timers on the wall clock, which can jump backwards. A reactor started here uses a monotonic
clock instead, as a broker's does (``network.reactor``).

A call executes no import statement. An import looks up ``__spec__``, for which ``twisted.python`` runs a Python
function, and CPython clears any error of this lookup: a Ctrl-C that arrives during the function is lost.
Source: _PyModuleSpec_IsInitializing in Objects/moduleobject.c@3.11.
"""

import os
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.error import ReactorNotRestartable
from twisted.python import threadable
from twisted.python.failure import Failure

from kafka_zk.base.clock import monotonic_s
from kafka_zk.base.green_threads import green_threads_problem
from kafka_zk.clients.connection.errors import KafkaError, KafkaTimeoutError

T = TypeVar("T")

_lock = threading.Lock()
_current: "ReactorThread | None" = None


class ReactorThread:
    def __init__(self, reactor: Any) -> None:
        self.reactor = reactor
        self._process_id = os.getpid()

    def call(self, function: Callable[..., Coroutine[Any, Any, T]], *args: Any, timeout_s: float | None = None) -> T:
        """Raises: the coroutine's exception; KafkaTimeoutError after ``timeout_s`` (the coroutine is then cancelled);
        KafkaError when called on the reactor thread, after the reactor was stopped, or in a process forked after the
        thread was started.
        """
        self._check_caller()
        outcome: Future[T] = Future()
        started: list[Deferred[T]] = []

        def failed(failure: Failure) -> None:
            outcome.set_exception(failure.value)

        async def work() -> T:
            return await function(*args)  # inside, so that the caller gets a TypeError for a wrong argument

        def start() -> None:
            started.append(Deferred.fromCoroutine(work()))
            started[0].addCallbacks(outcome.set_result, failed)

        def cancel() -> None:
            for each in started:
                each.cancel()

        try:
            self.reactor.callFromThread(start)
            return outcome.result(timeout_s)
        except FutureTimeout:
            if outcome.done():
                raise
            self.reactor.callFromThread(cancel)
            raise KafkaTimeoutError(f"no result after {timeout_s} s") from None
        except KeyboardInterrupt:
            self.reactor.callFromThread(cancel)
            raise

    def run_soon(self, function: Callable[..., object], *args: Any) -> None:
        """Run ``function`` on the reactor thread: immediately if called on that thread, otherwise before later
        ``call``s."""
        if threadable.isInIOThread():
            function(*args)
        else:
            self.reactor.callFromThread(function, *args)

    def _check_caller(self) -> None:
        if os.getpid() != self._process_id:
            raise KafkaError("this client was created before the process was forked; start processes with spawn")
        if not getattr(self.reactor, "running", True):
            raise KafkaError("the Twisted reactor of this process was stopped: this client can no longer be used")
        refuse_on_reactor_thread()


def refuse_on_reactor_thread() -> None:
    """Raise KafkaError on the reactor thread, where a blocking call would wait for itself."""
    reactor = sys.modules.get("twisted.internet.reactor")
    if getattr(reactor, "running", False) and threadable.isInIOThread():
        raise KafkaError(
            "the Twisted reactor runs in this thread, so a blocking client would wait for itself: "
            "use the Twisted client (Producer, Reader, Admin) here"
        )


def reactor_thread() -> ReactorThread:
    """Starts the thread at the first call.

    Raises: KafkaError if the reactor runs in the calling thread, was stopped, or belongs to a parent process, and if
        gevent or eventlet have replaced threads.
    """
    global _current
    with _lock:
        if _current is not None:
            _current._check_caller()
            return _current
        refuse_on_reactor_thread()
        if problem := green_threads_problem():
            raise KafkaError(problem)
        from twisted.internet import reactor

        if not getattr(reactor, "running", False):
            _start(reactor)
        _current = ReactorThread(reactor)
        return _current


def _use_monotonic_clock(reactor: Any) -> None:
    from twisted.internet.base import ReactorBase

    if getattr(type(reactor), "seconds", None) is ReactorBase.seconds and not reactor.getDelayedCalls():
        reactor.seconds = monotonic_s


def _start(reactor: Any) -> None:
    _use_monotonic_clock(reactor)
    started: Future[None] = Future()

    def run() -> None:
        try:
            reactor.run(installSignalHandlers=False)
        except ReactorNotRestartable:
            started.set_exception(
                KafkaError("the Twisted reactor of this process was stopped and cannot be started again")
            )

    reactor.callWhenRunning(started.set_result, None)
    threading.Thread(target=run, name="kafka-zk reactor", daemon=True).start()
    started.result()

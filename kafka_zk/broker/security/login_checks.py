"""Login checks by a user-defined class. A few run in threads; other checks wait, and their clients with them.

Checks of disconnected clients are dropped, because they must not delay all logins.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from twisted.internet.defer import Deferred, DeferredSemaphore, maybeDeferred
from twisted.python.failure import Failure

from kafka_zk.base.threads import RunInThread
from kafka_zk.base.turns import ClientWait

T = TypeVar("T")


class LoginChecks:
    """A ``RunInThread`` that runs at most ``most`` functions at a time."""

    def __init__(self, run_in_thread: RunInThread, most: int) -> None:
        self._run_in_thread = run_in_thread
        self._places = DeferredSemaphore(most)

    def __call__(self, work: Callable[[], T], /) -> "Deferred[T]":
        place = self._places.acquire()
        check: _Check[T] = _Check(place)

        def begin(_place: object) -> None:
            maybeDeferred(self._run_in_thread, work).addBoth(end)

        def end(result: Any) -> None:
            self._places.release()
            if check.called:  # the client has left
                return
            if isinstance(result, Failure):
                check.errback(result)
            else:
                check.callback(result)

        place.addCallbacks(begin, lambda _given_up: None)
        return check


class _Check(ClientWait[T]):
    def __init__(self, place: "Deferred[Any]") -> None:
        super().__init__()
        self._place = place

    def abandon(self) -> None:
        super().abandon()
        self._place.cancel()  # no effect once the work has begun

"""Runs a function that waits for the cluster on a thread of its own, which does not delay the end of the process.

Twisted's pool waits for its threads when the reactor stops; a thread that waits for the reactor meanwhile would never
end.
"""

import threading
from collections.abc import Callable
from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

T = TypeVar("T")


def defer_to_daemon_thread(function: Callable[..., T], *arguments: Any) -> "Deferred[T]":
    """Call it on the reactor thread. Fails with the function's exception."""
    from twisted.internet import reactor

    any_reactor: Any = reactor
    outcome: Deferred[T] = Deferred()

    def work() -> None:
        try:
            result = function(*arguments)
        except Exception:
            any_reactor.callFromThread(outcome.errback, Failure())
        else:
            any_reactor.callFromThread(outcome.callback, result)

    threading.Thread(target=work, name="operation of the page", daemon=True).start()
    return outcome

"""Waiting for a session and for the fire of a watch, as Deferreds."""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

from twisted.internet.defer import Deferred

from registry.client import RegistryClient, SessionState
from registry.errors import ConnectionLoss, SessionLost

T = TypeVar("T")


class Clock(Protocol):
    """Time as a Twisted reactor (or ``task.Clock``) has it."""

    def seconds(self) -> float: ...

    def callLater(self, delay: float, call: Callable[..., object], /, *args: object) -> Any: ...


async def connected(client: RegistryClient) -> None:
    """Returns at once when the client is connected, else when it is connected again in the same session.

    Raises: SessionLost if the session ends instead (also when the client is closed).
    """
    waiting: Deferred[None] = Deferred()

    def changed(state: SessionState) -> None:
        if state is SessionState.CONNECTED and not waiting.called:
            waiting.callback(None)
        elif state is SessionState.LOST and not waiting.called:
            waiting.errback(SessionLost("the session ended during the wait for a connection"))

    changed(client.state)

    remove = client.add_session_listener(changed)
    try:
        await waiting
    finally:
        remove()


async def until_answered(client: RegistryClient, attempt: Callable[[], Awaitable[T]]) -> T:
    """What ``attempt`` returns or raises, repeated as long as the connection breaks over it.

    For operations that may be done twice. Raises: SessionLost if the session ends first.
    """
    while True:
        try:
            return await attempt()
        except ConnectionLoss:
            await connected(client)


class Signal:
    """One thing to wait for, with a deadline: ``set`` ends the wait early; setting it twice does no harm."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: Deferred[None] = Deferred()

    def set(self, *_: object) -> None:
        """Usable as a watch."""
        if not self._waiting.called:
            self._waiting.callback(None)

    async def wait(self, timeout_ms: float) -> None:
        """Returns when set or after ``timeout_ms``, whichever comes first."""
        timeout = self._clock.callLater(max(0.0, timeout_ms / 1000), self.set)
        try:
            await self._waiting
        finally:
            if timeout.active():
                timeout.cancel()

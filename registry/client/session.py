"""Waits for a session, and for Deferreds with a time limit."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Protocol, TypeVar

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from kafka_zk.base.clock import Timers
from kafka_zk.registry.client.client import RegistryClient, SessionState
from kafka_zk.registry.client.errors import ConnectionLoss, SessionLost
from kafka_zk.registry.client.pipeline import children_of

T = TypeVar("T")

_log = Logger()


def cancellable(clock: Timers, delay_s: float, work: Callable[[], None]) -> Callable[[], None]:
    """Implements ``RegistryClient.call_later`` with a reactor."""
    call = clock.callLater(delay_s, work)

    def cancel() -> None:
        if call.active():
            call.cancel()

    return cancel


class _Sessions(Protocol):
    """The client's methods that are used to wait for a connection."""

    @property
    def state(self) -> SessionState: ...

    def add_session_listener(self, listener: Callable[[SessionState], None]) -> Callable[[], None]: ...


def complete_when_connected(client: _Sessions, waiting: Any) -> None:
    """Implements ``RegistryClient.connected``. ``waiting`` has callback and errback."""

    def changed(state: SessionState) -> None:
        if state is SessionState.SUSPENDED:
            return
        remove()
        if state is SessionState.CONNECTED:
            waiting.callback(None)
        else:
            waiting.errback(SessionLost("the session ended during the wait for a connection"))

    remove = client.add_session_listener(changed)
    changed(client.state)


async def retry_until_connected(client: RegistryClient, attempt: Callable[[], Awaitable[T]]) -> T:
    """Repeat ``attempt`` while it fails with ConnectionLoss.

    The operation must be safe to repeat. Raises: SessionLost.
    """
    while True:
        try:
            return await attempt()
        except ConnectionLoss:
            await client.connected()


async def child_names(client: RegistryClient, path: str) -> list[str]:
    """The sorted names of the children, including all that were written before the call; empty if the znode is absent.
    Retries after connection losses. Raises: SessionLost; NoAuth."""

    async def read() -> list[str]:
        await client.sync()
        return await children_of(client, path)

    return await retry_until_connected(client, read)


def add_listener(
    listeners: list[Callable[[SessionState], None]], listener: Callable[[SessionState], None]
) -> Callable[[], None]:
    """Add a listener. Returns a function that removes it and may be called repeatedly."""
    listeners.append(listener)

    def remove() -> None:
        if listener in listeners:
            listeners.remove(listener)

    return remove


def notify(listeners: Iterable[Callable[[SessionState], None]], state: SessionState) -> None:
    """Call each listener. A listener's exception is logged and does not affect the others."""
    for listener in list(listeners):
        try:
            listener(state)
        except Exception:
            _log.failure("a session listener failed: {listener}", listener=listener)


async def fires_within(clock: Timers, waiting: "Deferred[Any]", delay_s: float) -> bool:
    """Wait at most ``delay_s`` for a Deferred, even if it ignores its cancellation.

    Returns False if the Deferred did not fire; it is then cancelled, and a later result is dropped. Raises its failure.
    """
    outcome: Deferred[bool] = Deferred(lambda _: waiting.cancel())
    is_over = False

    def settle(result: object) -> None:
        if is_over or outcome.called:
            return
        if isinstance(result, Failure):
            outcome.errback(result)
        else:
            outcome.callback(True)

    def expire() -> None:
        nonlocal is_over
        is_over = True
        waiting.cancel()
        outcome.callback(False)

    timer = clock.callLater(max(0.0, delay_s), expire)
    waiting.addBoth(settle)
    try:
        return await outcome
    finally:
        if timer.active():
            timer.cancel()

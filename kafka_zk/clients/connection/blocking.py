"""How threads use the clients of the reactor: a blocking class names the methods that it passes on.

::

    class BlockingAdmin(BlockingClient[Admin]):
        list_topics = blocking(Admin.list_topics)

Each has the signature and the documentation of the method that it calls on the reactor's thread, and raises the same,
besides what ``ReactorThread.call`` raises.
"""

from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar

from kafka_zk.clients.connection.reactor_thread import ReactorThread

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C")
C_co = TypeVar("C_co", covariant=True)


class Closable(Protocol):
    """A client of the reactor."""

    async def close(self) -> None: ...


Closable_co = TypeVar("Closable_co", covariant=True, bound=Closable)


class Blocking(Generic[C_co]):
    """A client of the reactor, and the thread that the reactor runs in."""

    def __init__(self, thread: ReactorThread, client: C_co) -> None:
        self._thread = thread
        self._client = client


class BlockingClient(Blocking[Closable_co]):
    """A client of its own, which is closed; a context manager."""

    def close(self) -> None:
        """Close all connections; calls that wait fail with ClientClosed."""
        self._thread.call(self._client.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class BlockingContext:
    """``with`` for what a client of the reactor uses with ``async with``."""

    def __init__(self, thread: ReactorThread, context: AbstractAsyncContextManager[None]) -> None:
        self._thread = thread
        self._context = context

    def __enter__(self) -> None:
        self._thread.call(self._context.__aenter__)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.call(self._context.__aexit__, kind, error, trace)


def blocking(method: Callable[Concatenate[C, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[Blocking[C], P], T]:
    """The method of a blocking class that runs this coroutine of its client and waits for the result."""

    @wraps(method)
    def call(self: Blocking[C], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._thread.call(lambda: method(self._client, *args, **kwargs))

    return call


def on_reactor(method: Callable[Concatenate[C, P], T]) -> Callable[Concatenate[Blocking[C], P], T]:
    """The method of a blocking class that calls this function of its client on the reactor's thread."""

    @wraps(method)
    def call(self: Blocking[C], /, *args: P.args, **kwargs: P.kwargs) -> T:
        async def run() -> T:
            return method(self._client, *args, **kwargs)

        return self._thread.call(run)

    return call

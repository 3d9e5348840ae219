"""Clients for threads: a blocking class lists the methods of a reactor client that it forwards.

::

    class BlockingAdmin(BlockingClient[Admin]):
        list_topics = blocking(Admin.list_topics)

Each method has the signature and documentation of the one that it calls on the reactor thread, and raises the same
exceptions, plus those of ``ReactorThread.call``.
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
    async def close(self) -> None: ...


Closable_co = TypeVar("Closable_co", covariant=True, bound=Closable)


class Blocking(Generic[C_co]):
    """A reactor client, and the thread of its reactor."""

    def __init__(self, thread: ReactorThread, client: C_co) -> None:
        self._thread = thread
        self._client = client


class BlockingClient(Blocking[Closable_co]):
    """Owns its reactor client; a context manager."""

    def close(self) -> None:
        """Waiting calls fail with ClientClosed."""
        self._thread.call(self._client.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class BlockingContext:
    """A ``with`` version of a reactor client's ``async with``."""

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
    """Run this coroutine of the reactor client and wait for its result."""

    @wraps(method)
    def call(self: Blocking[C], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._thread.call(lambda: method(self._client, *args, **kwargs))

    return call


def on_reactor(method: Callable[Concatenate[C, P], T]) -> Callable[Concatenate[Blocking[C], P], T]:
    """Call this function of the reactor client on the reactor thread."""

    @wraps(method)
    def call(self: Blocking[C], /, *args: P.args, **kwargs: P.kwargs) -> T:
        async def run() -> T:
            return method(self._client, *args, **kwargs)

        return self._thread.call(run)

    return call

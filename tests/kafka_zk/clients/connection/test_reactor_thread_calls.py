"""A call on the reactor's thread that raises or is interrupted, even before it has a result to wait for."""

import builtins
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from kafka_zk.clients.connection.blocking import Blocking, blocking
from kafka_zk.clients.connection.reactor_thread import ReactorThread


class OtherThread:
    """A reactor in another thread: an exception in a function is logged, and its caller does not receive it."""

    def callFromThread(self, function: Callable[..., object], *args: Any) -> None:
        def run() -> None:
            with suppress(Exception):
                function(*args)

        thread = threading.Thread(target=run)
        thread.start()
        thread.join()


class Client:
    async def ask(self, first: int) -> int:
        return first


class BlockingClient(Blocking[Client]):
    ask = blocking(Client.ask)


def test_a_call_with_wrong_arguments_raises_in_the_callers_thread() -> None:
    """The call used to wait forever for a coroutine that was never created."""
    client = BlockingClient(ReactorThread(OtherThread()), Client())
    assert client.ask(1) == 1
    with pytest.raises(TypeError, match="first"):
        client.ask()  # type: ignore[call-arg]


def test_what_a_function_raises_is_the_outcome_of_the_call() -> None:
    def no_coroutine() -> Any:
        raise ValueError("not now")

    with pytest.raises(ValueError, match="not now"):
        ReactorThread(OtherThread()).call(no_coroutine, timeout_s=5)


def test_a_call_imports_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An import from ``twisted.python`` loses a Ctrl-C that arrives at the wrong moment."""
    imported: list[str] = []
    original = builtins.__import__

    def recorded(name: str, *args: Any) -> Any:
        imported.append(name)
        return original(name, *args)

    thread = ReactorThread(OtherThread())
    monkeypatch.setattr(builtins, "__import__", recorded)
    assert thread.call(Client().ask, 1, timeout_s=5) == 1
    thread.run_soon(int)
    monkeypatch.undo()
    assert imported == []


def test_an_interrupt_while_a_call_is_handed_over_cancels_it() -> None:
    """During the hand-over the call's coroutine runs, and no caller would await it."""
    ended = threading.Event()

    class Interrupted(OtherThread):
        calls = 0

        def callFromThread(self, function: Callable[..., object], *args: Any) -> None:
            super().callFromThread(function, *args)
            self.calls += 1
            if self.calls == 1:
                raise KeyboardInterrupt

    async def endless() -> None:
        try:
            await Deferred[None]()
        finally:
            ended.set()

    with pytest.raises(KeyboardInterrupt):
        ReactorThread(Interrupted()).call(endless)
    assert ended.is_set()

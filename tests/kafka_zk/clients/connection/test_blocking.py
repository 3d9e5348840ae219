"""How a blocking class forwards calls, and that each offers the methods of its client."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from kafka_zk import (
    Admin,
    BlockingAdmin,
    BlockingConsumer,
    BlockingGroupAdmin,
    BlockingProducer,
    BlockingReader,
    BlockingZookeeperConsumer,
    Consumer,
    GroupAdmin,
    Producer,
    Reader,
    ZookeeperConsumer,
)
from kafka_zk.clients.connection.blocking import BlockingClient, BlockingContext, blocking, on_reactor

ONLY_ON_THE_REACTOR = {
    "batches", "leave", "ready", "send_all", "send_nowait", "not_taken", "wait_for", "check_begun", "begun_count",
}  # fmt: skip
"""The methods that iterators replace, and those that other parts of the client call."""


class Client:
    """A client that records its calls."""

    def __init__(self) -> None:
        self.calls: list[Any] = []

    async def ask(self, first: int, *, second: int = 2) -> int:
        """Ask."""
        self.calls.append((first, second))
        return first + second

    def set(self, value: str) -> None:
        self.calls.append(value)

    async def close(self) -> None:
        self.calls.append("closed")

    async def __aenter__(self) -> None:
        self.calls.append("begun")

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.calls.append(kind)


class Thread:
    """A thread that runs each call immediately."""

    def call(self, function: Any, *args: Any) -> Any:
        outcome: list[Any] = []
        Deferred.fromCoroutine(function(*args)).addBoth(outcome.append)
        return outcome[0]


class BlockingOne(BlockingClient[Client]):
    ask = blocking(Client.ask)
    set = on_reactor(Client.set)


def test_a_method_passes_its_arguments_on_and_returns_the_result() -> None:
    client = Client()
    with BlockingOne(Thread(), client) as facade:  # type: ignore[arg-type]
        assert facade.ask(1, second=5) == 6
        facade.set("x")
    assert client.calls == [(1, 5), "x", "closed"]


def test_a_method_is_documented_as_the_one_that_it_calls() -> None:
    assert BlockingOne.ask.__doc__ == "Ask."
    assert list(inspect.signature(BlockingOne.ask).parameters) == ["self", "first", "second"]


def test_a_context_is_told_of_an_exception() -> None:
    client = Client()
    with pytest.raises(ZeroDivisionError), BlockingContext(Thread(), client):  # type: ignore[arg-type]
        raise ZeroDivisionError
    assert client.calls == ["begun", ZeroDivisionError]


@pytest.mark.parametrize(
    ("facade", "client"),
    [
        (BlockingAdmin, Admin),
        (BlockingGroupAdmin, GroupAdmin),
        (BlockingReader, Reader),
        (BlockingConsumer, Consumer),
        (BlockingZookeeperConsumer, ZookeeperConsumer),
        (BlockingProducer, Producer),
    ],
)
def test_threads_can_do_what_the_reactor_can(facade: type, client: type) -> None:
    def public(of: type) -> set[str]:
        return {name for name in dir(of) if not name.startswith("_")}

    assert public(client) - public(facade) - ONLY_ON_THE_REACTOR == set()

"""If a session listener raises, the others are still notified, and the error is logged once."""

from collections.abc import Iterator
from typing import Any, cast

import pytest
from twisted.internet.task import Clock
from twisted.logger import ILogObserver, globalLogPublisher

from kafka_zk.registry.client.client import SessionState
from kafka_zk.registry.client.kazoo_twisted import KazooTwistedClient
from tests.registry.world import World


def fail(state: SessionState) -> None:
    raise ZeroDivisionError


@pytest.fixture
def logged() -> Iterator[list[Any]]:
    """The logged failures."""
    failures: list[Any] = []

    def observe(event: Any) -> None:
        if "log_failure" in event:
            failures.append(event["log_failure"].type)

    globalLogPublisher.addObserver(cast(ILogObserver, observe))
    yield failures
    globalLogPublisher.removeObserver(cast(ILogObserver, observe))


def test_the_real_client_tells_the_others(logged: list[Any]) -> None:
    client, heard = KazooTwistedClient(Clock(), "127.0.0.1:1"), list[SessionState]()
    for listener in (fail, heard.append):
        client.add_session_listener(listener)
    client._change_state(SessionState.CONNECTED)
    assert heard == [SessionState.CONNECTED]
    assert logged == [ZeroDivisionError]


def test_the_simulators_client_tells_the_others(logged: list[Any]) -> None:
    world, heard = World(1), list[SessionState]()
    (client,) = world.clients
    for listener in (fail, heard.append):
        client.add_session_listener(listener)
    client.disconnect()
    world.scheduler.run_for(1000)
    assert heard == [SessionState.SUSPENDED, SessionState.CONNECTED]
    assert logged == [ZeroDivisionError] * 2

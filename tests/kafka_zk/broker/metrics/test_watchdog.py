"""The watchdog detects long turns of the reactor, logs them with the current request, and counts them."""

import logging
import sys
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from twisted.internet.task import Clock

from kafka_zk.broker.metrics.watchdog import CHECK_INTERVAL_S, LONG_TURN_S, Watchdog, describe
from kafka_zk.protocol.api_keys import ApiKey
from tests.integration.processes import wait_for
from tests.kafka_zk.network.harness import LocalReactor
from tests.kafka_zk.network.server import Server, request


class Machine:
    """A reactor that the test can block while time passes."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.reactor = Clock()
        self.watchdog = Watchdog(self.reactor, lambda: self.now_s)
        self.watchdog.start()

    def turn(self, seconds: float = CHECK_INTERVAL_S) -> None:
        """The next turn begins after ``seconds``."""
        self.now_s += seconds
        self.reactor.advance(seconds)


@pytest.fixture
def machine() -> Iterator[Machine]:
    made = Machine()
    made.watchdog._stopped.set()  # ends the watchdog's thread; the tests call its check instead
    yield made
    made.watchdog.stop()


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "kafka_zk.broker.metrics.watchdog")
    return caplog


def test_ordinary_turns_are_not_told(machine: Machine, told: pytest.LogCaptureFixture) -> None:
    for seconds in (CHECK_INTERVAL_S, 0.01, LONG_TURN_S - CHECK_INTERVAL_S) * 10:
        machine.turn(seconds)
        machine.watchdog.check()
    assert (machine.watchdog.long_turn_count, machine.watchdog.long_turns_s) == (0, 0.0)
    assert told.messages == []


@pytest.mark.parametrize("before_s", [0.0, CHECK_INTERVAL_S / 2])
def test_every_turn_of_a_second_is_counted_once(
    machine: Machine, told: pytest.LogCaptureFixture, before_s: float
) -> None:
    """The turn may begin anywhere between two runs of the timer, and the thread may not have checked it."""
    machine.turn(before_s)
    machine.turn(LONG_TURN_S)
    for _ in range(10):
        machine.turn()
    assert machine.watchdog.long_turn_count == 1
    assert machine.watchdog.long_turns_s == pytest.approx(LONG_TURN_S + before_s)
    assert len(told.messages) == 1


def test_a_turn_is_told_once_while_it_lasts_and_once_when_it_is_over(
    machine: Machine, told: pytest.LogCaptureFixture
) -> None:
    for _ in range(12):
        machine.now_s += CHECK_INTERVAL_S
        machine.watchdog.check()
    assert told.messages == ["event loop blocked for 1.0 s so far; no client is served"]
    machine.reactor.advance(CHECK_INTERVAL_S)
    assert told.messages[1:] == ["event loop was blocked for 3.0 s"]
    first, last = told.records
    assert first.__dict__["fields"]["where"] == last.__dict__["fields"]["where"]
    machine.turn(5)
    assert "where" not in told.records[-1].__dict__["fields"], "without a check there is no location"


def test_the_thread_sees_a_reactor_that_stands_still(told: pytest.LogCaptureFixture) -> None:
    """This test uses a real thread and real time: another thread plays the reactor."""
    watchdog = Watchdog(Clock())
    watchdog.start()
    try:
        wait_for(lambda: told.messages, "a word of it")
    finally:
        watchdog.stop()
    assert "wait_for (integration/processes.py" in told.records[0].__dict__["fields"]["where"]


def test_the_request_is_found_on_the_stack() -> None:
    """The watchdog reads the stack from another thread."""
    reactor = LocalReactor()
    server = Server(reactor, versions={ApiKey.METADATA: (0, 0)})
    seen: list[dict[str, Any]] = []
    main = threading.get_ident()

    def handler(header: object, body: bytes) -> list[bytes]:
        beside = threading.Thread(target=lambda: seen.append(describe(sys._current_frames()[main])))
        beside.start()
        beside.join()
        return [b"\0\0\0\1"]

    server.handler = handler
    peer = server.connect()
    name = "{}:{}".format(*peer.getsockname())
    peer.sendall(request(1))
    reactor.until(lambda: seen)
    server.close()
    reactor.close()
    assert seen[0]["api"] == "METADATA v0"
    assert seen[0]["peer"] == name
    assert "handler (metrics/test_watchdog.py" in seen[0]["where"]
    assert "api" not in describe(sys._getframe())

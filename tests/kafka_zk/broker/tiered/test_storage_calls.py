"""Calls of a store that may be slow or hang."""

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from kafka_zk.broker.tiered.storage_calls import StorageBusy, StorageCalls, StorageTimedOut
from tests.kafka_zk.broker.tiered.tiered_broker import Threads


class World:
    def __init__(self) -> None:
        self.clock, self.threads = Clock(), Threads()
        self.threads.holds = True
        self.calls = StorageCalls(self.clock, self.threads, most_running=2, most_waiting=2)
        self.outcomes: list[Any] = []

    def call(self, work: Callable[[], object] = lambda: "stored", timeout_s: float = 10) -> "Deferred[Any]":
        outcome: Deferred[Any] = self.calls.call(work, timeout_s)
        return outcome.addErrback(lambda failure: type(failure.value)).addCallback(self.outcomes.append)


def test_only_so_many_calls_run_at_a_time() -> None:
    world = World()
    for _ in range(4):
        world.call()
    assert len(world.threads.held) == 2
    world.threads.release()
    assert (len(world.threads.held), world.outcomes) == (2, ["stored"] * 2)


def test_a_call_beyond_the_limit_is_refused_at_once() -> None:
    world = World()
    for _ in range(5):
        world.call()
    assert world.outcomes == [StorageBusy]


def test_a_late_call_fails_and_keeps_its_thread() -> None:
    """The late result has no effect."""
    world = World()
    for _ in range(3):
        world.call(timeout_s=10)
    world.clock.advance(10)
    assert world.outcomes == [StorageTimedOut] * 3
    world.call()
    assert len(world.threads.held) == 2
    world.threads.release()
    assert len(world.threads.held) == 1
    world.threads.release()
    assert world.outcomes == [StorageTimedOut] * 3 + ["stored"]


def test_a_call_that_waited_too_long_never_runs() -> None:
    world, ran = World(), []
    for _ in range(2):
        world.call(timeout_s=100)
    world.call(lambda: ran.append(1), timeout_s=1)
    world.clock.advance(1)
    world.threads.release()
    assert (ran, world.threads.held) == ([], [])


def test_a_cancelled_call_does_not_run() -> None:
    """One that is running keeps its thread, and its result has no effect."""
    world = World()
    calls = [world.call(), world.call(), world.call()]
    for each in (calls[2], calls[0]):
        each.cancel()
    assert world.outcomes == [CancelledError] * 2
    world.threads.release()
    assert world.outcomes == [CancelledError] * 2 + ["stored"]
    assert not world.threads.held
    assert not world.clock.getDelayedCalls()


def test_an_error_of_the_plugin_is_passed_on() -> None:
    world = World()
    world.threads.holds = False

    def broken() -> None:
        raise ValueError

    world.call(broken)
    assert world.outcomes == [ValueError]
    assert not world.clock.getDelayedCalls()
    assert not isinstance(world.outcomes[0], Failure)

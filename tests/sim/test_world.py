"""A world is isolated: leftovers of a killed process have no effect, and their errors do not count."""

import gc
import sys
from random import Random

import pytest
from twisted.internet.defer import Deferred, ensureDeferred

from kafka_zk.sim.world.world import World


def test_what_a_killed_process_awaited_does_not_go_on_when_it_is_collected() -> None:
    """When a coroutine is collected first, the end of the other one cannot resume it."""

    async def later(signal: "Deferred[None]") -> None:
        await signal

    async def holder(lost: "Deferred[None]", signal: "Deferred[None]") -> None:
        try:
            await lost
        finally:
            ended.append("holder")
            signal.callback(None)

    ended: list[str] = []
    for _ in range(3):
        with World(1) as world:
            signal: Deferred[None] = Deferred()
            ensureDeferred(later(signal))
            ensureDeferred(holder(Deferred(), signal))
            del signal
            assert len([[] for _ in range(5_000)]) == 5_000  # enough to start the collector
            world.run_for(1)
        assert not world.failures
    assert len(ended) >= 2


def test_what_ends_after_a_world_is_no_failure_of_it() -> None:
    """A world's failures do not depend on when the garbage collector runs."""

    async def later(signal: "Deferred[None]") -> None:
        await signal

    async def holder(lost: "Deferred[None]", signal: "Deferred[None]") -> None:
        try:
            await lost
        finally:
            signal.errback(ValueError("it ends"))

    with World(1) as world:
        signal: Deferred[None] = Deferred()
        ensureDeferred(later(signal)).addErrback(world.failed)
        ensureDeferred(holder(Deferred(), signal)).addErrback(world.failed)
        del signal
    gc.collect()
    assert not world.failures


def test_errors_that_nobody_looked_at_are_failures_of_their_world() -> None:
    with World(1) as world:
        forgotten: Deferred[None] = Deferred()
        forgotten.addCallback(lambda _: Random().choice([]))
        forgotten.callback(None)
        del forgotten
    assert len(world.failures) == 1 and "IndexError" in world.failures[0]


def test_the_collector_rests_while_a_world_is_played() -> None:
    """The time of a collection would depend on the interpreter's earlier work."""
    assert gc.isenabled()
    with World(1):
        assert not gc.isenabled()
    assert gc.isenabled()


@pytest.mark.parametrize("stopping_ms", [0, 1, 5, 20])
def test_a_world_may_end_while_brokers_stop(stopping_ms: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python would print an error for each coroutine that awaits something when it is collected."""
    printed: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", printed.append)
    with World(1) as world:
        brokers = [world.broker(number) for number in range(2)]
        world.start_all()
        stopped = [broker.stop() for broker in brokers]
        world.run_for(stopping_ms)
        assert not all(each.called for each in stopped)
    del world, brokers, stopped
    while gc.collect():
        pass
    assert not printed

"""Waiting for a result with a time limit."""

from typing import Any

from twisted.internet.defer import CancelledError, Deferred, ensureDeferred
from twisted.internet.task import Clock

from kafka_zk.registry.client.session import fires_within


def waiting_for(clock: Clock, awaited: "Deferred[Any]", delay_s: float) -> "tuple[Deferred[Any], list[Any]]":
    outcomes: list[Any] = []
    work = ensureDeferred(fires_within(clock, awaited, delay_s))
    work.addBoth(lambda outcome: outcomes.append(getattr(outcome, "value", outcome)))
    return work, outcomes


def test_a_result_in_time_is_returned_and_leaves_no_timer() -> None:
    clock, awaited = Clock(), Deferred[Any]()
    _, outcomes = waiting_for(clock, awaited, 5)
    clock.advance(4)
    awaited.callback("anything")
    assert outcomes == [True] and not clock.getDelayedCalls()


def test_a_result_that_is_too_late_is_given_up_once() -> None:
    """The Deferred may still fire afterwards, without effect."""
    clock, awaited = Clock(), Deferred[Any]()
    _, outcomes = waiting_for(clock, awaited, 5)
    clock.advance(5)
    awaited.callback("too late")
    assert outcomes == [False]


def test_a_failure_and_a_caller_who_gives_up_are_no_timeouts() -> None:
    clock, failing, abandoned = Clock(), Deferred[Any](), Deferred[Any]()
    _, failed = waiting_for(clock, failing, 5)
    failing.errback(OSError("broken"))
    work, cancelled = waiting_for(clock, abandoned, 5)
    work.cancel()
    assert isinstance(failed[0], OSError) and isinstance(cancelled[0], CancelledError)
    assert not clock.getDelayedCalls()


def test_a_coroutine_that_ignores_its_cancellation_is_not_awaited() -> None:
    """For example, a coroutine that catches every exception and continues. Its result, even a failure, is ignored."""
    clock = Clock()
    steps: list[Deferred[Any]] = [Deferred(), Deferred()]

    async def stubborn() -> None:
        try:
            await steps[0]
        except CancelledError:
            await steps[1]

    _, outcomes = waiting_for(clock, ensureDeferred(stubborn()), 5)
    clock.advance(5)
    assert outcomes == [False]
    steps[1].errback(OSError("too late"))
    assert not clock.getDelayedCalls()


def test_a_caller_who_gives_up_does_not_wait_either() -> None:
    clock, first, second = Clock(), Deferred[Any](), Deferred[Any]()

    async def stubborn() -> None:
        try:
            await first
        except CancelledError:
            await second

    work, outcomes = waiting_for(clock, ensureDeferred(stubborn()), 5)
    work.cancel()
    assert isinstance(outcomes[0], CancelledError) and not clock.getDelayedCalls()
    second.callback(None)

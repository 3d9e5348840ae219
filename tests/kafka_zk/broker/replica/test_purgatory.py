"""Delayed requests complete exactly once."""

from collections.abc import Callable
from functools import partial

import pytest
from twisted.internet.task import Clock

from kafka_zk.broker.replica.purgatory import Purgatory


def test_a_request_completes_when_its_condition_holds_at_a_check() -> None:
    """Only a check of one of the request's keys evaluates its condition."""
    clock = Clock()
    purgatory = Purgatory(clock)
    ready = False
    waiting = purgatory.wait(["a", "b"], lambda: ready, 1000)
    ready = True
    purgatory.check("c")
    assert not waiting.called
    purgatory.check("b")
    assert waiting.result is True
    assert purgatory.count == 0
    assert clock.getDelayedCalls() == []


def test_a_request_expires_with_false() -> None:
    """After the timeout, the purgatory keeps nothing of the request."""
    clock = Clock()
    purgatory = Purgatory(clock)
    waiting = purgatory.wait(["a"], lambda: False, 1000)
    clock.advance(0.999)
    assert not waiting.called
    clock.advance(0.001)
    assert waiting.result is False
    purgatory.check("a")
    assert purgatory.count == 0


def test_a_completion_that_checks_again_completes_nothing_twice() -> None:
    """A completed request may check the same key again."""
    purgatory = Purgatory(Clock())
    woken: list[str] = []

    def wake(name: str, _: object) -> None:
        woken.append(name)
        purgatory.check("k")

    for name in ("one", "two"):
        purgatory.wait(["k"], lambda: True, 10).addCallback(partial(wake, name))
    purgatory.check("k")
    assert sorted(woken) == ["one", "two"]


def test_abandoning_answers_everybody() -> None:
    """A stopping broker ends all waits."""
    purgatory = Purgatory(Clock())
    waiting = [purgatory.wait([key], lambda: False, 10) for key in ("a", "b")]
    purgatory.abandon_all()
    assert [deferred.result for deferred in waiting] == [False, False]


def test_a_chain_of_requests_that_complete_each_other_does_not_deepen_the_stack() -> None:
    """Each response lets its connection send an append that completes the next connection's fetch."""
    purgatory = Purgatory(Clock())
    answered: list[int] = []

    def go_on(_: bool, number: int) -> None:
        answered.append(number)
        purgatory.check(number + 1)

    for number in range(2000):
        purgatory.wait([number], lambda: True, 1000).addCallback(go_on, number)
    purgatory.check(0)
    assert answered == list(range(2000))
    assert purgatory.count == 0


def test_a_request_is_told_which_of_its_keys_is_checked() -> None:
    """The request learns the key before its condition is evaluated, so it need not examine the others."""
    purgatory, told = Purgatory(Clock()), list[str]()
    waiting = purgatory.wait(["a", "b", "c"], lambda: told == ["b", "c"], 1000, told.append)
    purgatory.check("b")
    purgatory.check("x")
    assert told == ["b"] and not waiting.called
    purgatory.check("c")
    assert waiting.called


def test_an_error_of_one_request_leaves_the_others_and_the_one_who_checks_alone(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A leader's append completes fetches; it must not fail because one of them does."""
    purgatory = Purgatory(Clock())

    def mistake() -> bool:
        raise KeyError("a mistake of ours")

    waiting = [purgatory.wait(["a"], condition, 10) for condition in (mistake, lambda: True)]
    purgatory.check("a")
    assert [deferred.result for deferred in waiting] == [True, True]
    assert "KeyError" in caplog.text
def test_what_is_checked_later_is_checked_once_for_all_that_happens() -> None:
    """One reactor turn may have many appends."""
    ends: list[Callable[[], object]] = []
    purgatory = Purgatory(Clock(), ends.append)
    told: list[object] = []
    purgatory.wait(["a", "b"], lambda: False, 1000, told.append)
    for key in ("a", "nobody", "b", "a"):
        purgatory.check_later(key)
    assert (len(ends), told) == (1, [])
    ends.pop()()
    assert told == ["a", "b"]
    purgatory.check_later("b")
    ends.pop()()
    assert told == ["a", "b", "b"]


def test_what_is_checked_later_is_checked_at_once_without_turns() -> None:
    purgatory = Purgatory(Clock())
    waiting = purgatory.wait(["a"], lambda: True, 1000)
    purgatory.check_later("a")
    assert waiting.result

"""Checks of logins in threads: how many run in parallel, and what happens when a client disconnects."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from kafka_zk.base.client_gone import ClientGone
from kafka_zk.base.turns import ClientWait
from kafka_zk.broker.security.login_checks import LoginChecks


class Threads:
    """Checks that have begun, each with the Deferred that completes it."""

    def __init__(self) -> None:
        self.begun: list[tuple[Callable[[], Any], Deferred[Any]]] = []

    def __call__(self, work: Callable[[], Any], /) -> "Deferred[Any]":
        ended: Deferred[Any] = Deferred()
        self.begun.append((work, ended))
        return ended

    @property
    def numbers(self) -> list[int]:
        return [work() for work, _ in self.begun]

    def end(self, number: int) -> None:
        self.begun[self.numbers.index(number)][1].callback(number)


def started(threads: Threads, count: int) -> tuple[list["Deferred[int]"], list[Any]]:
    """Run ``count`` checks, two in parallel, and return the results; -1 for a client that has disconnected."""
    checks = LoginChecks(threads, 2)
    waiting = [checks(partial(abs, number)) for number in range(count)]
    results: list[Any] = []
    for each in waiting:
        each.addErrback(lambda failure: -1 if failure.check(ClientGone) else failure).addCallback(results.append)
    return waiting, results


def abandon(check: "Deferred[int]") -> None:
    assert isinstance(check, ClientWait)
    check.abandon()


def test_a_client_that_goes_gives_up_its_place() -> None:
    threads = Threads()
    waiting, results = started(threads, 5)
    assert threads.numbers == [0, 1]
    abandon(waiting[3])
    for number in (0, 1):
        threads.end(number)
    assert threads.numbers == [0, 1, 2, 4] and results == [-1, 0, 1]


def test_what_has_begun_keeps_its_thread_although_its_client_goes() -> None:
    """If the thread counted as free, more than two threads could be busy."""
    threads = Threads()
    waiting, results = started(threads, 3)
    abandon(waiting[0])
    assert threads.numbers == [0, 1] and results == [-1]
    threads.end(0)
    assert threads.numbers == [0, 1, 2] and results == [-1]


def test_what_a_check_raises_arrives_and_frees_the_place() -> None:
    threads = Threads()
    checks = LoginChecks(threads, 1)
    failures: list[Any] = []
    checks(partial(abs, 0)).addErrback(failures.append)
    checks(partial(abs, 1))
    threads.begun[0][1].errback(ValueError("wrong"))
    assert failures[0].check(ValueError) and threads.numbers == [0, 1]


def test_a_pool_that_takes_nothing_keeps_no_place() -> None:
    def refuse(work: Callable[[], Any], /) -> "Deferred[Any]":
        raise RuntimeError("stopped")

    checks = LoginChecks(refuse, 1)
    for _ in range(2):
        with pytest.raises(RuntimeError):
            _result(checks(partial(abs, 0)))


def _result(check: "Deferred[int]") -> int:
    results: list[Any] = []
    check.addBoth(results.append)
    (result,) = results
    if isinstance(result, int):
        return result
    result.raiseException()
    raise AssertionError("it raises")

"""What a thread of the page's own returns or raises comes back to the reactor."""

from threading import Event, get_ident
from typing import Any

import pytest
from twisted.internet import reactor as any_reactor

from kafka_zk.recorder.web.daemon_thread import defer_to_daemon_thread


@pytest.fixture
def outcome(monkeypatch: pytest.MonkeyPatch) -> Event:
    """Set when the thread has handed over its outcome, which then has its effect at once."""
    handed_over = Event()

    def call(function: Any, *arguments: Any) -> None:
        function(*arguments)
        handed_over.set()

    monkeypatch.setattr(any_reactor, "callFromThread", call)
    return handed_over


def test_a_result_and_a_failure_come_back(outcome: Event) -> None:
    found: list[Any] = []
    defer_to_daemon_thread(lambda number: (number, get_ident()), 7).addCallback(found.append)
    assert outcome.wait(10)
    [(number, thread)] = found
    assert number == 7 and thread != get_ident()
    outcome.clear()
    defer_to_daemon_thread(int, "x").addErrback(lambda failure: found.append(failure.type))
    assert outcome.wait(10) and found[1] is ValueError

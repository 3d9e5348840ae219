"""Shared fixtures of the fuzz tests: garbage of other tests is set aside, and unexpected failures are detected."""

import gc
import logging
from collections.abc import Iterator

import pytest
from twisted.logger import LogLevel, capturedLogs


@pytest.fixture(autouse=True)
def without_the_garbage_of_others() -> None:
    """Objects that other tests of this process left are set aside, because the collector would need longer for them
    than the measured work takes.

    They stay aside, with everything that pytest has collected. Otherwise, the collector would examine them three times
    for each later simulated world, which takes longer than the world's own events.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture
def nothing_fails_unexpectedly(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """No input may end an event, a listener or a coroutine with an unexpected exception."""
    caplog.set_level(logging.INFO)
    with capturedLogs() as captured:
        yield
        gc.collect()  # a Deferred logs an unhandled failure when it is collected
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []
    assert [event for event in captured if event["log_level"] is LogLevel.critical] == []

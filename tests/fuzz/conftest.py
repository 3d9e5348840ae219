"""What fuzz tests share: no garbage of others, and that nothing fails unexpectedly."""

import gc
import logging
from collections.abc import Iterator

import pytest
from twisted.logger import LogLevel, capturedLogs


@pytest.fixture(autouse=True)
def without_the_garbage_of_others() -> None:
    """What other tests of this process left is set aside: to look through it takes longer than what is measured.

    It stays aside, with all that pytest has collected. Otherwise each simulated world that comes later would look
    through it, three times, which takes longer than what is played in it.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture
def nothing_fails_unexpectedly(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """No input makes an event, a listener or a coroutine end with an unexpected exception."""
    caplog.set_level(logging.INFO)
    with capturedLogs() as captured:
        yield
        gc.collect()  # a Deferred logs an unhandled failure when it is collected
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []
    assert [event for event in captured if event["log_level"] is LogLevel.critical] == []

"""Long work in slices."""

from collections.abc import Iterator

import pytest
from twisted.internet.defer import Deferred, ensureDeferred
from twisted.internet.task import Clock

from kafka_zk.base.turns import SLICE_S, in_slices


def test_others_get_their_turn_after_each_slice() -> None:
    """The results come in order."""
    clock = Clock()
    events: list[str] = []

    def work() -> Iterator[int]:
        for number in range(5):
            clock.rightNow += SLICE_S * 0.6
            clock.callLater(0, events.append, f"other {number}")
            events.append(f"step {number}")
            yield number

    done = ensureDeferred(in_slices(clock, work()))
    clock.advance(0)
    assert events == [
        *("step 0", "step 1", "other 0", "other 1"),
        *("step 2", "step 3", "other 2", "other 3"),
        *("step 4", "other 4"),
    ]
    assert done.result == list(range(5))


def test_short_work_is_done_at_once() -> None:
    """Short work completes without a turn of the reactor."""
    assert ensureDeferred(in_slices(Clock(), "abc")).result == ["a", "b", "c"]


def test_a_failure_ends_the_work() -> None:
    """A waiting request gets the error."""

    def work() -> Iterator[int]:
        yield 1
        raise OSError("full")

    failed: Deferred[list[int]] = ensureDeferred(in_slices(Clock(), work()))
    with pytest.raises(OSError, match="full"):
        failed.result.raiseException()  # type: ignore[attr-defined]
    failed.addErrback(lambda _: None)

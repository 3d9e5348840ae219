"""The lease ends 2/3 of a session timeout after the last request with a response was sent."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from kafka_zk.registry.client.lease import Lease

TraceFunction = Callable[[FrameType, str, Any], Any]


def test_not_held_before_the_first_answer() -> None:
    assert not Lease(6000).held(0)


def test_counts_from_the_send_time_not_from_the_answer() -> None:
    """If a response took 3 s, 1 s is left of a lease of 4 s."""
    lease = Lease(6000)
    lease.answered(sent_ms=1000)
    assert lease.remaining_ms(4000) == 1000
    assert lease.held(4999)
    assert not lease.held(5000)


def test_answers_out_of_order_never_shorten_it() -> None:
    lease = Lease(6000)
    lease.answered(2000)
    lease.answered(1000)
    assert lease.held(5999)


def test_revoked_until_the_next_answer() -> None:
    lease = Lease(6000)
    lease.answered(0)
    lease.revoke()
    assert not lease.held(1)
    lease.answered(1)
    assert lease.held(2)


@pytest.mark.parametrize("line", [1, 2, 3])
def test_a_revocation_while_another_thread_asks_is_no_error(line: int) -> None:
    """The user's thread checks the lease before each record, while the reactor's thread revokes it before any line of
    the check.
    """
    lease = Lease(6000)
    lease.answered(1000)
    lines: list[int] = []

    def revoke_between_lines(frame: FrameType, event: str, _: object) -> TraceFunction | None:
        if frame.f_code is not Lease.remaining_ms.__code__:
            return None
        if event == "line":
            lines.append(frame.f_lineno)
            if len(lines) == line:
                lease.revoke()
        return revoke_between_lines

    before = sys.gettrace()
    sys.settrace(revoke_between_lines)
    try:
        assert lease.remaining_ms(2000) in (0, 3000)
    finally:
        sys.settrace(before)
    assert lines

"""The lease ends 2/3 of a session timeout after the last answered request was sent."""

from registry.lease import Lease


def test_not_held_before_the_first_answer() -> None:
    assert not Lease(6000).held(0)


def test_counts_from_the_send_time_not_from_the_answer() -> None:
    """An answer that took 3 s leaves 1 s of a lease of 4 s."""
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

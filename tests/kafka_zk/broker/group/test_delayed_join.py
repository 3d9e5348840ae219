"""How long a group waits for its members to join."""

from dataclasses import replace

from kafka_zk.broker.group.delayed_join import DelayedJoin


def test_a_delay_without_a_new_member_ends_the_phase() -> None:
    join = DelayedJoin.initial(1_000, 3_000, 10_000)
    assert join.is_initial and join.deadline_ms == 4_000
    assert join.extended(4_000, 3_000) is None


def test_delays_with_new_members_end_at_the_rebalance_timeout() -> None:
    """KIP-134: each new member adds 3 s, up to 10 s in total."""
    join: DelayedJoin | None = DelayedJoin.initial(0, 3_000, 10_000)
    ends = []
    while join is not None:
        ends.append(join.deadline_ms)
        join = replace(join, has_new_member=True).extended(join.deadline_ms, 3_000)
    assert ends == [3_000, 6_000, 9_000, 10_000]


def test_a_delay_longer_than_the_rebalance_timeout_is_not_extended() -> None:
    join = DelayedJoin.initial(0, 3_000, 2_000)
    join.has_new_member = True
    assert join.extended(3_000, 3_000) is None


def test_a_rebalance_of_members_has_no_initial_delay() -> None:
    join = DelayedJoin(60_000, has_new_member=True)
    assert not join.is_initial and join.extended(60_000, 3_000) is None

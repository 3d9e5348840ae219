"""Which strategy a group uses, and which member leads it."""

import pytest

from kafka_zk.rebalance.group_strategy import STRATEGIES, choose, leader
from kafka_zk.registry.consumers import Member
from kafka_zk.registry.znodes.consumers import ConsumerRegistration


def members(*strategies: tuple[str, ...]) -> dict[str, Member]:
    """m0, m1, …, oldest first."""
    return {
        f"m{number}": Member(ConsumerRegistration({"t": 1}, strategies=announced), 100 + number)
        for number, announced in enumerate(strategies)
    }


@pytest.mark.parametrize(
    ("announced", "expected"),
    [
        ([("range",)], "range"),
        ([("cooperative-sticky", "range")] * 3, "cooperative-sticky"),
        ([("range",), ("cooperative-sticky", "range")], "range"),
        ([("sticky", "range"), ("range", "sticky"), ("sticky", "range")], "sticky"),
        ([("sticky", "roundrobin"), ("roundrobin", "sticky")], "roundrobin"),  # a tie: by name
        ([("lottery", "range")], "range"),  # a strategy of a future version
    ],
)
def test_members_vote_on_the_strategies_that_all_announce(announced: list[tuple[str, ...]], expected: str) -> None:
    choice = choose(members(*announced))
    assert choice.strategy is STRATEGIES[expected] and not choice.warning


@pytest.mark.parametrize(
    ("announced", "expected"),
    [
        ([("range",)], "range"),
        ([("sticky",)], "range"),
        ([("roundrobin", "range")], "range"),
        ([("cooperative-sticky", "roundrobin", "range")], "range"),
        ([("roundrobin", "sticky")], "range"),
        ([("roundrobin",)], "roundrobin"),
        ([("roundrobin",), ("roundrobin",)], "roundrobin"),
        ([("roundrobin",), ("roundrobin", "range")], "range"),
    ],
)
def test_beside_a_member_that_announces_nothing_it_is_range_unless_roundrobin_is_all_there_is(
    announced: list[tuple[str, ...]], expected: str
) -> None:
    """The strategy of Kafka's consumer is unknown; its default is range. All our members make the same choice."""
    choice = choose(members((), *announced))
    assert choice.strategy.name == expected and not choice.strategy.by_leader and choice.warning
    assert choice.why == f"falls back to eager {expected}: m0 announces no strategy"


@pytest.mark.parametrize("announced", [[("sticky",), ("cooperative-sticky",)], [("range",), ("roundrobin",)]])
def test_without_a_common_strategy_everybody_falls_back_to_range(announced: list[tuple[str, ...]]) -> None:
    choice = choose(members(*announced))
    assert choice.strategy.name == "range" and choice.warning


def test_the_oldest_of_our_members_leads() -> None:
    assert leader(members((), ("range",), ("range",))) == "m1"
    assert leader(members(())) is None


def test_cooperative_strategies_need_a_leader() -> None:
    """Without a leader, two members could compute assignments from different owners."""
    assert all(strategy.by_leader for strategy in STRATEGIES.values() if strategy.incremental)

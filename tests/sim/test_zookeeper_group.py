"""The judge finds planted violations, one of each kind."""

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.rebalance import events
from kafka_zk.sim.judges.zookeeper_group import Fact, Kind, facts_of, violations
from tests.rebalance.world import Group

T0 = TopicPartition("t", 0)


def fact(time_ms: float, member: str, kind: Kind, offset: int = -1, token: int = -1) -> Fact:
    return Fact(time_ms, member, kind, T0, offset, token)


def claim(time_ms: float, member: str, token: int) -> Fact:
    return fact(time_ms, member, Kind.CLAIMED, token=token)


HANDED_OVER = [
    claim(1, "a", 1),
    fact(2, "a", Kind.HANDED_OUT, 0),
    fact(3, "", Kind.STORED, 1),
    fact(4, "a", Kind.ENDED),
    claim(5, "b", 3),
    fact(6, "b", Kind.HANDED_OUT, 1),
    fact(7, "", Kind.STORED, 2),
]


def test_a_clean_hand_over_is_no_violation() -> None:
    assert violations(HANDED_OVER, {T0: 2}) == []


@pytest.mark.parametrize(
    ("planted", "position", "words"),
    [
        (fact(5.5, "a", Kind.HANDED_OUT, 1), 5, "a handed out t-0@1, but it is b's"),
        (fact(4.5, "a", Kind.HANDED_OUT, 1), 4, "a handed out t-0@1, but it did not own it"),
        (fact(8, "", Kind.STORED, 1), 7, "went back from 2 to 1"),
        (fact(8, "", Kind.STORED, 4), 7, "4 was committed, but these offsets were never seen: {2, 3}"),
    ],
)
def test_a_planted_violation_is_found(planted: Fact, position: int, words: str) -> None:
    broken = violations([*HANDED_OVER[:position], planted, *HANDED_OVER[position:]])
    assert len(broken) == 1 and words in broken[0]


def test_a_record_that_nobody_saw_is_found() -> None:
    assert violations(HANDED_OVER, {T0: 4}) == ["t-0: 2 of 4 records never handed out: [2, 3]"]


def test_an_end_that_comes_late_does_not_take_the_next_owner_away() -> None:
    late = [claim(1, "a", 1), claim(2, "b", 2), fact(3, "a", Kind.ENDED)]
    assert violations([*late, fact(4, "b", Kind.HANDED_OUT, 0)]) == []


def test_a_claim_that_is_told_late_does_not_take_the_next_owner_away() -> None:
    """A paused member learns of its claim when another member has already claimed the partition."""
    late = [claim(2, "b", 2), claim(3, "a", 1)]
    assert violations([*late, fact(4, "b", Kind.HANDED_OUT, 0)]) == []
    assert violations([*late, fact(4, "a", Kind.HANDED_OUT, 0)]) == ["4: a handed out t-0@0, but it is b's"]


def test_events_become_facts() -> None:
    told = [
        events.Claimed(5, "a", "", 0, {T0: 7}, {T0: 2}),
        events.Released(6, "a", "", 0, (T0,), ()),
        events.OwnershipLost(7, "a", "", 0, (T0,)),
        events.MemberLeft(8, "a", "", 0),
    ]
    facts = [fact for event in told for fact in facts_of(event)]
    assert facts == [
        fact_of for fact_of in (fact(5, "a", Kind.CLAIMED, 7, 2), fact(6, "a", Kind.ENDED), fact(7, "a", Kind.ENDED))
    ]


def test_zookeeper_is_a_witness_in_the_simulator() -> None:
    """A consumer that continues after it was stopped is detected, whatever events it reports."""
    group = Group({"t": 2})
    first, _ = group.join_all("ab")
    (lost,) = set(group.log_ends) - set(first.owned)
    first.positions[lost] = 0
    group.produce(3)
    group.settle()
    assert any("g_a handed out" in broken and "the owner is g_b-0" in broken for broken in group.violations())

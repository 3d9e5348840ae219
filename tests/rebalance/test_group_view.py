"""What a member derives from the data that it has read about its group."""

from typing import Any

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.rebalance.group_strategy import STRATEGIES
from kafka_zk.rebalance.group_view import GroupView
from kafka_zk.rebalance.topic_filter import InvalidTopicFilter
from kafka_zk.rebalance.topics_wanted import NOTHING_WANTED, TopicsWanted
from kafka_zk.registry.consumers import Member
from kafka_zk.registry.znodes.consumers import WHITE_LIST, ConsumerRegistration
from kafka_zk.registry.znodes.group_assignment import GroupAssignment

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
MINE = ConsumerRegistration({"t": 2}, strategies=("cooperative-sticky", "range"))


def view(name: str, **fields: Any) -> GroupView:
    """The view of a group that uses the strategy of that name."""
    members = {"a": Member(MINE, 5), "b": Member(MINE, 3)}
    made = GroupView("a", MINE, True, members, STRATEGIES[name])
    for field, value in fields.items():
        setattr(made, field, value)
    return made


def written(strategy: str = "cooperative-sticky", **threads: str) -> GroupAssignment:
    partitions = {"t0": T0, "t1": T1, "u0": U0}
    return GroupAssignment(4, strategy, "b", {partitions[name]: thread for name, thread in threads.items()})


def test_the_target_is_unknown_until_everything_it_follows_from_is_read() -> None:
    """Until the target is known, a member keeps its partitions: releasing them would be a needless rebalance."""
    read = {"partitions": {"t": (0, 1)}, "broker_ids": frozenset({1})}
    assert view("range", **read).target() == {T0: 0, T1: 1}
    for missing in ("partitions", "broker_ids", "members", "strategy"):
        assert view("range", **{**read, missing: None}).target() is None
    assert view("sticky").target() is None


def test_a_leader_s_assignment_is_followed_as_far_as_it_is_subscribed_to() -> None:
    """The assignment may have been computed for an older registration of the same static member."""
    assignment = written(t0="a-1", t1="a-2", u0="a-0")
    assert view("sticky", assignment=assignment).target() == {T0: 1}


def test_a_member_whose_name_continues_mine_is_another_one() -> None:
    assert view("sticky", assignment=written(t0="a-1-0", t1="a-0")).target() == {T1: 0}


def test_an_assignment_written_without_a_leader_is_ignored() -> None:
    assert view("sticky", assignment=written("range")).target() is None


def test_a_member_that_does_not_assign_need_not_know_the_topics() -> None:
    assert view("sticky").topics_to_watch() == NOTHING_WANTED
    assert view("range").topics_to_watch() == TopicsWanted(frozenset({"t"}))
    leading = view("sticky", members={"a": Member(MINE, 5)})
    assert leading.leads and leading.topics_to_watch() == TopicsWanted(frozenset({"t"}))


def test_what_an_eager_group_starts_over_for() -> None:
    read = {"partitions": {"t": (0, 1)}, "broker_ids": frozenset({1})}
    inputs = view("range", **read).inputs()
    assert inputs == view("range", **read).inputs()
    assert inputs != view("range", **{**read, "broker_ids": frozenset({1, 2})}).inputs()
    assert inputs != view("range", **{**read, "partitions": {"t": (0, 1, 2)}}).inputs()
    assert inputs != view("roundrobin", **read).inputs()
    assert inputs != view("range", **read, members={"a": Member(MINE, 5)}).inputs()
    back = {"a": Member(MINE, 5), "b": Member(MINE, 9)}  # a static member that was away for a moment
    assert inputs == view("range", **read, members=back).inputs()
    first, second = (view("sticky", assignment=written(**{topic: "a-0"})) for topic in ("t0", "t1"))
    assert first.inputs() != second.inputs()
    assert view("cooperative-sticky", assignment=written(t0="a-0")).inputs() is None


def test_a_regular_expression_that_is_not_understood_is_an_error() -> None:
    odd = Member(ConsumerRegistration({"[a-z&&[^b]]": 1}, WHITE_LIST), 7)
    with pytest.raises(InvalidTopicFilter):
        view("range", members={"b": odd}, partitions={"t": (0,)}, broker_ids=frozenset()).target()

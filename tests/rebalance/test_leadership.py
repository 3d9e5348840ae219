"""What the leader writes and when, and the assignment from which it starts."""

from dataclasses import replace
from typing import Any

from kafka_zk.base.types import TopicPartition
from kafka_zk.rebalance.effects import Effect, Note, ReadOwners, SetTimer, WriteAssignment
from kafka_zk.rebalance.group_strategy import STRATEGIES
from kafka_zk.rebalance.group_view import GroupView
from kafka_zk.rebalance.leadership import TIMER, Leadership
from kafka_zk.registry.consumers import Member
from kafka_zk.registry.group_assignments import ABSENT
from kafka_zk.registry.znodes.consumers import ConsumerRegistration
from kafka_zk.registry.znodes.group_assignment import GroupAssignment

T0, T1, T2, T3 = (TopicPartition("t", number) for number in range(4))
DYNAMIC = ConsumerRegistration({"t": 1}, strategies=("sticky",))


def static(name: str) -> ConsumerRegistration:
    return ConsumerRegistration({"t": 1}, strategies=("sticky",), instance_id=name, instance_timeout_ms=1000)


def view(*names: str, strategy: str = "sticky", registration: Any = lambda name: DYNAMIC, **fields: Any) -> GroupView:
    """The view of the member that is named first, which is the oldest."""
    members = {name: Member(registration(name), age) for age, name in enumerate(names)}
    made = GroupView(names[0], registration(names[0]), True, members, STRATEGIES[strategy])
    made.partitions, made.assignment_version = {"t": (0, 1, 2, 3)}, ABSENT
    for field, value in fields.items():
        setattr(made, field, value)
    return made


def work(leadership: Leadership, seen: GroupView, now_ms: float = 0) -> list[Effect]:
    return [each for each in leadership.work(seen, now_ms, "") if not isinstance(each, Note)]


def stands(assignment: dict[TopicPartition, str], **fields: Any) -> GroupAssignment:
    return GroupAssignment(7, "sticky", "a", assignment, **fields)


def test_a_new_group_starts_from_who_owns_what() -> None:
    leadership = Leadership()
    assert work(leadership, view("a", "b")) == [ReadOwners(frozenset({"t"}))]
    assert work(leadership, view("a", "b")) == [], "the znode is being read"
    leadership.owners_read({T0: "b-0", T1: "b-0", T3: "gone-0"})
    (write,) = work(leadership, view("a", "b"))
    assert isinstance(write, WriteAssignment) and write.version == ABSENT
    assert write.assignment.generation == 1 and write.assignment.leader == "a"
    assert write.assignment.assignment == {T0: "b-0", T1: "b-0", T2: "a-0", T3: "a-0"}


def test_the_next_generation_starts_from_the_one_that_stands() -> None:
    before = stands({T0: "b-0", T1: "b-0", T2: "a-0", T3: "a-0"})
    (write,) = work(Leadership(), view("a", "b", "c", assignment=before, assignment_version=3))
    assert isinstance(write, WriteAssignment)
    assert (write.version, write.assignment.generation) == (3, 8)
    kept = [tp for tp, thread in write.assignment.assignment.items() if before.assignment[tp] == thread]
    assert len(kept) == 3


def test_an_equal_assignment_is_not_written_and_none_is_written_twice() -> None:
    complete = stands({T0: "a-0", T1: "a-0", T2: "a-0", T3: "a-0"})
    assert work(Leadership(), view("a", assignment=complete, assignment_version=3)) == []
    leadership = Leadership()
    grown = view("a", "b", assignment=complete, assignment_version=3)
    assert len(work(leadership, grown)) == 1
    assert work(leadership, grown) == [], "the assignment is being written"
    leadership.settled(refused=False)
    assert len(work(leadership, grown)) == 1, "another member wrote first"


def test_a_member_that_does_not_lead_writes_nothing() -> None:
    seen = view("a", "b")
    seen.consumer_id = "b"
    assert work(Leadership(), seen) == []


def test_a_strategy_without_leader_is_marked_once() -> None:
    before = stands({T0: "a-0"})
    (write,) = work(Leadership(), view("a", strategy="range", assignment=before, assignment_version=3))
    assert isinstance(write, WriteAssignment)
    assert (write.assignment.strategy, write.assignment.assignment) == ("range", {})
    marked = view("a", strategy="range", assignment=write.assignment, assignment_version=4)
    assert work(Leadership(), marked) == []
    assert work(Leadership(), view("a", strategy="range")) == [], "a group that never had a leader has no znode"


def test_an_assignment_refused_by_zookeeper_is_not_retried_until_something_changes() -> None:
    leadership = Leadership()
    before = stands({T0: "a-0", T1: "a-0", T2: "a-0", T3: "a-0"})
    grown = view("a", "b", assignment=before, assignment_version=3)
    assert len(work(leadership, grown)) == 1
    leadership.settled(refused=True)
    assert work(leadership, grown) == []
    assert len(work(leadership, view("a", "b", "c", assignment=before, assignment_version=3))) == 1


def test_a_static_member_that_is_away_keeps_its_place_for_its_timeout() -> None:
    before = stands({T0: "a-0", T1: "a-0", T2: "b-0", T3: "b-0"}, static_members={"a": 1000, "b": 1000})
    alone = view("a", registration=static, assignment=before, assignment_version=3)
    leadership = Leadership()
    assert work(leadership, alone, 100) == [SetTimer(TIMER, 1100)]
    assert work(leadership, alone, 1099) == [SetTimer(TIMER, 1100)]
    (write,) = work(leadership, alone, 1100)
    assert isinstance(write, WriteAssignment)
    assert set(write.assignment.assignment.values()) == {"a-0"} and write.assignment.static_members == {"a": 1000}


def test_a_static_member_that_returns_finds_its_place_and_a_new_deadline_next_time() -> None:
    before = stands({T0: "a-0", T1: "a-0", T2: "b-0", T3: "b-0"}, static_members={"a": 1000, "b": 1000})
    leadership = Leadership()
    alone = view("a", registration=static, assignment=before, assignment_version=3)
    together = view("a", "b", registration=static, assignment=before, assignment_version=3)
    work(leadership, alone, 100)
    assert work(leadership, together, 900) == []
    assert work(leadership, alone, 5000) == [SetTimer(TIMER, 6000)]


def test_the_deadline_of_a_place_does_not_run_while_the_connection_is_broken() -> None:
    before = stands({T0: "a-0", T1: "a-0", T2: "b-0", T3: "b-0"}, static_members={"a": 1000, "b": 1000})
    alone = view("a", registration=static, assignment=before, assignment_version=3)
    leadership = Leadership()
    assert work(leadership, alone, 100) == [SetTimer(TIMER, 1100)]
    leadership.suspended(400)
    leadership.suspended(500)
    assert work(leadership, alone, 1100) == [], "the leader has its own timer, and nothing can be written now anyway"
    leadership.resumed(5400)
    assert work(leadership, alone, 5400) == [SetTimer(TIMER, 6100)]
    leadership.resumed(5500)
    assert work(leadership, alone, 6099) == [SetTimer(TIMER, 6100)]
    assert isinstance(work(leadership, alone, 6100)[-1], WriteAssignment)


def test_who_is_away_gets_no_new_topic_but_counts_when_partitions_are_shared() -> None:
    before = stands({T0: "a-0", T1: "a-0", T2: "b-0", T3: "b-0"}, static_members={"b": 1000})
    seen = view("a", "c", assignment=before, assignment_version=3, partitions={"t": (0, 1, 2, 3), "u": (0, 1)})
    (_, write) = work(Leadership(), seen, 0)
    assert isinstance(write, WriteAssignment)
    assert [write.assignment.assignment[tp] for tp in (T2, T3)].count("b-0") >= 1
    assert write.assignment.static_members == {"b": 1000}


def test_a_static_member_that_is_away_keeps_the_share_of_its_capacity() -> None:
    """The member's registration is gone, so its capacity is taken from the assignment."""

    def member(name: str) -> ConsumerRegistration:
        return replace(static(name), strategies=("weighted",), capacity=3 if name == "b" else 1)

    before = GroupAssignment(7, "weighted", "a", {T0: "a-0", T1: "b-0", T2: "b-0", T3: "b-0"}, {"a": 1000, "b": 1000})
    together = view("a", "b", strategy="weighted", registration=member, assignment=before, assignment_version=3)
    (write,) = work(Leadership(), together)
    assert isinstance(write, WriteAssignment)
    assert (write.assignment.assignment, write.assignment.capacities) == (before.assignment, {"a": 1, "b": 3})
    alone = view("a", strategy="weighted", registration=member, assignment=write.assignment, assignment_version=4)
    assert work(Leadership(), alone, 100) == [SetTimer(TIMER, 1100)]


def test_a_static_member_that_is_away_loses_nothing_by_rounding() -> None:
    """b had no partition of t, so its place is on fewer topics, whose proportions are rounded separately."""

    def member(name: str) -> ConsumerRegistration:
        return replace(static(name), subscription={"t": 1, "u": 1}, strategies=("weighted",), capacity=capacities[name])

    capacities = {"a": 1, "b": 5, "c": 5}
    given = {T0: "a-0"} | {TopicPartition("u", number): "b-0" for number in range(5)}
    before = GroupAssignment(7, "weighted", "a", given, {"a": 1000, "b": 1000}, {"a": 1, "b": 5})
    topics = {"t": (0,), "u": tuple(range(5))}
    fields: dict[str, Any] = {"strategy": "weighted", "registration": member, "partitions": topics}
    together = view("a", "b", **fields, assignment=before, assignment_version=3)
    assert work(Leadership(), together) == []
    alone = view("a", **fields, assignment=before, assignment_version=3)
    assert work(Leadership(), alone, 100) == [SetTimer(TIMER, 1100)]
    joined = view("a", "c", **fields, assignment=before, assignment_version=3)
    assert isinstance(work(Leadership(), joined, 100)[-1], WriteAssignment), "c gets its share"
    capacities["a"] = 5
    changed = view("a", **fields, assignment=before, assignment_version=3)
    assert isinstance(work(Leadership(), changed, 100)[-1], WriteAssignment), "a returned with another capacity"

"""The coordinator's events, and those of an outside observer, become rebalances of a broker's group."""

from kafka_zk.base.events import Event
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.group.events import (
    AssignmentCompleted,
    Departure,
    JoinCompleted,
    MemberDeparted,
    MemberIdAssigned,
    MemberJoined,
    MemberSynced,
    MemberToldToRejoin,
    RebalancePrepared,
    StaticMemberReturned,
)
from kafka_zk.rebalance.events import DeliveryStarted, DeliveryStopped
from kafka_zk.recorder.timeline.broker_group import RECORD_MS, BrokerGroupRebalances
from kafka_zk.recorder.timeline.deliveries import Silence
from kafka_zk.recorder.timeline.events import FIRST_LOOK, GenerationSeen, SeenMember, StateSeen
from kafka_zk.recorder.timeline.rebalances import QUIET_MS, CoordinatedBy, GroupRebalance
from kafka_zk.recorder.timeline.summary import Summaries

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
Assigned = dict[str, tuple[TopicPartition, ...]]


def fed(rebalances: BrokerGroupRebalances, *events: Event) -> list[GroupRebalance]:
    """The rebalances that are over by the last event, and then the one that ends if nothing more happens."""
    found = []
    for event in events:
        found.append(rebalances.advance(event.time_ms))
        rebalances.add(event)
    return [each for each in (*found, rebalances.end()) if each is not None]


def prepared(time_ms: int, reason: str = "new member") -> Event:
    return RebalancePrepared(time_ms, "broker-0", reason, 0, "g", 1)


def joins(time_ms: int, member: str, *owned: TopicPartition, new: bool = False) -> Event:
    return MemberJoined(time_ms, "broker-0", "joins", 0, "g", member, new, None, owned)


def told(time_ms: int, member: str) -> Event:
    return MemberToldToRejoin(time_ms, "broker-0", "", 0, "g", member)


def synced(time_ms: int, member: str) -> Event:
    return MemberSynced(time_ms, "broker-0", "", 0, "g", member)


def completed(time_ms: int, generation: int, *members: str) -> Event:
    leader = members[0] if members else ""
    return JoinCompleted(time_ms, "broker-0", "", 0, "g", generation, "range", leader, members)


def assigned(time_ms: int, generation: int, assignments: Assigned) -> Event:
    return AssignmentCompleted(time_ms, "broker-0", "", 0, "g", generation, assignments)


def departed(time_ms: int, member: str, departure: Departure, cause: str = "") -> Event:
    return MemberDeparted(time_ms, "broker-0", cause, 0, "g", member, departure)


def with_anna() -> BrokerGroupRebalances:
    """The group after its first rebalance: anna has both partitions."""
    rebalances = BrokerGroupRebalances()
    [first] = fed(
        rebalances,
        MemberIdAssigned(0, "broker-0", "", 0, "g", "a"), joins(1, "a", new=True), prepared(1),
        completed(3_001, 1, "a"), synced(3_003, "a"), assigned(3_005, 1, {"a": (T0, T1)}),
    )  # fmt: skip
    assert (first.began_ms, first.duration_ms, first.members.joined) == (1, 3_004, ("a",))
    assert first.first_owners == {T0: "a", T1: "a"} and first.silences == ()
    assert first.requests == {"a": 3} and first.coordinated_by is CoordinatedBy.BROKER
    return rebalances


def test_an_eager_join_stops_everything() -> None:
    """The partitions are silent from each JoinGroup to the assignment; each member learns of the rebalance by its
    heartbeat.
    """
    [found] = fed(
        with_anna(),
        joins(4_000, "b", new=True), prepared(4_000), told(5_000, "a"), joins(5_010, "a"),
        completed(5_011, 2, "a", "b"), synced(5_012, "b"), synced(5_015, "a"),
        assigned(5_020, 2, {"a": (T0,), "b": (T1,)}),
    )  # fmt: skip
    assert found.silences == (Silence(T0, "a", "a", 10, False), Silence(T1, "a", "b", 10, False))
    assert (found.members.joined, found.causes, found.strategy) == (("b",), ("b came",), "range")
    assert found.requests == {"a": 3, "b": 2} and found.notifications == {"a": 1}
    line = "b joined: a→b t-1; 1 stopped and went on; silent at most 10 ms; 5 requests"
    assert Summaries("g").line(found) == line
    assert [*Summaries("g").details(found)][2:] == [
        "requests to the coordinator: 5 (a 3, b 2)",
        "heartbeats that announced it: 1 (a 1)",
    ]


def test_a_cooperative_join_is_one_rebalance_of_two_generations() -> None:
    """Only moved partitions are silent, from the first assignment to the second."""
    rebalances = with_anna()
    first = (
        joins(4_000, "b", new=True), prepared(4_000), told(5_000, "a"), joins(5_010, "a", T0, T1),
        completed(5_011, 2, "a", "b"), assigned(5_020, 2, {"a": (T0,), "b": ()}),
    )  # fmt: skip
    assert fed(rebalances, *first) == [], "the rebalance ended while no member delivered t-1"
    assert rebalances.advance(5_020 + QUIET_MS) is None
    [found] = fed(
        rebalances,
        joins(5_400, "a", T0), prepared(5_400, "member a joins again: revoked"), told(5_401, "b"), joins(5_410, "b"),
        completed(5_410, 3, "a", "b"), assigned(5_420, 3, {"a": (T0,), "b": (T1,)}),
    )  # fmt: skip
    assert found.silences == (Silence(T1, "a", "b", 400, False),)
    assert (found.untouched_count, found.causes) == (1, ("b came",))


def test_the_three_ways_to_go() -> None:
    """A member that left has announced it, an expired session has ended, and a member that did not join again is just
    gone.
    """
    for departure, why in (
        (Departure.LEFT, "b left: b→a t-1"),
        (Departure.SESSION_ENDED, "the session of b ended: b→a t-1"),
        (Departure.DROPPED, "b is gone, b did not rejoin in time: b→a t-1"),
    ):
        rebalances = with_anna()
        fed(
            rebalances,
            joins(4_000, "b", new=True), prepared(4_000), joins(4_001, "a"), completed(4_001, 2, "a", "b"),
            assigned(4_002, 2, {"a": (T0,), "b": (T1,)}),
        )  # fmt: skip
        *_, found = fed(
            rebalances,
            departed(6_000, "b", departure, "did not rejoin in time"), prepared(6_000), joins(6_010, "a"),
            completed(6_010, 3, "a"), assigned(6_015, 3, {"a": (T0, T1)}),
        )  # fmt: skip
        assert Summaries("g").line(found).startswith(f"{why}; 1 stopped and went on; silent at most 15 ms")


def test_the_last_one_leaves() -> None:
    """The rebalance ends at once, because an empty group has no assignment."""
    [found] = fed(
        with_anna(), departed(5_000, "a", Departure.LEFT), prepared(5_000), completed(5_000, 2)
    )
    assert found.members.left == ("a",) and {each.partition for each in found.orphaned} == {T0, T1}


def test_a_reason_without_a_change_of_members() -> None:
    """The cause is that of the leader, which joins again because partitions were added."""
    reason = "leader a joins again: cached metadata has changed"
    [found] = fed(
        with_anna(), joins(5_000, "a"), prepared(5_000, reason), completed(5_001, 2, "a"),
        assigned(5_004, 2, {"a": (T0, T1)}),
    )  # fmt: skip
    assert found.causes == (reason,) and found.longest_silence_ms == 4


def test_a_static_member_comes_back_without_a_rebalance() -> None:
    """The member requests the assignment that it had."""
    [found] = fed(
        with_anna(),
        StaticMemberReturned(5_000, "broker-0", "", 0, "g", "a", "a", "a"), joins(5_000, "a"), synced(5_007, "a"),
    )
    assert found.members.returned == ("a",) and {each.silent_ms for each in found.stayed} == {7}


def test_what_a_member_tells_itself_counts() -> None:
    """The member's own events define its silence: it stops when it learns of the rebalance, and starts when it has its
    offsets.
    """
    rebalances = with_anna()
    fed(rebalances, DeliveryStarted(3_100, "a", "", 0, {T0: 5, T1: 5}))
    [found] = fed(
        rebalances,
        joins(4_000, "b", new=True), prepared(4_000), told(5_000, "a"), DeliveryStopped(5_001, "a", "", 0, (T0, T1)),
        joins(5_010, "a"), completed(5_011, 2, "a", "b"), assigned(5_020, 2, {"a": (T0,), "b": (T1,)}),
        DeliveryStarted(5_031, "a", "", 0, {T0: 5}),
    )  # fmt: skip
    assert [each.silent_ms for each in found.silences] == [30, 19]


def seen(time_ms: int, generation: int, *members: SeenMember, joined_ms: int = -1, cause: str = "record") -> Event:
    return GenerationSeen(time_ms, "observer", cause, 0, generation, "range", "a", joined_ms, members)


def test_from_outside() -> None:
    """Existing members are not reported; a silence begins when the rebalance was observed, or when all had joined."""
    rebalances = BrokerGroupRebalances()
    assert fed(rebalances, seen(0, -1, SeenMember("a", (), (T0, T1)), cause=FIRST_LOOK)) == []
    [found] = fed(
        rebalances,
        StateSeen(1_000, "observer", "", 0, "PreparingRebalance"),
        seen(1_040, 2, SeenMember("a", (), (T0,)), SeenMember("b", (), (T1,)), joined_ms=1_030),
        StateSeen(1_100, "observer", "", 0, "Stable"),
    )
    assert found.silences == (Silence(T0, "a", "a", 40, False), Silence(T1, "a", "b", 40, False))
    assert found.members.joined == ("b",) and found.requests == {}
    *_, found = fed(
        rebalances, seen(2_040, 3, SeenMember("a", (T0,), (T0, T1)), joined_ms=2_030)
    )
    assert found.members.gone == ("b",) and found.untouched_count == 1
    assert found.silences == (Silence(T1, "b", "a", 10, True),)


def test_a_group_that_vanishes() -> None:
    """The state Dead means that the coordinator does not know the group any more."""
    rebalances = BrokerGroupRebalances()
    fed(rebalances, seen(0, -1, SeenMember("a", (), (T0,)), cause=FIRST_LOOK))
    [found] = fed(rebalances, StateSeen(1_000, "observer", "", 0, "Dead"))
    assert found.members.gone == ("a",) and rebalances.members == ()


def test_a_record_of_a_generation_that_the_coordinator_told_is_no_news() -> None:
    rebalances = with_anna()
    assert fed(rebalances, seen(3_004, 1, SeenMember("a", (), (T0, T1)))) == []
    assert fed(rebalances, StateSeen(3_100, "observer", "", 0, "PreparingRebalance")) == []


def test_a_state_that_is_seen_late() -> None:
    """The clocks of broker and observer differ, so that the record seems to be older. The state Stable nevertheless
    ends the rebalance.
    """
    rebalances = BrokerGroupRebalances()
    fed(rebalances, seen(0, -1, SeenMember("a", (), (T0,)), cause=FIRST_LOOK))
    [found] = fed(
        rebalances,
        seen(1_000, 2, SeenMember("a", (), (T0,)), SeenMember("b", (), (T1,)), joined_ms=990),
        StateSeen(1_001, "observer", "", 0, "CompletingRebalance"),
        StateSeen(1_101, "observer", "", 0, "Stable"),
    )
    assert found.members.joined == ("b",)


def test_a_record_that_comes_late() -> None:
    """The group is already stable, but the rebalance is reported only when its changes are known."""
    rebalances = BrokerGroupRebalances()
    fed(rebalances, seen(0, -1, SeenMember("a", (), (T0,)), cause=FIRST_LOOK))
    for time_ms, state in ((1_000, "PreparingRebalance"), (1_001, "Stable")):
        rebalances.add(StateSeen(time_ms, "observer", "", 0, state))
    assert rebalances.advance(1_001 + QUIET_MS) is None
    late = seen(1_000, 2, SeenMember("a", (), (T0,)), SeenMember("b", (), (T1,)), joined_ms=1_000)
    rebalances.add(late)
    found = rebalances.advance(1_400)
    assert found is not None and found.members.joined == ("b",) and rebalances.advance(9_000) is None


def test_a_record_that_never_comes() -> None:
    """The record cannot be read, and the rebalance ends after a time limit."""
    rebalances = BrokerGroupRebalances()
    fed(rebalances, seen(0, -1, SeenMember("a", (), (T0,)), cause=FIRST_LOOK))
    for time_ms, state in ((1_000, "PreparingRebalance"), (1_001, "Stable")):
        rebalances.add(StateSeen(time_ms, "observer", "", 0, state))
    assert rebalances.advance(1_001 + RECORD_MS) is not None

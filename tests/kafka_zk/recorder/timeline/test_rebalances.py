"""The members' events become rebalances of the group."""

from kafka_zk.base.events import Event
from kafka_zk.base.types import TopicPartition
from kafka_zk.rebalance.events import (
    DeliveryStarted,
    DeliveryStopped,
    GenerationWritten,
    MemberLeft,
    MemberRegistered,
    OwnershipLost,
    RebalanceFinished,
    RebalanceStarted,
)
from kafka_zk.recorder.timeline.causes import MemberChanges
from kafka_zk.recorder.timeline.deliveries import Silence
from kafka_zk.recorder.timeline.events import FIRST_LOOK, FirstLook, MemberGone, MemberSeen, OwnersGone, OwnersSeen
from kafka_zk.recorder.timeline.rebalances import QUIET_MS, STUCK_MS, UNANSWERED_MS, GroupRebalance, Rebalances
from kafka_zk.registry.client.client import EventType
from kafka_zk.registry.client.events import WatchFired

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
A, B, C = "g_a", "g_b", "g_c"


def fed(rebalances: Rebalances, *events: Event, requests: int | None = None) -> list[GroupRebalance]:
    """The rebalances that are over by the last event, and then the one that ends if nothing more happens."""
    found = []
    for event in events:
        found.append(rebalances.advance(event.time_ms))
        rebalances.add(event, requests)
    return [each for each in (*found, rebalances.end()) if each is not None]


def started(time_ms: int, actor: str, cause: str = "generation 1") -> RebalanceStarted:
    return RebalanceStarted(time_ms, actor, cause, 0, "cooperative-sticky", 1)


def finished(time_ms: int, actor: str) -> RebalanceFinished:
    return RebalanceFinished(time_ms, actor, "", 0, 1, (), (), ())


def delivers(time_ms: int, actor: str, *partitions: TopicPartition) -> DeliveryStarted:
    return DeliveryStarted(time_ms, actor, "", 0, dict.fromkeys(partitions, 5))


def first_rebalance(rebalances: Rebalances) -> list[GroupRebalance]:
    return fed(
        rebalances, MemberRegistered(0, A, "", 0, 1), started(10, A), delivers(20, A, T0, T1), finished(20, A),
        requests=7,
    )  # fmt: skip


def test_a_first_assignment() -> None:
    """No partition stopped, and all have their first owner."""
    (found,) = first_rebalance(Rebalances())
    assert (found.began_ms, found.duration_ms, found.causes) == (0, 20, ("g_a came",))
    assert found.silences == () and found.first_owners == {T0: A, T1: A} and found.untouched_count == 0
    assert found.requests == {A: 7}, "the requests of a newcomer's registration are missing"


def test_a_join_moves_a_partition_and_the_other_never_stops() -> None:
    """The group has one rebalance, although two members took part one after the other."""
    rebalances = Rebalances()
    first_rebalance(rebalances)
    (found,) = fed(
        rebalances,
        MemberRegistered(100, B, "", 0, 2),
        started(110, A, "generation 2"),
        DeliveryStopped(110, A, "", 0, (T1,)),
        WatchFired(111, B, "changed", 0, "/x", EventType.CHANGED),
        finished(120, A),
        started(121, B, "generation 2"),
        delivers(130, B, T1),
        finished(131, B),
        requests=9,
    )
    assert found.silences == (Silence(T1, A, B, 20, False),) == found.moved
    assert (found.members.joined, found.duration_ms, found.untouched_count) == ((B,), 31, 1)
    assert found.requests == {A: 2, B: 9} and found.notifications == {B: 1}


def test_a_death_counts_from_when_it_was_noticed() -> None:
    """Dead members report nothing themselves."""
    rebalances = Rebalances()
    first_rebalance(rebalances)
    assert len(fed(rebalances, MemberRegistered(50, B, "", 0, 2))) == 1
    (found,) = fed(
        rebalances,
        MemberGone(100, "observer", "", 0, A), started(110, B), delivers(150, B, T0, T1), finished(151, B),
    )  # fmt: skip
    assert found.members.expired == (A,) and found.causes == ("g_a is gone",)
    assert found.silences == (Silence(T0, A, B, 50, True), Silence(T1, A, B, 50, True))


def test_one_death_is_one_rebalance() -> None:
    """Two members take over one after the other, before the observer's or the leader's trace contains the reason."""
    rebalances = Rebalances()
    first_rebalance(rebalances)
    fed(rebalances, MemberRegistered(50, B, "", 0, 2), MemberRegistered(60, C, "", 0, 3))
    (found,) = fed(
        rebalances,
        RebalanceStarted(1_100, B, "generation 2", 0, "cooperative-sticky", 2),
        delivers(1_110, B, T0),
        finished(1_110, B),
        RebalanceStarted(1_130, C, "generation 2", 0, "cooperative-sticky", 2),
        GenerationWritten(1_131, B, "g_a went", 0, 2, "cooperative-sticky", 2),
        delivers(1_150, C, T1),
        finished(1_151, C),
        MemberGone(1_160, "observer", "", 0, A),
    )
    assert found.members.expired == (A,) and found.causes == ("g_a is gone",), "the cause is the generation's number"
    assert [(each.before, each.after, each.silent_ms) for each in found.moved] == [(A, B, None), (A, C, None)]
    assert fed(rebalances, MemberGone(1_600, "observer", "", 0, A)) == [], "a known death was reported again"


def test_only_the_members_know_of_a_death() -> None:
    """There is no observer."""
    rebalances = Rebalances()
    first_rebalance(rebalances)
    fed(rebalances, MemberRegistered(50, B, "", 0, 2))
    (found,) = fed(
        rebalances,
        OwnershipLost(1_000, A, "the session ended", 0, (T0, T1)),
        started(1_005, B, "g_a went"), delivers(1_020, B, T0, T1), finished(1_020, B),
    )  # fmt: skip
    assert found.members.expired == (A,) and [each.silent_ms for each in found.moved] == [20, 20]


def test_who_comes_back_is_told_from_who_is_new() -> None:
    """A pause was too long: the member's session ended, and it has a new one."""
    rebalances = Rebalances()
    first_rebalance(rebalances)
    fed(rebalances, MemberGone(1_000, "observer", "", 0, A))
    (found,) = fed(
        rebalances,
        OwnershipLost(9_000, A, "the session ended", 0, (T0, T1)), MemberRegistered(9_001, A, "", 0, 9),
        started(9_002, A, "started"), delivers(9_010, A, T0, T1), finished(9_010, A),
    )  # fmt: skip
    assert found.members.returned == (A,) and found.causes == ("g_a came",)


def test_changes_with_time_between_them_are_two_rebalances() -> None:
    """Without enough time between them, they are one rebalance."""
    for pause_ms, count in ((QUIET_MS - 1, 1), (QUIET_MS, 2)):
        rebalances = Rebalances()
        first_rebalance(rebalances)
        one = (started(1_000, A), finished(1_000, A))
        assert len(fed(rebalances, *one, MemberRegistered(1_000 + pause_ms, B, "", 0, 2))) == count


def test_a_change_waits_for_its_answer() -> None:
    """On a busy machine, the first member begins late, which does not count as a second rebalance. Some changes have no
    reaction at all.
    """
    rebalances = Rebalances()
    first_rebalance(rebalances)
    late_ms = UNANSWERED_MS - 1
    (found,) = fed(
        rebalances,
        MemberRegistered(5_000, B, "", 0, 2), started(5_000 + late_ms, B), finished(5_000 + late_ms, B),
    )  # fmt: skip
    assert found.members.joined == (B,) and found.duration_ms == late_ms
    rebalances.add(MemberRegistered(20_000, C, "", 0, 3))
    assert rebalances.advance(20_000 + UNANSWERED_MS - 1) is None
    found_idle = rebalances.advance(20_000 + UNANSWERED_MS)
    assert found_idle is not None and found_idle.members.joined == (C,)


def test_a_partition_that_nobody_takes_ends_the_rebalance_in_time() -> None:
    """The partition is a static member's or a deleted topic's. Its silence continues, and is reported when a member
    takes it.
    """
    rebalances = Rebalances()
    first_rebalance(rebalances)
    rebalances.add(MemberRegistered(1_000, B, "", 0, 2))
    rebalances.add(MemberGone(1_000, "observer", "", 0, A))
    assert rebalances.advance(1_000 + STUCK_MS - 1) is None and rebalances.in_progress
    found = rebalances.advance(1_000 + STUCK_MS)
    assert found is not None and [each.partition for each in found.orphaned] == [T0, T1]
    (found,) = fed(rebalances, started(9_000, B), delivers(9_100, B, T0, T1), finished(9_100, B))
    assert [each.silent_ms for each in found.moved] == [8_100, 8_100]


def test_owner_znodes_tell_of_a_member_without_a_trace() -> None:
    """The member is a Scala consumer, or one whose trace is not given."""
    rebalances = Rebalances()
    (found,) = fed(
        rebalances, MemberSeen(0, "observer", "", 0, A, ""), OwnersSeen(10, "observer", "", 0, "g_a-0", {T0: 5})
    )
    assert found.first_owners == {T0: A} and found.members.joined == (A,)
    (found,) = fed(
        rebalances,
        MemberSeen(1_000, "observer", "", 0, B, ""), OwnersGone(1_010, "observer", "", 0, "g_a-0", (T0,)),
        OwnersSeen(1_040, "observer", "", 0, "g_b-0", {T0: 9}),
    )  # fmt: skip
    assert found.silences == (Silence(T0, A, B, 30, False),)
    (found,) = fed(rebalances, MemberGone(2_000, "observer", "", 0, A))
    assert found.members.gone == (A,), "nothing shows whether the member left or died"


def test_what_was_there_already_is_no_rebalance() -> None:
    """The first read of the observer reports existing members and owners as events."""
    rebalances = Rebalances()
    assert fed(
        rebalances,
        MemberSeen(0, "observer", FIRST_LOOK, 0, A, ""), OwnersSeen(1, "observer", FIRST_LOOK, 0, "g_a-0", {T0: 5}),
    ) == []  # fmt: skip
    assert rebalances.members == (A,) and rebalances.deliveries.by == {T0: A}


def test_an_old_trace_does_not_keep_a_member_alive() -> None:
    """The member was killed before the observer's first look."""
    rebalances = Rebalances()
    first_rebalance(rebalances)
    assert fed(rebalances, FirstLook(60_000, "observer", FIRST_LOOK, 0, ())) == []
    assert rebalances.members == () and rebalances.busy == () and rebalances.deliveries.by == {}
    (found,) = fed(rebalances, MemberRegistered(70_000, B, "", 0, 2), delivers(70_002, B, T0))
    assert found.members == MemberChanges(joined=(B,))


def test_a_partition_that_stops_and_stays_did_not_move() -> None:
    """In an eager rebalance, every partition stops."""
    rebalances = Rebalances()
    first_rebalance(rebalances)
    (found,) = fed(
        rebalances,
        started(100, A),
        DeliveryStopped(100, A, "", 0, (T0, T1)),
        delivers(130, A, T0, T1),
        finished(130, A),
    )
    assert len(found.silences) == 2 and found.moved == () and found.untouched_count == 0


def test_when_the_last_one_leaves_nobody_takes_over() -> None:
    """The rebalance ends when the member has left."""
    rebalances = Rebalances()
    first_rebalance(rebalances)
    (found,) = fed(
        rebalances,
        started(100, A, "this member leaves"),
        DeliveryStopped(100, A, "", 0, (T0, T1)),
        finished(105, A),
        MemberLeft(106, A, "", 0),
    )
    assert [(each.after, each.silent_ms) for each in found.silences] == [(None, None)] * 2

"""From the members' events to rebalances of the group."""

from kafka_zk.rebalance.events import (
    DeliveryStarted,
    DeliveryStopped,
    GenerationWritten,
    MemberLeft,
    MemberRegistered,
    RebalanceFinished,
    RebalanceStarted,
)
from kafka_zk.registry.client import EventType
from kafka_zk.registry.events import Event, WatchFired
from kafka_zk.storage.types import TopicPartition
from kafka_zk.timeline.events import MemberGone, MemberSeen
from kafka_zk.timeline.rebalances import GroupRebalance, Rebalances, Silence
from kafka_zk.timeline.timeline import HOLD_BACK_MS, Timeline
from kafka_zk.timeline.trace_file import Traced

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
A, B = "g_a", "g_b"


def fed(rebalances: Rebalances, *events: Event, requests: int | None = None) -> list[GroupRebalance]:
    return [found for event in events if (found := rebalances.add(event, requests)) is not None]


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
    """Nobody stopped; the partitions have their first owner."""
    (found,) = first_rebalance(Rebalances())
    assert (found.began_ms, found.duration_ms, found.causes) == (10, 10, ("generation 1",))
    assert found.silences == () and found.first_owners == (T0, T1) and found.untouched_count == 0
    assert found.requests == {A: 7}, "a newcomer's registration counts as well"


def test_a_join_moves_a_partition_and_the_other_never_stops() -> None:
    """One rebalance of the group, although two members took part in turn."""
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
    assert (found.duration_ms, found.untouched_count) == (21, 1)
    assert found.requests == {A: 2, B: 9} and found.notifications == {B: 1}


def test_a_death_counts_from_when_it_was_noticed() -> None:
    """The dead tell nothing themselves."""
    rebalances = Rebalances()
    first_rebalance(rebalances)
    assert fed(rebalances, MemberRegistered(50, B, "", 0, 2), MemberGone(100, "observer", "", 0, A)) == []
    (found,) = fed(rebalances, started(110, B), delivers(150, B, T0, T1), finished(151, B))
    assert found.causes == ("g_a is gone", "generation 1")
    assert found.silences == (Silence(T0, A, B, 50, True), Silence(T1, A, B, 50, True))


def test_a_takeover_before_the_death_was_noticed_is_a_move_of_unknown_silence() -> None:
    """The observer was slower than the members."""
    rebalances = Rebalances()
    first_rebalance(rebalances)
    written = GenerationWritten(109, B, "g_a went", 0, 2, "cooperative-sticky", 2)
    begun = RebalanceStarted(110, B, "generation 2", 0, "cooperative-sticky", 2)
    (found,) = fed(
        rebalances, MemberRegistered(50, B, "", 0, 2), written, begun, delivers(150, B, T0, T1), finished(151, B)
    )
    assert found.causes == ("g_a went",), "the leader's reason, not only its generation's number"
    assert [(each.before, each.after, each.silent_ms) for each in found.moved] == [(A, B, None)] * 2
    assert fed(rebalances, MemberGone(200, "observer", "", 0, A)) == []


def test_a_partition_that_stops_and_stays_did_not_move() -> None:
    """Eager: everything stops."""
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
    """The rebalance is over when he has left."""
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


def test_the_timeline_sorts_and_tells() -> None:
    """Events of two processes come out of order; the summary follows the last event of its rebalance."""
    timeline = Timeline("g")
    events = [
        MemberSeen(1_000, "observer", "", 0, A, "range"), started(1_010, A), delivers(1_020, A, T0), finished(1_021, A),
    ]  # fmt: skip
    for event in reversed(events):
        timeline.add(Traced(event, 12))
    assert list(timeline.lines(now_ms=1_000)) == []
    early = list(timeline.lines(now_ms=1_010 + HOLD_BACK_MS))
    assert early == [
        "    0.000  observer    ids: a is there (can range)",
        "    0.010  a           REBALANCE begins: generation 1",
    ]
    rest = list(timeline.lines())
    assert rest[0] == "    0.020  a           delivers t-0 at 5"
    assert rest[2].endswith("── rebalance 1 (cooperative-sticky): 11 ms, because: generation 1")
    assert rest[3].endswith("0 partitions moved, 0 stopped and stayed, 0 never stopped, 1 have a first owner")
    assert len(timeline.summaries) == 1


def test_the_same_for_programs() -> None:
    """Each event and each rebalance as one JSON object."""
    timeline = Timeline("g")
    timeline.add(Traced(started(1_010, A), 12))
    timeline.add(Traced(finished(1_011, A), 12))
    documents = list(timeline.documents())
    assert [document["event"] for document in documents] == ["RebalanceStarted", "RebalanceFinished", "GroupRebalance"]
    assert documents[0]["requests"] == 12 and documents[2]["duration_ms"] == 1

"""Events in order, and rebalances between them."""

from kafka_zk.base.types import TopicPartition
from kafka_zk.rebalance.events import (
    DeliveryStarted,
    GenerationWritten,
    MemberRegistered,
    RebalanceFinished,
    RebalanceStarted,
)
from kafka_zk.recorder.timeline.events import MemberGone, MemberSeen
from kafka_zk.recorder.timeline.rebalances import QUIET_MS, GroupRebalance
from kafka_zk.recorder.timeline.timeline import HOLD_BACK_MS, Timeline, document
from kafka_zk.recorder.timeline.trace_file import Traced
from kafka_zk.registry.client.events import Reread

A, B = "g_a", "g_b"


def started(time_ms: int, actor: str) -> RebalanceStarted:
    return RebalanceStarted(time_ms, actor, "generation 5", 0, "cooperative-sticky", 5)


def kinds(timeline: Timeline, now_ms: int | None = None) -> list[str]:
    return [
        "GroupRebalance" if isinstance(told, GroupRebalance) else type(told.event).__name__
        for told in timeline.due(now_ms)
    ]


def test_events_are_sorted_and_a_rebalance_is_told_when_it_was_quiet() -> None:
    """The events of two processes arrive out of order."""
    timeline = Timeline()
    events = [
        MemberSeen(1_000, "observer", "", 0, A, "range"), started(1_010, A),
        DeliveryStarted(1_020, A, "", 0, {TopicPartition("t", 0): 5}),
        RebalanceFinished(1_021, A, "", 0, 1, (), (), ()),
    ]  # fmt: skip
    for event in reversed(events):
        timeline.add(Traced(event, 12))
    assert kinds(timeline, 1_000) == []
    assert kinds(timeline, 1_010 + HOLD_BACK_MS) == ["MemberSeen", "RebalanceStarted"]
    assert kinds(timeline, 1_020 + QUIET_MS + HOLD_BACK_MS) == ["DeliveryStarted", "RebalanceFinished"]
    assert [timeline.calm] == [False]
    assert kinds(timeline, 1_021 + QUIET_MS + HOLD_BACK_MS) == ["GroupRebalance"]
    assert timeline.calm and len(timeline.summaries) == 1


def test_at_the_end_nothing_is_held_back() -> None:
    timeline = Timeline()
    timeline.add(Traced(MemberRegistered(1_000, A, "", 0, 1), 12))
    assert kinds(timeline) == ["MemberRegistered", "GroupRebalance"]


def test_the_cause_stands_before_what_came_of_it() -> None:
    """The observer is slower than the members, and so is the leader's own trace."""
    timeline = Timeline()
    ids = "/consumers/g/ids"
    for event in (
        Reread(1_000, A, "child", 40, ids, True),
        Reread(1_002, B, "child", 42, ids, True),
        started(1_010, B),
        GenerationWritten(1_012, A, "g_c went", 0, 5, "cooperative-sticky", 1),
        MemberGone(1_020, "observer", "ids changed", 42, "g_c"),
    ):
        timeline.add(Traced(event, 0))
    told = [each.event for each in timeline.due() if isinstance(each, Traced)]
    assert [type(event).__name__ for event in told] == [
        "Reread", "MemberGone", "Reread", "GenerationWritten", "RebalanceStarted",
    ]  # fmt: skip
    assert [event.time_ms for event in told] == [1_000, 1_002, 1_002, 1_010, 1_010]


def test_the_same_for_programs() -> None:
    """Each event and each rebalance becomes one JSON object."""
    timeline = Timeline()
    timeline.add(Traced(MemberRegistered(1_009, A, "", 0, 1), 10))
    timeline.add(Traced(started(1_010, A), 12))
    timeline.add(Traced(DeliveryStarted(1_011, A, "", 0, {TopicPartition("t", 0): 5}), 12))
    timeline.add(Traced(RebalanceFinished(1_011, A, "", 0, 1, (), (), ()), 13))
    *events, rebalance = map(document, timeline.due())
    assert [event["requests"] for event in events] == [10, 12, 12, 13]
    assert rebalance["event"] == "GroupRebalance" and rebalance["duration_ms"] == 2
    assert rebalance["first_owners"] == {"t-0": A} and rebalance["requests"] == {A: 13}
    assert rebalance["causes"] == ("g_a came",) and rebalance["members"]["joined"] == (A,)

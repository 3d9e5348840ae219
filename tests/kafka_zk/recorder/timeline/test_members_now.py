"""The current partitions and the last event of each member."""

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.group.events import AssignmentCompleted, MemberJoined
from kafka_zk.rebalance.events import Committed, DeliveryStarted, MemberRegistered
from kafka_zk.recorder.timeline.broker_group import BrokerGroupRebalances
from kafka_zk.recorder.timeline.events import GenerationSeen, MemberSeen, OwnersSeen, SeenMember
from kafka_zk.recorder.timeline.members_now import LastEvent, MemberNow, MembersNow
from kafka_zk.recorder.timeline.timeline import Timeline
from kafka_zk.recorder.timeline.trace_file import Traced

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def test_partitions_and_the_last_event_of_each() -> None:
    """A member's own report counts, but neither observations of it nor its commits; for members without reports,
    observations count.
    """
    timeline = Timeline()
    now = MembersNow("g", timeline.rebalances)
    timeline.listeners.append(now.add)
    for event in (
        MemberRegistered(1, "g_anna", "", 0, 255),
        DeliveryStarted(2, "g_anna", "", 0, {T0: 5}),
        OwnersSeen(3, "observer", "", 0, "g_anna-0", {T0: 5}),
        Committed(4, "g_anna", "commit", 0, {T0: 6}),
        MemberSeen(5, "observer", "", 0, "g_ben", "range"),
        OwnersSeen(6, "observer", "", 0, "g_ben-0", {T1: 7}),
    ):
        timeline.add(Traced(event, None))
    list(timeline.due())
    assert now.rows() == [
        MemberNow("g_anna", (T0,), LastEvent(2, "delivers t-0 at 5")),
        MemberNow("g_ben", (T1,), LastEvent(6, "owners: ben-0 has t-1 at 7")),
    ]


@pytest.mark.parametrize(("seen", "last"), [(3, "gets t-0"), (4, "has t-0")])
def test_a_generation_that_its_coordinator_has_reported_says_nothing_new(seen: int, last: str) -> None:
    """The record of a generation may be read after the coordinator's trace, or be the only source."""
    timeline = Timeline(BrokerGroupRebalances())
    now = MembersNow("g", timeline.rebalances)
    timeline.listeners.append(now.add)
    for event in (
        MemberJoined(1, "broker-0", "", 0, "g", "anna", True, None, ()),
        AssignmentCompleted(1, "broker-0", "", 0, "g", 3, {"anna": (T0,)}),
        GenerationSeen(2, "observer", "", 0, seen, "range", "anna", 2, (SeenMember("anna", (), (T0,)),)),
    ):
        timeline.add(Traced(event, None))
    list(timeline.due())
    assert [row.last and row.last.sentence for row in now.rows()] == [last]

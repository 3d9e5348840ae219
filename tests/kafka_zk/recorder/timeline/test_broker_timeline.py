"""The events in the timeline of a broker's group."""

from kafka_zk.base.events import Event
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.group.events import MemberJoined, MemberToldToRejoin
from kafka_zk.rebalance.events import DeliveryStarted
from kafka_zk.recorder.timeline.broker_timeline import BrokerTimeline
from kafka_zk.recorder.timeline.events import FIRST_LOOK, SeenMember
from kafka_zk.recorder.timeline.lines import RebalanceLines, StepLines
from kafka_zk.recorder.timeline.members_now import MembersNow
from kafka_zk.recorder.timeline.timeline import Timeline
from kafka_zk.recorder.timeline.trace_file import Traced
from kafka_zk.registry.client.client import EventType
from kafka_zk.registry.client.events import WatchFired
from tests.kafka_zk.recorder.timeline.test_broker_group import assigned, completed, joins, prepared, seen, synced, told
from tests.kafka_zk.recorder.timeline.test_member_names import ANNA

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def filled(*events: Event) -> BrokerTimeline:
    timeline = BrokerTimeline("g")
    for event in events:
        timeline.add(Traced(event, None))
    return timeline


def anna_joins() -> list[Event]:
    return [
        joins(1, ANNA, new=True), prepared(1), completed(2, 1, ANNA), synced(3, ANNA),
        assigned(4, 1, {ANNA: (T0, T1)}),
    ]  # fmt: skip


def test_only_what_is_about_the_group() -> None:
    """A broker reports events of all its groups, and others; members' own traces belong to the group."""
    other_group = MemberJoined(1, "broker-0", "joins", 0, "h", "x", True, None, ())
    watch = WatchFired(2, "broker-0", "changed", 0, "/controller", EventType.CHANGED)
    own = DeliveryStarted(3, ANNA, "", 0, {T0: 5})
    timeline = filled(other_group, watch, *anna_joins(), own)
    found = [type(each.event) for each in timeline.due() if isinstance(each, Traced)]
    assert found.count(MemberJoined) == 1 and DeliveryStarted in found and WatchFired not in found


def test_lines_of_a_change_and_of_its_steps() -> None:
    """All lines contain short names."""
    events = anna_joins()
    [line] = RebalanceLines("g", filled(*events)).lines()
    assert line[10:] == "anna joined: anna starts t-0,1; 2 requests"
    steps = [*StepLines("g", filled(*events, told(9, ANNA))).lines()]
    assert any(each.endswith("broker-0    anna joins, owns nothing") for each in steps)
    assert any("REBALANCE done, generation 1 is stable: anna gets t-0,1" in each for each in steps)
    assert not any("aaaaaaaa" in each for each in steps)


def test_who_was_there_at_the_first_look() -> None:
    first = seen(0, -1, SeenMember(ANNA, (), (T0,)), cause=FIRST_LOOK)
    assert [*RebalanceLines("g", filled(first)).lines()] == ["at the first look anna has t-0"]


def test_members_now() -> None:
    """A row has a member's partitions and its last event."""
    timeline: Timeline = filled(*anna_joins(), MemberToldToRejoin(9, "broker-0", "", 0, "g", ANNA))
    members = MembersNow("g", timeline.rebalances)
    timeline.listeners.append(members.add)
    assert [*timeline.due()]
    [row] = members.rows()
    assert (row.member, row.partitions) == ("anna", (T0, T1)) and row.last is not None
    assert row.last.sentence == "anna's heartbeat is answered: rebalance in progress"

"""The events that observers receive about a group, from a coordinator with real members' requests."""

from pathlib import Path
from typing import Any

import pytest

from kafka_zk.base.events import EventSource
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.group.coordinator import MemberIdentity
from kafka_zk.broker.group.events import (
    AssignmentCompleted,
    CoordinatorEvent,
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
from kafka_zk.broker.group.reporter import GroupReporter
from kafka_zk.broker.group.requests import Happened, JoinResult
from kafka_zk.protocol.consumer_protocol import Subscription, write_assignment, write_subscription
from kafka_zk.protocol.errors import ErrorCode
from tests.kafka_zk.broker.group.coordinated import EPOCH_MS, SESSION_MS, World, now

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.lead()
    return made


def told(world: World) -> list[CoordinatorEvent]:
    """All events of groups since the last call."""
    found = [event for event in world.events if isinstance(event, CoordinatorEvent)]
    world.events.clear()
    assert all(event.group_id == "g" and event.actor == "broker-0" and event.cause for event in found)
    return found


def subscription(*owned: TopicPartition) -> tuple[tuple[str, bytes], ...]:
    return (("cooperative-sticky", write_subscription(Subscription(("t",), frozenset(owned), 1))),)


def first_member(world: World, **fields: Any) -> JoinResult:
    joined = world.join(protocols=subscription(), **fields)
    world.sync(joined, {joined.member_id: write_assignment([T0, T1])})
    return joined


def test_a_first_member(world: World) -> None:
    """The events run from the JoinGroup to the assignment, in order, with the time and the generation."""
    joined = first_member(world)
    member = joined.member_id
    events = told(world)
    assert [type(event) for event in events] == [
        MemberJoined, RebalancePrepared, JoinCompleted, MemberSynced, AssignmentCompleted,
    ]  # fmt: skip
    assert events[0] == MemberJoined(EPOCH_MS, "broker-0", "joins", 0, "g", member, True, None, ())
    assert events[1].cause == f"new member {member}: no reason given"
    assert events[2] == JoinCompleted(
        EPOCH_MS, "broker-0", events[2].cause, 0, "g", 1, "cooperative-sticky", member, (member,)
    )
    assert isinstance(events[4], AssignmentCompleted) and events[4].assignments == {member: (T0, T1)}


def test_the_others_are_told_by_their_heartbeats(world: World) -> None:
    """A newcomer gets its id first (KIP-394); a member that rejoins sends the partitions that it still owns."""
    first = first_member(world)
    told(world)
    refused = world.join(protocols=subscription(), requires_known_member_id=True)
    assert refused.error is ErrorCode.MEMBER_ID_REQUIRED
    assert [(type(event), event.member) for event in told(world)] == [(MemberIdAssigned, refused.member_id)]  # type: ignore[attr-defined]
    joining = world.begin_join(refused.member_id, protocols=subscription())
    assert world.heartbeat(first) is ErrorCode.REBALANCE_IN_PROGRESS
    world.join(first.member_id, protocols=subscription(T0, T1), reason="rebalance")
    assert now(joining).error is ErrorCode.NONE
    events = told(world)
    assert [type(event) for event in events] == [
        MemberJoined, RebalancePrepared, MemberToldToRejoin, MemberJoined, JoinCompleted
    ]  # fmt: skip
    again = events[3]
    assert isinstance(again, MemberJoined) and (again.is_new, again.owned) == (False, (T0, T1))


def test_how_members_go(world: World) -> None:
    """One member leaves with a reason, one sends no heartbeat, one does not rejoin."""
    first = first_member(world)
    told(world)
    world.coordinator.leave("g", [MemberIdentity(first.member_id, None, "the consumer is closed")])
    left = told(world)
    assert [type(event) for event in left] == [MemberDeparted, RebalancePrepared, JoinCompleted]
    assert isinstance(left[0], MemberDeparted) and left[0].departure is Departure.LEFT
    assert left[0].cause == "left: the consumer is closed"
    assert isinstance(left[2], JoinCompleted) and left[2].members == ()
    first_member(world)
    told(world)
    world.clock.advance(SESSION_MS / 1000)
    departures = [event.departure for event in told(world) if isinstance(event, MemberDeparted)]
    assert departures == [Departure.SESSION_ENDED]
    first = first_member(world)
    world.begin_join(protocols=subscription())
    for _ in range(4):
        world.heartbeat(first)
        world.clock.advance(8)
    late = [(event.departure, event.cause) for event in told(world) if isinstance(event, MemberDeparted)]
    assert late == [(Departure.DROPPED, "did not rejoin in time")]


def test_a_static_member_returns(world: World) -> None:
    """The new member id takes the old one's place."""
    first = first_member(world, group_instance_id="one")
    told(world)
    waiting = world.begin_join(group_instance_id="one", protocols=subscription())
    world.turns()
    again = now(waiting)
    [returned] = [event for event in told(world) if isinstance(event, StaticMemberReturned)]
    assert (returned.group_instance_id, returned.old_member, returned.member) == (
        "one", first.member_id, again.member_id,
    )  # fmt: skip


def test_nothing_is_read_for_nobody() -> None:
    """Without an observer, the reporter does not decode assignments."""
    GroupReporter(EventSource("broker-0")).report("g", Happened(AssignmentCompleted, "", (1, None)))


def test_members_of_another_kind_have_no_partitions(world: World) -> None:
    """Connect workers send metadata in another format."""
    joined = world.join(protocol_type="connect", protocols=(("sessioned", b"\0\1\xff"),))
    world.sync(joined, {joined.member_id: b"\xff\xff\xff"})
    events = told(world)
    assert isinstance(events[0], MemberJoined) and events[0].owned == ()
    assert isinstance(events[-1], AssignmentCompleted) and events[-1].assignments == {joined.member_id: ()}

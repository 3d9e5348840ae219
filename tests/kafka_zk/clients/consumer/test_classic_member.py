"""The member's side of the group protocol, event by event."""

from __future__ import annotations

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.consumer.classic_member import ClassicMember, MemberConfig
from kafka_zk.clients.consumer.classic_states import MemberState
from kafka_zk.clients.consumer.group_effects import (
    CountPartitions,
    Drop,
    Effect,
    Fail,
    FindCoordinator,
    JoinAnswer,
    JoinedMember,
    SendHeartbeat,
    SendJoin,
    SendLeave,
    SendSync,
    Start,
    Stop,
)
from kafka_zk.protocol.consumer_protocol import read_assignment, read_subscription, write_assignment
from kafka_zk.protocol.errors import ErrorCode

A0, A1 = TopicPartition("a", 0), TopicPartition("a", 1)
SESSION_MS, REBALANCE_MS, HEARTBEAT_MS, BACKOFF_MS = 6_000, 10_000, 2_000, 100


class Driven:
    """A member with a clock; ``effects`` are those of the last event."""

    def __init__(self, *assignors: str, instance: str | None = None) -> None:
        config = MemberConfig(assignors or ("range",), instance, SESSION_MS, REBALANCE_MS, HEARTBEAT_MS, BACKOFF_MS)
        self.member = ClassicMember(config)
        self.ms = 1_000
        self.effects: list[Effect] = []

    def do(self, effects: list[Effect]) -> list[Effect]:
        self.effects = effects
        return effects

    def only(self, kind: type[Effect]) -> Effect:
        (found,) = [each for each in self.effects if isinstance(each, kind)]
        return found

    def begin(self) -> SendJoin:
        """Start the member and report its coordinator."""
        assert self.do(self.member.start(["a"], self.ms)) == [FindCoordinator()]
        self.do(self.member.coordinator_found(self.ms))
        join = self.only(SendJoin)
        assert isinstance(join, SendJoin)
        return join

    def joins(self, join: SendJoin, *, generation: int = 1, leader: str = "other", skip: bool = False) -> None:
        members = (JoinedMember("m", None, join.protocols[0][1]),) if leader == "m" else ()
        name = join.protocols[0][0]
        self.do(self.member.join_answered(
            join.number, JoinAnswer(ErrorCode.NONE, "m", generation, name, leader, skip, members), self.ms
        ))  # fmt: skip

    def syncs(self, *tps: TopicPartition) -> None:
        sync = self.only(SendSync)
        assert isinstance(sync, SendSync)
        self.do(self.member.sync_answered(sync.number, ErrorCode.NONE, write_assignment(tps), self.ms))

    def counts(self, counts: dict[str, int]) -> CountPartitions:
        count = self.only(CountPartitions)
        assert isinstance(count, CountPartitions)
        self.do(self.member.partitions_counted(count.number, counts, self.ms))
        return count

    def stable(self, *tps: TopicPartition) -> None:
        self.joins(self.begin())
        self.syncs(*tps)

    def beats(self, code: ErrorCode) -> None:
        self.ms += HEARTBEAT_MS
        sent_ms = self.ms
        self.do(self.member.tick(self.ms))
        beat = self.only(SendHeartbeat)
        assert isinstance(beat, SendHeartbeat)
        self.do(self.member.heartbeat_answered(beat.number, code, sent_ms, self.ms))


def test_a_member_joins_with_the_id_it_is_given_and_starts_what_it_is_assigned() -> None:
    driven = Driven()
    first = driven.begin()
    assert first.member_id == "" and read_subscription(first.protocols[0][1]).topics == ("a",)
    driven.do(driven.member.join_answered(first.number, JoinAnswer(ErrorCode.MEMBER_ID_REQUIRED, "m"), driven.ms))
    second = driven.only(SendJoin)
    assert isinstance(second, SendJoin) and second.member_id == "m"
    driven.joins(second)
    driven.syncs(A0)
    assert driven.effects == [Start(frozenset({A0}))] and driven.member.owned == {A0}
    assert driven.member.may_act(driven.ms + SESSION_MS - 1) and not driven.member.may_act(driven.ms + SESSION_MS)


def test_the_leader_assigns_what_there_is_and_again_when_there_is_more() -> None:
    driven = Driven()
    driven.joins(driven.begin(), leader="m")
    assert driven.counts({"a": 2}).topics == {"a"}
    sync = driven.only(SendSync)
    assert isinstance(sync, SendSync) and read_assignment(sync.assignments["m"]) == [A0, A1]
    driven.syncs(A0, A1)
    assert driven.do(driven.member.partitions_changed({"a": 2}, driven.ms)) == []
    driven.do(driven.member.partitions_changed({"a": 3}, driven.ms))
    stop = driven.only(Stop)
    assert isinstance(stop, Stop) and stop.tps == {A0, A1}


def test_a_count_of_partitions_is_taken_by_the_generation_that_asked_for_it() -> None:
    driven = Driven()
    driven.joins(driven.begin(), leader="m")
    stale = driven.only(CountPartitions)
    driven.beats(ErrorCode.ILLEGAL_GENERATION)
    join = driven.only(SendJoin)
    assert isinstance(join, SendJoin) and isinstance(stale, CountPartitions)
    driven.joins(join, generation=2, leader="m")
    assert driven.member.partitions_counted(stale.number, {"a": 1}, driven.ms) == []
    driven.counts({"a": 2})
    sync = driven.only(SendSync)
    assert isinstance(sync, SendSync) and read_assignment(sync.assignments["m"]) == [A0, A1]


def test_an_eager_member_stops_before_it_joins_a_rebalance_and_heartbeats_go_on() -> None:
    driven = Driven()
    driven.stable(A0)
    driven.beats(ErrorCode.REBALANCE_IN_PROGRESS)
    stop = driven.only(Stop)
    assert isinstance(stop, Stop) and stop.tps == {A0}
    driven.beats(ErrorCode.REBALANCE_IN_PROGRESS)
    assert driven.effects == [] and driven.member.state is MemberState.STOPPING
    driven.do(driven.member.stopped(stop.number, driven.ms))
    assert driven.only(SendJoin) and driven.member.owned == frozenset()


def test_a_cooperative_member_keeps_what_it_has_and_gives_back_what_moves() -> None:
    driven = Driven("cooperative-sticky")
    driven.stable(A0, A1)
    driven.beats(ErrorCode.REBALANCE_IN_PROGRESS)
    join = driven.only(SendJoin)
    assert isinstance(join, SendJoin) and read_subscription(join.protocols[0][1]).owned == {A0, A1}
    driven.joins(join, generation=2)
    driven.syncs(A0)
    stop = driven.only(Stop)
    assert isinstance(stop, Stop) and stop.tps == {A1}
    driven.do(driven.member.stopped(stop.number, driven.ms))
    again = driven.only(SendJoin)
    assert isinstance(again, SendJoin) and read_subscription(again.protocols[0][1]).owned == {A0}


@pytest.mark.parametrize(
    ("code", "member_id"), [(ErrorCode.UNKNOWN_MEMBER_ID, ""), (ErrorCode.ILLEGAL_GENERATION, "m")]
)
def test_who_is_no_member_any_more_drops_everything_and_joins_anew(code: ErrorCode, member_id: str) -> None:
    driven = Driven()
    driven.stable(A0)
    driven.beats(code)
    assert driven.only(Drop) == Drop(frozenset({A0})) and not driven.member.may_act(driven.ms)
    join = driven.only(SendJoin)
    assert isinstance(join, SendJoin) and join.member_id == member_id


@pytest.mark.parametrize("code", [ErrorCode.FENCED_INSTANCE_ID, ErrorCode.GROUP_AUTHORIZATION_FAILED])
def test_what_cannot_be_cured_is_told(code: ErrorCode) -> None:
    driven = Driven()
    driven.stable(A0)
    driven.beats(code)
    assert driven.only(Drop) == Drop(frozenset({A0})) and driven.only(Fail) == Fail(code, "a heartbeat")
    assert driven.member.state is MemberState.LEFT and driven.member.next_due_ms() is None


def test_a_lost_coordinator_is_looked_for_and_the_partitions_are_kept_while_the_lease_lasts() -> None:
    driven = Driven()
    driven.stable(A0)
    driven.beats(ErrorCode.NETWORK_EXCEPTION)
    assert driven.effects == [FindCoordinator()] and driven.member.owned == {A0}
    driven.ms += SESSION_MS
    assert not driven.member.may_act(driven.ms)
    driven.do(driven.member.coordinator_found(driven.ms))
    beat = driven.only(SendHeartbeat)
    assert isinstance(beat, SendHeartbeat)
    driven.do(driven.member.heartbeat_answered(beat.number, ErrorCode.NONE, driven.ms, driven.ms))
    assert driven.member.may_act(driven.ms)


def test_heartbeats_do_not_keep_the_lease_of_who_does_not_join() -> None:
    """The coordinator removes members that do not join within the rebalance timeout, even if they send heartbeats."""
    driven = Driven("cooperative-sticky")
    driven.stable(A0, A1)
    joined_ms = driven.ms
    for _ in range(4):
        driven.member._partitions.stop(99, frozenset({A1}))  # the user keeps the records
        driven.beats(ErrorCode.REBALANCE_IN_PROGRESS)
    assert driven.member.may_act(joined_ms + REBALANCE_MS - 1) and not driven.member.may_act(joined_ms + REBALANCE_MS)


def test_who_gives_up_leaves_until_the_user_comes_back() -> None:
    driven = Driven()
    driven.stable(A0)
    assert driven.do(driven.member.give_up("poll timeout")) == [
        SendLeave("m", "poll timeout"), Drop(frozenset({A0}))
    ]  # fmt: skip
    assert driven.do(driven.member.tick(driven.ms + 60_000)) == []
    driven.do(driven.member.come_back(driven.ms))
    assert driven.only(SendJoin)


def test_a_static_member_goes_without_leaving_and_does_not_assign_again_when_told_so() -> None:
    driven = Driven(instance="i")
    driven.joins(driven.begin(), leader="m", skip=True)
    driven.counts({"a": 2})
    sync = driven.only(SendSync)
    assert isinstance(sync, SendSync) and sync.assignments == {}
    driven.syncs(A0)
    assert driven.do(driven.member.leave("closed")) == []


def test_answers_to_older_requests_and_after_the_end_change_nothing() -> None:
    driven = Driven()
    join = driven.begin()
    driven.joins(join)
    assert driven.member.join_answered(join.number, JoinAnswer(ErrorCode.UNKNOWN_MEMBER_ID), driven.ms) == []
    driven.syncs(A0)
    driven.do(driven.member.leave("closed"))
    assert driven.only(SendLeave) == SendLeave("m", "closed")
    assert driven.do(driven.member.commit_refused("m", 1, ErrorCode.ILLEGAL_GENERATION, driven.ms)) == []


def test_an_assignment_that_is_none_ends_the_member() -> None:
    driven = Driven()
    driven.joins(driven.begin())
    sync = driven.only(SendSync)
    assert isinstance(sync, SendSync)
    driven.do(driven.member.sync_answered(sync.number, ErrorCode.NONE, b"\0", driven.ms))
    assert driven.only(Fail)


def test_a_member_whose_subscription_nobody_understands_gets_nothing() -> None:
    driven = Driven()
    join = driven.begin()
    members = (JoinedMember("m", None, join.protocols[0][1]), JoinedMember("x", None, b"\xff"))
    answer = JoinAnswer(ErrorCode.NONE, "m", 1, "range", "m", False, members)
    driven.do(driven.member.join_answered(join.number, answer, driven.ms))
    driven.counts({"a": 2})
    sync = driven.only(SendSync)
    assert isinstance(sync, SendSync)
    assert [read_assignment(sync.assignments[name]) for name in ("m", "x")] == [[A0, A1], []]


def test_a_member_that_closes_beats_on_and_does_not_join_again() -> None:
    driven = Driven()
    driven.stable(A0)
    driven.member.close()
    for code in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.NONE):
        driven.beats(code)
        assert driven.effects == [] and driven.member.owned == {A0}
    driven.beats(ErrorCode.UNKNOWN_MEMBER_ID)
    assert driven.effects == [Drop(frozenset({A0}))]
    assert driven.member.next_due_ms() is None


def test_a_member_that_closes_goes_on_with_a_rebalance_while_it_has_partitions() -> None:
    driven = Driven("cooperative-sticky")
    driven.stable(A0)
    driven.beats(ErrorCode.REBALANCE_IN_PROGRESS)
    join = driven.only(SendJoin)
    assert isinstance(join, SendJoin)
    driven.member.close()
    driven.do(driven.member.join_answered(join.number, JoinAnswer(ErrorCode.REBALANCE_IN_PROGRESS), driven.ms))
    driven.ms += BACKOFF_MS
    driven.do(driven.member.tick(driven.ms))
    again = driven.only(SendJoin)
    assert isinstance(again, SendJoin)
    driven.joins(again, generation=2)
    driven.syncs(A1)
    assert driven.effects == [] and driven.member.owned == {A0}
    driven.beats(ErrorCode.NONE)
    assert driven.do(driven.member.leave("closed")) == [SendLeave("m", "closed")]

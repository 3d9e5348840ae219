"""A member without a driver: registration, leaving, ended sessions, and broken connections."""

from typing import Any

from kafka_zk.base.types import TopicPartition
from kafka_zk.rebalance import effects, events, inputs
from kafka_zk.rebalance.config import GroupConfig
from kafka_zk.rebalance.effects import Effect, Note
from kafka_zk.rebalance.inputs import Input
from kafka_zk.rebalance.member import GroupMember
from kafka_zk.rebalance.topics_wanted import TopicsWanted
from kafka_zk.registry.consumers import Member
from kafka_zk.registry.owners import Claimed, Taken
from kafka_zk.registry.znodes.consumers import ConsumerRegistration

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
RANGE = ConsumerRegistration({"t": 1}, strategies=("range",))
WANTED = TopicsWanted(frozenset({"t"}))


class Lab:
    """A member and its latest effects."""

    def __init__(self) -> None:
        self.member = GroupMember("c", RANGE, GroupConfig())
        self.notes: list[Any] = []
        self.held_topics: frozenset[str] = frozenset()

    def step(self, event: Input) -> list[Effect]:
        done = self.member.step(event, 1000)
        self.notes += [effect.event for effect in done if isinstance(effect, Note)]
        for effect in done:
            if isinstance(effect, effects.HoldTopics):
                self.held_topics = effect.topics
        return [effect for effect in done if not isinstance(effect, Note | effects.HoldTopics)]

    def join(self) -> "Lab":
        assert self.step(inputs.SessionOpened()) == [effects.Register()]
        assert self.step(inputs.Registered(1, 50)) == []
        assert self.step(self.members("c")) == [effects.WatchTopics(WANTED)]
        assert self.step(inputs.BrokersRead(frozenset({1}))) == []
        claim = effects.ClaimPartition({T0: "c-0", T1: "c-0"})
        assert self.step(inputs.PartitionsRead(WANTED, {"t": (0, 1)})) == [claim]
        self.step(inputs.ClaimSettled({T0: Claimed(5, 1), T1: Claimed(6, 1)}))
        assert self.member.owned == {T0: 0, T1: 0}
        return self

    @staticmethod
    def members(*names: str) -> inputs.MembersRead:
        return inputs.MembersRead({name: Member(RANGE, age) for age, name in enumerate(names)})


def test_a_member_joins() -> None:
    told = [type(event) for event in Lab().join().notes]
    assert told == [
        events.MemberRegistered,
        events.StrategyChosen,
        events.RebalanceStarted,
        events.Claimed,
        events.DeliveryStarted,
        events.RebalanceFinished,
    ]


def test_leaving_stops_commits_releases_and_unregisters_in_this_order() -> None:
    lab = Lab().join()
    assert lab.step(inputs.LeaveRequested()) == [effects.StopDelivery(1, frozenset({T0, T1}))]
    assert lab.step(lab.members("c", "d")) == [], "changes of the group no longer matter"
    assert lab.step(inputs.DeliveryStopped(1, {T0: 9, T1: 9})) == [effects.Release({T0: 9, T1: 9})]
    assert lab.held_topics == {"t"}
    assert lab.step(inputs.ReleaseSettled({T0: True, T1: True})) == [effects.Unregister()]
    assert lab.held_topics == frozenset()
    assert lab.step(inputs.Unregistered()) == [effects.Finish()]
    assert lab.step(inputs.SessionEnded()) == []


def test_leaving_waits_for_claims_under_way() -> None:
    lab = Lab()
    lab.step(inputs.SessionOpened())
    lab.step(inputs.Registered(1, 50))
    lab.step(lab.members("c"))
    lab.step(inputs.BrokersRead(frozenset()))
    lab.step(inputs.PartitionsRead(WANTED, {"t": (0, 1)}))
    assert lab.step(inputs.LeaveRequested()) == []
    assert lab.step(inputs.ClaimSettled({T0: Claimed(5, 1), T1: Taken("d-0")})) == [effects.Release({T0: None})]
    assert lab.step(inputs.ReleaseSettled({T0: True})) == [effects.Unregister()]


def test_a_session_that_ends_takes_everything_and_the_next_one_starts_over() -> None:
    lab = Lab().join()
    assert lab.step(inputs.SessionEnded()) == [effects.DropDelivery(frozenset({T0, T1}))]
    assert lab.step(lab.members("c", "d")) == [], "the data were read in the former session"
    lab.join()


def test_a_session_that_ends_while_leaving_is_the_end() -> None:
    lab = Lab().join()
    lab.step(inputs.LeaveRequested())
    assert lab.step(inputs.SessionEnded()) == [effects.DropDelivery(frozenset({T0, T1})), effects.Finish()]


def test_a_connection_in_doubt_suspends_and_keeps_the_claims() -> None:
    lab = Lab().join()
    assert lab.step(inputs.Suspended()) == [effects.SuspendDelivery()]
    assert lab.step(inputs.Connected(frozenset())) == [effects.ResumeDelivery()]
    assert lab.member.owned == {T0: 0, T1: 0}


def test_partitions_lost_during_a_cut_are_dropped_before_delivery_resumes() -> None:
    lab = Lab().join()
    lab.step(inputs.Suspended())
    dropped, resumed, claim = lab.step(inputs.Connected(frozenset({T0})))
    assert dropped == effects.DropDelivery(frozenset({T0})) and resumed == effects.ResumeDelivery()
    assert claim == effects.ClaimPartition({T0: "c-0"})


def test_after_a_lost_session_the_consumer_is_not_left_suspended() -> None:
    lab = Lab().join()
    lab.step(inputs.Suspended())
    lab.step(inputs.SessionEnded())
    assert lab.step(inputs.SessionOpened()) == [effects.ResumeDelivery(), effects.Register()]


def test_watches_on_owners_are_set_again_after_a_reconnect() -> None:
    lab = Lab().join()
    lab.step(lab.members("c", "d"))
    lab.step(inputs.DeliveryStopped(1, {T0: 9, T1: 9}))
    lab.step(inputs.ReleaseSettled({T0: True, T1: True}))
    lab.step(inputs.ClaimSettled({T0: Taken("d-0")}))
    lab.step(inputs.Suspended())
    assert effects.WatchOwners(frozenset({T0})) in lab.step(inputs.Connected(frozenset()))


def test_a_member_whose_registration_is_gone_gives_everything_back_and_registers() -> None:
    lab = Lab().join()
    stop = effects.StopDelivery(1, frozenset({T0, T1}))
    assert lab.step(lab.members("d")) == [effects.Register(), stop]
    assert lab.step(lab.members("d")) == [], "the request is in progress"
    assert lab.step(inputs.DeliveryStopped(1, {T0: 9, T1: 9})) == [effects.Release({T0: 9, T1: 9})]


def test_an_invalid_subscription_is_reported_once_and_changes_nothing() -> None:
    lab = Lab().join()
    odd = ConsumerRegistration({"[a-z&&[^b]]": 1}, "white_list", strategies=("range",))
    for _ in range(2):
        assert lab.step(inputs.MembersRead({"c": Member(RANGE, 1), "d": Member(odd, 2)})) == []
    assert [type(event) for event in lab.notes].count(events.GroupNotUnderstood) == 1
    assert lab.member.owned == {T0: 0, T1: 0}

"""The actions that a member starts, from the partitions it has and those it should have."""

from typing import Any

from kafka_zk.base.types import TopicPartition
from kafka_zk.rebalance import events
from kafka_zk.rebalance.config import GroupConfig
from kafka_zk.rebalance.delivery import Start
from kafka_zk.rebalance.effects import (
    ClaimPartition,
    DropDelivery,
    Effect,
    Note,
    Release,
    SetTimer,
    StartDelivery,
    StopDelivery,
)
from kafka_zk.rebalance.hand_over import CLAIM_TIMER, HandOver
from kafka_zk.rebalance.outbox import Outbox
from kafka_zk.registry.owners import Claimed, Taken

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


class Lab:
    def __init__(self) -> None:
        self.out = Outbox("c")
        self.hand_over = HandOver(self.out, GroupConfig(rebalance_backoff_ms=100, rebalance_max_retries=3))

    def effects(self) -> list[Effect]:
        """The current effects, without notes."""
        self.hand_over.reconcile()
        return [effect for effect in self.out.take() if not isinstance(effect, Note)]

    def notes(self) -> list[Any]:
        self.hand_over.reconcile()
        return [effect.event for effect in self.out.take() if isinstance(effect, Note)]

    def owning(self, *partitions: TopicPartition, inputs: object = None) -> "Lab":
        self.hand_over.set_target(dict.fromkeys(partitions, 0), inputs=inputs)
        self.effects()
        self.hand_over.claim_settled({tp: Claimed(7, 1) for tp in partitions})
        self.effects()
        return self


def test_a_claim_that_succeeds_starts_delivery_at_the_committed_offset() -> None:
    lab = Lab()
    lab.hand_over.set_target({T0: 1, T1: 0})
    assert lab.effects() == [ClaimPartition({T0: "c-1", T1: "c-0"})]
    assert lab.effects() == []
    lab.hand_over.claim_settled({T0: Claimed(7, 1), T1: Claimed(-1, 0)})
    assert lab.effects() == [StartDelivery({T0: Start(1, 7), T1: Start(0, -1)})]
    assert lab.hand_over.owned == {T0: 1, T1: 0}


def test_a_claim_that_finds_an_owner_watches_it_and_claims_when_it_is_gone() -> None:
    lab = Lab()
    lab.hand_over.set_target({T0: 0})
    lab.effects()
    lab.hand_over.claim_settled({T0: Taken("other-0")})
    assert lab.effects() == [SetTimer(CLAIM_TIMER, 300)]
    assert lab.effects() == []
    lab.hand_over.owners_gone([T0, T1])
    assert lab.effects() == [ClaimPartition({T0: "c-0"})]


def test_incremental_what_stays_is_not_touched_and_claims_do_not_wait() -> None:
    lab = Lab().owning(T0, T1)
    lab.hand_over.set_target({T1: 0, T2: 0})
    assert lab.effects() == [StopDelivery(1, frozenset({T0})), ClaimPartition({T2: "c-0"})]
    lab.hand_over.delivery_stopped(1, {T0: 9})
    assert lab.effects() == [Release({T0: 9})]
    lab.hand_over.release_settled({T0: True})
    lab.hand_over.claim_settled({T2: Claimed(3, 3)})
    (started,) = lab.effects()
    assert started == StartDelivery({T2: Start(0, 3)})


def test_eager_everything_stops_and_is_released_before_anything_is_claimed() -> None:
    lab = Lab().owning(T0, T1, inputs="two members")
    lab.hand_over.set_target({T1: 0, T2: 0}, inputs="three members")
    assert lab.effects() == [StopDelivery(1, frozenset({T0, T1}))]
    lab.hand_over.delivery_stopped(1, {T0: 9, T1: None})
    assert lab.effects() == [Release({T0: 9, T1: None})]
    lab.hand_over.release_settled({T0: True, T1: True})
    assert lab.effects() == [ClaimPartition({T1: "c-0", T2: "c-0"})]


def test_eager_an_equal_basis_stops_nothing() -> None:
    lab = Lab().owning(T0, inputs=("range", {"a": 1}))
    lab.hand_over.set_target({T0: 0}, inputs=("range", {"a": 1}))
    assert lab.effects() == []


def test_changes_that_come_in_a_burst_end_at_the_newest() -> None:
    lab = Lab().owning(T0, inputs=1)
    for number, target in enumerate([{T1: 0}, {T2: 0}, {T0: 0, T1: 0}]):
        lab.hand_over.set_target(target, inputs=10 + number)
        lab.effects()
    lab.hand_over.delivery_stopped(1, {T0: 4})
    lab.effects()
    lab.hand_over.release_settled({T0: True})
    assert lab.effects() == [ClaimPartition({T0: "c-0", T1: "c-0"})]


def test_what_is_claimed_in_vain_goes_back_at_once() -> None:
    lab = Lab()
    lab.hand_over.set_target({T0: 0, T1: 0})
    lab.effects()
    lab.hand_over.set_target({})
    assert lab.effects() == []
    lab.hand_over.claim_settled({T0: Claimed(7, 1), T1: Taken("other-0")})
    assert lab.effects() == [Release({T0: None})]
    lab.hand_over.release_settled({T0: True})
    assert lab.effects() == [] and lab.hand_over.is_empty


def test_a_partition_that_goes_to_another_thread_of_this_member_is_claimed_anew() -> None:
    lab = Lab().owning(T0)
    lab.hand_over.set_target({T0: 1})
    assert lab.effects() == [StopDelivery(1, frozenset({T0}))]
    lab.hand_over.delivery_stopped(1, {T0: 8})
    lab.effects()
    lab.hand_over.release_settled({T0: True})
    assert lab.effects() == [ClaimPartition({T0: "c-1"})]


def test_what_was_lost_while_it_stopped_is_not_released() -> None:
    lab = Lab().owning(T0, T1)
    lab.hand_over.set_target({})
    lab.effects()
    lab.hand_over.lost([T0], "somebody")
    assert lab.effects() == [DropDelivery(frozenset({T0}))]
    lab.hand_over.delivery_stopped(1, {T0: 9, T1: 9})
    assert lab.effects() == [Release({T1: 9})]


def test_the_answer_to_a_former_stop_does_not_end_a_newer_one() -> None:
    lab = Lab().owning(T0)
    lab.hand_over.set_target({})
    lab.effects()
    lab.hand_over.lost([T0], "somebody")
    lab.owning(T0).hand_over.set_target({})
    assert lab.effects() == [StopDelivery(2, frozenset({T0}))]
    lab.hand_over.delivery_stopped(1, {T0: 3})
    assert lab.effects() == []
    lab.hand_over.delivery_stopped(2, {T0: 5})
    assert lab.effects() == [Release({T0: 5})]


def test_an_ended_session_drops_what_is_delivered_and_forgets_the_rest() -> None:
    lab = Lab().owning(T0)
    lab.hand_over.set_target({T0: 0, T1: 0, T2: 0})
    lab.effects()
    lab.hand_over.claim_settled({T1: Taken("other-0")})
    lab.effects()
    lab.hand_over.clear()
    assert lab.effects() == [DropDelivery(frozenset({T0}))] and lab.hand_over.is_empty
    lab.hand_over.claim_settled({T2: Claimed(1, 1)})
    lab.hand_over.owners_gone([T1])
    assert lab.effects() == []


def test_a_rebalance_is_told_from_its_start_to_its_end() -> None:
    lab = Lab().owning(T0, T1)
    lab.out.take()
    lab.out.now_ms, lab.out.cause = 100, "b came"
    lab.hand_over.set_target({T1: 0, T2: 0}, "cooperative-sticky", 4)
    started, stopped = lab.notes()
    assert started == events.RebalanceStarted(100, "c", "b came", 0, "cooperative-sticky", 4)
    assert stopped.partitions == (T0,)
    lab.out.now_ms = 130
    lab.hand_over.delivery_stopped(1, {T0: 9})
    lab.hand_over.release_settled({T0: True})
    lab.hand_over.claim_settled({T2: Claimed(3, 3)})
    assert lab.notes()[-1] == events.RebalanceFinished(130, "c", "b came", 0, 30, (T1,), (T0,), (T2,))


def test_a_wait_that_takes_longer_than_the_patience_is_warned_of_and_goes_on() -> None:
    lab = Lab()
    lab.hand_over.set_target({T0: 0})
    lab.effects()
    lab.hand_over.claim_settled({T0: Taken("other-0")})
    lab.effects()
    lab.out.now_ms = 300
    lab.hand_over.check_overdue_claims()
    effects = lab.out.take()
    (overdue,) = [effect.event for effect in effects if isinstance(effect, Note)]
    assert isinstance(overdue, events.ClaimOverdue) and (overdue.owner, overdue.waited_ms) == ("other-0", 300)
    assert effects[-1] == SetTimer(CLAIM_TIMER, 600)

"""The judges find planted violations, and nothing in a sound history."""

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller.events import ControllerElected
from kafka_zk.broker.group.events import AssignmentCompleted
from kafka_zk.broker.replica.events import RoleChanged
from kafka_zk.broker.replica.partition import Role
from kafka_zk.sim.judges import broker_group, transactions
from kafka_zk.sim.judges import cluster as judges
from kafka_zk.sim.world.clients import key_of
from kafka_zk.sim.world.history import (
    Acked,
    Assigned,
    Began,
    Committed,
    Ended,
    Fact,
    Found,
    HandedOut,
    Happened,
    Kept,
    Lifted,
    Sent,
    Stored,
)
from tests.sim.promptness import disturbed, in_time, reassigned

TP = TopicPartition("durable", 0)
CACHED = TopicPartition("cached", 0)


def sent(value: str, tp: TopicPartition = TP) -> Sent:
    return Sent(0.0, value.rpartition(":")[0], tp, value)


def acked(value: str, offset: int, tp: TopicPartition = TP) -> Acked:
    return Acked(0.0, value.rpartition(":")[0], tp, value, offset)


def log(*values: str, tp: TopicPartition = TP) -> dict[TopicPartition, list[Found]]:
    return {tp: [Found(tp, offset, value) for offset, value in enumerate(values)]}


SOUND: list[Fact] = [sent("p:1"), sent("p:2"), acked("p:1", 0), acked("p:2", 1)]


@pytest.mark.parametrize(
    ("facts", "values", "expected"),
    [
        (SOUND, ("p:1", "p:2"), ""),
        ([*SOUND, sent("p:3")], ("p:1", "p:2"), ""),
        ([*SOUND, sent("p:3")], ("p:1", "p:2", "p:3"), ""),
        (SOUND, ("p:1",), "p:2 was acknowledged at 1, where nothing is"),
        (SOUND, ("p:2", "p:1"), "p:1 comes after p:2"),
        (SOUND, ("p:1", "p:2", "p:2"), "2 times"),
        (SOUND, ("p:1", "p:2", "q:9"), "q:9 was never sent"),
    ],
    ids=["sound", "unanswered", "written-all-the-same", "lost", "order", "twice", "invented"],
)
def test_records(facts: list[Fact], values: tuple[str, ...], expected: str) -> None:
    broken = judges.records(facts, log(*values), {"durable"})
    assert any(expected in each for each in broken) if expected else not broken


def test_a_power_loss_may_take_what_was_not_synced_and_nothing_else_may() -> None:
    facts: list[Fact] = [sent("p:1", CACHED), acked("p:1", 0, CACHED)]
    assert judges.records(facts, log("", tp=CACHED) and {CACHED: []}, {"durable"})
    assert not judges.records([*facts, Happened(1.0, "1000 power broker-1 0")], {CACHED: []}, {"durable"})
    durable: list[Fact] = [sent("p:1"), acked("p:1", 0), Happened(1.0, "1000 power broker-1 0")]
    assert judges.records(durable, {TP: []}, {"durable"})


@pytest.mark.parametrize(
    ("acked_ms", "text", "is_found"),
    [
        (8_000.0, "", False),
        (8_001.0, "", True),
        (None, "", True),
        (8_001.0, "7000 kill broker-1 1000", False),
        (8_001.0, "7000 lag broker-1 0", True),
        (8_001.0, "peace", False),
        (8_001.0, "start broker-1", False),
        (8_001.0, "reassign durable-0 to [1, 2, 3]", True),
    ],
)
def test_what_is_sent_in_calm_is_acknowledged_soon(acked_ms: float | None, text: str, is_found: bool) -> None:
    facts: list[Fact] = [sent("p:1"), Happened(7_000.0, text)]
    if acked_ms is not None:
        facts.append(acked("p:1", 0)._replace(time_ms=acked_ms))
    assert bool(in_time(facts, disturbed(facts), 8_000)) is is_found
    assert not in_time(facts, [(0, 8_000)], 8_000)


@pytest.mark.parametrize(
    ("lags_at_ms", "reassigned_ms", "acked_ms", "is_found"),
    [
        (0.0, [], 8_001.0, True),
        (0.0, [4_000.0], 12_000.0, False),
        (0.0, [4_000.0], 12_001.0, True),
        (0.0, [4_000.0, 9_000.0], 17_000.0, False),
        (0.0, [8_001.0], 8_002.0, True),
        (-12_000.0, [4_000.0], 8_001.0, True),
    ],
)
def test_a_reassignment_gives_a_follower_that_lags_its_time_again(
    lags_at_ms: float, reassigned_ms: list[float], acked_ms: float, is_found: bool
) -> None:
    happened = [Happened(at_ms, "reassign durable-0 to [1, 2, 3]") for at_ms in reassigned_ms]
    lags = Happened(lags_at_ms, "0 lag broker-1 0")
    facts: list[Fact] = [lags, sent("p:1"), *happened, acked("p:1", 0)._replace(time_ms=acked_ms)]
    assert bool(in_time(facts, disturbed(facts), 8_000, reassigned(facts))) is is_found


def test_what_a_consumer_was_given_stays_where_it_was() -> None:
    facts: list[Fact] = [HandedOut(0.0, "m", TP, 0, "p:1")]
    assert not judges.seen(facts, log("p:1"), {"durable"})
    assert judges.seen(facts, log("p:2"), {"durable"}) and judges.seen(facts, {TP: []}, {"durable"})


def elected(actor: str, epoch: int) -> Lifted:
    return Lifted(0.0, actor, ControllerElected(0, actor, "", 0, epoch))


def test_controllers() -> None:
    assert not judges.controllers([elected("controller-1", 1), elected("controller-2", 2)])
    assert judges.controllers([elected("controller-1", 1), elected("controller-2", 1)])
    assert judges.controllers([elected("controller-1", 2), elected("controller-2", 1)])


def leads(actor: str, epoch: int) -> Lifted:
    return Lifted(0.0, actor, RoleChanged(0, actor, "", 0, TP, Role.LEADER, epoch, None))


def test_epochs() -> None:
    assert not judges.epochs([leads("broker-1", 1), leads("broker-1", 2), leads("broker-2", 1)])
    assert judges.epochs([leads("broker-1", 2), leads("broker-1", 1)])
    assert not judges.epochs([leads("broker-1", 2), Happened(0.0, "start broker-1"), leads("broker-1", 1)])


def test_the_group() -> None:
    handed: list[Fact] = [HandedOut(0.0, "m", TP, 0, "p:1")]
    assert any("did not own it" in each for each in judges.group(handed, None))
    assert any("never seen" in each for each in judges.group([Stored(0.0, TP, 1)], None))
    stored: list[Fact] = [Stored(0.0, TP, 0), Stored(1.0, TP, 1), Stored(2.0, TP, 0)]
    assert any("went back" in each for each in judges.group(stored, None))


OTHER_TP = TopicPartition("durable", 1)
GENERATIONS = [Assigned(1, {"a": (TP, OTHER_TP)}), Assigned(2, {"a": (TP,), "b": (OTHER_TP,)})]


def handed(member: str, generation: int, tp: TopicPartition = TP, offset: int = 0) -> HandedOut:
    return HandedOut(0.0, member, tp, offset, "p:1", generation)


def told(generation: int, **owned: tuple[TopicPartition, ...]) -> Lifted:
    return Lifted(0.0, "broker-1", AssignmentCompleted(0, "broker-1", "", 0, "g", generation, owned))


@pytest.mark.parametrize(
    ("facts", "stored", "expected"),
    [
        ([handed("a", 1), handed("a", 2), handed("b", 2, OTHER_TP)], GENERATIONS, ""),
        ([handed("a", 1), told(2, b=(TP,)), handed("b", 2)], GENERATIONS[:1], ""),
        ([], [Assigned(1, {"a": (TP,), "b": (TP,)})], "has 2 owners in generation 1"),
        ([told(1, a=(TP,), b=(TP,))], [], "has 2 owners in generation 1"),
        ([told(1, a=(TP,))], GENERATIONS, "generation 1 has two assignments"),
        ([told(1, a=(TP,)), told(1, b=(TP,))], [], "generation 1 has two assignments"),
        ([handed("b", 2)], GENERATIONS, "in which a owns it"),
        ([handed("a", 2, OTHER_TP)], GENERATIONS, "in which b owns it"),
        ([handed("c", 1, CACHED)], GENERATIONS, "did not own it"),
        ([handed("b", 2, OTHER_TP), handed("a", 1, OTHER_TP)], GENERATIONS, "after b had done so in generation 2"),
        ([handed("a", 3)], GENERATIONS, ""),
        ([handed("b", 3)], GENERATIONS, "did not own it"),
    ],
    ids=[
        "sound", "told-only", "two-owners-stored", "two-owners-told", "two-coordinators", "one-coordinator-twice",
        "not-the-owner", "former-owner", "never-owned", "late", "kept-meanwhile", "not-kept",
    ],
)  # fmt: skip
def test_generations(facts: list[Fact], stored: list[Assigned], expected: str) -> None:
    broken = broker_group.generations(facts, "g", stored)
    assert any(expected in each for each in broken) if expected else not broken


def test_generations_of_another_group_do_not_count() -> None:
    assert not broker_group.generations([told(1, a=(TP,), b=(TP,))], "other", [])


@pytest.mark.parametrize(
    ("facts", "offsets", "expected"),
    [
        ([handed("a", 1), Committed(1.0, "a", TP, 1)], (0, 1, 1), ""),
        ([handed("a", 1)], (0, 1, 0), "went back from 1 to 0"),
        ([handed("a", 1)], (0, 1, -1), "went back from 1 to -1"),
        ([handed("a", 1), Committed(1.0, "a", TP, 1)], (0,), "which is lost"),
        ([Committed(1.0, "a", TP, 1), handed("a", 1)], (0, 1), "never seen: [0]"),
        ([HandedOut(0.0, "a", TP, 0, "p:1"), Committed(1.0, "a", TP, 1)], (0, 1), "never seen: [0]"),
    ],
    ids=["sound", "back", "deleted", "lost", "too-early", "seen-by-another-group"],
)
def test_commits(facts: list[Fact], offsets: tuple[int, ...], expected: str) -> None:
    broken = broker_group.commits(facts, [Kept(TP, offset) for offset in offsets])
    assert any(expected in each for each in broken) if expected else not broken


def test_every_record_is_handed_out_by_the_group_of_the_broker() -> None:
    facts: list[Fact] = [handed("a", 1, offset=0), HandedOut(0.0, "m", TP, 1, "p:2")]
    assert not broker_group.all_handed_out(facts, {TP: 1})
    assert any("1 of 2 records" in each for each in broker_group.all_handed_out(facts, {TP: 2}))
    assert not judges.group([handed("a", 1)], None), "the other group's members own nothing in ZooKeeper"


COMPACTED = TopicPartition("compacted", 0)
REPLACED: list[Fact] = [
    *(sent(value, COMPACTED) for value in ("p:1", "p:2", "p:21")),
    *(acked(value, offset, COMPACTED) for offset, value in enumerate(("p:1", "p:2", "p:21"))),
]


@pytest.mark.parametrize(
    ("kept", "expected"),
    [
        ({0: "p:1", 1: "p:2", 2: "p:21"}, ""),
        ({1: "p:2", 2: "p:21"}, ""),
        ({2: "p:21"}, "p:2@1 is gone"),
        ({0: "p:1", 1: "p:2"}, "p:21@2 is gone"),
        ({1: "p:21", 2: "p:2"}, "p:2@1 is gone"),
        ({1: "p:2", 2: "p:21", 3: "p:22"}, "p:22 was never sent"),
        ({1: "p:2", 2: "p:21", 3: "p:21"}, "p:21 is in the log 2 times"),
    ],
)
def test_a_compacted_log_keeps_the_last_value_of_each_key(kept: dict[int, str], expected: str) -> None:
    logs = {COMPACTED: [Found(COMPACTED, offset, value) for offset, value in kept.items()]}
    broken = judges.last_values(REPLACED, logs, key_of)
    assert (not broken) if not expected else any(expected in each for each in broken)


OTHER = TopicPartition("durable", 1)


@pytest.mark.parametrize(
    ("ended", "read", "expected"),
    [
        ([Ended(1, "p", True)], ("p:1", "p:2"), ""),
        ([Ended(1, "p", False)], (), ""),
        ([], ("p:1",), ""),
        ([Ended(1, "p", True)], ("p:2",), "p committed a transaction: readers do not get p:1 in durable-0, but p:2"),
        ([Ended(1, "p", True)], (), "p committed a transaction: readers do not get p:1 in durable-0 and p:2 in"),
        ([Ended(1, "p", False)], ("p:2",), "p aborted a transaction: readers get p:2 in durable-0"),
    ],
    ids=["committed", "aborted", "unknown", "torn", "lost", "aborted-read"],
)
def test_transactions(ended: list[Fact], read: tuple[str, ...], expected: str) -> None:
    """The record before the transaction, those of another producer and of an unread partition are not part of it."""
    facts = [sent("p:0"), Began(0, "p"), sent("p:1"), sent("q:1"), sent("p:2"), sent("p:3", OTHER), *ended, sent("p:4")]
    [*found] = transactions.violations(facts, log(*read))
    assert (expected in found[0] if expected else not found), found

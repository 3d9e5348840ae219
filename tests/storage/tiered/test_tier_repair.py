"""Which findings are repaired, and what must not be deleted."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest

from kafka_zk.storage.tiered.aiven_layout import AivenLayout
from kafka_zk.storage.tiered.object_store import StoredObject
from kafka_zk.storage.tiered.remote_log_metadata import RemotePartitionLog
from kafka_zk.storage.tiered.segment_metadata import RemoteLogSegmentMetadata
from kafka_zk.storage.tiered.tier_check import Kind, LogFacts, TierFacts, TopicFacts, examine
from kafka_zk.storage.tiered.tier_repair import (
    LEAST_AGE_MS,
    Action,
    Kept,
    RepairStep,
    StepFacts,
    candidates,
    refusal,
)
from tests.storage.tiered.segments import DELETING, FINISHED, T, remote_log, segment, update
from tests.storage.tiered.test_tier_check import LAYOUT, NOW_MS, SEGMENTS, clean, key

OLD_MS = NOW_MS - LEAST_AGE_MS
GONE_BROKER, LIVE_BROKER = 7, 1
COPY = replace(segment(9, 20, 39, at_ms=OLD_MS), broker_id=GONE_BROKER)
ORPHAN = segment(8, 0, 19)


def keys(of: RemoteLogSegmentMetadata) -> dict[str, int]:
    return {each.key: 7 for each in LAYOUT.objects(of, None) if each.is_required}


def planned(facts: TierFacts) -> tuple[list[RepairStep], list[Kept]]:
    steps, kept = candidates(facts, examine(facts))
    return [step for _, step in steps], kept


def with_objects(facts: TierFacts, *segments: RemoteLogSegmentMetadata) -> TierFacts:
    more = {name: size for each in segments for name, size in keys(each).items()}
    return replace(facts, objects={**facts.objects, **more})


def orphan_step() -> RepairStep:
    [step], kept = planned(with_objects(clean(), ORPHAN))
    assert not kept
    return step


def copy_step() -> RepairStep:
    [step], kept = planned(with_objects(clean(COPY), COPY))
    assert not kept
    return step


def now(step: RepairStep, remote: RemotePartitionLog | None = None, **changes: Any) -> StepFacts:
    """Facts that allow the step. The metadata know the three finished segments, and the one of the step."""
    if remote is None:
        remote = remote_log(*SEGMENTS)
        if step.segment is not None:
            remote.segments[step.segment_id] = step.segment
    objects = [StoredObject(name, size, OLD_MS) for name, size in step.sizes.items()]
    facts = StepFacts(NOW_MS, LEAST_AGE_MS, True, LogFacts(0, 30, [(0, 0)]), remote, False, frozenset({1}), objects)
    return facts._replace(**changes)


def test_the_objects_of_an_orphan_are_deleted() -> None:
    step = orphan_step()
    assert (step.action, step.tp, step.segment_id) == (Action.DELETE_ORPHAN, T, ORPHAN.segment_id.id)
    assert set(step.keys) == set(step.sizes) == set(keys(ORPHAN))
    assert all(name.startswith(step.stem) for name in step.keys)
    assert refusal(step, now(step)) is None


def test_each_orphaned_segment_is_a_step_of_its_own() -> None:
    """The finding counts all orphans of a partition."""
    steps, _ = planned(with_objects(clean(), ORPHAN, segment(7, 0, 19)))
    assert [step.segment_id for step in steps] == [UUID(int=7), UUID(int=8)]


def test_a_copy_of_a_broker_that_is_gone_is_deleted() -> None:
    step = copy_step()
    assert (step.action, step.segment) == (Action.DELETE_COPY, COPY)
    assert refusal(step, now(step)) is None


@pytest.mark.parametrize("live", [frozenset({GONE_BROKER}), frozenset({LIVE_BROKER})])
def test_a_deletion_is_ended_whatever_broker_began_it(live: frozenset[int]) -> None:
    """The optional object that a segment may have is deleted, too, if it exists."""
    deleting = replace(COPY, state=DELETING)
    facts = with_objects(clean(COPY), COPY)
    facts.metadata.apply(update(COPY, DELETING, OLD_MS))
    [step], kept = planned(facts)
    assert (step.action, step.segment, kept) == (Action.END_DELETION, deleting, [])
    assert key(COPY, ".txnindex") in step.keys and key(COPY, ".txnindex") not in step.sizes
    assert refusal(step, now(step, live_brokers=live)) is None


@pytest.mark.parametrize("make", [orphan_step, copy_step])
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"is_tiered": False}, "remote.storage.enable of the topic is not true"),
        ({"is_tiered": "no answer"}, "whether the topic is tiered is not known: no answer"),
        ({"log": "no leader"}, "gaps of the partition are not known: no leader"),
        ({"log": LogFacts(0, 31, [(0, 0)])}, "the partition has a gap"),
        ({"is_doubtful": True}, "not understood"),
        ({"objects": []}, "the objects have changed since the check"),
    ],
)
def test_what_may_be_the_only_copy_is_kept(make: Callable[[], RepairStep], changes: Any, reason: str) -> None:
    """With a gap, or without facts about gaps, no object of the partition is deleted."""
    step = make()
    assert reason in (refusal(step, now(step, **changes)) or "")


@pytest.mark.parametrize("make", [orphan_step, copy_step])
def test_objects_that_are_young_or_have_changed_are_kept(make: Callable[[], RepairStep]) -> None:
    step = make()
    first, *others = now(step).objects
    young, changed = first._replace(modified_ms=OLD_MS + 1), first._replace(size_bytes=8)
    assert refusal(step, now(step, objects=[young, *others])) == "an object was written less than 120 minutes ago"
    for objects in ([changed, *others], [first, *others, StoredObject(f"{step.stem}more", 1, 0)]):
        assert refusal(step, now(step, objects=objects)) == "the objects have changed since the check"


def test_an_orphan_that_the_metadata_know_by_now_is_kept() -> None:
    step = orphan_step()
    log = remote_log(*SEGMENTS)
    log.apply(ORPHAN)
    assert refusal(step, now(step, log)) == "the metadata know the segment by now"


def test_an_orphan_of_a_partition_without_metadata_is_kept_if_records_are_only_remote() -> None:
    """The records of the metadata topic were lost. The leader's first local offset is 30."""
    step = orphan_step()
    assert "gap" in (refusal(step, now(step, RemotePartitionLog())) or "")
    all_local = LogFacts(30, 30, [(0, 0)])
    assert refusal(step, now(step, RemotePartitionLog(), log=all_local)) is None


@pytest.mark.parametrize(
    ("start", "log_start", "is_kept"), [(0, 0, True), (0, 1, False), (29, 0, False), (30, 0, True)]
)
def test_an_orphan_that_no_readable_segment_replaces_is_kept(start: int, log_start: int, is_kept: bool) -> None:
    """The leader has all records, or lost them together with the metadata. In both cases, it has no gap. Retention
    may have deleted what begins before the log.
    """
    step = replace(orphan_step(), start_offset=start)
    log = remote_log(*SEGMENTS) if start else RemotePartitionLog()
    reason = refusal(step, now(step, log, log=LogFacts(log_start, log_start, [(0, 0)])))
    assert (reason is not None) is is_kept
    assert reason is None or f"no readable segment has offset {start}" in reason


@pytest.mark.parametrize(
    ("changed", "live", "reason"),
    [
        (COPY, {GONE_BROKER}, "broker 7, which began the copy, is alive and may finish it"),
        (replace(COPY, broker_id=-1), set(), "do not say which broker"),
        (replace(COPY, event_timestamp_ms=OLD_MS + 1), set(), "begun less than 120 minutes ago"),
    ],
)
def test_a_copy_that_may_be_in_progress_is_kept(changed: Any, live: set[int], reason: str) -> None:
    step = replace(copy_step(), segment=changed)
    assert reason in (refusal(step, now(step, live_brokers=frozenset(live))) or "")


@pytest.mark.parametrize(
    ("epochs", "lineage", "log_start", "is_kept"),
    [
        ([(1, 20)], [(0, 0), (1, 15)], 0, False),
        ([(0, 20), (1, 30)], [(0, 0), (1, 30)], 0, False),
        ([(1, 20)], [(0, 0), (2, 20)], 0, True),  # the leader of epoch 1 was not in sync with that of epoch 2
        ([(0, 20)], [(0, 0), (2, 39)], 0, True),  # the last record of epoch 0 was lost
        ([(0, 20)], [(0, 0), (2, 40)], 0, False),
        ([(1, 20)], [(0, 0), (1, 21), (2, 40)], 0, True),
        ([(0, 20)], [(7, 0)], 0, True),  # the leader lost its disk
        ([(0, 20), (1, 30)], [(1, 30)], 30, False),  # retention deleted epoch 0
        ([(0, 20)], [(7, 40)], 40, False),
    ],
)
def test_a_copy_of_records_that_the_leader_lost_is_kept(
    epochs: Any, lineage: list[tuple[int, int]], log_start: int, is_kept: bool
) -> None:
    step = replace(copy_step(), segment=replace(COPY, leader_epochs=tuple(epochs)))
    reason = refusal(step, now(step, log=LogFacts(log_start, log_start, lineage)))
    assert (reason is not None) is is_kept
    assert reason is None or "be their only copy" in reason


@pytest.mark.parametrize("state", [FINISHED, DELETING])
def test_a_copy_whose_state_has_changed_is_kept(state: Any) -> None:
    step = copy_step()
    log = remote_log(*SEGMENTS)
    log.segments[step.segment_id] = replace(COPY, state=state)
    assert refusal(step, now(step, log)) == "the metadata of the segment have changed since the check"


@pytest.mark.parametrize("kind", [Kind.MISSING, Kind.SIZE, Kind.GAP])
def test_nothing_of_a_partition_that_misses_records_is_deleted(kind: Kind) -> None:
    """The orphan and the unfinished copy may have the records that are missing."""
    facts = with_objects(clean(COPY), COPY, ORPHAN)
    objects = dict(facts.objects)
    if kind is Kind.MISSING:
        del objects[key(SEGMENTS[1])]
    elif kind is Kind.SIZE:
        objects[key(SEGMENTS[1])] = 3
    logs = {T: LogFacts(0, 31 if kind is Kind.GAP else 30, [(0, 0)])}
    steps, kept = planned(replace(facts, objects=objects, logs=logs))
    assert not steps
    assert [each.kind for each in kept] == [kind, Kind.UNFINISHED_COPY, Kind.ORPHAN]
    assert all("only copy" in each.reason for each in kept[1:])


def test_what_needs_a_person_is_only_reported() -> None:
    """Tiering is turned off, a topic is gone, and the plugin did not write an object."""
    facts = replace(clean(), topics={T.topic_id: TopicFacts("t", False)})
    facts = replace(facts, objects={**facts.objects, f"{LAYOUT.prefix}README": 1})
    other = T._replace(topic_id=UUID(int=5), topic="gone")
    facts.metadata.apply(segment(4, 0, 9, tp=other))
    steps, kept = planned(facts)
    assert not steps
    assert [each.kind for each in kept] == [Kind.TRAP, Kind.DELETED_TOPIC, Kind.ORPHAN]


def test_a_segment_without_objects_at_an_unconfirmed_address_is_kept() -> None:
    """With a wrong address, the metadata would forget objects that remain in the bucket. A finished segment's object
    confirms the address.
    """
    facts = clean(COPY)
    [step], _ = planned(facts)
    assert step.sizes == {} and step.keys
    alone = replace(facts, metadata=type(facts.metadata)(), objects={}, logs={T: LogFacts(30, 30, [(0, 0)])})
    alone.metadata.apply(COPY)
    steps, [kept] = planned(alone)
    assert not steps and "may be the wrong one" in kept.reason


def test_a_segment_whose_metadata_name_another_segments_objects_is_kept() -> None:
    """Tag 2 of the plugin's custom metadata is the key without its prefix and suffix."""
    layout = AivenLayout("")
    victim = layout.objects(SEGMENTS[0], None)[0].key.removesuffix(".log").encode()
    custom = bytes((1, 2, len(victim) + 1, len(victim) + 1)) + victim
    evil = replace(COPY, custom_metadata=custom)
    facts = replace(clean(evil), layout=layout)
    stored = {each.key: 100 for of in SEGMENTS for each in layout.objects(of, None)}
    assert layout.objects(evil, None) == layout.objects(SEGMENTS[0], None)
    steps, [kept] = planned(replace(facts, objects=stored))
    assert not steps and "those of another segment" in kept.reason

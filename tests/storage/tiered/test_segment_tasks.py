"""Copying and deleting one segment, with failures at each step."""

import dataclasses
from collections.abc import Mapping

import pytest

from kafka_zk.storage.tiered.segment_tasks import (
    COPY_TRANSITIONS,
    DELETE_TRANSITIONS,
    CopyObjects,
    IllegalTaskEvent,
    RemoveObjects,
    SegmentCopy,
    SegmentDeletion,
    TaskEffect,
    TaskEvent,
    TaskState,
    WriteMetadata,
)
from tests.storage.tiered.segments import DELETED, DELETING, FINISHED, segment, update

BEGUN, WRITTEN, COPIED, REMOVED, STEP_FAILED, TIMED_OUT, DEPOSED = TaskEvent
SEGMENT = segment(1, 0, 9)


def last_of(task: SegmentCopy | SegmentDeletion, *events: TaskEvent, now_ms: int = 5) -> TaskEffect | None:
    """The last effect of the last event."""
    effect = None
    for event in events:
        effect = task.step(event, now_ms)
    return effect


def test_copy_writes_copies_and_writes() -> None:
    """The metadata say that the segment can be read only once all its objects are complete."""
    task = SegmentCopy(SEGMENT, 100)
    assert task.step(BEGUN, 1) == WriteMetadata(SEGMENT)
    assert task.step(WRITTEN, 2) == CopyObjects(SEGMENT)
    finished = update(SEGMENT, FINISHED, 3)._replace(custom_metadata=b"x")
    assert task.step(COPIED, 3, b"x") == WriteMetadata(finished)
    assert task.step(WRITTEN, 4) is None and task.state is TaskState.DONE


def test_deletion_writes_deletes_and_writes() -> None:
    """The metadata say that the segment can no longer be read before its first object is deleted."""
    task = SegmentDeletion(SEGMENT)
    assert task.step(BEGUN, 1) == WriteMetadata(update(SEGMENT, DELETING, 1))
    assert task.step(WRITTEN, 2) == RemoveObjects(SEGMENT)
    assert task.step(REMOVED, 3) == WriteMetadata(update(SEGMENT, DELETED, 3))
    assert task.step(WRITTEN, 4) is None and task.state is TaskState.DONE


def test_a_deletion_that_begins_again_writes_only_its_end() -> None:
    task = SegmentDeletion(dataclasses.replace(SEGMENT, state=DELETING))
    assert task.step(BEGUN, 1) == RemoveObjects(task.segment)
    assert task.step(REMOVED, 3) == WriteMetadata(update(SEGMENT, DELETED, 3))


def test_deletion_repeats_custom_metadata() -> None:
    """Kafka's brokers replace their metadata with those of the record, and may have to continue this deletion."""
    task = SegmentDeletion(dataclasses.replace(SEGMENT, custom_metadata=b"x"))
    for events, state in (((BEGUN,), DELETING), ((WRITTEN, REMOVED), DELETED)):
        assert last_of(task, *events) == WriteMetadata(update(SEGMENT, state, 5)._replace(custom_metadata=b"x"))


def test_objects_of_a_failed_copy_are_deleted() -> None:
    """The task deletes no objects that a thread may still be writing or that readers may have used."""
    for events in ((STEP_FAILED,), (DEPOSED, COPIED), (DEPOSED, STEP_FAILED)):
        task = SegmentCopy(SEGMENT, 100)
        assert last_of(task, BEGUN, WRITTEN, *events) == RemoveObjects(SEGMENT)
        assert last_of(task, DEPOSED, REMOVED) is None and task.state is TaskState.FAILED
    for events in ((TIMED_OUT,), (DEPOSED, TIMED_OUT), (COPIED, STEP_FAILED), (COPIED, TIMED_OUT)):
        task = SegmentCopy(SEGMENT, 100)
        assert last_of(task, BEGUN, WRITTEN, *events) is None
        assert task.state is TaskState.FAILED


def test_deposed_leader_begins_nothing() -> None:
    """A deposed leader's task still finishes a record that it has already sent."""
    for task in (SegmentCopy(SEGMENT, 100), SegmentDeletion(SEGMENT)):
        assert last_of(task, BEGUN, DEPOSED) is None and task.state is TaskState.FAILED
    task = SegmentCopy(SEGMENT, 100)
    assert last_of(task, BEGUN, WRITTEN, COPIED, DEPOSED, WRITTEN) is None and task.state is TaskState.DONE


def test_late_copy_does_not_finish() -> None:
    """Another leader may delete the late copy as unfinished."""
    task = SegmentCopy(SEGMENT, 100)
    assert last_of(task, BEGUN, WRITTEN) == CopyObjects(SEGMENT)
    assert task.step(COPIED, 101, b"x") == RemoveObjects(dataclasses.replace(SEGMENT, custom_metadata=b"x"))
    task = SegmentCopy(SEGMENT, 100)
    assert last_of(task, BEGUN, WRITTEN, now_ms=101) is None and task.state is TaskState.FAILED


@pytest.mark.parametrize("table", [COPY_TRANSITIONS, DELETE_TRANSITIONS])
def test_every_waiting_state_can_end(table: Mapping[TaskState, Mapping[TaskEvent, TaskState]]) -> None:
    """A step that hangs or fails leaves no task behind."""
    ends = {TaskState.DONE, TaskState.FAILED}
    assert {state for state, following in table.items() if not following} == ends
    for state, following in table.items():
        if state not in (*ends, TaskState.NEW):
            assert following[TIMED_OUT] is TaskState.FAILED
            assert STEP_FAILED in following


@pytest.mark.parametrize("events", [(WRITTEN,), (BEGUN, COPIED), (BEGUN, STEP_FAILED, WRITTEN)])
def test_illegal_events_change_nothing(events: tuple[TaskEvent, ...]) -> None:
    task = SegmentCopy(SEGMENT, 100)
    last_of(task, *events[:-1])
    before = task.state
    with pytest.raises(IllegalTaskEvent, match=f"{events[-1].name} in {before.name}"):
        task.step(events[-1], 5)
    assert task.state is before

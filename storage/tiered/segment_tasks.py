"""The state machines of copying one segment to remote storage, and of deleting one. Pure.

A driver carries out each effect, on a thread or as a request, and reports the result as the next event. A segment can
be read only between the records COPY_SEGMENT_FINISHED and DELETE_SEGMENT_STARTED, so all objects are complete before
the first record is written, and are removed after the second can be read back. The remote log manager drives these
machines.
Source: RemoteLogManager.copyLogSegment, deleteRemoteLogSegment@3.9.
"""

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from typing import NamedTuple

from kafka_zk.storage.tiered.segment_metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
)


class TaskState(Enum):
    """What a task waits for, or how it ended."""

    NEW = "new"
    WRITING_STARTED = "writing that it began"
    COPYING = "copying the objects"
    ABANDONING = "copying, but not the leader any more"
    DELETING = "deleting the objects"
    DISCARDING = "deleting the objects of a failed copy"
    WRITING_FINISHED = "writing that it ended"
    DONE = "done"
    FAILED = "failed"


class TaskEvent(Enum):
    BEGUN = "begun"
    WRITTEN = "the record was read back"
    COPIED = "all objects are stored"
    REMOVED = "all objects are deleted"
    STEP_FAILED = "a step failed, and nothing of it is in progress"
    TIMED_OUT = "a step did not end in time, and may still be in progress"
    DEPOSED = "the broker does not lead the partition any more"


_S, _E = TaskState, TaskEvent

COPY_TRANSITIONS: Mapping[TaskState, Mapping[TaskEvent, TaskState]] = {
    _S.NEW: {_E.BEGUN: _S.WRITING_STARTED},
    _S.WRITING_STARTED: {
        _E.WRITTEN: _S.COPYING, _E.STEP_FAILED: _S.FAILED, _E.TIMED_OUT: _S.FAILED, _E.DEPOSED: _S.FAILED,
    },
    _S.COPYING: {
        _E.COPIED: _S.WRITING_FINISHED, _E.STEP_FAILED: _S.DISCARDING, _E.TIMED_OUT: _S.FAILED,
        _E.DEPOSED: _S.ABANDONING,
    },
    _S.ABANDONING: {_E.COPIED: _S.DISCARDING, _E.STEP_FAILED: _S.DISCARDING, _E.TIMED_OUT: _S.FAILED},
    _S.DISCARDING: {
        _E.REMOVED: _S.FAILED, _E.STEP_FAILED: _S.FAILED, _E.TIMED_OUT: _S.FAILED, _E.DEPOSED: _S.DISCARDING,
    },
    _S.WRITING_FINISHED: {
        _E.WRITTEN: _S.DONE, _E.STEP_FAILED: _S.FAILED, _E.TIMED_OUT: _S.FAILED, _E.DEPOSED: _S.WRITING_FINISHED,
    },
    _S.DONE: {},
    _S.FAILED: {},
}  # fmt: skip
"""State -> event -> next state. Objects are discarded only if no broker can have read COPY_SEGMENT_FINISHED, and no
thread still writes them. A failed copy leaves the record COPY_SEGMENT_STARTED, by which expiration finds the remaining
objects."""

DELETE_TRANSITIONS: Mapping[TaskState, Mapping[TaskEvent, TaskState]] = {
    _S.NEW: {_E.BEGUN: _S.WRITING_STARTED},
    _S.WRITING_STARTED: {
        _E.WRITTEN: _S.DELETING, _E.STEP_FAILED: _S.FAILED, _E.TIMED_OUT: _S.FAILED, _E.DEPOSED: _S.FAILED,
    },
    _S.DELETING: {
        _E.REMOVED: _S.WRITING_FINISHED, _E.STEP_FAILED: _S.FAILED, _E.TIMED_OUT: _S.FAILED, _E.DEPOSED: _S.DELETING,
    },
    _S.WRITING_FINISHED: {
        _E.WRITTEN: _S.DONE, _E.STEP_FAILED: _S.FAILED, _E.TIMED_OUT: _S.FAILED, _E.DEPOSED: _S.WRITING_FINISHED,
    },
    _S.DONE: {},
    _S.FAILED: {},
}  # fmt: skip
"""A failed deletion begins again, because the segment stays in DELETE_SEGMENT_STARTED."""


class WriteMetadata(NamedTuple):
    """Write this record, and wait until this broker reads it back."""

    record: RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate


class CopyObjects(NamedTuple):
    segment: RemoteLogSegmentMetadata


class RemoveObjects(NamedTuple):
    """Remove the segment's objects; missing ones are not an error."""

    segment: RemoteLogSegmentMetadata


TaskEffect = WriteMetadata | CopyObjects | RemoveObjects


class IllegalTaskEvent(Exception):
    """The state does not accept this event; nothing was changed."""


_ENDED_BY_DEADLINE = {(_S.WRITING_STARTED, _E.WRITTEN), (_S.COPYING, _E.COPIED)}


class SegmentCopy:
    """Copies one segment. ``segment``: in COPY_SEGMENT_STARTED, with an id that no other attempt has.

    ``deadline_ms``: the copy must not finish after this time, because a leader may then delete it as unfinished.
    """

    def __init__(self, segment: RemoteLogSegmentMetadata, deadline_ms: int) -> None:
        self.segment = segment
        self.state = TaskState.NEW
        self._deadline_ms = deadline_ms

    def step(self, event: TaskEvent, now_ms: int, custom_metadata: bytes | None = None) -> TaskEffect | None:
        """Returns the next effect; None if there is nothing to do. ``custom_metadata``: the value that the storage
        plugin returned with COPIED. Raises: IllegalTaskEvent."""
        if now_ms > self._deadline_ms and (self.state, event) in _ENDED_BY_DEADLINE:
            event = TaskEvent.STEP_FAILED
        before, self.state = self.state, _next(COPY_TRANSITIONS, self.state, event)
        if self.state is before:
            return None
        if self.state is TaskState.WRITING_STARTED:
            return WriteMetadata(self.segment)
        if self.state is TaskState.COPYING:
            return CopyObjects(self.segment)
        if self.state is TaskState.DISCARDING:
            return RemoveObjects(replace(self.segment, custom_metadata=custom_metadata))
        if self.state is TaskState.WRITING_FINISHED:
            return WriteMetadata(
                RemoteLogSegmentMetadataUpdate(
                    self.segment.segment_id, now_ms, custom_metadata, RemoteLogSegmentState.COPY_SEGMENT_FINISHED
                )
            )
        return None


class SegmentDeletion:
    """Deletes one remote segment, in any state before DELETE_SEGMENT_FINISHED. A deletion that begins again does not
    write DELETE_SEGMENT_STARTED again. Otherwise, while a store is unavailable for a long time, each attempt would add
    metadata."""

    def __init__(self, segment: RemoteLogSegmentMetadata) -> None:
        self.segment = segment
        self.state = TaskState.NEW

    def step(self, event: TaskEvent, now_ms: int) -> TaskEffect | None:
        """Returns the next effect; None if there is nothing to do. Raises: IllegalTaskEvent."""
        before, self.state = self.state, _next(DELETE_TRANSITIONS, self.state, event)
        if self.state is before:
            return None
        if self.state is TaskState.WRITING_STARTED:
            if self.segment.state is RemoteLogSegmentState.DELETE_SEGMENT_STARTED:
                return self.step(TaskEvent.WRITTEN, now_ms)
            return self._write(RemoteLogSegmentState.DELETE_SEGMENT_STARTED, now_ms)
        if self.state is TaskState.DELETING:
            return RemoveObjects(self.segment)
        if self.state is TaskState.WRITING_FINISHED:
            return self._write(RemoteLogSegmentState.DELETE_SEGMENT_FINISHED, now_ms)
        return None

    def _write(self, state: RemoteLogSegmentState, now_ms: int) -> WriteMetadata:
        """Repeat the custom metadata, because Kafka brokers otherwise forget it, and their plugin may need it to find
        the objects when they continue the deletion."""
        return WriteMetadata(
            RemoteLogSegmentMetadataUpdate(self.segment.segment_id, now_ms, self.segment.custom_metadata, state)
        )


def _next(table: Mapping[TaskState, Mapping[TaskEvent, TaskState]], state: TaskState, event: TaskEvent) -> TaskState:
    following = table[state].get(event)
    if following is None:
        raise IllegalTaskEvent(f"{event.name} in {state.name}")
    return following

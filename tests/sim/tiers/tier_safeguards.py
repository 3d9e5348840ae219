"""Safeguards of tiered storage that can be removed for a run: a judge must notice.

``python -m tests.sim.tiers.tier_safeguards NAME --seeds 0-9`` plays until one does.
"""

import sys
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

import pytest

from kafka_zk.broker.tiered import remote_log_manager
from kafka_zk.broker.tiered.deleted_partitions import DeletedPartitions
from kafka_zk.broker.tiered.remote_log_manager import RemoteLogManager
from kafka_zk.broker.tiered.remote_log_metadata_manager import RemoteLogMetadataManager
from kafka_zk.protocol import uuids
from kafka_zk.sim.campaign.run import Outcome
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.tiered import copy_selection, local_retention, remote_retention, segment_tasks
from kafka_zk.storage.tiered.remote_log_metadata import RemotePartitionLog
from kafka_zk.storage.tiered.segment_metadata import RemoteLogSegmentMetadata, RemoteLogSegmentState, TopicIdPartition
from kafka_zk.storage.tiered.segment_tasks import TaskEvent, TaskState
from kafka_zk.storage.tiered.tiered_replica import TieredReplica
from tests.sim import taken_out
from tests.sim.taken_out import TakeOut
from tests.sim.tiers import tiered
from tests.sim.tiers.tiered import TIER_FAULTS, play_tiered

_STARTED = RemoteLogSegmentState.COPY_SEGMENT_STARTED


def local_deletion_before_the_copy_is_finished(patch: pytest.MonkeyPatch) -> None:
    """A local segment is deleted when retention says so, even if it was not copied."""
    patch.setattr(local_retention, "is_covered", lambda *arguments: True)


def objects_are_deleted_before_the_metadata(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        segment_tasks,
        "DELETE_TRANSITIONS",
        {**segment_tasks.DELETE_TRANSITIONS, TaskState.NEW: {TaskEvent.BEGUN: TaskState.DELETING}},
    )


def finished_before_the_objects_are_stored(patch: pytest.MonkeyPatch) -> None:
    begun = {**segment_tasks.COPY_TRANSITIONS[TaskState.WRITING_STARTED], TaskEvent.WRITTEN: TaskState.WRITING_FINISHED}
    patch.setattr(
        segment_tasks, "COPY_TRANSITIONS", {**segment_tasks.COPY_TRANSITIONS, TaskState.WRITING_STARTED: begun}
    )


def finished_after_the_deadline(patch: pytest.MonkeyPatch) -> None:
    """A copy that failed or is late counts as finished."""
    copying = {**segment_tasks.COPY_TRANSITIONS[TaskState.COPYING], TaskEvent.TIMED_OUT: TaskState.WRITING_FINISHED,
               TaskEvent.STEP_FAILED: TaskState.WRITING_FINISHED}  # fmt: skip
    patch.setattr(segment_tasks, "COPY_TRANSITIONS", {**segment_tasks.COPY_TRANSITIONS, TaskState.COPYING: copying})


def failed_copies_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Expiration does not delete unfinished copies."""
    original = remote_retention._is_deleted

    def if_finished(segment: RemoteLogSegmentMetadata, *more: int) -> bool:
        return segment.state is not _STARTED and original(segment, *more)

    patch.setattr(remote_retention, "_is_deleted", if_finished)


def copies_beyond_the_last_stable_offset(patch: pytest.MonkeyPatch) -> None:
    """All closed segments are copied, even with uncommitted records."""
    original = copy_selection.segments_to_copy

    def all_closed(log: RemotePartitionLog, leader: TieredReplica, last_stable_offset: int) -> Any:
        return original(log, leader, leader.log_end_offset)

    patch.setattr(remote_log_manager, "segments_to_copy", all_closed)


def metadata_are_not_read_to_the_end(patch: pytest.MonkeyPatch) -> None:
    """A leader begins with the metadata that it has read so far."""

    async def at_once(self: RemoteLogMetadataManager, tp: TopicIdPartition) -> RemotePartitionLog:
        return self.log(tp)

    patch.setattr(RemoteLogMetadataManager, "complete_log", at_once)


def deposed_leaders_go_on(patch: pytest.MonkeyPatch) -> None:
    """A task continues after its broker has lost the leadership."""
    patch.setattr(remote_log_manager._Term, "is_over", False)


def copies_in_progress_are_abandoned(patch: pytest.MonkeyPatch) -> None:
    """A new leader deletes segments that the deposed leader is still copying."""
    patch.setattr(tiered, "ABANDONED_AFTER_MS", 0)


def attempts_share_their_segment_id(patch: pytest.MonkeyPatch) -> None:
    """A segment's id is derived from its first offset."""
    original = RemoteLogManager._described

    def described(self: Any, term: Any, candidate: Any) -> RemoteLogSegmentMetadata:
        found = original(self, term, candidate)
        same = UUID(int=((term.tp.topic_id.int ^ (term.tp.partition << 64)) + found.start_offset) % (1 << 128))
        return replace(found, segment_id=found.segment_id._replace(id=same))

    patch.setattr(RemoteLogManager, "_described", described)


def retention_counts_local_bytes_only(patch: pytest.MonkeyPatch) -> None:
    """The local log's limits apply to the remote log."""
    original = remote_retention.remote_deletion

    def by_local_limits(log: Any, leader: Any, config: Any, *more: Any) -> Any:
        is_bounded = config.retention_bytes >= 0
        local = replace(config, retention_bytes=config.local_retention_bytes)
        return original(log, leader, local if is_bounded else config, *more)

    patch.setattr(remote_log_manager, "remote_deletion", by_local_limits)


def deleted_partitions_are_not_noted(patch: pytest.MonkeyPatch) -> None:
    """A deleted replica leaves its remote segments behind."""

    async def nothing(self: DeletedPartitions, logs: Iterable[Log]) -> None:
        return None

    patch.setattr(DeletedPartitions, "note", nothing)


def deletions_go_by_name(patch: pytest.MonkeyPatch) -> None:
    """Leftovers of a deleted topic count as those of the current topic with its name."""
    original = DeletedPartitions.of_gone_topics

    async def of_names(self: Any) -> list[TopicIdPartition]:
        found = await original(self)
        existing = await self._topics.assignments({tp.topic for tp in found})
        ids = {name: uuids.from_text(assignment.topic_id) for name, assignment in existing.items()}
        return [tp._replace(topic_id=ids.get(tp.topic, tp.topic_id)) for tp in found]

    patch.setattr(DeletedPartitions, "of_gone_topics", of_names)


SAFEGUARDS: dict[str, TakeOut] = {
    take_out.__name__: take_out
    for take_out in (
        local_deletion_before_the_copy_is_finished,
        copies_beyond_the_last_stable_offset,
        metadata_are_not_read_to_the_end,
        deposed_leaders_go_on,
        objects_are_deleted_before_the_metadata,
        finished_before_the_objects_are_stored,
        finished_after_the_deadline,
        failed_copies_are_forgotten,
        copies_in_progress_are_abandoned,
        attempts_share_their_segment_id,
        retention_counts_local_bytes_only,
        deleted_partitions_are_not_noted,
        deletions_go_by_name,
    )
}


FAULTS = {
    "metadata_are_not_read_to_the_end": ("outlived",),
    "deposed_leaders_go_on": ("expire", "store-slow", "store-slow"),
}
"""Faults that make it likely that a run needs the safeguard."""


def play_tiered_without(name: str, seed: int) -> Outcome:
    """A run without one of ``SAFEGUARDS``."""
    play = partial(play_tiered, kinds=FAULTS.get(name, TIER_FAULTS))
    return taken_out.play_without(SAFEGUARDS[name], play, seed)


if __name__ == "__main__":
    sys.exit(taken_out.find("tests.sim.tiers.tier_safeguards", SAFEGUARDS, play_tiered, "0-9"))

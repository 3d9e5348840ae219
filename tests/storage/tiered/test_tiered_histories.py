"""Random histories of a tiered partition: appends, copies that fail, retention, elections, replaced replicas."""

from collections.abc import Callable

import pytest

from kafka_zk.storage.tiered import epoch_lineage, local_retention, remote_retention, segment_tasks
from kafka_zk.storage.tiered.auxiliary_state import AuxiliaryStart
from kafka_zk.storage.tiered.remote_log_metadata import RemotePartitionLog
from kafka_zk.storage.tiered.segment_metadata import RemoteLogSegmentState
from tests.storage.tiered import tiered_world
from tests.storage.tiered.tiered_world import TieredWorld

HISTORIES, STEPS = 40, 200

Plant = Callable[[pytest.MonkeyPatch], None]


def run() -> list[TieredWorld]:
    worlds = [TieredWorld(seed) for seed in range(HISTORIES)]
    for world in worlds:
        for _ in range(STEPS):
            world.step()
    return worlds


def test_every_offset_is_local_or_remote() -> None:
    """The histories are not trivial: logs start late, and followers begin with remote state."""
    worlds = run()
    assert sum(world.bootstrap_count for world in worlds) > HISTORIES
    assert sum(world.leader.log_start > 0 for world in worlds) > HISTORIES / 10


def local_segments_need_no_copy(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(local_retention, "is_covered", lambda log, lineage, start, end: True)


def readers_go_on_to_the_end_of_the_segment(plant: pytest.MonkeyPatch) -> None:
    right = epoch_lineage.locate

    def wrong(
        log: RemotePartitionLog, lineage: epoch_lineage.Lineage, offset: int, end: int
    ) -> epoch_lineage.RemoteExtent | None:
        found = right(log, lineage, offset, end)
        return None if found is None else found._replace(last=found.segment.end_offset)

    plant.setattr(epoch_lineage, "locate", wrong)


def retention_deletes_the_segment_of_the_log_start_offset(plant: pytest.MonkeyPatch) -> None:
    finished = RemoteLogSegmentState.COPY_SEGMENT_FINISHED
    plant.setattr(
        remote_retention, "_is_deleted",
        lambda segment, start, before_ms: segment.state is not finished or segment.start_offset < start,
    )  # fmt: skip


def copies_that_may_be_readable_are_discarded(plant: pytest.MonkeyPatch) -> None:
    table = dict(segment_tasks.COPY_TRANSITIONS)
    state, event = segment_tasks.TaskState, segment_tasks.TaskEvent
    table[state.WRITING_FINISHED] = {**table[state.WRITING_FINISHED], event.STEP_FAILED: state.DISCARDING}
    plant.setattr(segment_tasks, "COPY_TRANSITIONS", table)


def followers_begin_after_the_segment_always(plant: pytest.MonkeyPatch) -> None:
    plant.setattr(
        tiered_world, "auxiliary_start", lambda segment, *response: AuxiliaryStart(segment.end_offset + 1, True)
    )


@pytest.mark.parametrize(
    "plant",
    [
        local_segments_need_no_copy,
        readers_go_on_to_the_end_of_the_segment,
        retention_deletes_the_segment_of_the_log_start_offset,
        copies_that_may_be_readable_are_discarded,
        followers_begin_after_the_segment_always,
    ],
)
def test_planted_bug_is_noticed(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each planted bug disables one safeguard, and the checks must notice it."""
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        run()

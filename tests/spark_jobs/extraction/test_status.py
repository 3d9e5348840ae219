"""How far extractions are, from what ZooKeeper and the brokers know."""

from typing import Any

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.spark_jobs.extraction.manifest import Manifest, State, planned
from kafka_zk.spark_jobs.extraction.status import Observed, PartitionStatus, status_of
from kafka_zk.spark_jobs.source.offset_ranges import OffsetRange

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
NO_LEADER = "offsets of t-1: LEADER_NOT_AVAILABLE"


def manifest(state: State) -> Manifest:
    return planned([OffsetRange(*T0, 20, 60)], "file:/lake", "parquet", "a77e", 1_000).to(state)


def observed(**changes: Any) -> Observed:
    """Logs from 10 to 100; the group is at 60 of one partition, and has not begun the other."""
    seen = {"offsets": {T0: 60}, "log_starts": {T0: 10, T1: 10}, "log_ends": {T0: 100, T1: 100}, "group": "lake"}
    return Observed(**{**seen, **changes})


def test_lag_counts_from_the_offset_or_the_beginning_of_the_log() -> None:
    status = status_of(observed(manifest=manifest(State.PUBLISHED), written_ms=5_000))
    assert status.partitions == (
        PartitionStatus("t", 0, 60, 100, 40, last_from=20, last_until=60),
        PartitionStatus("t", 1, None, 100, 90),
    )
    assert (status.lag, status.unknown) == (130, ())


def test_the_last_range_has_a_time_and_a_rate() -> None:
    document = status_of(observed(manifest=manifest(State.PUBLISHED), written_ms=5_000)).as_document()
    assert document["unfinished"] is None
    assert document["last"] == {
        "name": manifest(State.PLANNED).name, "state": "published", "target": "file:/lake", "format": "parquet",
        "planned_ms": 1_000, "written_ms": 5_000, "offsets": 40, "offsets_per_second": 10,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("state", "has_last", "is_unfinished"),
    [
        (State.PLANNED, False, True), (State.COMMITTED, True, True), (State.PUBLISHED, True, False),
        (State.DROPPED, False, False),
    ],
)  # fmt: skip
def test_the_state_says_whether_a_range_is_committed_and_a_run_unfinished(
    state: State, has_last: bool, is_unfinished: bool
) -> None:
    status = status_of(observed(manifest=manifest(state), written_ms=5_000))
    assert (status.last is not None, status.unfinished is not None) == (has_last, is_unfinished)
    assert (status.partitions[0].last_from is not None) == has_last
    assert status.unfinished is None or (status.unfinished.offsets_per_second is not None) == has_last


def test_clocks_that_differ_give_no_rate() -> None:
    last = status_of(observed(manifest=manifest(State.PUBLISHED), written_ms=900)).last
    assert last is not None and last.offsets_per_second is None


def test_a_partition_without_leader_is_unknown_and_the_others_are_not() -> None:
    status = status_of(observed(log_ends={T0: 100, T1: NO_LEADER}))
    assert [(each.lag, each.problem) for each in status.partitions] == [(40, None), (None, NO_LEADER)]
    assert (status.lag, [each.partition for each in status.unknown]) == (40, [1])
    only_the_end = status_of(observed(log_starts={T0: 10, T1: NO_LEADER}))
    assert (only_the_end.partitions[1].end_offset, only_the_end.partitions[1].lag) == (100, None)


@pytest.mark.parametrize(
    ("changes", "lag", "lost", "problem"),
    [
        ({"offsets": {T0: 3}}, 97, 7, "the log begins at offset 10, after the group's offset"),
        ({"offsets": {T0: 106}}, 0, 0, "the last stable offset is 100, before the group's offset"),
        ({"outdated": {T0: 60}}, 90, 0, "the topic was deleted and recreated since offset 60"),
        ({"offsets": {T0: 100}}, 0, 0, None),
    ],
)
def test_offsets_at_which_the_next_run_will_not_continue(
    changes: dict[str, Any], lag: int, lost: int, problem: str | None
) -> None:
    first = status_of(observed(**changes)).partitions[0]
    assert (first.lag, first.lost, first.problem) == (lag, lost, problem)

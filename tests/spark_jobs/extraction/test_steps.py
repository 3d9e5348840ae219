"""How the next run handles the leftovers of a killed one: the protocol's table."""

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.spark_jobs.extraction.manifest import State, planned
from kafka_zk.spark_jobs.extraction.steps import Leftover, leftover
from kafka_zk.spark_jobs.source.offset_ranges import OffsetRange

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
MANIFEST = planned([OffsetRange(*T0, 5, 9), OffsetRange(*T1, 0, 3)], "file:/lake", "parquet", "a", 0)
UNMOVED = {T0: 5, T1: 0}


@pytest.mark.parametrize(
    ("state", "offsets", "target", "found"),
    [
        (State.PLANNED, UNMOVED, "file:/lake", Leftover.REPEAT),
        (State.PLANNED, {T0: 6, T1: 0}, "file:/lake", Leftover.DROP),
        (State.PLANNED, {T0: 5}, "file:/lake", Leftover.DROP),
        (State.PLANNED, UNMOVED, "file:/other", Leftover.DROP),
        (State.COMMITTED, {T0: 9, T1: 3}, "file:/lake", Leftover.PUBLISH),
        (State.COMMITTED, {T0: 9, T1: 3}, "file:/other", Leftover.PUBLISH),
        (State.PUBLISHED, UNMOVED, "file:/lake", Leftover.NOTHING),
    ],
)
def test_what_is_done_about_a_manifest(
    state: State, offsets: dict[TopicPartition, int], target: str, found: Leftover
) -> None:
    assert leftover(MANIFEST.to(state), offsets, target, "parquet") is found


def test_what_a_table_has_is_followed_whatever_is_asked_for_now() -> None:
    assert leftover(MANIFEST, UNMOVED, "file:/other", "csv", in_table=True) is Leftover.FOLLOW
    assert leftover(MANIFEST.to(State.PUBLISHED), UNMOVED, "file:/lake", "parquet", in_table=True) is Leftover.NOTHING


def test_without_a_manifest_there_is_nothing_to_do() -> None:
    assert leftover(None, UNMOVED, "file:/lake", "parquet") is Leftover.NOTHING

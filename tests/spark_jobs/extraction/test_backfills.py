"""Rules that apply to backfills only."""

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.spark_jobs.errors import WronglyAsked
from kafka_zk.spark_jobs.extraction import backfills
from kafka_zk.spark_jobs.extraction.manifest import Manifest, State, planned
from kafka_zk.spark_jobs.extraction.planning import Extraction
from kafka_zk.spark_jobs.source.offset_ranges import OffsetRange

T0 = TopicPartition("t", 0)


def manifest(state: State, target: str = "file:/data/lake") -> Manifest:
    return planned([OffsetRange(*T0, 20, 60)], target, "parquet", "a77e", 1_000).to(state)


@pytest.mark.parametrize(
    ("state", "in_table", "has_begun"),
    [
        (State.PLANNED, False, False), (State.DROPPED, False, False), (State.PLANNED, True, True),
        (State.COMMITTED, False, True), (State.PUBLISHED, False, True),
    ],
)  # fmt: skip
def test_a_backfill_that_has_begun_keeps_target_and_format(state: State, in_table: bool, has_begun: bool) -> None:
    backfills.check_target(manifest(state), "file:/data/lake", "parquet", in_table)
    for target, format in (("file:/other", "parquet"), ("file:/data/lake", "json")):
        if not has_begun:
            backfills.check_target(manifest(state), target, format, in_table)
            continue
        with pytest.raises(WronglyAsked, match=r"^this backfill was begun into file:/data/lake \(parquet\)"):
            backfills.check_target(manifest(state), target, format, in_table)


@pytest.mark.parametrize(
    ("known", "asked", "format", "may_differ"),
    [
        ("file:/data/lake", "./lake/", "parquet", False),
        ("file:/data/lake", "/data/lake", "parquet", False),
        ("file:/data/lake", "file:/data/lake", "parquet", False),
        ("s3a://b/lake", "s3a://b/lake/", "parquet", False),
        ("file:/data/lake", "lake2", "parquet", True),
        ("file:/data/lake", "/data/lake", "json", True),
        ("hdfs://n/data/lake", "/data/lake", "parquet", True),
    ],
)
def test_targets_that_are_the_same_without_asking_spark(
    known: str, asked: str, format: str, may_differ: bool
) -> None:
    extraction = Extraction(
        zookeeper="z", group="g", topics=("t",), target=asked, format=format, from_ms=5, until_ms=9
    )  # fmt: skip
    assert backfills.may_have_another_target(manifest(State.PUBLISHED, known), extraction, "/data") == may_differ


def test_why_nothing_was_found() -> None:
    assert "extracted into file:/data/lake" in backfills.nothing_found(manifest(State.PUBLISHED))
    for last in (None, manifest(State.DROPPED)):
        assert backfills.nothing_found(last) == "the topics have no readable records from --from to --until"

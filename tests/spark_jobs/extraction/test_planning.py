"""Which ranges a run extracts, and the lag that it reports."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.spark_jobs.errors import DataLoss, WronglyAsked
from kafka_zk.spark_jobs.extraction.planning import Extraction, PartitionReport, Planning
from kafka_zk.spark_jobs.extraction.undecodable import Staged
from kafka_zk.spark_jobs.source.offset_ranges import OffsetRange

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Brokers:
    """Logs have offsets 10 to 100, and open transactions up to 105. The record with timestamp 4 has offset 10, and the
    one with timestamp 50 has offset 60.
    """

    def offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {tp: {-2: 10, -1: 100, 4: 10, 50: 60}.get(spec, -1) for tp, spec in wanted.items()}

    def log_offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {tp: {4: 10, 50: 60, 90: 102}.get(spec, -1) for tp, spec in wanted.items()}

    def log_ends(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return dict.fromkeys(tps, 105)


def planning(offsets: Mapping[TopicPartition, int], **options: Any) -> Planning:
    extraction = Extraction(zookeeper="z", group="g", topics=("t",), target="/lake", **options)
    return Planning(extraction, Brokers(), offsets)


def test_from_the_groups_offsets_or_the_beginning_to_the_end() -> None:
    assert planning({T0: 40, T1: -1}).new_ranges() == [OffsetRange(*T0, 40, 100), OffsetRange(*T1, 10, 100)]
    assert planning({T0: 100, T1: 100}).new_ranges() == []


def test_until_a_time_and_at_most_so_many() -> None:
    assert planning({T0: 40}, until_ms=50).new_ranges() == [OffsetRange(*T0, 40, 60)]
    assert planning({T0: 40}, until_ms=999).new_ranges() == [OffsetRange(*T0, 40, 100)]
    assert sum(each.size for each in planning({T0: 40, T1: 20}, max_records=7).new_ranges()) == 7


def test_a_backfill_begins_at_its_time_and_goes_on_at_its_own_offset() -> None:
    times = {"from_ms": 50, "until_ms": 999}
    assert planning({T0: -1, T1: 70}, **times).new_ranges() == [OffsetRange(*T0, 60, 100), OffsetRange(*T1, 70, 100)]
    later = planning({T0: -1}, from_ms=51, until_ms=999)
    assert later.new_ranges() == [], "no record is that late"
    assert later.report([]).partitions == (PartitionReport("t", 0, 100, 100, 0, 0),)


def test_a_backfill_whose_offset_has_left_the_log_is_not_taken_for_complete() -> None:
    times = {"from_ms": 50, "until_ms": 999}
    with pytest.raises(DataLoss, match=r"offset 3 of t-0, whose log has 10 to 100, so it is unknown whether"):
        planning({T0: 3}, **times).new_ranges()
    goes_on = {**times, "fail_on_data_loss": False}
    assert planning({T0: 3, T1: 106}, **goes_on).new_ranges() == [OffsetRange(*T0, 10, 100), OffsetRange(*T1, 60, 100)]


@pytest.mark.parametrize(
    ("offsets", "from_ms", "told"),
    [
        ({T0: -1}, 50, None),
        ({T0: 10}, 4, None),  # the backfill has begun already
        ({T0: -1, T1: 70}, 4, "the log of t-0 begins at offset 10, not before --from"),
        ({T0: -1, T1: -1}, 4, "not before --from; so do the logs of 1 more partitions"),
        ({T0: -1}, None, None),
    ],
)
def test_a_backfill_may_come_too_late_for_its_first_records(
    offsets: dict[TopicPartition, int], from_ms: int | None, told: str | None
) -> None:
    doubt = planning(offsets, from_ms=from_ms, until_ms=999).beginnings_in_doubt()
    assert doubt is None if told is None else told in (doubt or "")


def test_a_partition_that_retention_has_emptied_is_not_short() -> None:
    """The group is at offset 3, and nothing remains before the requested time."""
    plan = planning({T0: 3}, until_ms=4, fail_on_data_loss=False)
    assert plan.new_ranges() == []
    assert plan.report([]).short == 0


def test_a_backfill_has_the_progress_of_its_topics_and_times() -> None:
    first = Extraction(zookeeper="z", group="g", topics=("a", "b"), target="/lake", from_ms=5, until_ms=9)
    assert first.progress_group == "g.backfill-5-9-c14cddc0"
    assert replace(first, topics=("b", "a"), target="/other").progress_group == first.progress_group
    assert replace(first, topics=("a",)).progress_group != first.progress_group
    assert replace(first, from_ms=None).progress_group == "g"


@pytest.mark.parametrize("offset", [3, 106])
def test_an_offset_that_the_log_does_not_have_is_loss(offset: int) -> None:
    with pytest.raises(DataLoss, match=f"group g is at offset {offset} of t-0"):
        planning({T0: offset}).new_ranges()
    assert planning({T0: offset}, fail_on_data_loss=False).new_ranges() == [OffsetRange(*T0, 10, 100)]


def test_lag_before_and_after() -> None:
    plan = planning({T0: 40, T1: -1}, max_records=50)
    report = replace(plan.report([OffsetRange(*T0, 40, 60)], Staged(20)), seconds=5.0, spark_start_seconds=3.0)
    assert report.partitions == (PartitionReport("t", 0, 40, 60, 60, 40), PartitionReport("t", 1, 10, 10, 90, 90))
    assert report.records_per_second == 10
    assert (report.lag_before, report.lag_after) == (150, 130)


@pytest.mark.parametrize(
    ("options", "short"), [
        ({}, 0), ({"until_ms": 50}, 0), ({"until_ms": 90}, 2), ({"until_ms": 999}, 5),
        ({"until_ms": 90, "max_records": 7}, 0), ({"until_ms": 90, "max_records": 60}, 0),
        ({"until_ms": 90, "max_records": 61}, 2),
    ],
)  # fmt: skip
def test_a_run_is_short_of_until_if_transactions_are_open_and_not_by_a_limit(
    options: dict[str, int], short: int
) -> None:
    """Offsets 100 to 104 belong to open transactions; the record with timestamp 90 has offset 102."""
    plan = planning({T0: 40}, **options)
    assert plan.report(plan.new_ranges()).short == short
    nothing = planning({T0: 100}, **options)
    assert nothing.report(nothing.new_ranges()).short == (0 if "until_ms" not in options else {50: 0, 90: 2, 999: 5}[
        options["until_ms"]
    ])


def test_one_topic_and_one_column_may_be_given_as_they_are() -> None:
    asked: dict[str, Any] = {"topics": "t", "partition_by": "carrier"}
    extraction = Extraction(zookeeper="z", group="g", target="/lake", **asked)
    assert (extraction.topics, extraction.partition_by) == (("t",), ("carrier",))


@pytest.mark.parametrize("wrong", [{"group": ""}, {"group": "a/b"}, {"target": ""}])
def test_a_group_and_a_target_have_names(wrong: dict[str, Any]) -> None:
    with pytest.raises(WronglyAsked):
        Extraction(zookeeper="z", topics=("t",), **({"group": "g", "target": "/lake"} | wrong))


def test_an_offset_among_open_transactions_is_no_loss() -> None:
    """The run reads nothing until the transactions end."""
    assert planning({T0: 103}).new_ranges() == []

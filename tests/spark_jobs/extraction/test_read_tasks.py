"""How the ranges of an extraction are distributed among Spark's tasks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.spark_jobs.extraction.planning import Extraction
from kafka_zk.spark_jobs.extraction.read_tasks import ReadTasks, read_tasks
from kafka_zk.spark_jobs.source import options, planner
from kafka_zk.spark_jobs.source.offset_ranges import OffsetRange


def tasks_of(ranges: list[OffsetRange], cores: int = 2, max_records_per_task: int | None = None) -> ReadTasks:
    asked = Extraction(zookeeper="z", group="g", topics=("t",), target="/x", max_records_per_task=max_records_per_task)
    return read_tasks(ranges, asked, cores)


def sizes(partitions: int, records: int, max_records_per_task: int | None = None) -> list[int]:
    """The number of records that each task reads, with two cores."""
    ranges = [OffsetRange("t", number, 0, records) for number in range(partitions)]
    return tasks_of(ranges, max_records_per_task=max_records_per_task).sizes


@pytest.mark.parametrize(("partitions", "count"), [(1, 1), (2, 2), (8, 8), (100, 9), (800, 8)])
def test_many_small_partitions_are_few_tasks_and_few_partitions_one_each(partitions: int, count: int) -> None:
    assert len(sizes(partitions, 1250)) == count


def test_a_task_of_several_partitions_has_at_most_a_million_records_or_what_was_asked_for() -> None:
    assert max(sizes(800, 18_750)) <= 1_000_000
    assert max(sizes(800, 1250, max_records_per_task=5000)) == 5000
    assert sizes(3, 2_000_000) == [2_000_000] * 3


@given(
    st.lists(st.integers(1, 5000), min_size=1, max_size=40), st.integers(1, 8), st.none() | st.integers(500, 5000)
)
def test_the_source_makes_the_same_tasks(counts: list[int], cores: int, max_records_per_task: int | None) -> None:
    """The tasks have the same order, whatever the order of the ranges."""
    ranges = [OffsetRange("t", number, 7, 7 + count) for number, count in enumerate(counts)]
    tasks = tasks_of(ranges[::-1], cores, max_records_per_task)
    source = options.parse({"kafka.bootstrap.servers": "h:1", **tasks.options})
    assert tuple(planner.tasks(source, ranges)) == tasks.ranges
    assert sum(tasks.sizes) == sum(counts)

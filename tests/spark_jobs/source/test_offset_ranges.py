"""The pieces of a divided offset range cover every offset once, and their number is the requested one."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.base.types import TopicPartition
from kafka_zk.spark_jobs.source.offset_ranges import OffsetRange, between, grouped, limited, split

_ranges = st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 10**6)), min_size=1, max_size=8).map(
    lambda pairs: [OffsetRange("t", number, start, start + size) for number, (start, size) in enumerate(pairs)]
)
_hints = st.none() | st.integers(1, 60)


@given(_ranges, _hints, st.none() | st.integers(10_000, 10**6))
def test_the_pieces_together_are_the_ranges(ranges: Any, min_partitions: Any, max_records: Any) -> None:
    pieces = split(ranges, min_partitions, max_records)
    joined: dict[int, list[int]] = {}
    for piece in pieces:
        assert piece.size > 0
        bounds = joined.setdefault(piece.partition, [piece.from_offset, piece.from_offset])
        assert bounds[1] == piece.from_offset
        bounds[1] = piece.until_offset
        assert max_records is None or piece.size <= max_records
    assert joined == {each.partition: [each.from_offset, each.until_offset] for each in ranges}


@given(_ranges, st.integers(1, 10**7))
def test_a_run_reads_exactly_its_limit_or_everything(ranges: Any, limit: int) -> None:
    cut = limited(ranges, limit)
    total = sum(each.size for each in ranges)
    assert sum(each.size for each in cut) == min(total, limit)
    starts = {each.partition: each for each in ranges}
    for each in cut:
        assert each.from_offset == starts[each.partition].from_offset
        assert each.until_offset <= starts[each.partition].until_offset


def test_large_ranges_are_cut_in_proportion_and_small_ones_are_not() -> None:
    """Spark's own guide says: "Spark will divvy up large Kafka partitions to smaller pieces"."""
    ranges = [OffsetRange("t", 0, 0, 100), OffsetRange("t", 1, 0, 10_000), OffsetRange("t", 2, 0, 30_000)]
    pieces = split(ranges, min_partitions=9)
    assert [sum(piece.partition == number for piece in pieces) for number in range(3)] == [1, 2, 6]


def test_pieces_have_the_bounds_that_sparks_own_source_gives_them() -> None:
    """tests/peers/spark/test_spark_source.py compares them with Spark's; these cases differ from plain proportion."""
    ranges = [OffsetRange("t", 0, 0, 6), OffsetRange("t", 1, 0, 3)]
    assert [piece.until_offset for piece in split(ranges[:1], min_partitions=4)] == [1, 2, 4, 6]
    limited_first = split(ranges, min_partitions=5, max_records=4)
    assert [piece[1:] for piece in limited_first] == [(0, 0, 1), (0, 1, 3), (0, 3, 4), (0, 4, 6), (1, 0, 1), (1, 1, 3)]


def test_more_ranges_than_asked_for_stay_whole() -> None:
    ranges = [OffsetRange("t", number, 0, 1000) for number in range(5)]
    assert split(ranges, min_partitions=3) == ranges


def test_partitions_without_new_records_give_no_range() -> None:
    starts = {TopicPartition("t", 0): 5, TopicPartition("t", 1): 7, TopicPartition("t", 2): 9}
    assert between(starts, {TopicPartition("t", 0): 5, TopicPartition("t", 1): 9, TopicPartition("t", 2): 3}) == [
        OffsetRange("t", 1, 7, 9)
    ]


def test_small_neighbours_share_a_task_and_no_task_gets_more_than_was_asked_for() -> None:
    pieces = [OffsetRange("t", number, 0, size) for number, size in enumerate([3, 4, 3, 30, 1, 9, 2])]
    tasks = grouped(pieces, 10)
    assert [[each.size for each in task] for task in tasks] == [[3, 4, 3], [30], [1, 9], [2]]
    assert [each for task in tasks for each in task] == pieces


@given(st.lists(st.integers(0, 30), max_size=30), st.none() | st.integers(1, 40))
def test_each_range_is_in_one_task_in_order_and_no_task_is_empty(sizes: list[int], most_records: int | None) -> None:
    pieces = [OffsetRange("t", number, 5, 5 + size) for number, size in enumerate(sizes)]
    tasks = grouped(pieces, most_records)
    assert [each for task in tasks for each in task] == pieces
    assert all(tasks)
    for task in tasks:
        assert len(task) == 1 or (most_records is not None and sum(each.size for each in task) <= most_records)


def test_else_each_has_its_own() -> None:
    pieces = [OffsetRange("t", number, 0, number) for number in range(3)]
    assert grouped(pieces) == [(each,) for each in pieces]
    assert grouped([]) == []

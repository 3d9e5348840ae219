"""Which offsets are read, and by how many tasks: pure arithmetic over offset ranges.

Sizes are counted in offsets: after compaction or transactions a range holds fewer records than that.
Tests: tests/spark_jobs/test_offset_ranges.py.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from storage.types import TopicPartition


class OffsetRange(NamedTuple):
    """Offsets of one partition: ``from_offset`` included, ``until_offset`` not."""

    topic: str
    partition: int
    from_offset: int
    until_offset: int

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        return max(0, self.until_offset - self.from_offset)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} offsets {self.from_offset} to {self.until_offset - 1}"


def between(starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> list[OffsetRange]:
    """The ranges that are not empty, sorted by partition."""
    ranges = [OffsetRange(*tp, starts[tp], ends[tp]) for tp in sorted(starts)]
    return [each for each in ranges if each.size]


def limited(ranges: Sequence[OffsetRange], max_count: int) -> list[OffsetRange]:
    """Cut the ends so that all together hold at most ``max_count``, each partition its share of what there is.

    What rounding leaves goes to the largest remainders first, so exactly ``max_count`` is read while there is as much.
    """
    total = sum(each.size for each in ranges)
    if total <= max_count:
        return list(ranges)
    shares = [divmod(each.size * max_count, total) for each in ranges]
    counts = [share for share, _ in shares]
    by_remainder = sorted(range(len(ranges)), key=lambda index: -shares[index][1])
    for index in by_remainder[: max_count - sum(counts)]:
        counts[index] += 1
    cut = [each._replace(until_offset=each.from_offset + count) for each, count in zip(ranges, counts, strict=True)]
    return [each for each in cut if each.size]


def split(
    ranges: Sequence[OffsetRange], min_partitions: int | None = None, max_records: int | None = None
) -> list[OffsetRange]:
    """Cut ranges into pieces, one for each task.

    Args:
        min_partitions: a hint, as in Spark's source: large ranges are cut in proportion until there are about as many.
        max_records: no piece holds more offsets.
    """
    pieces = [1] * len(ranges)
    if max_records is not None:
        pieces = [-(-each.size // max_records) for each in ranges]
    if min_partitions is not None and len(ranges) < min_partitions:
        wanted = _in_proportion([each.size for each in ranges], min_partitions)
        pieces = [max(pair) for pair in zip(pieces, wanted, strict=True)]
    return [piece for each, count in zip(ranges, pieces, strict=True) for piece in _cut(each, count)]


def _in_proportion(counts: Sequence[int], min_partitions: int) -> list[int]:
    """Pieces per range. Those too small to be cut are set aside first, or they would take a share of the rest."""
    total = sum(counts)
    small = [round(count * min_partitions / total) <= 1 for count in counts]
    large_total = sum(count for count, is_small in zip(counts, small, strict=True) if not is_small)
    left = max(min_partitions - sum(small), 1)
    return [
        1 if is_small else max(1, round(count * left / large_total))
        for count, is_small in zip(counts, small, strict=True)
    ]


def _cut(whole: OffsetRange, pieces: int) -> list[OffsetRange]:
    bounds = [whole.from_offset + whole.size * number // pieces for number in range(pieces + 1)]
    cut = [whole._replace(from_offset=start, until_offset=end) for start, end in itertools.pairwise(bounds)]
    return [each for each in cut if each.size]

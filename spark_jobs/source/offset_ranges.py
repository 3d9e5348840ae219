"""Divides the offsets to read into ranges and tasks. Pure.

Sizes count offsets: after compaction or transactions a range has fewer records than offsets.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kafka_zk.base.types import TopicPartition


class OffsetRange(NamedTuple):
    """Offsets of one partition: ``from_offset`` included, ``until_offset`` not."""

    topic: str
    partition: int
    from_offset: int
    until_offset: int

    @property
    def tp(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        return max(0, self.until_offset - self.from_offset)

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} offsets {self.from_offset} to {self.until_offset - 1}"


def between(starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> list[OffsetRange]:
    ranges = [OffsetRange(*tp, starts[tp], ends[tp]) for tp in sorted(starts)]
    return [each for each in ranges if each.size]


def limited(ranges: Sequence[OffsetRange], max_count: int) -> list[OffsetRange]:
    """Shorten ranges to at most ``max_count`` offsets in all, in proportion to their sizes.

    Rounding uses the largest remainders, so exactly ``max_count`` offsets are read if there are enough.
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
    """Cut the ranges into pieces, one for each task, exactly as in Spark's own source (KafkaOffsetRangeCalculator@4.2).

    Args:
        min_partitions: a hint: large pieces are cut in proportion until there are about this many.
        max_records: maximum offsets per piece; applied first.
    """
    pieces = list(ranges)
    if max_records is not None:
        pieces = [piece for each in pieces for piece in _cut(each, -(-each.size // max_records))]
    if min_partitions is not None and len(pieces) < min_partitions:
        pieces = _cut_in_proportion(pieces, min_partitions)
    return pieces


def grouped(pieces: Sequence[OffsetRange], most_records: int | None = None) -> list[tuple[OffsetRange, ...]]:
    """Each group of neighbours is one task and has at most ``most_records`` offsets (None: one piece each).

    Every task costs time in Spark and a file in the lake, however little it reads.
    """
    if most_records is None:
        return [(each,) for each in pieces]
    groups: list[list[OffsetRange]] = []
    room = 0
    for each in pieces:
        room -= each.size
        if room < 0 or not groups:
            groups.append([])
            room = most_records - each.size
        groups[-1].append(each)
    return [tuple(group) for group in groups]


def _cut_in_proportion(pieces: Sequence[OffsetRange], min_partitions: int) -> list[OffsetRange]:
    """Pieces that are too small to be cut do not count in the proportion."""
    total = sum(each.size for each in pieces)
    small = [each for each in pieces if _share(each.size, total, min_partitions) == 1]
    whole = {each.tp for each in small}
    large_total = total - sum(each.size for each in small)
    left = max(min_partitions - len(small), 1)
    return [
        piece
        for each in pieces
        for piece in ([each] if each.tp in whole else _cut(each, _share(each.size, large_total, left)))
    ]


def _share(size: int, total: int, count: int) -> int:
    return max(1, math.floor(size / total * count + 0.5))


def _cut(whole: OffsetRange, count: int) -> list[OffsetRange]:
    """Pieces of nearly equal size, smaller ones first; fewer than ``count`` if there are fewer offsets."""
    pieces, start = [], whole.from_offset
    for left in range(count, 0, -1):
        end = start + (whole.until_offset - start) // left
        pieces.append(whole._replace(from_offset=start, until_offset=end))
        start = end
    return [each for each in pieces if each.size]

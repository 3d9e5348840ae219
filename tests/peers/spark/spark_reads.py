"""Reads of topics by both Spark sources, made from a seed, with options that suit the existing logs."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kafka_zk.base.types import TopicPartition
from kafka_zk.spark_jobs.source.offset_specs import format_offsets

EARLIEST, LATEST = -2, -1
_NOW_MS = 1_700_000_000_000
_EARLY_MS = (0, 1000, _NOW_MS - 20_000, _NOW_MS - 5000, _NOW_MS - 10)
_LATE_MS = (_NOW_MS, _NOW_MS + 10, _NOW_MS + 5000, _NOW_MS + 20_000, 4_102_444_800_000, 2**62)

Options = dict[str, str]
#: First offset and end of each partition.
Bounds = Mapping[TopicPartition, tuple[int, int]]


class Read(NamedTuple):
    """``may_fail``: both sources may fail instead of returning rows.

    ``same_tasks``: Spark's own source plans the same tasks, because offsets are numbers and no range is empty.
    Otherwise, it divides unresolved offsets (`maxRecordsPerPartition`) or counts empty ranges (`minPartitions`).
    """

    options: Options
    may_fail: bool = False
    same_tasks: bool = False


def everything(topics: Sequence[str]) -> Read:
    """All columns of all topics."""
    return Read({"subscribe": ",".join(topics), "includeHeaders": "true"})


def by_offsets(rng: random.Random, bounds: Bounds) -> Read:
    """Some partitions, between two offsets each, in more tasks than partitions."""
    starts, ends = {}, {}
    for tp, (first, end) in sorted(bounds.items()):
        if first < end and rng.random() < 0.7:
            starts[tp] = rng.randint(first, end - 1)
            ends[tp] = rng.randint(starts[tp] + 1, end)
    all_numbers = rng.random() < 0.5
    if not all_numbers:
        starts = {tp: rng.choice((start, EARLIEST)) for tp, start in starts.items()}
        ends = {tp: rng.choice((end, LATEST)) for tp, end in ends.items()}
    options = {
        **_bounded(starts, ends),
        "includeHeaders": "true",
        "kafka.max.partition.fetch.bytes": str(rng.choice((100, 2000, 100_000))),
        **_tasks(rng, len(starts)),
    }
    return Read(options, same_tasks=all_numbers)


def _bounded(starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> Options:
    assigned: dict[str, list[int]] = {}
    for tp in starts:
        assigned.setdefault(tp.topic, []).append(tp.partition)
    return {
        "assign": json.dumps(assigned),
        "startingOffsets": json.dumps(format_offsets(starts)),
        "endingOffsets": json.dumps(format_offsets(ends)),
    }


def by_time(rng: random.Random, prefix: str, bounds: Bounds) -> Read:
    """All partitions, between two timestamps: separate ones for each partition, or the same for all."""
    strategy = rng.choice(("error", "latest", "latest", "latest"))
    options = {"subscribePattern": f"{prefix}-.*", "startingOffsetsByTimestampStrategy": strategy}
    starting_ms = _LATE_MS if rng.random() < 0.2 else _EARLY_MS  # possibly after the newest record of a partition
    for side, times_ms in (("starting", starting_ms), ("ending", _LATE_MS)):
        how = rng.choice(("Timestamp", "OffsetsByTimestamp", None))
        if how == "Timestamp":
            options[f"{side}Timestamp"] = str(rng.choice(times_ms))
        elif how:
            options[f"{side}{how}"] = json.dumps(format_offsets({tp: rng.choice(times_ms) for tp in bounds}))
    return Read({**options, **_tasks(rng, len(bounds))}, may_fail=True)


def committed_only(rng: random.Random, topics: Sequence[str]) -> Read:
    """Only committed records."""
    options = everything(topics).options
    return Read({**options, "kafka.isolation.level": "read_committed", **_tasks(rng, len(topics))})


def lost(rng: random.Random, bounds: Bounds) -> Read:
    """The offsets are ones that the log never had or no longer has, or are in the wrong order. The result is an error,
    or the existing records.
    """
    tp = rng.choice(sorted(bounds))
    first, end = bounds[tp]
    start, until = rng.choice(((first - 1, end), (0, end), (end + 5, end + 9), (end + 5, LATEST), (end, first)))
    options = _bounded({tp: max(start, 0)}, {tp: until})
    return Read({**options, "failOnDataLoss": rng.choice(("true", "false"))}, may_fail=True)


def _tasks(rng: random.Random, partition_count: int) -> Options:
    """Options that divide the read into tasks, if any."""
    options = {}
    if rng.random() < 0.6:
        options["minPartitions"] = str(rng.randint(1, 2 * partition_count + 3))
    if rng.random() < 0.4:
        options["maxRecordsPerPartition"] = str(rng.randint(5, 40))
    return options

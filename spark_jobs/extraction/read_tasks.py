"""Divides ranges among Spark tasks; small ranges share a task.

The data source groups ranges by its options. This module uses the same numbers and functions, so progress and reports
refer to the tasks that Spark runs.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kafka_zk.base.types import partitions_by_topic
from kafka_zk.spark_jobs.extraction.planning import Extraction
from kafka_zk.spark_jobs.source.offset_ranges import OffsetRange, grouped, split
from kafka_zk.spark_jobs.source.offset_specs import format_offsets

_TASKS_A_CORE = 4
_MOST_RECORDS = 1_000_000
"""Maximum number of records of small ranges in one task, and so usually in one file."""


@dataclass(frozen=True)
class ReadTasks:
    """The ranges of each task, in the order of Spark's task numbers, and the source's options for these tasks."""

    ranges: tuple[tuple[OffsetRange, ...], ...]
    options: Mapping[str, str]

    @property
    def sizes(self) -> list[int]:
        return [sum(each.size for each in task) for task in self.ranges]


def read_tasks(ranges: Sequence[OffsetRange], asked: Extraction, cores: int) -> ReadTasks:
    """``cores``: tasks that Spark runs at a time.

    Four tasks per core are enough, and a failed task is repeated as a whole.
    """
    ranges = sorted(ranges)
    total = sum(each.size for each in ranges)
    most = asked.max_records_per_task
    shared = max(1, min(-(-total // (_TASKS_A_CORE * cores)), most or _MOST_RECORDS, _MOST_RECORDS))
    options = {**_bounds(ranges), "recordsPerSharedPartition": str(shared)}
    if most is not None:
        options["maxRecordsPerPartition"] = str(most)
    return ReadTasks(tuple(grouped(split(ranges, max_records=most), shared)), options)


def _bounds(ranges: Sequence[OffsetRange]) -> dict[str, str]:
    assigned = partitions_by_topic(each.tp for each in ranges)
    starts = {each.tp: each.from_offset for each in ranges}
    ends = {each.tp: each.until_offset for each in ranges}
    return {
        "assign": json.dumps(assigned),
        "startingOffsets": json.dumps(format_offsets(starts)),
        "endingOffsets": json.dumps(format_offsets(ends)),
    }

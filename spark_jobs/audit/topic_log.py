"""Finds out which committed records the topic itself has. Aborts, compaction and retention may have left gaps in it."""

from collections.abc import Collection, Iterator
from typing import NamedTuple

import numpy as np

from kafka_zk.base.types import TopicPartition
from kafka_zk.spark_jobs.audit import offset_runs
from kafka_zk.spark_jobs.audit.offset_runs import Offsets
from kafka_zk.spark_jobs.source.cluster_client import EARLIEST, LATEST, ClientSettings, ClusterClient
from kafka_zk.spark_jobs.source.offset_ranges import OffsetRange
from kafka_zk.spark_jobs.source.range_fetcher import RangeFetcher
from kafka_zk.spark_jobs.source.range_settings import FetchSettings
from kafka_zk.spark_jobs.waiting import Note

_NEAR = 5_000
"""Gaps with fewer offsets between them are read together."""


class LogBounds(NamedTuple):
    """``start``: the first offset in the log. ``readable_end``: no committed record is at or after it. ``end``: the
    end of the log, after records of open transactions.
    """

    start: int
    readable_end: int
    end: int


class TopicLog:
    """Raises FetchFailed, AuthenticationError."""

    def __init__(self, settings: ClientSettings, note: Note) -> None:
        self._settings = FetchSettings(settings, fail_on_data_loss=False)
        self._cluster = ClusterClient(settings, note)

    def __enter__(self) -> "TopicLog":
        return self

    def __exit__(self, *_: object) -> None:
        self._cluster.close()

    @property
    def bootstrap_servers(self) -> str:
        return self._settings.client.bootstrap_servers

    def bounds(self, topics: Collection[str]) -> dict[TopicPartition, LogBounds]:
        """The log bounds of each partition; topics that do not exist are left out."""
        counts = self._cluster.partition_counts(topics)
        tps = [TopicPartition(topic, number) for topic, count in sorted(counts.items()) for number in range(count)]
        starts, readable = (self._cluster.offsets(dict.fromkeys(tps, spec)) for spec in (EARLIEST, LATEST))
        ends = self._cluster.log_ends(tps)
        return {tp: LogBounds(starts[tp], readable[tp], ends[tp]) for tp in tps}

    def has_records(self, tp: TopicPartition, first: int, until: int) -> bool:
        return any(found.size for found in self._records(tp, first, until))

    def missing(
        self, tp: TopicPartition, gaps: tuple[Offsets, Offsets], covered: tuple[Offsets, Offsets]
    ) -> tuple[Offsets, Offsets]:
        """Runs of the topic's records that are in none of the runs ``covered``. Reads the topic only at ``gaps``."""
        found = [np.empty(0, np.int64)]
        firsts, lasts = gaps
        for first, last in zip(*offset_runs.neighbours(firsts, lasts, _NEAR), strict=True):
            for offsets in self._records(tp, int(first), int(last) + 1):
                found.append(offset_runs.not_covered(offsets, covered))
        return offset_runs.split(np.concatenate(found))

    def _records(self, tp: TopicPartition, first: int, until: int) -> Iterator[Offsets]:
        for batch in RangeFetcher(OffsetRange(*tp, first, until), self._settings, self._cluster):
            yield batch.column("offset").to_numpy(zero_copy_only=False)

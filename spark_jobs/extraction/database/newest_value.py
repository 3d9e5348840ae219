"""Finds the newest value of a topic, whose schema says which columns the table has."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import pyarrow as pa
from pyarrow import compute

from kafka_zk.spark_jobs.source import planner
from kafka_zk.spark_jobs.source.cluster_client import EARLIEST, LATEST, ClusterClient
from kafka_zk.spark_jobs.source.offset_ranges import OffsetRange
from kafka_zk.spark_jobs.source.range_fetcher import RangeFetcher
from kafka_zk.spark_jobs.source.range_settings import FetchSettings

_FIRST_WINDOW, _GROWTH = 16, 8
_NEVER_MS = -(2**63)


class Found(NamedTuple):
    """``value``: None if no readable record has a value. ``ends``: for each partition, the offset up to which it was
    read. ``had_records``: whether anything was ever written to the topic, even by transactions that are still open.
    """

    value: bytes | None
    ends: Mapping[int, int]
    had_records: bool


def newest_value(topic: str, brokers: ClusterClient) -> Found:
    """The newest, by timestamp, of the last values of all partitions. Raises OptionError, FetchFailed.

    Reads backwards from the ends in growing windows, because tombstones, aborted and compacted records may be last. A
    partition is not read further once its records are older than a value that was found in another partition.
    """
    tps = planner.tps([topic], brokers)
    starts, ends = (brokers.offsets(dict.fromkeys(tps, spec)) for spec in (EARLIEST, LATEST))
    settings = FetchSettings(brokers.settings, fail_on_data_loss=False)
    newest_ms, newest = _NEVER_MS, None
    left, window = [(tp, ends[tp]) for tp in tps if ends[tp] > starts[tp]], _FIRST_WINDOW
    while left:
        older = []
        for tp, end in left:
            first = max(starts[tp], end - window)
            last = _last_of(RangeFetcher(OffsetRange(*tp, first, end), settings, brokers))
            if last.value is not None and (newest is None or last.value_ms > newest_ms):
                newest_ms, newest = last.value_ms, last.value
            elif last.value is None and first > starts[tp] and (last.newest_ms is None or last.newest_ms >= newest_ms):
                older.append((tp, first))
        left, window = older, window * _GROWTH
    had_records = any(ends.values()) or any(brokers.log_ends(tps).values())
    return Found(newest, {tp.partition: end for tp, end in ends.items()}, had_records)


class _Last(NamedTuple):
    """``value_ms``: timestamp of the last value. ``newest_ms``: newest timestamp of all records; None without
    records."""

    value: bytes | None = None
    value_ms: int = 0
    newest_ms: int | None = None


def _last_of(batches: Iterable[pa.RecordBatch]) -> _Last:
    found = _Last()
    for batch in batches:
        values, times = batch.column("value"), batch.column("timestamp")
        if (newest := compute.max(times).value) is not None:
            found = found._replace(newest_ms=newest if found.newest_ms is None else max(newest, found.newest_ms))
        if values.null_count < batch.num_rows:
            row = next(row for row in reversed(range(batch.num_rows)) if values[row].is_valid)
            found = found._replace(value=values[row].as_py(), value_ms=times[row].value or 0)
    return found

"""Metrics of the log cleaner, named like Kafka's MBeans.

Percentages are integers, as in Kafka. Source: LogCleaner.scala, LogCleanerManager.scala@3.9.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from prometheus_client.core import GaugeMetricFamily, Metric

from kafka_zk.storage.cleaner.cleaner import CleanerStats

_CLEANER = "kafka_log_logcleaner_"
_MANAGER = "kafka_log_logcleanermanager_"


def log_cleaner_metrics(cleaner: Any, now_ms: int) -> Iterator[Metric]:
    """All gauges of a ``LogCleaner``. Values about a cleaning are those of each thread's last cleaning."""
    stats, manager = cleaner.last_stats, cleaner.manager
    yield _gauge(
        _CLEANER + "cleaner_recopy_percent", "Percentage of read bytes that were kept.", recopy_percent(stats)
    )
    slowest_s = int(max((each.elapsed_s for each in stats), default=0))
    yield _gauge(_CLEANER + "max_clean_time_secs", "Duration of the longest cleaning in s.", slowest_s)
    fullest = int(100 * max((each.buffer_utilization for each in stats), default=0))
    yield _gauge(_CLEANER + "max_buffer_utilization_percent", "Maximum utilization of an offset map, in %.", fullest)
    delay_s = manager.compaction_delay_ms // 1000
    told = "Longest time by which a compaction is overdue (max.compaction.lag.ms), in s."
    yield _gauge(_CLEANER + "max_compaction_delay_secs", told, delay_s)
    yield _gauge(_CLEANER + "deadthreadcount", "Threads that ended because of an error.", cleaner.dead_thread_count)
    dirty = int(100 * manager.dirtiest_ratio)
    yield _gauge(_MANAGER + "max_dirty_percent", "Dirty percentage of the dirtiest log.", dirty)
    since_ms = now_ms - manager.examined_ms if manager.examined_ms else 0
    yield _gauge(_MANAGER + "time_since_last_run_ms", "Time since the last search for dirty logs.", since_ms)
    yield _uncleanable(cleaner)


def recopy_percent(stats: Sequence[CleanerStats]) -> int:
    """Bytes written per 100 bytes read, over all threads; 0 before anything was read."""
    read_bytes = sum(each.bytes_read for each in stats)
    return int(100 * sum(each.bytes_written for each in stats) / read_bytes) if read_bytes else 0


def _uncleanable(cleaner: Any) -> Metric:
    counts = {str(directory): 0 for directory in cleaner.logs.live_directories}
    for tp in cleaner.manager.uncleanable:
        directory = str(cleaner.logs.log_dir_of(tp))
        counts[directory] = counts.get(directory, 0) + 1
    text = "Partitions that could not be cleaned and are ignored."
    family = GaugeMetricFamily(_MANAGER + "uncleanable_partitions_count", text, labels=["logDirectory"])
    for directory, count in sorted(counts.items()):
        family.add_metric([directory], count)
    return family


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value)

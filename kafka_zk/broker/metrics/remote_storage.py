"""Metrics of a broker's tiered storage, named like Kafka's MBeans.

Counters cover the whole broker. There is a gauge for each tiered topic with partitions that the broker leads.
Source: RemoteStorageMetrics.java, RLMQuotaMetrics.java@3.9.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, SummaryMetricFamily

_TOPICS = "kafka_server_brokertopicmetrics_"
_MANAGER = "kafka_log_remote_remotelogmanager_"
_THREADS = "org_apache_kafka_storage_internals_log_remotestoragethreadpool_remotelogreader"
_IDLE = "Share of idle threads, from 0 to 1 as in Kafka, among those that"
_GAUGES = {
    "copy_lag_bytes": ("remotecopylagbytes", "Bytes of closed segments that are not copied yet."),
    "copy_lag_segments": ("remotecopylagsegments", "Closed segments that are not copied yet."),
    "delete_lag_bytes": ("remotedeletelagbytes", "Bytes of expired remote segments that still exist."),
    "delete_lag_segments": ("remotedeletelagsegments", "Expired remote segments that still exist."),
    "metadata_count": ("remotelogmetadatacount", "Remote segments, including unfinished ones."),
    "size_bytes": ("remotelogsizebytes", "Bytes of remote segments."),
}


def remote_storage_metrics(storage: Any) -> Iterator[Metric]:
    """All metrics of a ``RemoteStorage``."""
    manager, reads = storage.manager, storage.reads
    yield from _requests("remotecopy", "Copies of segments", manager.copies)
    yield _counter("remotecopybytes", "Bytes of copied segments.", manager.copies.size_bytes)
    yield from _requests("remotefetch", "Reads for consumers", reads.rates)
    yield _counter("remotefetchbytes", "Bytes of records read for consumers.", reads.rates.size_bytes)
    yield from _requests("remotedelete", "Deletions of segments", manager.deletions)
    yield from _requests("buildremotelogauxstate", "Reads of a follower's first state", storage.state.rates)
    yield from _topics(manager.stats)
    yield from _quota("copy", storage.plugin.copy_quota)
    yield from _quota("fetch", reads.quota)
    idle = storage.plugin.copies.idle_share
    yield GaugeMetricFamily(_MANAGER + "remotelogmanagertasksavgidlepercent", f"{_IDLE} copy.", idle)
    times = SummaryMetricFamily(_MANAGER + "remotelogreaderfetchrateandtimems", "Time of reads for consumers, in ms.")
    times.add_metric([], count_value=reads.rates.requests, sum_value=reads.rates.elapsed_s * 1000)
    yield times
    waiting = storage.reader_calls.waiting_count
    yield GaugeMetricFamily(_THREADS + "taskqueuesize", "Reads that wait for a thread.", waiting)
    yield GaugeMetricFamily(_THREADS + "avgidlepercent", f"{_IDLE} read.", storage.reader_calls.idle_share)


def _requests(name: str, text: str, rates: Any) -> Iterator[Metric]:
    yield _counter(name + "requests", f"{text}.", rates.requests)
    yield _counter(name + "errors", f"{text} that failed.", rates.errors)


def _topics(stats: Any) -> Iterator[Metric]:
    by_topic: dict[str, list[Any]] = defaultdict(list)
    for tp, each in stats.items():
        by_topic[tp.topic].append(each)
    for attribute, (name, text) in _GAUGES.items():
        family = GaugeMetricFamily(_TOPICS + name, text, labels=["topic"])
        for topic, found in sorted(by_topic.items()):
            family.add_metric([topic], sum(getattr(each, attribute) for each in found))
        yield family


def _quota(direction: str, quota: Any) -> Iterator[Metric]:
    text = f"Bytes a second that count for the quota of {direction}."
    yield GaugeMetricFamily(f"kafka_server_rlm{direction}_byte_rate", text, quota.byte_rate)
    name = f"kafka_server_remotelogmanager_remote_{direction}_throttle_time_avg"
    yield GaugeMetricFamily(name, "Average wait for this quota, in ms.", quota.average_throttle_ms)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(_TOPICS + name, text, value)

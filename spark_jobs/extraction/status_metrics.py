"""The status of a group's extractions as metrics for Prometheus. Needs prometheus-client."""

import math

from prometheus_client import CollectorRegistry, Gauge

from kafka_zk.spark_jobs.extraction.status import GroupStatus

_PREFIX = "kafka_zk_extract_status_"


class StatusMetrics:
    """Pass each status to ``update``, on the thread that serves the metrics. Unknown values are NaN."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        where = ("group", "topic", "partition")
        self._lag = self._gauge("lag", "Offsets behind the last stable offset.", *where)
        self._offset = self._gauge("offset", "The next offset to extract; its rate is that of the extraction.", *where)
        self._lost = self._gauge("lost", "Offsets of the lag that the log no longer has.", *where)
        self._offsets = self._gauge("last_range_offsets", "How many offsets the last committed range has.", "group")
        told = "Offsets per second of the run that committed the last range."
        self._rate = self._gauge("last_range_offsets_per_second", told, "group")
        self._end = self._gauge("last_range_timestamp_seconds", "When the last range was committed.", "group")
        self._unfinished = self._gauge("unfinished", "1 if a run is at work or was killed, else 0.", "group")
        self._members = self._gauge("members", "Live members of the group; 0 between runs.", "group")
        self._seen = self._gauge("timestamp_seconds", "When the status was last read.", "group")

    def update(self, status: GroupStatus | None, read_ms: int) -> None:
        """``status``: None if it could not be read: only ``timestamp_seconds`` remains.

        ``read_ms``: since the epoch.
        """
        for gauge in (
            self._lag, self._offset, self._lost, self._offsets, self._rate, self._end, self._unfinished, self._members
        ):  # fmt: skip
            gauge.clear()
        if status is None:
            return
        for each in status.partitions:
            where = status.group, each.topic, str(each.partition)
            self._lag.labels(*where).set(_number(each.lag))
            self._offset.labels(*where).set(_number(each.offset))
            self._lost.labels(*where).set(each.lost)
        if (last := status.last) is not None:
            self._offsets.labels(status.group).set(last.offsets)
            self._rate.labels(status.group).set(_number(last.offsets_per_second))
            self._end.labels(status.group).set(last.written_ms / 1000)
        self._unfinished.labels(status.group).set(status.unfinished is not None)
        self._members.labels(status.group).set(status.members)
        self._seen.labels(status.group).set(read_ms / 1000)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"{_PREFIX}{name}", text, labels, registry=self.registry)


def _number(value: float | None) -> float:
    return math.nan if value is None else float(value)

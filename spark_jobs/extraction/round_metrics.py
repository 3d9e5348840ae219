"""Prometheus metrics of repeated extractions: health and lag."""

from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server

from kafka_zk.base.clock import wall_ms
from kafka_zk.spark_jobs.extraction.rounds import Round

_PREFIX = "kafka_zk_extract_"


class RoundMetrics:
    """Each round is passed to ``tell``."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._rounds = Counter(f"{_PREFIX}rounds", "Rounds by outcome.", ["outcome"], registry=self.registry)
        self._records = Counter(f"{_PREFIX}records", "Records that were written.", registry=self.registry)
        self._undecodable = Counter(f"{_PREFIX}undecodable", "Undecodable records.", registry=self.registry)
        self._healthy = Gauge(f"{_PREFIX}healthy", "1 if the last round succeeded, else 0.", registry=self.registry)
        self._seconds = Gauge(f"{_PREFIX}round_seconds", "How long the last round took.", registry=self.registry)
        self._success = Gauge(
            f"{_PREFIX}last_success_timestamp_seconds", "When a round last succeeded.", registry=self.registry
        )
        self._lag = Gauge(
            f"{_PREFIX}lag", "Offsets behind the end after the last round.", ["topic", "partition"],
            registry=self.registry,
        )  # fmt: skip

    def listen(self, port: int) -> int:
        """``/metrics`` on all addresses, from a thread; returns the port. Raises OSError."""
        server, _ = start_http_server(port, registry=self.registry)
        return int(server.server_port)

    def update(self, done: Round) -> None:
        self._rounds.labels(outcome_of(done)).inc()
        self._healthy.set(done.report is not None)
        if done.report is None:
            return
        self._records.inc(done.report.records)
        self._undecodable.inc(done.report.undecodable)
        self._seconds.set(done.report.seconds)
        self._success.set(wall_ms() / 1000)
        for each in done.report.partitions:
            self._lag.labels(each.topic, str(each.partition)).set(each.lag_after)


def outcome_of(done: Round) -> str:
    if done.report is None:
        return "failed"
    return "extracted" if done.report.published else "idle"

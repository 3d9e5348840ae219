"""The status of a migration as metrics for Prometheus. Needs prometheus-client."""

import math

from prometheus_client import CollectorRegistry, Gauge

from kafka_zk.migration.facts import Fact, MigrationZnode, Unknown
from kafka_zk.migration.phase import Advice, Phase, Status

_PREFIX = "kafka_zk_migration_"


class StatusMetrics:
    """Pass each status to ``update``, on the thread that serves the metrics. Unknown values are NaN."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._phase = self._gauge("phase", "1 for the phase of the migration, 0 for the others.", "phase")
        self._mode = self._gauge("broker_mode", "1 for the mode of each broker.", "broker", "mode")
        self._safe = self._gauge("safe", "1 if the next step, or a rollback, is safe, 0 if not.", "step")
        self._fits = self._gauge("confirmed", "1 if the metadata log confirms the phase, 0 if it contradicts it.")
        self._offset = self._gauge("zookeeper_offset", "The last offset of the metadata log that is in ZooKeeper.")
        self._seen = self._gauge("last_status_timestamp_seconds", "When the status was last read.")

    def update(self, status: Status, znode: Fact[MigrationZnode | None], read_ms: int | None) -> None:
        """``read_ms``: since the epoch, None if the cluster could not be examined."""
        for phase in Phase:
            is_known = not isinstance(status.phase, Unknown)
            self._phase.labels(phase.value).set(phase is status.phase if is_known else math.nan)
        self._mode.clear()
        for broker_id, mode in status.brokers.items():
            self._mode.labels(str(broker_id), "unknown" if isinstance(mode, Unknown) else mode.value).set(1)
        for step, advice in (("continue", status.proceed), ("roll_back", status.roll_back)):
            self._safe.labels(step).set(_number(advice))
        self._fits.set(math.nan if status.confirmation.fits is None else status.confirmation.fits)
        offset = znode.metadata_offset if isinstance(znode, MigrationZnode) else None
        self._offset.set(math.nan if offset is None else offset)
        if read_ms is not None:
            self._seen.set(read_ms / 1000)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"{_PREFIX}{name}", text, labels, registry=self.registry)


def _number(advice: Advice) -> float:
    return math.nan if advice.is_safe is None else float(advice.is_safe)

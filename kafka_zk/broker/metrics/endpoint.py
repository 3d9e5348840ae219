"""A broker's ``/metrics``. Imported on demand: it needs prometheus-client and a web server."""

from typing import Any

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from kafka_zk.broker.metrics.collector import BrokerCollector
from kafka_zk.broker.metrics.request_stats import RequestStats
from kafka_zk.broker.metrics.watchdog import Watchdog
from kafka_zk.network import metrics_page


def listen(
    reactor: Any,
    parts: Any,
    client: Any,
    stats: RequestStats,
    port: int,
    host: str,
    watchdog: Watchdog | None = None,
) -> int:
    """Serve a started broker's metrics on ``host`` ("": all addresses). Returns the port.

    Raises CannotListenError.
    """
    registry = CollectorRegistry()
    registry.register(BrokerCollector(parts, client, stats, watchdog))
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    return metrics_page.listen(reactor, registry, port, host)

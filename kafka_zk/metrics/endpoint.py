"""``/metrics`` on a port of its own. Imported only when somebody asks for it: it brings prometheus-client and a web
server along.

Not prometheus-client's own Twisted resource: that collects in a thread, and a broker's state is the reactor's.
"""

from typing import Any

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder
from twisted.web.resource import Resource
from twisted.web.server import Site

from kafka_zk.metrics.collector import BrokerCollector
from kafka_zk.metrics.request_stats import RequestStats
from kafka_zk.metrics.watchdog import Watchdog


class _Metrics(Resource):
    isLeaf = True

    def __init__(self, registry: CollectorRegistry) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._registry = registry

    def render_GET(self, request: Any) -> bytes:
        encode, content_type = choose_encoder(request.getHeader("accept") or "")
        request.setHeader("content-type", content_type)
        text: bytes = encode(self._registry)
        return text


def listen(
    reactor: Any,
    broker: Any,
    client: Any,
    stats: RequestStats,
    port: int,
    host: str,
    watchdog: Watchdog | None = None,
) -> int:
    """Serve the metrics of a started broker on ``host`` ("" for all addresses); returns the port.

    Raises: twisted's CannotListenError.
    """
    registry = CollectorRegistry()
    registry.register(BrokerCollector(broker, client, stats, watchdog))
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    root: Any = Resource()
    root.putChild(b"metrics", _Metrics(registry))
    site = Site(root, reactor=reactor)
    site.noisy = False
    site.log = lambda request: None  # type: ignore[method-assign]  # a line per scrape tells nobody anything
    listening: int = reactor.listenTCP(port, site, interface=host).getHost().port
    return listening

"""Serves ``/metrics`` on its own port. Imported on demand: it needs prometheus-client and a web server.

prometheus-client's own Twisted resource collects in a thread, but a broker's state belongs to the reactor.
"""

from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from twisted.web.resource import Resource

from kafka_zk.base.clock import Timers
from kafka_zk.network.bounded_site import BoundedSite

CACHED_S = 1.0
"""Time to cache a collection, which takes 100 ms for a broker with 5,000 partitions."""


class MetricsPage(Resource):
    isLeaf = True

    def __init__(self, registry: CollectorRegistry, clock: Timers) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._registry = registry
        self._clock = clock
        self._content_type = ""
        self._text = b""
        self._until_s = -1.0

    def render_GET(self, request: Any) -> bytes:
        encode, content_type = choose_encoder(request.getHeader("accept") or "")
        now_s = self._clock.seconds()
        if now_s >= self._until_s:
            self._content_type, self._text = content_type, encode(self._registry)
            self._until_s = now_s + CACHED_S
        request.setHeader("content-type", self._content_type)  # cached for all clients
        return self._text


def listen(reactor: Any, registry: CollectorRegistry, port: int, host: str) -> int:
    """Serve the metrics on ``host`` ("": all addresses), from the reactor thread. Returns the port.

    Raises CannotListenError.
    """
    root: Any = Resource()
    root.putChild(b"metrics", MetricsPage(registry, reactor))
    listening: int = reactor.listenTCP(port, BoundedSite(root, reactor), interface=host).getHost().port
    return listening

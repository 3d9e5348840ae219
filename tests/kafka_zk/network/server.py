"""A listener for tests, and frames to send to it."""

import socket
import struct
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred

from kafka_zk.network.connection_quotas import ConnectionQuotas
from kafka_zk.network.connection_settings import ConnectionSettings
from kafka_zk.network.in_flight import Response
from kafka_zk.network.listener import Listener, ListenerSettings
from kafka_zk.protocol.request import RequestContext, RequestHeader, request_header
from tests.kafka_zk.network.harness import LocalReactor

Handler = Callable[[RequestHeader, bytes], Any]


def frame(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def request(correlation_id: int, body: bytes = b"", api_key: int = 3, version: int = 0) -> bytes:
    return frame(request_header(api_key, version, correlation_id, "tester") + body)


def answer(correlation_id: int, body: bytes = b"") -> bytes:
    return frame(struct.pack(">i", correlation_id) + body)


class Server:
    """A listener with a handler of the test; it records the requests it handled."""

    def __init__(self, reactor: LocalReactor, **options: Any) -> None:
        self.reactor = reactor
        self.handled: list[tuple[int, bytes]] = []
        self.contexts: list[RequestContext] = []
        self.handler: Handler = lambda header, body: [struct.pack(">i", header.correlation_id) + body]
        of_listener = ("max_idle_ms", "inter_broker", "max_connections")
        listener_options = {name: options.pop(name) for name in of_listener if name in options}
        self.quotas = options.pop("quotas", None) or ConnectionQuotas()
        host = options.pop("host", "127.0.0.1")
        settings = ConnectionSettings(reactor, "PLAINTEXT", self.dispatch, **options)
        self.listener = Listener(reactor, ListenerSettings(host, 0, **listener_options), settings, self.quotas)
        self.port = self.listener.bind()
        self.listener.start_accepting()
        self.peers: list[socket.socket] = []

    async def dispatch(self, context: RequestContext, header: RequestHeader, body: memoryview) -> Response:
        self.handled.append((header.correlation_id, bytes(body)))
        self.contexts.append(context)
        result: Any = self.handler(header, bytes(body))
        if isinstance(result, Deferred):
            result = await result
        return result  # type: ignore[no-any-return]

    def connect(self, accepted: bool = True) -> socket.socket:
        before = len(self.listener.connections)
        peer = socket.create_connection(("127.0.0.1", self.port))
        self.peers.append(peer)
        if accepted:
            self.reactor.until(lambda: len(self.listener.connections) > before)
        return peer

    def close(self) -> None:
        for peer in self.peers:
            peer.close()
        self.reactor.result_of(self.listener.stop())

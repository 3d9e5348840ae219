"""Listeners: whom they take, whom they refuse, and how connections end with them."""

import socket
import struct
from collections.abc import Callable

from twisted.internet.defer import Deferred

from kafka_zk.network.connection import ConnectionSettings, Response
from kafka_zk.network.connection_quotas import ConnectionQuotas
from kafka_zk.network.listener import Listener, ListenerSettings
from kafka_zk.protocol.request import RequestContext, RequestHeader
from tests.kafka_zk.network.harness import LocalReactor, is_closed, receive_all
from tests.kafka_zk.network.server import Server, answer, request


def test_an_address_above_its_limit_is_refused(reactor: LocalReactor, make_server: Callable[..., Server]) -> None:
    server = make_server(quotas=ConnectionQuotas(max_connections_per_ip=1))
    first = server.connect()
    second = server.connect(accepted=False)
    reactor.until(lambda: is_closed(second))
    first.close()
    reactor.until(lambda: not server.listener.connections)
    third = server.connect()
    third.sendall(request(1))
    assert receive_all(reactor, third, 8) == answer(1)


def test_a_full_broker_accepts_again_when_a_connection_ends(
    reactor: LocalReactor, make_server: Callable[..., Server]
) -> None:
    """max.connections: the next one waits, it is not refused."""
    server = make_server(quotas=ConnectionQuotas(max_connections=1))
    first = server.connect()
    second = server.connect(accepted=False)
    second.sendall(request(2))
    for _ in range(10):
        reactor.turn(0)
    assert len(server.listener.connections) == 1
    assert not is_closed(second)
    first.close()
    assert receive_all(reactor, second, 8) == answer(2)


def test_idle_connections_are_closed_and_busy_ones_are_not(
    reactor: LocalReactor, make_server: Callable[..., Server]
) -> None:
    server = make_server(max_idle_ms=100)
    waiting: Deferred[Response] = Deferred()
    server.handler = lambda header, body: waiting
    idle, busy = server.connect(), server.connect()
    busy.sendall(request(1))
    reactor.until(lambda: is_closed(idle))
    waiting.callback([struct.pack(">i", 1)])
    assert receive_all(reactor, busy, 8) == answer(1)


def test_a_bound_listener_takes_nobody_before_it_accepts(reactor: LocalReactor) -> None:
    async def nothing(context: RequestContext, header: RequestHeader, body: memoryview) -> Response:
        return [struct.pack(">i", header.correlation_id)]

    settings = ConnectionSettings(reactor, "PLAINTEXT", nothing)
    listener = Listener(reactor, ListenerSettings("127.0.0.1", 0), settings, ConnectionQuotas())
    port = listener.bind()
    peer = socket.create_connection(("127.0.0.1", port))
    peer.sendall(request(1))
    for _ in range(5):
        reactor.turn(0)
    assert not listener.connections
    listener.start_accepting()
    assert receive_all(reactor, peer, 8) == answer(1)
    peer.close()
    reactor.result_of(listener.stop())


def test_stop_sends_what_is_queued(reactor: LocalReactor, server: Server) -> None:
    server.handler = lambda header, body: [bytes(8 * 1024 * 1024)]
    peer = server.connect()
    peer.sendall(request(1))
    reactor.until(lambda: server.handled)
    stopping = []
    from twisted.internet.defer import ensureDeferred

    ensureDeferred(server.listener.stop()).addCallback(stopping.append)
    assert len(receive_all(reactor, peer, 8 * 1024 * 1024 + 4)) == 8 * 1024 * 1024 + 4
    reactor.until(lambda: stopping)

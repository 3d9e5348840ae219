"""Handlers that wait: how failures reach them, and what happens to them when the client disconnects."""

import gc
import struct
import weakref
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from kafka_zk.broker.replica.purgatory import Purgatory
from kafka_zk.network.in_flight import Response
from kafka_zk.protocol.request import RequestContext, RequestHeader
from tests.kafka_zk.network.harness import LocalReactor, receive_all
from tests.kafka_zk.network.server import Server, answer, request

Handle = Callable[[RequestHeader], Coroutine[Any, Any, Response]]


class WaitingServer(Server):
    """A server whose handler is the coroutine ``handle``."""

    handle: Handle

    async def dispatch(self, context: RequestContext, header: RequestHeader, body: memoryview) -> Response:
        return await self.handle(header)


@pytest.fixture
def server(reactor: LocalReactor) -> Iterator[WaitingServer]:
    server = WaitingServer(reactor)
    yield server
    server.close()


def test_a_handler_catches_the_failure_of_what_it_waited_for(reactor: LocalReactor, server: WaitingServer) -> None:
    """The handler gets the original exception, because it maps ZooKeeper's errors to Kafka's error codes."""
    waiting: list[Deferred[bytes]] = []

    async def handle(header: RequestHeader) -> Response:
        caught: list[bytes] = []
        for _ in range(3):
            waiting.append(Deferred())
            try:
                caught.append(await waiting[-1])
            except KeyError as error:
                caught.append(error.args[0])
        return [struct.pack(">i", header.correlation_id), *caught]

    server.handle = handle
    peer = server.connect()
    peer.sendall(request(1))
    reactor.until(lambda: len(waiting) == 1)
    waiting[0].errback(KeyError(b"no "))
    waiting[1].callback(b"such ")
    waiting[2].errback(KeyError(b"node"))
    assert receive_all(reactor, peer, 20) == answer(1, b"no such node")


def test_a_handler_whose_client_is_gone_waits_no_longer(reactor: LocalReactor, server: WaitingServer) -> None:
    """If it waited on, a client that asks to wait for a month and disconnects would use memory for a month."""
    purgatory = Purgatory(reactor)
    ended: list[bool] = []

    async def handle(header: RequestHeader) -> Response:
        ended.append(await purgatory.wait(["key", "key"], lambda: False, 2**31 - 1))
        return [b"answer"]

    server.handle = handle
    peer = server.connect()
    peer.sendall(request(1))
    reactor.until(lambda: purgatory.count)
    connection = weakref.ref(server.listener.connections[0])
    server.peers.remove(peer)
    peer.close()
    reactor.until(lambda: ended)
    assert ended == [False]
    assert purgatory.count == 0
    reactor.turn()
    gc.collect()
    assert connection() is None

"""Broker connections: order, back-pressure, limits, and that a bad frame does not affect other connections."""

import socket
import struct
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from kafka_zk.network.connection import REQUESTS_PER_TURN
from kafka_zk.network.connection_settings import HandshakeStep
from kafka_zk.network.in_flight import Response
from kafka_zk.network.memory_pool import MemoryPool
from kafka_zk.network.read_ahead import ReadAhead
from kafka_zk.protocol.errors import ProtocolError
from kafka_zk.protocol.request import RequestContext, RequestHeader
from tests.kafka_zk.network.harness import CountedSlice, LocalReactor, is_closed, receive_all
from tests.kafka_zk.network.server import Server, answer, frame, request

R = TypeVar("R")


def test_answers_that_fill_the_queue_and_leave_at_once_do_not_end_the_conversation(
    reactor: LocalReactor, server: Server
) -> None:
    """The socket takes everything that was held back, so no later event can report that there is room again."""
    body = b"x" * 200_000
    server.handler = lambda header, _: [struct.pack(">i", header.correlation_id) + body]
    peer = server.connect()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_000_000)
    peer.sendall(b"".join(request(number) for number in range(5)))
    expected = b"".join(answer(number, body) for number in range(5))
    assert receive_all(reactor, peer, len(expected)) == expected


def test_requests_are_answered_in_order(reactor: LocalReactor, server: Server) -> None:
    peer = server.connect()
    peer.sendall(b"".join(request(number, b"x" * number) for number in range(200)))
    expected = b"".join(answer(number, b"x" * number) for number in range(200))
    assert receive_all(reactor, peer, len(expected)) == expected


def test_a_request_in_single_bytes_is_handled(reactor: LocalReactor, server: Server) -> None:
    peer = server.connect()
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in request(1, b"body"):
        peer.send(bytes([byte]))
        reactor.turn()
    assert receive_all(reactor, peer, 12) == answer(1, b"body")


def test_a_big_request_arrives_whole(reactor: LocalReactor, server: Server) -> None:
    body = bytes(range(256)) * 4 * 1024 * 8
    server.handler = lambda header, received: [struct.pack(">i", header.correlation_id)]
    peer = server.connect()
    peer.setblocking(False)
    data = request(1, body) + request(2, b"next")
    sent = 0
    while sent < len(data):
        try:
            sent += peer.send(data[sent:])
        except BlockingIOError:
            reactor.turn()
    assert receive_all(reactor, peer, 16) == answer(1) + answer(2)
    assert server.handled == [(1, body), (2, b"next")]


def test_the_next_request_is_not_handled_before_the_answer(reactor: LocalReactor, server: Server) -> None:
    waiting: list[Deferred[Response]] = []
    server.handler = lambda header, body: waiting.append(Deferred()) or waiting[-1]  # type: ignore[func-returns-value]
    peer = server.connect()
    peer.sendall(request(1) + request(2))
    reactor.until(lambda: waiting)
    assert [number for number, _ in server.handled] == [1]
    waiting[0].callback([struct.pack(">i", 1)])
    assert receive_all(reactor, peer, 8) == answer(1)
    reactor.until(lambda: len(waiting) == 2)
    waiting[1].callback([struct.pack(">i", 2)])
    assert receive_all(reactor, peer, 8) == answer(2)


def test_no_answer_for_none(reactor: LocalReactor, server: Server) -> None:
    """The requests have acks=0."""
    server.handler = lambda header, body: None if body == b"silent" else [struct.pack(">i", header.correlation_id)]
    peer = server.connect()
    peer.sendall(request(1, b"silent") + request(2))
    assert receive_all(reactor, peer, 8) == answer(2)


def test_a_slow_reader_is_not_read_from(
    reactor: LocalReactor, server: Server, make_slice: Callable[..., CountedSlice]
) -> None:
    """Memory is bounded: at most one response is queued, and requests stay in the peer's socket."""
    big = make_slice(8 * 1024 * 1024)
    server.handler = lambda header, body: [struct.pack(">i", header.correlation_id), big]
    peer = server.connect()
    peer.sendall(request(1) + request(2) + request(3))
    reactor.until(lambda: server.handled)
    for _ in range(20):
        reactor.turn(0)
    assert len(server.handled) == 1
    assert big.references == 1
    expected = b"".join(frame(struct.pack(">i", number) + big.read()) for number in (1, 2, 3))
    assert receive_all(reactor, peer, len(expected)) == expected
    assert len(server.handled) == 3


@pytest.mark.parametrize(
    "bad",
    [
        frame(b"short"),
        struct.pack(">i", -1),
        struct.pack(">i", 0x7FFFFFFF),
        request(1, api_key=999),
        request(1, version=99),
        b"GET / HTTP/1.1\r\n\r\n",
    ],
)
def test_a_malformed_frame_closes_its_connection_only(
    reactor: LocalReactor, server: Server, warnings: list[str], bad: bytes
) -> None:
    neighbour = server.connect()
    peer = server.connect()
    peer.sendall(bad)
    reactor.until(lambda: is_closed(peer))
    assert len(warnings) == 1
    neighbour.sendall(request(5))
    assert receive_all(reactor, neighbour, 8) == answer(5)


def test_a_malformed_body_closes_its_connection(reactor: LocalReactor, server: Server, warnings: list[str]) -> None:
    def refuse(header: RequestHeader, body: bytes) -> Response:
        raise ProtocolError("a body that makes no sense")

    server.handler = refuse
    peer = server.connect()
    peer.sendall(request(1))
    reactor.until(lambda: is_closed(peer))
    assert len(warnings) == 1
    assert "makes no sense" in warnings[0]


def test_a_failing_handler_closes_its_connection(reactor: LocalReactor, server: Server, warnings: list[str]) -> None:
    server.handler = lambda header, body: 1 / 0
    peer = server.connect()
    peer.sendall(request(1))
    reactor.until(lambda: is_closed(peer))
    assert len(warnings) == 1


def test_an_unknown_version_of_api_versions_gets_error_35_in_version_0(reactor: LocalReactor, server: Server) -> None:
    """KIP-511; the bytes are those of a real 3.9.1."""
    peer = server.connect()
    peer.sendall(request(7, b"whatever", api_key=18, version=5))
    assert receive_all(reactor, peer, 20).hex() == "00000010" + "00000007" + "0023" + "00000001" + "001200000004"
    peer.sendall(request(8))
    assert receive_all(reactor, peer, 8) == answer(8)


def test_a_connection_lost_while_its_request_waits_drops_the_answer(
    reactor: LocalReactor, make_server: Callable[..., Server], warnings: list[str]
) -> None:
    sent: list[Response] = []

    def on_response(context: RequestContext, header: RequestHeader, parts: Response) -> int:
        sent.append(parts)
        return 0

    server = make_server(on_response=on_response)
    waiting: Deferred[Response] = Deferred()
    server.handler = lambda header, body: waiting
    peer = server.connect()
    peer.sendall(request(1))
    reactor.until(lambda: server.handled)
    peer.close()
    reactor.until(lambda: not server.listener.connections)
    waiting.callback([b"too late"])
    assert (sent, warnings) == ([], [])


def test_the_response_hook_is_not_called_for_the_class_that_it_does_not_hear(
    reactor: LocalReactor, make_server: Callable[..., Server]
) -> None:
    class Throttled(list[Any]): ...

    heard: list[int] = []

    def on_response(context: RequestContext, header: RequestHeader, parts: Response) -> int:
        heard.append(header.correlation_id)
        return 0

    server = make_server(on_response=on_response, unheard=list)
    plain = server.handler
    server.handler = lambda header, body: (list if header.correlation_id == 1 else Throttled)(plain(header, body))
    peer = server.connect()
    peer.sendall(request(1) + request(2))
    assert receive_all(reactor, peer, 16) == answer(1) + answer(2)
    assert heard == [2]


def test_the_response_hook_mutes_the_peer(reactor: LocalReactor, make_server: Callable[..., Server]) -> None:
    """For throttling, the response is sent and the next request waits."""
    server = make_server(on_response=lambda context, header, parts: 100 if header.correlation_id == 1 else 0)
    peer = server.connect()
    peer.sendall(request(1) + request(2))
    assert receive_all(reactor, peer, 8) == answer(1)
    assert len(server.handled) == 1
    assert receive_all(reactor, peer, 8) == answer(2)


def test_a_muted_peer_gets_no_memory_for_its_next_request(
    reactor: LocalReactor, make_server: Callable[..., Server]
) -> None:
    """The request would hold the memory as long as the peer is muted, and other requests need it."""
    pool, hour_ms = MemoryPool(1_000_000), 3_600_000
    server = make_server(memory=pool, on_response=lambda context, header, parts: hour_ms * (header.correlation_id == 1))
    clock = server.listener._connection_settings.clock = Clock()
    server.handler = lambda header, body: [struct.pack(">i", header.correlation_id)]
    peer, other = server.connect(), server.connect()
    peer.sendall(request(1))
    assert receive_all(reactor, peer, 8) == answer(1)
    peer.setblocking(False)
    large = request(2, bytes(3_000_000))
    sent = peer.send(large)

    def goes_on() -> bool:
        nonlocal sent
        with suppress(BlockingIOError):
            sent += peer.send(large[sent:])
        return len(server.handled) == 2

    for number in range(10, 20):
        goes_on()
        other.sendall(request(number))
        receive_all(reactor, other, 8)
        assert not pool.overdraft_bytes
        assert pool.used_bytes < 300_000
    server.handled.clear()
    clock.advance(3600)
    reactor.until(lambda: goes_on() or len(server.handled) == 1)
    assert receive_all(reactor, peer, 8) == answer(2)
    assert (pool.used_bytes, pool.overdraft_bytes) == (0, 0)


def test_the_end_of_a_turn_does_not_unmute_the_peer(reactor: LocalReactor, make_server: Callable[..., Server]) -> None:
    """The last request of a turn is throttled for a practically unlimited time."""
    last = REQUESTS_PER_TURN - 1
    server = make_server(on_response=lambda context, header, parts: 3_600_000 * (header.correlation_id == last))
    peer, other = server.connect(), server.connect()
    peer.sendall(b"".join(request(number) for number in range(REQUESTS_PER_TURN + 1)))
    receive_all(reactor, peer, 8 * REQUESTS_PER_TURN)
    for number in range(3):  # turns in which the request of an unmuted peer would be handled
        other.sendall(request(number))
        receive_all(reactor, other, 8)
    assert len(server.handled) == REQUESTS_PER_TURN + 3


def test_a_late_answer_at_the_end_of_a_turn_throttles_the_peer(
    reactor: LocalReactor, make_server: Callable[..., Server]
) -> None:
    """The last request of a turn waits, and its response comes before the next turn."""
    last = REQUESTS_PER_TURN - 1
    server = make_server(on_response=lambda context, header, parts: 3_600_000 * (header.correlation_id == last))
    late: Deferred[Response] = Deferred()
    server.handler = lambda header, body: late if header.correlation_id == last else [b"done"]
    peer, other = server.connect(), server.connect()
    peer.sendall(b"".join(request(number) for number in range(REQUESTS_PER_TURN + 1)))
    reactor.until(lambda: len(server.handled) == REQUESTS_PER_TURN)
    late.callback([b"done"])
    for number in range(3):  # turns in which the request of an unmuted peer would be handled
        other.sendall(request(number))
        receive_all(reactor, other, 8)
    assert len(server.handled) == REQUESTS_PER_TURN + 3


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("throttled", range(REQUESTS_PER_TURN - 2, REQUESTS_PER_TURN + 2))
def test_throttling_and_the_end_of_a_turn_do_not_shorten_each_other(
    reactor: LocalReactor, make_server: Callable[..., Server], throttled: int, late: bool
) -> None:
    """The throttled request may be anywhere in its turn, and its response may be immediate or late: the rest follows
    after five seconds.
    """
    server = make_server(on_response=lambda context, header, parts: 5000 * (header.correlation_id == throttled))
    clock = server.listener._connection_settings.clock = Clock()
    answers: Deferred[Response] = Deferred()
    server.handler = lambda header, body: (
        answers if late and header.correlation_id == throttled else [struct.pack(">i", header.correlation_id)]
    )
    count = 3 * REQUESTS_PER_TURN

    def handled() -> int:
        clock.advance(0)
        return len(server.handled)

    peer = server.connect()
    peer.sendall(b"".join(request(number) for number in range(count)))
    reactor.until(lambda: handled() == throttled + 1)
    if late:
        answers.callback([struct.pack(">i", throttled)])
    for _ in range(49):
        clock.advance(0.1)
        reactor.turn(0)
        assert len(server.handled) == throttled + 1
    clock.advance(0.101)
    assert len(server.handled) > throttled + 1
    reactor.until(lambda: handled() == count)
    assert [number for number, _ in server.handled] == list(range(count))


@pytest.mark.parametrize("waits", [False, True])
def test_a_failing_response_hook_closes_the_connection(
    reactor: LocalReactor, make_server: Callable[..., Server], warnings: list[str], waits: bool
) -> None:
    """The hook may also fail for a response that comes from a Deferred, where an exception would be lost."""

    def fail(*_arguments: object) -> int:
        raise ZeroDivisionError

    server = make_server(on_response=fail)
    waiting: Deferred[Response] = Deferred()
    server.handler = lambda header, body: waiting if waits else [b"answer"]
    peer = server.connect()
    peer.sendall(request(1))
    reactor.until(lambda: server.handled)
    waiting.callback([b"answer"])
    reactor.until(lambda: is_closed(peer))
    assert len(warnings) == 1


def test_a_response_hook_that_fails_after_a_throttle_closes_the_connection(
    reactor: LocalReactor, make_server: Callable[..., Server], warnings: list[str]
) -> None:
    """An exception in a timer would only be logged, and the peer would wait for its response until it counts as idle.
    """

    def hook(_context: RequestContext, header: RequestHeader, _parts: Response) -> int:
        return 10 // (2 - header.correlation_id)

    server = make_server(on_response=hook)
    peer = server.connect()
    peer.sendall(request(1) + request(2))
    assert receive_all(reactor, peer, 8) == answer(1)
    reactor.until(lambda: is_closed(peer))
    assert len(server.handled) == 2 and len(warnings) == 1


def test_a_handshake_comes_before_dispatch_and_gives_the_principal(
    reactor: LocalReactor, make_server: Callable[..., Server]
) -> None:
    class PasswordHandshake:
        takes_bare_frames = False
        max_frame_size_bytes = 100

        async def request(self, context: RequestContext, header: RequestHeader, body: memoryview) -> HandshakeStep:
            if bytes(body) == b"password":
                return HandshakeStep([b"welcome"], context._replace(principal="User:alice"))
            raise ProtocolError("wrong password")

        async def bare_frame(self, context: RequestContext, frame: memoryview) -> HandshakeStep:
            raise AssertionError("it takes none")

    server = make_server(handshake=PasswordHandshake)
    peer = server.connect()
    peer.sendall(request(1, b"password") + request(2, b"data"))
    assert receive_all(reactor, peer, 23) == frame(b"welcome") + answer(2, b"data")
    assert [context.principal for context in server.contexts] == ["User:alice"]
    stranger = server.connect()
    stranger.sendall(request(1, b"guess"))
    reactor.until(lambda: is_closed(stranger))


def test_cold_slices_are_read_by_a_thread_before_they_are_sent(
    reactor: LocalReactor,
    make_server: Callable[..., Server],
    make_slice: Callable[..., CountedSlice],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("kafka_zk.network.read_ahead.is_in_page_cache", lambda file_slice: False)
    pool: list[tuple[Callable[[], object], Deferred[Any]]] = []

    def run_in_thread(function: Callable[[], R]) -> "Deferred[R]":
        pool.append((function, Deferred()))
        return pool[-1][1]

    server = make_server(read_ahead=ReadAhead(run_in_thread))
    cold = make_slice(5000, 7, in_active_segment=False)
    cold.retain()  # as the handler's log would, until the descriptor is opened
    server.handler = lambda header, body: [struct.pack(">i", header.correlation_id), cold]
    peer = server.connect()
    peer.sendall(request(1))
    reactor.until(lambda: pool)
    assert cold.references == 2
    function, done = pool[0]
    function()
    done.callback(None)
    assert receive_all(reactor, peer, 5008) == answer(1, cold.read())
    cold.release()


def test_warm_slices_are_sent_at_once(make_slice: Callable[..., CountedSlice]) -> None:
    def run_in_thread(function: Callable[[], R]) -> "Deferred[R]":
        raise AssertionError("what is in memory needs no thread")

    assert ReadAhead(run_in_thread)([b"head", make_slice(100, in_active_segment=True)]) is None

"""The broker's reactor: events reach transports, and an error in one transport ends only that one."""

import socket
from collections.abc import Iterator
from functools import partial
from typing import Any, cast

import pytest
from twisted.internet.epollreactor import EPollReactor
from twisted.internet.protocol import Factory, Protocol
from twisted.logger import ILogObserver, globalLogPublisher

from kafka_zk.base.clock import monotonic_s
from kafka_zk.network.reactor import BrokerReactor
from tests.kafka_zk.network.harness import LocalReactor, is_closed, receive_all


class _TestedReactor(BrokerReactor, LocalReactor):
    """The broker's reactor, whose turns the test runs."""


@pytest.fixture
def reactor() -> Iterator[_TestedReactor]:
    made = _TestedReactor()
    yield made
    made.close()


class _Upper(Protocol):
    """A protocol that responds in capitals, and fails at "fail"."""

    lost: Any = None
    transport: Any

    def dataReceived(self, data: bytes) -> None:
        if data == b"fail":
            raise RuntimeError("as the test asked")
        assert self.transport is not None
        self.transport.write(data.upper())

    def connectionLost(self, reason: Any = None) -> None:
        self.lost = reason


def _connected(reactor: _TestedReactor, count: int) -> tuple[list[socket.socket], list[_Upper]]:
    made: list[_Upper] = []

    class Remembering(Factory):
        noisy = False

        def buildProtocol(self, addr: Any) -> _Upper:
            made.append(_Upper())
            return made[-1]

    port: Any = EPollReactor.listenTCP(reactor, 0, Remembering(), interface="127.0.0.1")
    peers = []
    for number in range(count):
        peers.append(socket.create_connection(("127.0.0.1", port.getHost().port)))
        reactor.until(partial(lambda count: len(made) == count, number + 1))
    return peers, made


def test_setting_the_machines_clock_moves_no_timer() -> None:
    """Twisted's own reactors use the wall clock."""
    assert BrokerReactor.seconds is monotonic_s


def test_what_is_written_comes_out(reactor: _TestedReactor) -> None:
    (peer,), _ = _connected(reactor, 1)
    peer.sendall(b"hello")
    assert receive_all(reactor, peer, 5) == b"HELLO"
    peer.close()


def test_more_than_a_socket_takes_is_written_as_it_empties(reactor: _TestedReactor) -> None:
    """EPOLLOUT calls doWrite."""
    (peer,), (protocol,) = _connected(reactor, 1)
    assert protocol.transport is not None
    protocol.transport.write(b"x" * 20_000_000)
    assert len(receive_all(reactor, peer, 20_000_000)) == 20_000_000
    peer.close()


def test_an_exception_in_a_protocol_is_logged_and_ends_its_connection_only(reactor: _TestedReactor) -> None:
    (failing, other), (first, second) = _connected(reactor, 2)
    events: list[Any] = []
    globalLogPublisher.addObserver(cast(ILogObserver, events.append))
    try:
        failing.sendall(b"fail")
        reactor.until(lambda: first.lost is not None)
    finally:
        globalLogPublisher.removeObserver(cast(ILogObserver, events.append))
    assert [str(event["log_failure"].value) for event in events if "log_failure" in event] == ["as the test asked"]
    assert is_closed(failing)
    other.sendall(b"still here")
    assert receive_all(reactor, other, 10) == b"STILL HERE"
    assert second.lost is None
    failing.close()
    other.close()


@pytest.mark.parametrize("half_close", [True, False], ids=["end of stream", "reset"])
def test_a_peer_that_goes_is_noticed(reactor: _TestedReactor, half_close: bool) -> None:
    """A hang-up comes with other event bits and is handled by Twisted's own code."""
    (peer,), (protocol,) = _connected(reactor, 1)
    if half_close:
        peer.shutdown(socket.SHUT_WR)
    else:
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        peer.close()
    reactor.until(lambda: protocol.lost is not None)
    peer.close()


def test_a_connection_that_another_one_closed_in_the_same_turn_gets_no_event(reactor: _TestedReactor) -> None:
    (first_peer, second_peer), protocols = _connected(reactor, 2)

    def close_the_other(me: _Upper) -> None:
        other = protocols[1] if me is protocols[0] else protocols[0]
        assert other.transport is not None
        if other.lost is None:
            other.transport.connectionLost(ConnectionAbortedError("by the other"))

    seen: list[_Upper] = []

    def received(me: _Upper, data: bytes) -> None:
        seen.append(me)
        close_the_other(me)

    for protocol in protocols:
        protocol.dataReceived = partial(received, protocol)  # type: ignore[method-assign]
    first_peer.sendall(b"1")
    second_peer.sendall(b"2")
    reactor.until(lambda: seen)
    reactor.turn()
    assert len(seen) == 1
    first_peer.close()
    second_peer.close()


def test_the_end_of_a_turn_comes_after_all_its_events(reactor: _TestedReactor) -> None:
    """Calls that it schedules run in the next turn, which does not wait."""
    order: list[str] = []
    peers, made = _connected(reactor, 2)

    def again() -> None:
        order.append("again")

    def end() -> None:
        order.append("end")
        reactor.at_end_of_turn(again)

    def received(data: bytes) -> None:
        if not order:
            reactor.at_end_of_turn(end)
        order.append(data.decode())

    for number, each in enumerate(made):
        each.dataReceived = received  # type: ignore[method-assign]
        peers[number].sendall(b"x")
    reactor.until(lambda: _readable(reactor) == 2)
    reactor.doIteration(60)
    assert order == ["x", "x", "end"]
    assert reactor.timeout() == 0
    reactor.doIteration(reactor.timeout())
    assert order == ["x", "x", "end", "again"]


def _readable(reactor: _TestedReactor) -> int:
    return len(reactor._poller.poll(0, 10))


def test_a_call_that_fails_at_the_end_of_a_turn_spares_the_others(reactor: _TestedReactor) -> None:
    done: list[int] = []
    reactor.at_end_of_turn(lambda: 1 // 0)
    reactor.at_end_of_turn(lambda: done.append(1))
    reactor.doIteration(reactor.timeout())
    assert done == [1]

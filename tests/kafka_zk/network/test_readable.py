"""Waiting for a descriptor on the reactor."""

import socket
from collections.abc import Iterator

import pytest
from twisted.internet.defer import CancelledError
from twisted.internet.epollreactor import EPollReactor

from kafka_zk.network.readable import when_readable
from tests.kafka_zk.network.harness import LocalReactor


@pytest.fixture
def reactor() -> Iterator[LocalReactor]:
    made = LocalReactor()
    yield made
    made.close()


def test_it_fires_once_there_is_something_to_read(reactor: LocalReactor) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        waiting = when_readable(reactor, ours.fileno())
        reactor.turn()
        assert not waiting.called
        theirs.send(b"xy")
        reactor.result_of(waiting)
        assert ours.recv(1) == b"x"
        reactor.result_of(when_readable(reactor, ours.fileno()))


def test_it_fires_when_the_other_end_is_closed(reactor: LocalReactor) -> None:
    ours, theirs = socket.socketpair()
    with ours:
        waiting = when_readable(reactor, ours.fileno())
        theirs.close()
        reactor.result_of(waiting)
        assert all(reader.fileno() != ours.fileno() for reader in EPollReactor.getReaders(reactor))


def test_it_can_be_given_up(reactor: LocalReactor) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        waiting = when_readable(reactor, ours.fileno())
        waiting.cancel()
        with pytest.raises(CancelledError):
            reactor.result_of(waiting)
        theirs.send(b"x")
        reactor.turn()

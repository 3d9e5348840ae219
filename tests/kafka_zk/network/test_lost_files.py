"""Responses with slices whose file cannot be opened any more: the peer's connection is closed, and no other one is
affected.
"""

import struct
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from twisted.internet.defer import Deferred

from kafka_zk.network.read_ahead import ReadAhead
from tests.kafka_zk.network.harness import CountedSlice, LocalReactor, is_closed
from tests.kafka_zk.network.server import Server, request

R = TypeVar("R")

MakeSlice = Callable[..., CountedSlice]


class LostSlice:
    """A slice of a file that was closed and then removed."""

    in_active_segment = False
    position, size_bytes = 0, 100

    def fileno(self) -> int:
        raise FileNotFoundError(2, "No such file or directory")

    retain = fileno


def test_the_slices_before_it_are_given_back(
    reactor: LocalReactor, server: Server, make_slice: MakeSlice, warnings: list[str]
) -> None:
    server.handler = lambda header, body: [struct.pack(">i", header.correlation_id), make_slice(100), LostSlice()]
    peer = server.connect()
    peer.sendall(request(1))
    reactor.until(lambda: is_closed(peer))
    reactor.until(lambda: not server.listener.connections)
    assert len(warnings) == 1
    assert "closed: its response cannot be read: " in warnings[0]


@pytest.mark.parametrize("first", [True, False])
def test_reading_ahead_gives_the_others_back(
    reactor: LocalReactor, make_server: Callable[..., Server], make_slice: MakeSlice, warnings: list[str], first: bool
) -> None:
    """The other slices are released. ``first``: opening the cold slice fails immediately."""
    read: list[Deferred[Any]] = [Deferred()]

    def run_in_thread(work: Callable[[], R]) -> Deferred[R]:
        return read[0]

    server = make_server(read_ahead=ReadAhead(run_in_thread) if first else lambda parts: read[0])
    server.handler = lambda header, body: [struct.pack(">i", header.correlation_id), make_slice(100), LostSlice()]
    peer = server.connect()
    peer.sendall(request(1))
    reactor.until(lambda: is_closed(peer))
    reactor.until(lambda: not server.listener.connections)
    read[0].callback(None)
    assert len(warnings) == 1
    assert "closed: its response cannot be read: " in warnings[0]

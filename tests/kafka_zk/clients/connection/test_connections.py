"""Connections to brokers: what a closed client leaves behind."""

from functools import partial
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from kafka_zk.clients.connection.config import ClientConfig
from kafka_zk.clients.connection.connections import Connections
from kafka_zk.clients.connection.errors import ClientClosed
from kafka_zk.network.client import connect


class Transport:
    """A transport to a broker that accepts the connection and never responds."""

    def __init__(self) -> None:
        self.sent = 0
        self.closed = False

    def setTcpNoDelay(self, enabled: bool) -> None: ...

    def setTcpKeepAlive(self, enabled: bool) -> None: ...

    def receive_into(self, *_: object) -> None: ...

    def write_frame(self, parts: object) -> None:
        self.sent += 1

    def loseConnection(self) -> None:
        self.closed = True


class Connector:
    """A connector that connects when the test says so."""

    def __init__(self) -> None:
        self.transport = Transport()
        self._factory: Any = None

    def __call__(self, host: str, port: int, factory: Any, *_: object) -> "Connector":
        self._factory = factory
        return self

    def connect(self) -> None: ...

    def succeed(self) -> None:
        self._factory.buildProtocol(None).makeConnection(self.transport)


def opening(clock: Clock, connector: Connector) -> tuple[Connections, Deferred[Any]]:
    connections = Connections(clock, ClientConfig(), partial(connect, connector=connector))
    return connections, connections.get("broker", 9092, "fetch")


def test_a_client_that_is_closed_drops_a_connection_whose_versions_it_waits_for() -> None:
    """The simulator found this: a frozen broker kept the socket and its timer until the request timed out."""
    clock, connector = Clock(), Connector()
    connections, wanted = opening(clock, connector)
    connector.succeed()
    assert connector.transport.sent == 1  # ApiVersions
    connections.close()
    wanted.addErrback(lambda failure: failure.trap(ClientClosed))
    assert connector.transport.closed


def test_a_client_that_is_closed_drops_a_connection_that_is_made_later() -> None:
    clock, connector = Clock(), Connector()
    connections, wanted = opening(clock, connector)
    connections.close()
    wanted.addErrback(lambda failure: failure.trap(ClientClosed))
    connector.succeed()
    assert connector.transport.closed


def test_a_client_that_is_closed_leaves_no_timer_of_a_pause_behind() -> None:
    clock, connector = Clock(), Connector()
    connections, wanted = opening(clock, connector)
    wanted.addErrback(lambda failure: None)
    connector._factory.clientConnectionFailed(None, ConnectionRefusedError("no"))
    again = connections.get("broker", 9092, "fetch")
    again.addErrback(lambda failure: failure.trap(ClientClosed))
    assert clock.getDelayedCalls()
    connections.close()
    assert not clock.getDelayedCalls()

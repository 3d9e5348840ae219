"""Connections to brokers: one per address and purpose, opened when needed, with a pause after each failure.

A producer, a long-polling fetch and an admin request do not share a connection, because a broker answers the requests
of a connection one after another.
"""

from functools import partial
from typing import Any

from twisted.internet.defer import Deferred

from kafka_zk.clients.connection.config import ClientConfig
from kafka_zk.clients.connection.errors import ClientClosed, authentication_error, broker_error
from kafka_zk.clients.connection.waiting import Reactor, run, sleep
from kafka_zk.network.client import Connect, KafkaConnection, connect
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.security.client_security import NO_SECURITY
from kafka_zk.security.errors import AuthenticationFailed

_Key = tuple[str, int, str]


def version_between(connection: KafkaConnection, api_key: ApiKey, lowest: int, highest: int) -> int:
    """The highest version up to ``highest`` that the broker supports.

    Raises: BrokerError UNSUPPORTED_VERSION if it is below ``lowest``, ApiError without a common version.
    """
    version = min(connection.version_for(api_key), highest)
    if version < lowest:
        raise broker_error(
            ErrorCode.UNSUPPORTED_VERSION, f"{api_key.name} is needed in version {lowest}, the broker has {version}"
        )
    return version


class _Link:
    """The connection to one address for one purpose, or the callers that wait for it to open."""

    def __init__(self) -> None:
        self.connection: KafkaConnection | None = None
        self.waiting: list[Deferred[KafkaConnection]] = []
        self.connecting = False
        self.opening: Deferred[None] | None = None  # fires when the connection attempt ends
        self.failure_count = 0
        self.not_before_s = 0.0


class Connections:
    """``get`` raises the error of the connection attempt to all waiting callers, including AuthenticationError, and
    ClientClosed after ``close``.
    """

    def __init__(self, reactor: Reactor, config: ClientConfig, connect: Connect = connect) -> None:
        self._reactor = reactor
        self._config = config
        self._connect = connect if config.security is NO_SECURITY else partial(connect, security=config.security)
        self._links: dict[_Key, _Link] = {}
        self._closed = False

    def ready(self, host: str, port: int, purpose: str) -> KafkaConnection | None:
        link = self._links.get((host, port, purpose))
        return link.connection if link is not None else None

    def get(self, host: str, port: int, purpose: str) -> Deferred[KafkaConnection]:
        result: Deferred[KafkaConnection] = Deferred()
        if self._closed:
            result.errback(ClientClosed("the client is closed"))
            return result
        link = self._links.setdefault((host, port, purpose), _Link())
        if link.connection is not None:
            result.callback(link.connection)
            return result
        link.waiting.append(result)
        if not link.connecting:
            link.connecting = True
            link.opening = run(self._open(link, host, port))
        return result

    def close(self) -> None:
        """Waiting callers get ClientClosed."""
        self._closed = True
        links, self._links = list(self._links.values()), {}
        for link in links:
            if link.connection is not None:
                link.connection.disconnect()
            self._answer(link, ClientClosed("the client was closed"))
            if link.opening is not None:
                link.opening.cancel()  # otherwise its socket would stay open until a response or timeout

    async def _open(self, link: _Link, host: str, port: int) -> None:
        try:
            pause_s = link.not_before_s - self._reactor.seconds()
            if pause_s > 0:
                await sleep(self._reactor, pause_s)
            if self._closed:
                raise ClientClosed("the client was closed")
            connection = await self._connect(
                self._reactor,
                host,
                port,
                self._config.client_id,
                self._config.socket_connection_setup_timeout_ms / 1000,
                request_timeout_s=self._config.request_timeout_ms / 1000,
            )
        except AuthenticationFailed as error:
            self._failed(link, authentication_error(error, f"{host}:{port}"))
        except Exception as error:
            # All waiting callers get the error.
            self._failed(link, error)
        else:
            self._opened(link, connection)

    def _failed(self, link: _Link, error: Exception) -> None:
        link.connecting = False  # cleared first, because callers may retry immediately
        backoff_ms = self._config.reconnect_backoff_ms << min(link.failure_count, 20)
        link.failure_count += 1
        backoff_ms = min(backoff_ms, max(self._config.reconnect_backoff_max_ms, self._config.reconnect_backoff_ms))
        link.not_before_s = self._reactor.seconds() + backoff_ms / 1000
        self._answer(link, error)

    def _opened(self, link: _Link, connection: KafkaConnection) -> None:
        link.connecting = False
        if self._closed:
            connection.disconnect()
            return
        link.connection = connection
        link.failure_count = 0

        def lost(_: Any) -> None:
            if link.connection is connection:
                link.connection = None

        connection.on_disconnect = lost
        waiting, link.waiting = link.waiting, []
        for each in waiting:
            each.callback(connection)

    @staticmethod
    def _answer(link: _Link, error: Exception) -> None:
        waiting, link.waiting = link.waiting, []
        for each in waiting:
            each.errback(error)

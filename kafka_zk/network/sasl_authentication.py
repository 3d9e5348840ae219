"""Authenticating a connection, and again before its session ends (KIP-368).

While it authenticates again a broker accepts nothing else, so requests wait meanwhile. Tokens are fetched in a thread.
Tests: tests/kafka_zk/network/test_sasl_authentication.py.
"""

from collections.abc import Awaitable, Mapping
from functools import partial
from typing import Any, Protocol

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from kafka_zk.base.randomness import SYSTEM_RANDOM
from kafka_zk.base.threads import ReactorThreads
from kafka_zk.protocol import codec
from kafka_zk.protocol.sasl_exchange import REAUTHENTICATE_FROM, REAUTHENTICATE_UNTIL, sasl_exchange
from kafka_zk.security.client_security import SaslSettings
from kafka_zk.security.sasl_client import SaslClient, sasl_client

_log = Logger()


class Connection(Protocol):
    """What a ``KafkaConnection`` lets its login do."""

    def request_past_hold(self, api_key: int, fields: Mapping[str, Any]) -> Awaitable[codec.Message]:
        """Send one request although requests are held; returns its answer."""

    def hold_requests(self) -> None:
        """Keep what others ask until ``release_requests``."""

    def release_requests(self) -> None: ...

    def end(self, reason: Exception) -> object:
        """Close the connection; what waits fails with ``reason``."""


class SaslAuthentication:
    """Of one connection. Raises (from ``authenticate``): SaslAuthenticationFailed, UnsupportedSaslMechanism,
    TokenUnavailable; ApiError for a broker before 1.0; what requests raise."""

    def __init__(self, reactor: Any, connection: Connection, settings: SaslSettings) -> None:
        self._reactor = reactor
        self._connection = connection
        self._settings = settings
        self._timer: Any = None

    async def authenticate(self) -> None:
        """Called once, when the connection's versions are known and nothing else was sent."""
        await self._exchange(await self._client())

    def stop(self) -> None:
        """The connection is lost."""
        if self._timer is not None and self._timer.active():
            self._timer.cancel()

    async def _client(self) -> SaslClient:
        if self._settings.tokens is None:
            return sasl_client(self._settings, SYSTEM_RANDOM)
        return await ReactorThreads(self._reactor)(partial(sasl_client, self._settings, SYSTEM_RANDOM))

    async def _exchange(self, client: SaslClient) -> None:
        exchange = sasl_exchange(self._settings.mechanism, client)
        step = next(exchange)
        while True:
            answer = await self._connection.request_past_hold(step.api_key, step.fields)
            try:
                step = exchange.send(answer)
            except StopIteration as done:
                lifetime_ms: int = done.value
                break
        if lifetime_ms > 0:
            part = SYSTEM_RANDOM.uniform(REAUTHENTICATE_FROM, REAUTHENTICATE_UNTIL)
            self._timer = self._reactor.callLater(lifetime_ms / 1000 * part, self._begin_again)

    def _begin_again(self) -> None:
        Deferred.fromCoroutine(self._authenticate_again())

    async def _authenticate_again(self) -> None:
        try:
            client = await self._client()
            self._connection.hold_requests()
            await self._exchange(client)
            self._connection.release_requests()
        except Exception as error:
            # Without it the broker would close the connection at the next request: so it ends now, with the reason.
            _log.warn("authenticating again failed: {error}", error=str(error))
            self._connection.end(error)

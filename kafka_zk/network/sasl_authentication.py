"""Authenticates a connection with SASL, and again before its session ends (KIP-368).

During reauthentication a broker accepts no other requests, so they are held. A thread fetches tokens and Kerberos
tickets.
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


class AuthenticatingConnection(Protocol):
    """The methods of ``KafkaConnection`` that authentication uses."""

    def request_past_hold(self, api_key: int, fields: Mapping[str, Any]) -> Awaitable[codec.Message]:
        """Send one request, even while requests are held, and return its response."""

    def hold_requests(self) -> None:
        """Hold other requests until ``release_requests``."""

    def release_requests(self) -> None: ...

    def end(self, reason: Exception) -> object:
        """Close; pending requests fail with ``reason``."""


class SaslAuthentication:
    """The authentication of one connection to the broker at ``host``."""

    def __init__(
        self, reactor: Any, connection: AuthenticatingConnection, settings: SaslSettings, host: str
    ) -> None:
        self._reactor = reactor
        self._connection = connection
        self._settings = settings
        self._host = host
        self._timer: Any = None

    async def authenticate(self) -> None:
        """Authenticate for the first time, before any other request is sent.

        Raises SaslAuthenticationFailed, UnsupportedSaslMechanism, TokenUnavailable, TicketUnavailable; ApiError for a
        broker before Kafka 1.0; the errors of requests.
        """
        await self._exchange(await self._client())

    def stop(self) -> None:
        """Cancel reauthentication, because the connection is lost."""
        if self._timer is not None and self._timer.active():
            self._timer.cancel()

    async def _client(self) -> SaslClient:
        made = partial(sasl_client, self._settings, SYSTEM_RANDOM, self._host)
        return await ReactorThreads(self._reactor)(made) if self._settings.may_wait else made()

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
            # End the connection with the reason: at the next request, the broker would close it without a reason.
            _log.warn("reauthentication at broker {host} failed: {error}", host=self._host, error=str(error))
            self._connection.end(error)

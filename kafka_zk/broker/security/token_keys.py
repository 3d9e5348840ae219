"""Fetches an OAuth provider's keys periodically.

After a failure, known keys stay, and the fetch is retried after sasl.oauthbearer.jwks.endpoint.retry.backoff.ms, which
doubles each time. A token that names an unknown key causes an earlier fetch. Before the first success, no token is
accepted. Source: RefreshingHttpsJwks.java@3.9.
"""

from typing import Any
from urllib.request import Request

from twisted.internet.defer import ensureDeferred
from twisted.logger import Logger

from kafka_zk.base.clock import Clock
from kafka_zk.base.threads import RunInThread
from kafka_zk.security.https import fetch
from kafka_zk.security.listener_sasl import JwksEndpoint
from kafka_zk.security.signed_tokens import SignedTokens, VerificationKey, read_keys
from kafka_zk.security.tls_settings import TlsSettings

MISSED_KEY_INTERVAL_S = 10.0
"""Minimum interval between fetches that unknown keys cause, because any client can name an unknown key."""

_log = Logger()


class TokenKeys:
    """Fetches the keys of one listener. ``start`` returns after the first attempt, even if it fails."""

    def __init__(self, endpoint: JwksEndpoint, tokens: SignedTokens, clock: Clock, run_in_thread: RunInThread) -> None:
        self._endpoint = endpoint
        self._tokens = tokens
        self._clock = clock
        self._run_in_thread = run_in_thread
        self._timer: Any = None
        self._backoff_ms = endpoint.retry_backoff_ms
        self._fetched_s = clock.seconds()
        self._is_fetching = False
        self._is_closed = False
        tokens.on_missed_key = self._missed_key

    async def start(self) -> None:
        await self._fetch()

    def close(self) -> None:
        self._is_closed = True
        if self._timer is not None and self._timer.active():
            self._timer.cancel()

    def _missed_key(self) -> None:
        if self._clock.seconds() - self._fetched_s >= MISSED_KEY_INTERVAL_S:
            self._fetch_soon()

    def _fetch_soon(self) -> None:
        ensureDeferred(self._fetch())

    async def _fetch(self) -> None:
        if self._is_fetching or self._is_closed:
            return
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._is_fetching = True
        self._fetched_s = self._clock.seconds()
        try:
            self._tokens.keys = await self._run_in_thread(self._ask)
            wait_ms, self._backoff_ms = self._endpoint.refresh_ms, self._endpoint.retry_backoff_ms
        except Exception as error:  # retry after any error; otherwise withdrawn keys would stay valid
            why = str(error) or repr(error)
            _log.error(
                "cannot fetch the keys of the OAuth provider from {url}: {error}", url=self._endpoint.url, error=why
            )
            wait_ms, self._backoff_ms = self._backoff_ms, min(self._backoff_ms * 2, self._most_ms)
        finally:
            self._is_fetching = False
        if not self._is_closed:
            self._timer = self._clock.callLater(wait_ms / 1000, self._fetch_soon)

    @property
    def _most_ms(self) -> int:
        return max(self._endpoint.retry_backoff_ms, self._endpoint.retry_backoff_max_ms)

    def _ask(self) -> list[VerificationKey]:
        return read_keys(fetch(Request(self._endpoint.url), self._endpoint.tls or TlsSettings()))

"""Sources of OAUTHBEARER tokens for a client, with renewal.

Fetching blocks. A process's connections with equal sources share a token. Sources can be pickled.

Source: KIP-768; OAuthBearerLoginCallbackHandler.java, HttpAccessTokenRetriever.java@3.9.
"""

import base64
import importlib
import json
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from kafka_zk.base.clock import wall_ms
from kafka_zk.security.errors import SaslAuthenticationFailed
from kafka_zk.security.https import fetch
from kafka_zk.security.oauthbearer import Token, renewal_ms
from kafka_zk.security.password import NO_PASSWORD, Password
from kafka_zk.security.tls_settings import TlsSettings
from kafka_zk.security.unsecured_jws import InvalidToken, claims_of, unsecured_token

Extensions = tuple[tuple[str, str], ...]


class TokenUnavailable(ConnectionError):
    """The endpoint is unreachable or overloaded; retrying may help."""


class TokenSource(Hashable, Protocol):
    """Equal sources share a token."""

    def fetch(self, now_ms: int) -> Token:
        """``now_ms``: since the epoch. Raises SaslAuthenticationFailed, TokenUnavailable."""


@dataclass(frozen=True, slots=True)
class UnsecuredTokens:
    """Creates unsigned tokens from a JAAS login module's options, for tests and development."""

    options: tuple[tuple[str, str], ...]

    def fetch(self, now_ms: int) -> Token:
        return unsecured_token(dict(self.options), now_ms)


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """Fetches tokens from an OAuth provider with the client credentials grant (RFC 6749, 4.4).

    ``authorities``: trusted certificates for the endpoint, as PEM; None: the system's.
    """

    url: str
    client_id: str
    client_secret: Password
    scope: str | None = None
    extensions: Extensions = ()
    authorities: str | None = None

    def fetch(self, now_ms: int) -> Token:
        form = {"grant_type": "client_credentials", **({"scope": self.scope} if self.scope else {})}
        credentials = base64.b64encode(f"{self.client_id}:{self.client_secret.value}".encode()).decode()
        request = urllib.request.Request(
            self.url,
            urllib.parse.urlencode(form).encode(),
            {"Authorization": f"Basic {credentials}", "Accept": "application/json"},
        )
        document = self._ask(request)
        value = document.get("access_token")
        if not isinstance(value, str) or not value:
            raise SaslAuthenticationFailed(f"{self.url} returned no access_token")
        return Token(Password(value), _expires_ms(document, value, now_ms), now_ms, dict(self.extensions))

    def _ask(self, request: urllib.request.Request) -> dict[str, Any]:
        try:
            document = json.loads(fetch(request, TlsSettings(self.authorities)))
        except urllib.error.HTTPError as error:
            if error.code >= 500 or error.code == 429:
                raise TokenUnavailable(f"{self.url} responded {error.code} {error.reason}") from None
            raise SaslAuthenticationFailed(
                f"{self.url} refuses the client {self.client_id!r}: {error.code} {error.reason}"
            ) from None
        except OSError as error:
            cause = error.reason if isinstance(error, urllib.error.URLError) else error
            raise TokenUnavailable(f"no token from {self.url}: {cause}") from None
        except ValueError:
            raise SaslAuthenticationFailed(f"{self.url} returned a response that is not JSON") from None
        if not isinstance(document, dict):
            raise SaslAuthenticationFailed(f"{self.url} returned a response that is not a JSON object")
        return document


@dataclass(frozen=True, slots=True)
class TokenCallback:
    """Gets tokens from a function like confluent-kafka's ``oauth_cb``. The function gets ``config`` and returns the
    token, its expiry in s since the epoch and, optionally, a principal's name and a mapping of SASL extensions.

    ``function``: a callable, or ``module:function``, imported for the first token.
    """

    function: str | Callable[[str], tuple[Any, ...]]
    config: Password = NO_PASSWORD

    def fetch(self, now_ms: int) -> Token:
        function = _imported(self.function) if isinstance(self.function, str) else self.function
        answer = function(self.config.value)
        if not isinstance(answer, tuple) or len(answer) < 2 or not isinstance(answer[0], str):
            raise SaslAuthenticationFailed(
                f"the token callback {self.name} must return the token and its expiry in s since the epoch"
            )
        extensions = answer[3] if len(answer) > 3 else {}
        return Token(Password(answer[0]), int(float(answer[1]) * 1000), now_ms, dict(extensions or {}))

    @property
    def name(self) -> str:
        return self.function if isinstance(self.function, str) else getattr(self.function, "__qualname__", "")


def _imported(name: str) -> Callable[[str], tuple[Any, ...]]:
    module, _, attribute = name.partition(":")
    try:
        function = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise SaslAuthenticationFailed(f"the token callback {name} cannot be imported: {error}") from None
    if not callable(function):
        raise SaslAuthenticationFailed(f"the token callback {name} is not a function")
    return function  # type: ignore[no-any-return]


def _expires_ms(document: dict[str, Any], token: str, now_ms: int) -> int:
    """The expiry in ms since the epoch: from the token if it is a JWT, otherwise from the endpoint's ``expires_in``."""
    try:
        expires_s = claims_of(token).get("exp")
    except InvalidToken:
        expires_s = None
    if isinstance(expires_s, int | float):
        return int(expires_s * 1000)
    lifetime_s = document.get("expires_in")
    if isinstance(lifetime_s, int | float):
        return now_ms + int(lifetime_s * 1000)
    raise SaslAuthenticationFailed("neither the token nor its endpoint says when the token expires")


class _Tokens:
    """The token of one source; one thread at a time renews it before it expires."""

    def __init__(self, source: TokenSource) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._token: Token | None = None
        self._renewal_ms = 0

    def get(self, now_ms: int) -> Token:
        with self._lock:
            if self._token is None or now_ms >= self._renewal_ms:
                self._token = self._source.fetch(now_ms)
                self._renewal_ms = renewal_ms(self._token, now_ms)
            return self._token


@lru_cache(maxsize=64)
def _tokens_of(source: TokenSource) -> _Tokens:
    return _Tokens(source)


def current_token(source: TokenSource) -> Token:
    """The source's token; blocks while a new one is fetched. Raises SaslAuthenticationFailed, TokenUnavailable."""
    return _tokens_of(source).get(wall_ms())

"""How a broker authenticates a client: SaslHandshake, then SaslAuthenticate until the mechanism is done. Pure.

Any error ends the login. An authenticated client may log in again during its session, with the same mechanism and user
(KIP-368). Source: SaslServerAuthenticator.java@3.9, and the behaviour of Kafka's brokers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from kafka_zk.security import scram
from kafka_zk.security.errors import RefusedForNow, SaslAuthenticationFailed
from kafka_zk.security.kerberos_names import NoUserName
from kafka_zk.security.listener_keys import GSSAPI
from kafka_zk.security.listener_sasl import ListenerSasl
from kafka_zk.security.oauthbearer_server import MECHANISM as OAUTHBEARER
from kafka_zk.security.oauthbearer_server import ExplainedFailure, OAuthBearerServer
from kafka_zk.security.plain import MECHANISM as PLAIN
from kafka_zk.security.plain import is_same_password, plain_user
from kafka_zk.security.scram import ScramCredential, ScramServer, TokenCredential

if TYPE_CHECKING:  # imported if a listener has GSSAPI
    from kafka_zk.security.kerberos import GssapiServer


class Credentials(Protocol):
    """SCRAM credentials of users and delegation tokens."""

    def find(self, mechanism: str, user: str) -> ScramCredential:
        """The user's credential, or an invented one if the user does not exist."""

    def find_token(self, mechanism: str, token_id: str) -> TokenCredential:
        """The token's credential, or an invented one if the token does not exist."""


class SaslState(Enum):
    STARTED = "nothing was sent, or ApiVersions"
    AUTHENTICATING = "the mechanism is agreed"
    DONE = "the client is authenticated"
    FAILED = "it is not, and the connection ends"


class UnexpectedRequest(Exception):
    """The request is invalid during the login; the connection is closed without a response."""


@dataclass(frozen=True, slots=True)
class Login:
    """The authenticated user.

    Attributes:
        expires_ms: when the credential expires, in ms since the epoch; None: never.
        is_token: a delegation token was used.
    """

    user: str
    mechanism: str
    expires_ms: int | None = None
    is_token: bool = False

    def lifetime_ms(self, now_ms: int, max_reauth_ms: int) -> int | None:
        """Length of a session that begins now; None: no limit. ``max_reauth_ms``: connections.max.reauth.ms; 0: no
        limit."""
        limits = [] if self.expires_ms is None else [max(0, self.expires_ms - now_ms)]
        if max_reauth_ms > 0:
            limits.append(max_reauth_ms)
        return min(limits, default=None)


@dataclass(frozen=True, slots=True)
class SaslReply:
    """The response to one message.

    Attributes:
        failure: why the login failed, for the client; None if it did not.
        is_told: the client gets a response.
        reason: for the log, possibly in more detail.
    """

    challenge: bytes = b""
    failure: str | None = None
    is_told: bool = True
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class SaslListener:
    """Settings that all logins at a listener share.

    Attributes:
        nonce: random, printable text without a comma.
        wall_ms: the wall clock, since the epoch.
    """

    sasl: ListenerSasl
    credentials: Credentials
    nonce: Callable[[], str]
    wall_ms: Callable[[], int]


class SaslServer:
    """One client's login, message by message.

    ``before``: the client's previous login.

    ``state``: STARTED, AUTHENTICATING, then DONE or FAILED.
    """

    def __init__(self, listener: SaslListener, before: Login | None = None) -> None:
        self._listener = listener
        self._sasl = listener.sasl
        self._before = before
        self._mechanism = ""
        self._scram: ScramServer | None = None
        self._bearer: OAuthBearerServer | None = None
        self._gssapi: GssapiServer | None = None
        self._knows_versions = before is not None
        self.state = SaslState.STARTED
        self.login: Login | None = None
        """The authenticated user; None unless DONE."""

    @property
    def mechanisms(self) -> tuple[str, ...]:
        return self._sasl.mechanisms

    def again(self) -> "SaslServer":
        """Start the next login of an authenticated client."""
        return SaslServer(self._listener, self.login)

    @property
    def may_wait(self) -> bool:
        """True if ``authenticate`` may block, so that it must not run on the reactor's thread."""
        return self._mechanism in self._sasl.blocking

    def lifetime_ms(self) -> int | None:
        """Length of the session from now on (None: no limit), when DONE."""
        assert self.login is not None, "not logged in"
        return self.login.lifetime_ms(self._listener.wall_ms(), self._sasl.max_reauth_ms.get(self._mechanism, 0))

    def api_versions(self) -> None:
        """Handle an ApiVersions request, which is allowed until the client has the versions. Raises
        UnexpectedRequest."""
        if self.state is not SaslState.STARTED or self._knows_versions:
            raise UnexpectedRequest("ApiVersions again during the login")

    def versions_sent(self) -> None:
        self._knows_versions = True

    def handshake(self, mechanism: str) -> bool:
        """Choose the mechanism. If it is not enabled, the login fails and False is returned. Raises
        UnexpectedRequest."""
        if self.state is not SaslState.STARTED:
            raise UnexpectedRequest("SaslHandshake again during the login")
        is_enabled = mechanism in self._sasl.mechanisms
        self.state = SaslState.AUTHENTICATING if is_enabled else SaslState.FAILED
        self._mechanism = mechanism
        return is_enabled

    def authenticate(self, message: bytes) -> SaslReply:
        """Handle the mechanism's next message. Raises UnexpectedRequest before the handshake."""
        if self.state is not SaslState.AUTHENTICATING:
            raise UnexpectedRequest("SaslAuthenticate without SaslHandshake")
        if self._before is not None and self._before.mechanism != self._mechanism:
            self.state = SaslState.FAILED
            return SaslReply(
                failure=f"SASL mechanism '{self._mechanism}' requested by client is not supported for "
                f"re-authentication of mechanism '{self._before.mechanism}'",
                is_told=False,
            )
        try:
            challenge = self._step(message)
        except RefusedForNow as error:
            self.state = SaslState.FAILED
            return SaslReply(failure=str(error), is_told=False, reason=error.reason)
        except SaslAuthenticationFailed as error:
            is_explained = self._mechanism == PLAIN or isinstance(error, ExplainedFailure)
            return self._failed(str(error) if is_explained else self._hidden(), error.reason)
        if self.login is not None:
            if self._before is not None and self.login.user != self._before.user:
                change = f"from User.{self._before.user}: User.{self.login.user}"
                return self._failed(f"Cannot change principals during re-authentication {change}")
            self.state = SaslState.DONE
        return SaslReply(challenge)

    def interrupt(self) -> None:
        """Fail the login: the client sent another request instead."""
        self.state = SaslState.FAILED
        self.login = None

    def _failed(self, failure: str, reason: str | None = None) -> SaslReply:
        self.state = SaslState.FAILED
        self.login = None
        return SaslReply(failure=failure, reason=reason if self._bearer is None else self._bearer.reason)

    def _step(self, message: bytes) -> bytes:
        if self._mechanism == PLAIN:
            return self._plain(message)
        if self._mechanism == GSSAPI:
            return self._gssapi_step(message)
        return self._bearer_step(message) if self._mechanism == OAUTHBEARER else self._scram_step(message)

    def _plain(self, message: bytes) -> bytes:
        def is_right(user: str, password: str) -> bool:
            expected = self._sasl.plain_users.get(user)
            return is_same_password(None if expected is None else expected.value, password)

        self.login = Login(plain_user(message, self._sasl.check_password or is_right), self._mechanism)
        return b""

    def _gssapi_step(self, message: bytes) -> bytes:
        kerberos = self._sasl.kerberos
        assert kerberos is not None, "GSSAPI is enabled"
        if self._gssapi is None:
            self._gssapi = kerberos.service.login()
        challenge = self._gssapi.answer(message)
        if self._gssapi.principal:
            try:
                self.login = Login(kerberos.names.user(self._gssapi.principal), self._mechanism)
            except NoUserName as error:
                raise SaslAuthenticationFailed("GSSAPI failed", str(error)) from None
        return challenge

    def _bearer_step(self, message: bytes) -> bytes:
        tokens = self._sasl.tokens
        assert tokens is not None, "OAUTHBEARER is enabled"
        if self._bearer is None:
            self._bearer = OAuthBearerServer(lambda token: tokens.validate(token, self._listener.wall_ms()))
        challenge = self._bearer.answer(message)
        accepted = self._bearer.accepted
        if accepted is not None:
            self.login = Login(accepted.principal_name, self._mechanism, accepted.expires_ms)
        return challenge

    def _scram_step(self, message: bytes) -> bytes:
        if self._scram is None:
            first = scram.client_first(message)
            self._claimed, credential = first, self._found(first)[1]
            self._scram = ScramServer(self._mechanism, first, credential, self._listener.nonce())
            return self._scram.first_message
        final = self._scram.final_message(message)
        login, credential = self._found(self._claimed)
        if credential != self._scram.credential:
            raise SaslAuthenticationFailed("The user's credential or token expired during the login")
        self.login = login
        return final

    def _found(self, first: scram.ClientFirst) -> tuple[Login, ScramCredential]:
        """The login that the client claims, and the credential whose possession it must prove."""
        if not first.is_token:
            credential = self._listener.credentials.find(self._mechanism, first.username)
            return Login(first.username, self._mechanism), credential
        found = self._listener.credentials.find_token(self._mechanism, first.username)
        return Login(found.owner, self._mechanism, found.expires_ms, is_token=True), found.credential

    def _hidden(self) -> str:
        """Kafka's generic message, because the reason would help an attacker."""
        what = "authentication" if self._before is None else "re-authentication"
        return f"Authentication failed during {what} due to invalid credentials with SASL mechanism {self._mechanism}"

"""How a broker authenticates a client: SaslHandshake, then SaslAuthenticate until the mechanism is done. Pure.

``SaslServer`` is one client's login. It takes what the client sends and returns what it is sent, or raises: what a
client gets wrong ends its login. A client that is logged in may do so again before its session ends, with the same
mechanism and as the same user (KIP-368). Source: SaslServerAuthenticator.java@3.9, observed with its brokers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol

from kafka_zk.security import scram
from kafka_zk.security.errors import SaslAuthenticationFailed
from kafka_zk.security.listener_security import ListenerSasl
from kafka_zk.security.plain import MECHANISM as PLAIN
from kafka_zk.security.plain import plain_user
from kafka_zk.security.scram import ScramCredential, ScramServer


class TokenCredential(NamedTuple):
    """What a broker knows of a delegation token. ``owner``: whose it is; ``expires_ms``: since the epoch."""

    credential: ScramCredential
    owner: str = ""
    expires_ms: int | None = None


class Credentials(Protocol):
    """Who may log in with SCRAM."""

    def find(self, mechanism: str, user: str) -> ScramCredential:
        """The user's credential, an invented one for a user that does not exist."""

    def find_token(self, mechanism: str, token_id: str) -> TokenCredential:
        """The credential of a delegation token, an invented one for a token that does not exist."""


class SaslState(Enum):
    STARTED = "nothing was sent, or ApiVersions"
    AUTHENTICATING = "the mechanism is agreed"
    DONE = "the client is authenticated"
    FAILED = "it is not, and the connection ends"


class UnexpectedRequest(Exception):
    """A request that does not belong into the login: the connection ends without an answer to it."""


@dataclass(frozen=True, slots=True)
class Login:
    """Who a client has proved to be. ``expires_ms``: until when that holds, since the epoch; None for ever.
    ``is_token``: with a delegation token."""

    user: str
    mechanism: str
    expires_ms: int | None = None
    is_token: bool = False

    def lifetime_ms(self, now_ms: int, max_reauth_ms: int) -> int | None:
        """How long the session lasts, None for ever. ``max_reauth_ms``: connections.max.reauth.ms, 0 for no limit."""
        limits = [] if self.expires_ms is None else [max(0, self.expires_ms - now_ms)]
        if max_reauth_ms > 0:
            limits.append(max_reauth_ms)
        return min(limits, default=None)


@dataclass(frozen=True, slots=True)
class SaslReply:
    """``challenge``: what the client is sent. ``failure``: why the login has failed, in words for the client if
    ``is_told``; else it gets no answer."""

    challenge: bytes = b""
    failure: str | None = None
    is_told: bool = True


class SaslServer:
    """One client's login.

    Args:
        nonce: makes a random, printable text without a comma.
        before: who the client is already, if it logs in again.
    """

    def __init__(
        self,
        sasl: ListenerSasl,
        credentials: Credentials,
        nonce: Callable[[], str],
        before: Login | None = None,
    ) -> None:
        self._sasl = sasl
        self._credentials = credentials
        self._nonce = nonce
        self._before = before
        self._mechanism = ""
        self._scram: ScramServer | None = None
        self._asked_versions = before is not None
        self.state = SaslState.STARTED
        self.login: Login | None = None
        """Who the client is, once DONE."""

    @property
    def mechanisms(self) -> tuple[str, ...]:
        return self._sasl.mechanisms

    def again(self) -> "SaslServer":
        """The next login of a client whose login is DONE."""
        return SaslServer(self._sasl, self._credentials, self._nonce, self.login)

    def lifetime_ms(self, now_ms: int) -> int | None:
        """How long a login that is DONE holds; None for ever."""
        assert self.login is not None, "not logged in"
        return self.login.lifetime_ms(now_ms, self._sasl.max_reauth_ms.get(self._mechanism, 0))

    def api_versions(self) -> None:
        """The client asks what the broker offers; it may do so once. Raises: UnexpectedRequest."""
        if self.state is not SaslState.STARTED or self._asked_versions:
            raise UnexpectedRequest("ApiVersions again during the login")
        self._asked_versions = True

    def handshake(self, mechanism: str) -> bool:
        """Whether the mechanism is enabled; if not, the login has failed. Raises: UnexpectedRequest."""
        if self.state is not SaslState.STARTED:
            raise UnexpectedRequest("SaslHandshake again during the login")
        is_enabled = mechanism in self._sasl.mechanisms
        self.state = SaslState.AUTHENTICATING if is_enabled else SaslState.FAILED
        self._mechanism = mechanism
        return is_enabled

    def authenticate(self, message: bytes) -> SaslReply:
        """The next message of the mechanism. Raises: UnexpectedRequest before the handshake."""
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
            challenge = self._plain(message) if self._mechanism == PLAIN else self._scram_step(message)
        except SaslAuthenticationFailed as error:
            return self._failed(str(error) if self._mechanism == PLAIN else self._hidden())
        if self.login is not None:
            if self._before is not None and self.login.user != self._before.user:
                change = f"from User.{self._before.user}: User.{self.login.user}"
                return self._failed(f"Cannot change principals during re-authentication {change}")
            self.state = SaslState.DONE
        return SaslReply(challenge)

    def _failed(self, failure: str) -> SaslReply:
        self.state = SaslState.FAILED
        self.login = None
        return SaslReply(failure=failure)

    def _plain(self, message: bytes) -> bytes:
        def password_of(user: str) -> str | None:
            password = self._sasl.plain_users.get(user)
            return None if password is None else password.value

        self.login = Login(plain_user(message, password_of), self._mechanism)
        return b""

    def _scram_step(self, message: bytes) -> bytes:
        if self._scram is None:
            first = scram.client_first(message)
            if first.is_token:
                found = self._credentials.find_token(self._mechanism, first.username)
                credential = found.credential
                self._claimed = Login(found.owner, self._mechanism, found.expires_ms, is_token=True)
            else:
                credential = self._credentials.find(self._mechanism, first.username)
                self._claimed = Login(first.username, self._mechanism)
            self._scram = ScramServer(self._mechanism, first, credential, self._nonce())
            return self._scram.first_message
        final = self._scram.final_message(message)
        self.login = self._claimed
        return final

    def _hidden(self) -> str:
        """Kafka's words where the reason would help to guess."""
        what = "authentication" if self._before is None else "re-authentication"
        return f"Authentication failed during {what} due to invalid credentials with SASL mechanism {self._mechanism}"

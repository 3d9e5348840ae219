"""How a broker authenticates a client: SaslHandshake, then SaslAuthenticate until the mechanism is done. Pure.

``SaslServer`` is one client's login. It takes what the client sends and returns what it is sent, or raises: what a
client gets wrong ends its login. Source: SaslServerAuthenticator.java@3.9, observed with its brokers.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from kafka_zk.security import scram
from kafka_zk.security.errors import SaslAuthenticationFailed
from kafka_zk.security.listener_security import ListenerSasl
from kafka_zk.security.plain import MECHANISM as PLAIN
from kafka_zk.security.plain import plain_user
from kafka_zk.security.scram import ScramCredential, ScramServer

FindCredential = Callable[[str, str], ScramCredential]
"""(mechanism, user) -> the user's credential, an invented one for a user that does not exist."""


class SaslState(Enum):
    STARTED = "nothing was sent, or ApiVersions"
    AUTHENTICATING = "the mechanism is agreed"
    DONE = "the client is authenticated"
    FAILED = "it is not, and the connection ends"


class UnexpectedRequest(Exception):
    """A request that does not belong into the login: the connection ends without an answer to it."""


@dataclass(frozen=True, slots=True)
class SaslReply:
    """``challenge``: what the client is sent. ``failure``: why the login has failed, in words for the client."""

    challenge: bytes = b""
    failure: str | None = None


class SaslServer:
    """One client's login.

    Args:
        nonce: makes a random, printable text without a comma.
    """

    def __init__(self, sasl: ListenerSasl, find_credential: FindCredential, nonce: Callable[[], str]) -> None:
        self._sasl = sasl
        self._find_credential = find_credential
        self._nonce = nonce
        self._mechanism = ""
        self._scram: ScramServer | None = None
        self._asked_versions = False
        self.state = SaslState.STARTED
        self.user: str | None = None
        """Who the client is, once DONE."""

    @property
    def mechanisms(self) -> tuple[str, ...]:
        return self._sasl.mechanisms

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
        try:
            return SaslReply(self._plain(message) if self._mechanism == PLAIN else self._scram_step(message))
        except SaslAuthenticationFailed as error:
            self.state = SaslState.FAILED
            return SaslReply(failure=str(error) if self._mechanism == PLAIN else self._hidden())

    def _plain(self, message: bytes) -> bytes:
        def password_of(user: str) -> str | None:
            password = self._sasl.plain_users.get(user)
            return None if password is None else password.value

        self._authenticated(plain_user(message, password_of))
        return b""

    def _scram_step(self, message: bytes) -> bytes:
        if self._scram is None:
            first = scram.client_first(message)
            if first.is_token:
                raise SaslAuthenticationFailed("delegation tokens are not built")
            credential = self._find_credential(self._mechanism, first.username)
            self._scram = ScramServer(self._mechanism, first, credential, self._nonce())
            self._claimed = first.username
            return self._scram.first_message
        final = self._scram.final_message(message)
        self._authenticated(self._claimed)
        return final

    def _authenticated(self, user: str) -> None:
        self.user = user
        self.state = SaslState.DONE

    def _hidden(self) -> str:
        """Kafka's words where the reason would help to guess."""
        return (
            "Authentication failed during authentication due to invalid credentials with SASL mechanism "
            f"{self._mechanism}"
        )

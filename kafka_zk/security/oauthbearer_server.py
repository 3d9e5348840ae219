"""The broker's side of SASL OAUTHBEARER. Pure.

A token is rejected with a JSON document; the client then sends one byte, and gets the document again as the reason. Any
other message ends the login, too; Kafka accepts another token.

Source: RFC 7628; KIP-255; OAuthBearerClientInitialResponse.java, OAuthBearerSaslServer.java@3.9.
"""

import json
import re
from collections.abc import Callable
from typing import NamedTuple

from kafka_zk.security.errors import SaslAuthenticationFailed
from kafka_zk.security.password import Password
from kafka_zk.security.token_validation import RefusedToken, ValidToken

MECHANISM = "OAUTHBEARER"
_PLAIN = r"[^\0,=]"  # a character of a name; commas and equals signs are escaped
_NAME = rf"(?:{_PLAIN}|=2C|=3D){_PLAIN}*(?:=(?:2C|3D){_PLAIN}*)*"  # one alternative per letter would be slow
_FIRST = re.compile(rf"n,(?:a=(?P<authzid>{_NAME}))?,\x01(?P<pairs>(?:[^\x01]*\x01)*)\x01", re.DOTALL)
_PAIR = re.compile(r"(?P<key>[A-Za-z]+)=(?P<value>[\x21-\x7e \t\r\n]+)")
_BEARER = re.compile(r"bearer +(?P<token>[-_~+/.a-zA-Z0-9]+=*)", re.IGNORECASE)


class ClientFirst(NamedTuple):
    """``authorization_id``: empty if not requested."""

    token: Password
    authorization_id: str


class ExplainedFailure(SaslAuthenticationFailed):
    """A failure whose message goes to the client, instead of a generic one."""


def client_first(message: bytes) -> ClientFirst:
    """Raises SaslAuthenticationFailed, whose message omits the token."""
    try:
        found = _FIRST.fullmatch(message.decode())
    except UnicodeDecodeError:
        found = None
    if found is None:
        raise SaslAuthenticationFailed("Invalid OAUTHBEARER client first message")
    pairs = [_PAIR.fullmatch(pair) for pair in found["pairs"].split("\x01")[:-1]]
    bearer = [_BEARER.fullmatch(pair["value"]) for pair in pairs if pair is not None and pair["key"] == "auth"]
    if None in pairs or len(bearer) != 1 or bearer[0] is None:
        raise SaslAuthenticationFailed("Invalid OAUTHBEARER client first message: no bearer token, or a wrong pair")
    authorization_id = (found["authzid"] or "").replace("=2C", ",").replace("=3D", "=")
    return ClientFirst(Password(bearer[0]["token"]), authorization_id)


class OAuthBearerServer:
    """One client's login. ``validate`` raises RefusedToken. ``accepted``: the token, if accepted."""

    def __init__(self, validate: Callable[[str], ValidToken]) -> None:
        self._validate = validate
        self._refusal: str | None = None
        self.accepted: ValidToken | None = None
        self.reason: str | None = None
        """Why the token was rejected, for the log."""

    def answer(self, message: bytes) -> bytes:
        """Raises SaslAuthenticationFailed, ExplainedFailure."""
        if self._refusal is not None:
            raise ExplainedFailure(self._refusal)
        first = client_first(message)
        try:
            valid = self._validate(first.token.value)
        except RefusedToken as error:
            self.reason = str(error)
            self._refusal = _document(error)
            return self._refusal.encode()
        if first.authorization_id not in ("", valid.principal_name):
            raise ExplainedFailure(
                f"Authentication failed: Client requested an authorization id ({first.authorization_id}) that is "
                f"different from the token's principal name ({valid.principal_name})"
            )
        self.accepted = valid
        return b""


def _document(error: RefusedToken) -> str:
    """The JSON document with the same spaces as Kafka's."""
    status = f'{{"status":{json.dumps(error.status)}'
    return f"{status}}}" if error.scope is None else f'{status}, "scope":{json.dumps(error.scope)}}}'

"""SASL PLAIN: user name and password in one message. Pure.

Source: RFC 4616; PlainSaslServer.java@3.9.
"""

import hmac
from collections.abc import Callable, Generator

from kafka_zk.security.errors import SaslAuthenticationFailed

MECHANISM = "PLAIN"


def plain_client(username: str, password: str) -> Generator[bytes, bytes, None]:
    """Yields the client's only message."""
    yield f"\0{username}\0{password}".encode()


def is_same_password(expected: str | None, password: str) -> bool:
    """True if they are equal, compared in constant time, also for an unknown user (None)."""
    return hmac.compare_digest((expected if expected is not None else password + "x").encode(), password.encode())


def plain_user(message: bytes, is_right: Callable[[str, str], bool]) -> str:
    """The user whom a client's message authenticates.

    ``is_right``: checks a user's password.
    Raises SaslAuthenticationFailed with Kafka's messages.
    """
    try:
        tokens = message.decode().split("\0")
    except UnicodeDecodeError:
        raise SaslAuthenticationFailed("Invalid SASL/PLAIN response: it is not UTF-8") from None
    if len(tokens) != 3:
        raise SaslAuthenticationFailed(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(tokens)}")
    authorization_id, username, password = tokens
    if not username:
        raise SaslAuthenticationFailed("Authentication failed: username not specified")
    if not password:
        raise SaslAuthenticationFailed("Authentication failed: password not specified")
    if authorization_id and authorization_id != username:
        raise SaslAuthenticationFailed(
            "Authentication failed: Client requested an authorization id that is different from username"
        )
    if not is_right(username, password):
        raise SaslAuthenticationFailed("Authentication failed: Invalid username or password")
    return username

"""PLAIN: the client's message, and which users a broker accepts, with Kafka's errors for others."""

import pytest

from kafka_zk.security.errors import SaslAuthenticationFailed
from kafka_zk.security.plain import is_same_password, plain_client, plain_user

USERS = {"alice": "secret", "émile": "pässword"}


def is_right(user: str, password: str) -> bool:
    return is_same_password(USERS.get(user), password)


@pytest.mark.parametrize("user", USERS)
def test_a_client_logs_in(user: str) -> None:
    assert plain_user(next(plain_client(user, USERS[user])), is_right) == user


def test_an_authorization_id_that_is_the_user_is_accepted() -> None:
    assert plain_user(b"alice\0alice\0secret", is_right) == "alice"


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"alice\0secret", "expected 3 tokens, got 2"),
        (b"\0\0secret", "username not specified"),
        (b"\0alice\0", "password not specified"),
        (b"\0alice\0wrong", "Invalid username or password"),
        (b"\0bob\0secret", "Invalid username or password"),
        (b"bob\0alice\0secret", "authorization id that is different from username"),
        (b"\0alice\0\xff", "UTF-8"),
    ],
)
def test_others_are_refused(message: bytes, reason: str) -> None:
    with pytest.raises(SaslAuthenticationFailed, match=reason):
        plain_user(message, is_right)

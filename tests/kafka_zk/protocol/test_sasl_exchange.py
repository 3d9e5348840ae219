"""The requests of a login, and the meaning of the broker's responses."""

from collections.abc import Generator
from types import SimpleNamespace
from typing import Any

import pytest

from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.sasl_exchange import sasl_exchange
from kafka_zk.security.errors import SaslAuthenticationFailed, UnsupportedSaslMechanism
from kafka_zk.security.plain import plain_client


def handshake(code: int = 0) -> Any:
    return SimpleNamespace(error_code=code, mechanisms=["PLAIN", "OAUTHBEARER"])


def authenticated(code: int = 0, data: bytes = b"", **more: Any) -> Any:
    return SimpleNamespace(error_code=code, auth_bytes=data, **more)


def start(mechanism: str = "PLAIN") -> Any:
    exchange = sasl_exchange(mechanism, plain_client("alice", "secret"))
    step = next(exchange)
    assert (step.api_key, step.fields) == (ApiKey.SASL_HANDSHAKE, {"mechanism": mechanism})
    return exchange


@pytest.mark.parametrize(("more", "lifetime_ms"), [({}, 0), ({"session_lifetime_ms": 3000}, 3000)])
def test_a_login_returns_the_lifetime_of_the_session(more: dict[str, Any], lifetime_ms: int) -> None:
    exchange = start()
    step = exchange.send(handshake())
    assert (step.api_key, step.fields) == (ApiKey.SASL_AUTHENTICATE, {"auth_bytes": b"\0alice\0secret"})
    with pytest.raises(StopIteration) as done:
        exchange.send(authenticated(**more))
    assert done.value.value == lifetime_ms


def test_a_mechanism_of_several_steps() -> None:
    def client() -> Generator[bytes, bytes, None]:
        assert (yield b"one") == b"first"
        assert (yield b"two") == b"second"

    exchange = sasl_exchange("X", client())
    next(exchange)
    assert exchange.send(handshake()).fields == {"auth_bytes": b"one"}
    assert exchange.send(authenticated(data=b"first")).fields == {"auth_bytes": b"two"}
    with pytest.raises(StopIteration):
        exchange.send(authenticated(data=b"second"))


@pytest.mark.parametrize(
    ("code", "error", "told"),
    [
        (33, UnsupportedSaslMechanism, "it enables PLAIN, OAUTHBEARER"),
        (34, SaslAuthenticationFailed, "does not use SASL at this port"),
        (35, SaslAuthenticationFailed, "UNSUPPORTED_VERSION"),
    ],
)
def test_a_refused_handshake_says_what_to_do(code: int, error: type[Exception], told: str) -> None:
    with pytest.raises(error, match=told):
        start().send(handshake(code))


def test_the_brokers_words_are_passed_on() -> None:
    exchange = start()
    exchange.send(handshake())
    with pytest.raises(SaslAuthenticationFailed, match=r"Invalid username or password \(SASL_AUTHENTICATION_FAILED"):
        exchange.send(authenticated(58, error_message="Authentication failed: Invalid username or password"))

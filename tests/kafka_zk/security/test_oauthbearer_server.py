"""The broker's side of OAUTHBEARER."""

import time

import pytest

from kafka_zk.security.errors import SaslAuthenticationFailed
from kafka_zk.security.oauthbearer import Token, oauthbearer_client
from kafka_zk.security.oauthbearer_server import ExplainedFailure, OAuthBearerServer, client_first
from kafka_zk.security.password import Password
from kafka_zk.security.token_validation import RefusedToken, ValidToken

MAX_MESSAGE_BYTES = 16_384


def server(refusal: RefusedToken | None = None) -> OAuthBearerServer:
    def validate(token: str) -> ValidToken:
        if refusal is not None:
            raise refusal
        return ValidToken(token, 5000)

    return OAuthBearerServer(validate)


def test_a_broker_reads_what_a_client_sends() -> None:
    message = next(oauthbearer_client(Token(Password("head.claims."), 1, extensions={"traceId": "12 3"})))
    assert client_first(message) == (Password("head.claims."), "")
    assert client_first(b"n,a=a=2Cb,\x01auth=bearer x\x01\x01") == (Password("x"), "a,b")


@pytest.mark.parametrize(
    "message",
    [b"", b"n,,\x01\x01", b"n,,\x01auth=Basic x\x01\x01", b"n,,\x01auth=Bearer x\x01", b"y,,\x01auth=Bearer x\x01\x01",
     b"\xff", b"\x01", b"n,,\x01auth=Bearer x\x01auth=Bearer y\x01\x01", b"n,,\x01auth=Bearer x\x01k1=v\x01\x01",
     b"n,,\x01auth=Bearer x\x01k=\x01\x01"],
)  # fmt: skip
def test_a_message_of_another_form_is_refused(message: bytes) -> None:
    with pytest.raises(SaslAuthenticationFailed) as refused:
        client_first(message)
    assert not isinstance(refused.value, ExplainedFailure)


def test_a_token_that_is_accepted() -> None:
    made = server()
    assert made.answer(b"n,a=x,\x01auth=Bearer x\x01\x01") == b""
    assert made.accepted == ValidToken("x", 5000)


def test_an_authorization_id_must_be_the_principal() -> None:
    with pytest.raises(ExplainedFailure, match=r"\(y\) that is different from the token's principal name \(x\)"):
        server().answer(b"n,a=y,\x01auth=Bearer x\x01\x01")


@pytest.mark.parametrize(
    ("refusal", "document"),
    [
        (RefusedToken("why"), b'{"status":"invalid_token"}'),
        (RefusedToken("why", "insufficient_scope", "[a]"), b'{"status":"insufficient_scope", "scope":"[a]"}'),
    ],
)
def test_errors_have_kafkas_spelling(refusal: RefusedToken, document: bytes) -> None:
    """The broker repeats the error after the client's one byte, and after any other message."""
    for end in (b"\x01", b"n,,\x01auth=Bearer x\x01\x01"):
        made = server(refusal)
        assert made.answer(b"n,,\x01auth=Bearer x\x01\x01") == document
        assert (made.accepted, made.reason) == (None, "why")
        with pytest.raises(ExplainedFailure) as refused:
            made.answer(end)
        assert str(refused.value).encode() == document


@pytest.mark.parametrize(
    "message",
    [
        b"n,a=" + b"a" * MAX_MESSAGE_BYTES,
        b"n,a=" + b"=2C" * (MAX_MESSAGE_BYTES // 3),
        b"n,," + b"\x01" * MAX_MESSAGE_BYTES,
        b"n,,\x01" + b"a=b\x01" * (MAX_MESSAGE_BYTES // 4),
        b"n,,\x01auth=Bearer " + b"=" * MAX_MESSAGE_BYTES + b"\x01\x01",
    ],
    ids=["name", "escapes", "separators", "pairs", "token"],
)  # fmt: skip
def test_the_largest_message_is_read_in_milliseconds(message: bytes) -> None:
    """An unauthenticated client can send it, and all other connections wait during that time."""

    def cpu_s() -> float:
        before_s = time.thread_time()
        with pytest.raises(SaslAuthenticationFailed):
            client_first(message)
        return time.thread_time() - before_s

    assert min(cpu_s() for _ in range(5)) < 0.02

"""OAUTHBEARER: the client's messages, and when its token is renewed."""

import pytest

from kafka_zk.security.errors import SaslAuthenticationFailed
from kafka_zk.security.oauthbearer import Token, oauthbearer_client, renewal_ms
from kafka_zk.security.password import Password


def token(value: str = "head.claims.", **extensions: str) -> Token:
    return Token(Password(value), 10_000, 0, extensions)


def test_a_client_sends_its_token_and_its_extensions() -> None:
    assert next(oauthbearer_client(token(traceId="12 3"))) == b"n,,\x01auth=Bearer head.claims.\x01traceId=12 3\x01\x01"


def test_a_client_that_is_accepted_has_nothing_more_to_say() -> None:
    client = oauthbearer_client(token())
    next(client)
    with pytest.raises(StopIteration):
        client.send(b"")


def test_a_client_takes_note_of_an_error_and_then_fails() -> None:
    client = oauthbearer_client(token())
    next(client)
    assert client.send(b'{"status":"invalid_token"}') == b"\x01"
    with pytest.raises(SaslAuthenticationFailed, match="invalid_token"):
        client.send(b"")


@pytest.mark.parametrize("answer", [b"{}", b"[]", b"no JSON"])
def test_a_refusal_without_a_status_says_so(answer: bytes) -> None:
    client = oauthbearer_client(token())
    next(client)
    client.send(answer)
    with pytest.raises(SaslAuthenticationFailed, match="without giving a status"):
        client.send(b"")


@pytest.mark.parametrize(
    "wrong", [token("a\x01b"), token("two words"), token(""), token(key="\x01"), token(**{"k1": "v"})]
)
def test_what_would_break_the_message_is_not_sent(wrong: Token) -> None:
    with pytest.raises(SaslAuthenticationFailed) as refused:
        next(oauthbearer_client(wrong))
    assert "two words" not in str(refused.value)


def test_a_token_is_renewed_when_most_of_its_life_is_over() -> None:
    hour = Token(Password("t"), 3_600_000, 0)
    assert renewal_ms(hour, 0) == 2_880_000
    assert renewal_ms(Token(Password("t"), 3_600_000), 1_600_000) == 3_200_000
    assert renewal_ms(Token(Password("t"), 30_000, 0), 0) == 30_000
    assert "t" not in repr(hour.value)

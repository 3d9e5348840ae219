"""OAUTHBEARER: messages of both sides."""

import pytest

from kafka_zk.security import oauthbearer
from kafka_zk.security.errors import SaslAuthenticationFailed
from kafka_zk.security.oauthbearer import Token, client_first, oauthbearer_client, renewal_ms, server_error
from kafka_zk.security.password import Password


def token(value: str = "head.claims.", **extensions: str) -> Token:
    return Token(Password(value), 10_000, 0, extensions)


def test_a_broker_reads_what_a_client_sends() -> None:
    message = next(oauthbearer_client(token(traceId="12 3")))
    assert message == b"n,,\x01auth=Bearer head.claims.\x01traceId=12 3\x01\x01"
    first = client_first(message)
    assert (first.token.value, first.authorization_id, first.extensions) == ("head.claims.", "", {"traceId": "12 3"})
    assert client_first(b"n,a=a=2Cb,\x01auth=bearer x\x01\x01").authorization_id == "a,b"


def test_a_client_that_is_accepted_has_nothing_more_to_say() -> None:
    client = oauthbearer_client(token())
    next(client)
    with pytest.raises(StopIteration):
        client.send(b"")


def test_a_client_takes_note_of_an_error_and_then_fails() -> None:
    client = oauthbearer_client(token())
    next(client)
    assert oauthbearer.is_end_after_error(client.send(server_error()))
    with pytest.raises(SaslAuthenticationFailed, match="invalid_token"):
        client.send(b"")


def test_errors_have_kafkas_spelling() -> None:
    assert server_error() == b'{"status":"invalid_token"}'
    assert server_error("insufficient_scope", "[a]") == b'{"status":"insufficient_scope", "scope":"[a]"}'


@pytest.mark.parametrize("message", [b"", b"n,,\x01\x01", b"n,,\x01auth=Basic x\x01\x01", b"n,,\x01auth=Bearer x\x01",
                                     b"y,,\x01auth=Bearer x\x01\x01", b"\xff", b"\x01"])  # fmt: skip
def test_a_message_of_another_form_is_refused(message: bytes) -> None:
    with pytest.raises(SaslAuthenticationFailed):
        client_first(message)


@pytest.mark.parametrize("wrong", [token("a\x01b"), token("a b"), token(key="\x01"), token(**{"k1": "v"})])
def test_what_would_break_the_message_is_not_sent(wrong: Token) -> None:
    with pytest.raises(SaslAuthenticationFailed) as refused:
        next(oauthbearer_client(wrong))
    assert "a b" not in str(refused.value)


def test_a_token_is_renewed_when_most_of_its_life_is_over() -> None:
    hour = Token(Password("t"), 3_600_000, 0)
    assert renewal_ms(hour, 0) == 2_880_000
    assert renewal_ms(Token(Password("t"), 3_600_000), 1_600_000) == 3_200_000
    assert renewal_ms(Token(Password("t"), 30_000, 0), 0) == 30_000
    assert "t" not in repr(hour.value)

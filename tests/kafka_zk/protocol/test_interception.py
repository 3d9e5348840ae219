"""Calls and verdicts survive a round trip; other bytes are protocol errors."""

import pytest

from kafka_zk.protocol.errors import ProtocolError
from kafka_zk.protocol.interception import (
    Call,
    Outcome,
    Verdict,
    decode_call,
    decode_verdict,
    encode_call,
    encode_verdict,
)
from kafka_zk.protocol.request import RequestHeader


@pytest.mark.parametrize("header", [RequestHeader(0, 9, 7, "app"), RequestHeader(3, 1, -1, None)])
@pytest.mark.parametrize("response", [None, b"response"])
def test_a_call_keeps_request_and_response(header: RequestHeader, response: bytes | None) -> None:
    call = decode_call(memoryview(encode_call(Call(header, b"request", response))))
    assert (call.header, bytes(call.request)) == (header, b"request")
    assert call.response == response


@pytest.mark.parametrize("outcome", Outcome)
def test_a_verdict_keeps_its_body(outcome: Outcome) -> None:
    verdict = decode_verdict(memoryview(encode_verdict(Verdict(outcome, b"body"))))
    assert (verdict.outcome, bytes(verdict.body)) == (outcome, b"body")


@pytest.mark.parametrize("frame", [b"", b"\0\0\0", b"\0\0\0\x09abc", b"\xff\xff\xff\xffabc", b"\0\0\0\x02ab"])
def test_other_bytes_are_no_call(frame: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_call(memoryview(frame))


@pytest.mark.parametrize("frame", [b"", b"\x04", b"\xff"])
def test_other_bytes_are_no_verdict(frame: bytes) -> None:
    with pytest.raises(ProtocolError, match="an invalid verdict"):
        decode_verdict(memoryview(frame))

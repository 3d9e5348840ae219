"""The messages between a broker and a function that intercepts its requests and responses.

The broker connects to the function's process and sends its token. Then it sends calls, one at a time, and receives a
verdict for each. Every message is a frame: four bytes of size, then

======= =============================================================================================
token   the token of the broker's API for faults, as ASCII
call    the size of the request as int32; the request, header and body; the body of the response, which is absent until
        the request is handled
verdict one byte, see ``Outcome``; then the body of the changed request or of the response
======= =============================================================================================
"""

import enum
import struct
from typing import NamedTuple

from kafka_zk.protocol.errors import ProtocolError
from kafka_zk.protocol.primitives import Buffer
from kafka_zk.protocol.request import RequestHeader, parse_request_header, request_header

CALL_TIMEOUT_S = 10
"""Maximum time for one verdict. After it, the broker closes the connection and intercepts nothing more."""

MOST_BYTES = 16 * 1024 * 1024
"""A larger request is not intercepted, nor is a response that, together with its request, is larger."""

MOST_FRAME_BYTES = 2 * MOST_BYTES

_SIZE = struct.Struct(">i")


class Outcome(enum.IntEnum):
    """``PASS``: nothing changes. ``REQUEST``, ``RESPONSE``: the body of the verdict replaces the message. ``DROP``: the
    connection is closed without a response."""

    PASS = 0
    REQUEST = 1
    RESPONSE = 2
    DROP = 3


class Verdict(NamedTuple):
    outcome: Outcome
    body: Buffer = b""


PASS = Verdict(Outcome.PASS)


class Call(NamedTuple):
    """``request``, ``response``: bodies without their headers. ``response`` is None before the request is handled."""

    header: RequestHeader
    request: Buffer
    response: Buffer | None = None


def framed(payload: bytes) -> bytes:
    return _SIZE.pack(len(payload)) + payload


def encode_call(call: Call) -> bytes:
    head = request_header(*call.header)
    return b"".join((_SIZE.pack(len(head) + len(call.request)), head, call.request, call.response or b""))


def decode_call(frame: memoryview) -> Call:
    """Raises ProtocolError."""
    if len(frame) < _SIZE.size:
        raise ProtocolError(f"a call of {len(frame)} bytes")
    end = _SIZE.size + _SIZE.unpack_from(frame)[0]
    if not _SIZE.size <= end <= len(frame):
        raise ProtocolError(f"a call of {len(frame)} bytes with a request that ends at {end}")
    request, response = frame[_SIZE.size : end], frame[end:]
    header, position = parse_request_header(request)
    return Call(header, request[position:], response if len(response) else None)


def encode_verdict(verdict: Verdict) -> bytes:
    return bytes((verdict.outcome,)) + verdict.body


def decode_verdict(frame: memoryview) -> Verdict:
    """Raises ProtocolError."""
    try:
        return Verdict(Outcome(frame[0]), frame[1:])
    except (IndexError, ValueError):
        raise ProtocolError(f"an invalid verdict of {len(frame)} bytes") from None

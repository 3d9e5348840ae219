"""Headers of requests and responses."""

import contextlib
import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.request_header.v1.header import RequestHeader as HeaderV1
from kio.schema.request_header.v2.header import RequestHeader as HeaderV2
from kio.serial import entity_writer
from kio.static.primitive import i16, i32

from kafka_zk.protocol.api_keys import BROKER_VERSIONS, is_flexible
from kafka_zk.protocol.api_versions import unsupported_version_response
from kafka_zk.protocol.errors import ProtocolError
from kafka_zk.protocol.request import (
    RequestHeader,
    parse_request_header,
    request_header,
    response_body_position,
    response_header,
)
from tests.kafka_zk.protocol.strategies import int16, int32, text

APIS = st.sampled_from([(int(key), version) for key, (low, high) in BROKER_VERSIONS.items() for version in (low, high)])


@given(APIS, int32, st.one_of(st.none(), text))
def test_a_request_header_equals_kio_and_reads_back(api: tuple[int, int], correlation_id: int, client: str) -> None:
    data = request_header(*api, correlation_id, client)
    expected = RequestHeader(*api, correlation_id, client)
    if api == (7, 0):
        expected = expected._replace(client_id=None)
    else:
        out = io.BytesIO()
        cls = HeaderV2 if is_flexible(*api) else HeaderV1
        header = cls(
            request_api_key=i16(api[0]),
            request_api_version=i16(api[1]),
            correlation_id=i32(correlation_id),
            client_id=client,
        )
        entity_writer(cls)(out, header)
        assert out.getvalue() == data
    assert parse_request_header(memoryview(data + b"body")) == (expected, len(data))


def test_controlled_shutdown_0_has_no_client_id() -> None:
    """The header of ControlledShutdown 0 is older than client ids."""
    frame = struct.pack(">hhii", 7, 0, 5, 1)
    assert parse_request_header(memoryview(frame)) == (RequestHeader(7, 0, 5, None), 8)


def test_tagged_fields_of_a_header_are_skipped() -> None:
    frame = struct.pack(">hhihb", 3, 12, 5, 0, 2) + b"\x00\x01x" + b"\x63\x02yz" + b"body"
    assert parse_request_header(memoryview(frame)) == (RequestHeader(3, 12, 5, ""), len(frame) - 4)


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\x00\x03\x00\x00\x00\x00",
        struct.pack(">hhih", 3, 0, 1, -2),
        struct.pack(">hhih", 3, 0, 1, 100),
        struct.pack(">hhihb", 3, 12, 1, 0, 1),
        struct.pack(">hhih", 3, 12, 1, 0) + b"\xff" * 20,
    ],
)
def test_a_malformed_header_is_a_protocol_error(frame: bytes) -> None:
    with pytest.raises(ProtocolError):
        parse_request_header(memoryview(frame))


@given(st.binary(max_size=60))
def test_garbage_is_read_or_a_protocol_error(frame: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        parse_request_header(memoryview(frame))


@given(APIS, int32)
def test_a_response_header_ends_where_its_body_begins(api: tuple[int, int], correlation_id: int) -> None:
    data = response_header(*api, correlation_id)
    assert response_body_position(memoryview(data + b"body"), *api) == len(data)


@given(int16)
def test_the_answer_to_an_unknown_version_is_that_of_kafka(version: int) -> None:
    """Observed in 3.9.1 for a request in version 5."""
    expected = "00000007" + "0023" + "00000001" + "0012" + "0000" + "0004"
    assert unsupported_version_response(7, (0, 4)).hex() == expected

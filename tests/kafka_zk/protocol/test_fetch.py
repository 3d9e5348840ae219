"""Fetch in every version, both directions, against kafka-python and kio."""

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.protocol import fetch, fetch_request
from kafka_zk.protocol.api_keys import FLEXIBLE_SINCE, ApiKey
from kafka_zk.protocol.errors import ProtocolError
from kafka_zk.protocol.fetch import AbortedTransaction, EpochEndOffset, FetchedPartition, FetchedTopic, FetchResponse
from kafka_zk.protocol.fetch_request import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic
from kafka_zk.protocol.leader_hint import CurrentLeader, NodeEndpoint
from kafka_zk.protocol.request import response_header
from tests.kafka_zk.protocol.oracles import through_kafka_python, through_kio
from tests.kafka_zk.protocol.strategies import (
    duration_ms,
    error_code,
    int32,
    int64,
    lists,
    records,
    text,
    uuid_bytes,
)

VERSIONS = st.integers(0, 17)
EPOCH = st.integers(0, 2**31 - 1)


def _since(version: int, first: int, strategy: Any, default: object) -> Any:
    return strategy if version >= first else st.just(default)


def _names(version: int) -> tuple[Any, Any]:
    return (text, st.none()) if version < 13 else (st.none(), uuid_bytes)


@st.composite
def requests(draw: Any) -> tuple[int, FetchRequest]:
    version = draw(VERSIONS)
    partition = st.builds(
        FetchPartition,
        int32,
        int64,
        int32,
        _since(version, 9, int32, -1),
        _since(version, 12, int32, -1),
        _since(version, 5, int64, -1),
        _since(version, 17, st.one_of(st.none(), uuid_bytes), None),
    )
    names = _names(version)
    return version, FetchRequest(
        draw(duration_ms),
        draw(int32),
        draw(lists(st.builds(FetchTopic, *names, lists(partition)))),
        draw(_since(version, 3, int32, 0x7FFFFFFF)),
        draw(_since(version, 4, st.integers(0, 1), 0)),
        draw(_since(version, 7, int32, 0)),
        draw(_since(version, 7, int32, -1)),
        draw(_since(version, 7, lists(st.builds(ForgottenTopic, *names, lists(int32))), [])),
        draw(_since(version, 11, text, "")),
        draw(int32),
        draw(_since(version, 15, int64, -1)),
        draw(_since(version, 12, st.one_of(st.none(), text), None)),
    )


@st.composite
def responses(draw: Any) -> tuple[int, FetchResponse]:
    version = draw(VERSIONS)
    aborted = st.one_of(st.none(), lists(st.builds(AbortedTransaction, int64, int64)))
    partition = st.builds(
        FetchedPartition,
        int32,
        error_code,
        int64,
        _since(version, 4, int64, -1),
        _since(version, 5, int64, -1),
        records,
        _since(version, 4, aborted, None),
        _since(version, 11, int32, -1),
        _since(version, 12, st.one_of(st.none(), st.builds(EpochEndOffset, EPOCH, int64)), None),
        _since(version, 12, st.one_of(st.none(), st.builds(CurrentLeader, int32, EPOCH)), None),
    )
    endpoint = st.builds(NodeEndpoint, int32, text, int32, st.one_of(st.none(), text))
    return version, FetchResponse(
        draw(lists(st.builds(FetchedTopic, *_names(version), lists(partition)))),
        draw(_since(version, 1, duration_ms, 0)),
        draw(_since(version, 7, error_code, 0)),
        draw(_since(version, 7, int32, 0)),
        draw(_since(version, 16, lists(endpoint), [])),
    )


def _joined(version: int, response: FetchResponse) -> bytes:
    parts = fetch.write_fetch_response(version, 7, response)
    return b"".join(part for part in parts if isinstance(part, bytes | bytearray | memoryview))


@given(requests())
def test_request_equals_kafka_python_and_kio_byte_for_byte(case: tuple[int, FetchRequest]) -> None:
    version, request = case
    body = fetch_request.write_fetch_request(version, request)
    assert through_kafka_python(1, "request", version, body) == body
    assert through_kio("fetch", "request", version, body) in (body, None)


@given(requests())
def test_request_reads_back_what_was_written(case: tuple[int, FetchRequest]) -> None:
    version, request = case
    body = fetch_request.write_fetch_request(version, request)
    assert fetch_request.read_fetch_request(version, memoryview(body)) == request


@given(responses())
def test_response_equals_kafka_python_and_kio_byte_for_byte(case: tuple[int, FetchResponse]) -> None:
    version, response = case
    frame = _joined(version, response)
    header = response_header(ApiKey.FETCH, version, 7)
    assert frame.startswith(header)
    body = frame[len(header) :]
    assert through_kafka_python(1, "response", version, body) == body
    assert through_kio("fetch", "response", version, body) in (body, None)


@given(responses())
def test_response_reads_back_what_was_written(case: tuple[int, FetchResponse]) -> None:
    version, response = case
    body = memoryview(_joined(version, response))[len(response_header(ApiKey.FETCH, version, 7)) :]
    assert fetch.read_fetch_response(version, body) == response


class _Slice:
    position = 5
    size_bytes = 11
    in_active_segment = False

    def __len__(self) -> int:
        return self.size_bytes

    def fileno(self) -> int:
        raise AssertionError("nothing is read while a response is written")

    def read(self) -> bytes:
        raise AssertionError("nothing is read while a response is written")

    def retain(self) -> None:
        raise AssertionError("references are the transport's business")

    def release(self) -> None:
        raise AssertionError("references are the transport's business")


@pytest.mark.parametrize("version", range(18))
def test_a_file_slice_stands_where_its_bytes_would(version: int) -> None:
    with_slice = FetchResponse([FetchedTopic("t", bytes(15) + b"x", [FetchedPartition(1, records=_Slice())] * 2)])
    with_bytes = FetchResponse([FetchedTopic("t", bytes(15) + b"x", [FetchedPartition(1, records=b"r" * 11)] * 2)])
    parts = fetch.write_fetch_response(version, 7, with_slice)
    assert sum(isinstance(part, _Slice) for part in parts) == 2
    joined = b"".join(b"r" * 11 if isinstance(part, _Slice) else part for part in parts)  # type: ignore[misc]
    assert joined == _joined(version, with_bytes)


@given(requests(), st.data())
def test_a_cut_request_is_a_protocol_error(case: tuple[int, FetchRequest], data: Any) -> None:
    version, request = case
    body = fetch_request.write_fetch_request(version, request)
    cut = data.draw(st.integers(0, len(body) - 1))
    with pytest.raises(ProtocolError):
        fetch_request.read_fetch_request(version, memoryview(body)[:cut])


@given(VERSIONS, st.binary(max_size=200))
def test_garbage_is_read_or_a_protocol_error(version: int, body: bytes) -> None:
    for read in (fetch_request.read_fetch_request, fetch.read_fetch_response):
        with contextlib.suppress(ProtocolError):
            read(version, memoryview(body))


def test_flexible_since_the_version_of_the_table() -> None:
    assert FLEXIBLE_SINCE[ApiKey.FETCH] == fetch_request.FLEXIBLE_SINCE


def test_a_directory_id_has_16_bytes() -> None:
    """The broker keeps the id as long as the fetch session lasts, so a longer one is refused."""
    partition = FetchPartition(0, 0, 1, replica_directory_id=bytes(1000))
    request = FetchRequest(0, 0, [FetchTopic(None, bytes(16), [partition])])
    with pytest.raises(ProtocolError, match="directory id of 1000 bytes"):
        fetch_request.read_fetch_request(17, memoryview(fetch_request.write_fetch_request(17, request)))

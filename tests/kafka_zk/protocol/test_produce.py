"""Produce in every version, both directions, compared with kafka-python and kio.

Requests are decoded, and responses encoded, in Python and, where it is built, in the native module.
"""

import contextlib
from collections.abc import Callable
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.native.loading import Native, implementation
from kafka_zk.protocol import produce
from kafka_zk.protocol.api_keys import FLEXIBLE_SINCE, ApiKey
from kafka_zk.protocol.errors import ProtocolError
from kafka_zk.protocol.leader_hint import CurrentLeader, NodeEndpoint
from kafka_zk.protocol.produce import (
    PartitionData,
    PartitionResult,
    ProduceRequest,
    ProduceResponse,
    TopicData,
    TopicResult,
)
from kafka_zk.protocol.request import response_header
from tests.kafka_zk.protocol.oracles import through_kafka_python, through_kio
from tests.kafka_zk.protocol.strategies import (
    duration_ms,
    error_code,
    int16,
    int32,
    int64,
    lists,
    long_text,
    records,
    text,
    timestamp_ms,
)

VERSIONS = st.integers(0, 11)

T = TypeVar("T")


def both(call: Callable[[], T]) -> T:
    """The result of both implementations, which must be equal. Raises: ProtocolError if both do."""
    outcomes: list[T | ProtocolError] = []
    for native in (None, implementation().native):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(produce, "_native", native)
            try:
                outcomes.append(call())
            except ProtocolError as error:
                outcomes.append(error)
    said, found = outcomes
    if isinstance(said, ProtocolError):
        assert str(found) == str(said) and isinstance(found, ProtocolError)
        raise said
    assert found == said and type(found) is type(said)
    return said


def read_produce_request(version: int, body: memoryview) -> ProduceRequest:
    return both(lambda: produce.read_produce_request(version, body))


def write_produce_response(version: int, correlation_id: int, response: ProduceResponse) -> bytes:
    return both(lambda: produce.write_produce_response(version, correlation_id, response))


@st.composite
def requests(draw: Any) -> tuple[int, ProduceRequest]:
    version = draw(VERSIONS)
    topics = draw(lists(st.builds(TopicData, long_text, lists(st.builds(PartitionData, int32, records)))))
    transactional_id = draw(st.one_of(st.none(), text)) if version >= 3 else None
    return version, ProduceRequest(transactional_id, draw(int16), draw(duration_ms), topics)


@st.composite
def responses(draw: Any) -> tuple[int, ProduceResponse]:
    version = draw(VERSIONS)
    nullable = st.one_of(st.none(), text)
    leader = st.one_of(st.none(), st.builds(CurrentLeader, int32, st.integers(0, 2**31 - 1)))
    result = st.builds(
        PartitionResult,
        int32,
        error_code,
        int64,
        timestamp_ms if version >= 2 else st.just(-1),
        int64 if version >= 5 else st.just(-1),
        lists(st.tuples(int32, nullable)) if version >= 8 else st.just([]),
        nullable if version >= 8 else st.none(),
        leader if version >= 10 else st.none(),
    )
    endpoint = st.builds(NodeEndpoint, int32, text, int32, nullable)
    return version, ProduceResponse(
        draw(lists(st.builds(TopicResult, text, lists(result)))),
        draw(duration_ms) if version >= 1 else 0,
        draw(lists(endpoint)) if version >= 10 else [],
    )


@given(requests())
def test_request_equals_kafka_python_and_kio_byte_for_byte(case: tuple[int, ProduceRequest]) -> None:
    version, request = case
    body = b"".join(produce.write_produce_request(version, request))
    assert through_kafka_python(0, "request", version, body) == body
    assert through_kio("produce", "request", version, body) in (body, None)


@given(requests())
def test_request_reads_back_what_was_written(case: tuple[int, ProduceRequest]) -> None:
    version, request = case
    body = bytearray(b"".join(produce.write_produce_request(version, request)))
    assert read_produce_request(version, memoryview(body)) == request


@given(responses())
def test_response_equals_kafka_python_and_kio_byte_for_byte(case: tuple[int, ProduceResponse]) -> None:
    version, response = case
    frame = write_produce_response(version, 7, response)
    header = response_header(ApiKey.PRODUCE, version, 7)
    assert frame.startswith(header)
    body = frame[len(header) :]
    assert through_kafka_python(0, "response", version, body) == body
    assert through_kio("produce", "response", version, body) in (body, None)


@given(responses())
def test_response_reads_back_what_was_written(case: tuple[int, ProduceResponse]) -> None:
    version, response = case
    header_size = len(response_header(ApiKey.PRODUCE, version, 7))
    body = memoryview(write_produce_response(version, 7, response))[header_size:]
    read = produce.read_produce_response(version, body)
    plain = [
        TopicResult(topic, [result._replace(record_errors=list(result.record_errors)) for result in partitions])
        for topic, partitions in read.topics
    ]
    assert read._replace(topics=plain) == response


def test_records_are_writable_views_of_the_frame() -> None:
    """The broker patches offsets inside the frame."""
    body = bytearray(b"".join(produce.write_produce_request(9, ProduceRequest(None, 1, 1, [_one(b"records")]))))
    request = read_produce_request(9, memoryview(body))
    view = request.topics[0][1][0][1]
    assert isinstance(view, memoryview)
    view[0:1] = b"R"
    assert b"Records" in body


def test_big_records_are_passed_on_without_a_copy() -> None:
    data = bytearray(1 << 20)
    parts = produce.write_produce_request(11, ProduceRequest(None, 1, 1, [_one(data)]))
    assert any(part is data for part in parts)


@given(requests(), st.data())
def test_a_cut_request_is_a_protocol_error(case: tuple[int, ProduceRequest], data: Any) -> None:
    version, request = case
    body = b"".join(produce.write_produce_request(version, request))
    cut = data.draw(st.integers(0, len(body) - 1))
    with pytest.raises(ProtocolError):
        read_produce_request(version, memoryview(body)[:cut])


@given(VERSIONS, st.binary(max_size=200))
def test_garbage_is_read_or_a_protocol_error(version: int, body: bytes) -> None:
    for read in (read_produce_request, produce.read_produce_response):
        with contextlib.suppress(ProtocolError):
            read(version, memoryview(body))


def test_flexible_since_the_version_of_the_table() -> None:
    assert FLEXIBLE_SINCE[ApiKey.PRODUCE] == produce.FLEXIBLE_SINCE


def _one(data: bytes | bytearray) -> TopicData:
    return TopicData("t", [PartitionData(0, data)])


@pytest.mark.parametrize("version", range(3, 12))
def test_what_is_ordinary_is_native(native: Native, version: int) -> None:
    """Ordinary means the requests that current clients send, and the responses to them."""
    topics = [TopicData(name, [PartitionData(number, b"records") for number in range(3)]) for name in ("a", "b" * 249)]
    body = bytearray(b"".join(produce.write_produce_request(version, ProduceRequest("id", -1, 30_000, topics))))
    results = [TopicResult(name, [PartitionResult(number, 0, 1 << 40, -1, 3) for number in range(3)]) for name in "ab"]
    before = native.handled()
    assert read_produce_request(version, memoryview(body)).topics == topics
    assert write_produce_response(version, -7, ProduceResponse(results, 9))
    after = native.handled()
    for function in ("read_produce", "write_produce"):
        assert after[function] == before[function] + 1


def test_what_is_not_ordinary_falls_through(native: Native) -> None:
    def body(records: bytes | None) -> memoryview:
        topics = [TopicData("t", [PartitionData(0, records)])]
        return memoryview(b"".join(produce.write_produce_request(9, ProduceRequest(None, 1, 1, topics))))

    whole = body(b"r")
    tagged = bytes(whole[:-1]) + b"\x01\x00\x00"
    many = b"".join(produce.write_produce_request(9, ProduceRequest(None, 1, 1, [_one(b"r")] * 501)))
    for refused in (body(None), whole[:-1], memoryview(tagged), memoryview(many)):
        assert native.read_produce(9, refused) is None
    for version in (2, 12):
        assert native.read_produce(version, whole) is None
        assert native.write_produce(version, 7, [], 0) is None
    details = PartitionResult(0, 2, error_message="no")
    too_large = PartitionResult(1 << 31)
    for topics in ([TopicResult("t", [details])], [TopicResult("t", [too_large])], ["t"], [("t", [1])], 7):
        assert native.write_produce(9, 7, topics, 0) is None
    assert native.write_produce(9, 7, [TopicResult("t", [PartitionResult(0)] * 200)], 0) is None, "the text is long"

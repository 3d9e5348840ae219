"""Produce in every version, both directions, against kafka-python and kio."""

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    assert produce.read_produce_request(version, memoryview(body)) == request


@given(responses())
def test_response_equals_kafka_python_and_kio_byte_for_byte(case: tuple[int, ProduceResponse]) -> None:
    version, response = case
    frame = produce.write_produce_response(version, 7, response)
    header = response_header(ApiKey.PRODUCE, version, 7)
    assert frame.startswith(header)
    body = frame[len(header) :]
    assert through_kafka_python(0, "response", version, body) == body
    assert through_kio("produce", "response", version, body) in (body, None)


@given(responses())
def test_response_reads_back_what_was_written(case: tuple[int, ProduceResponse]) -> None:
    version, response = case
    header_size = len(response_header(ApiKey.PRODUCE, version, 7))
    body = memoryview(produce.write_produce_response(version, 7, response))[header_size:]
    read = produce.read_produce_response(version, body)
    plain = [
        TopicResult(topic, [result._replace(record_errors=list(result.record_errors)) for result in partitions])
        for topic, partitions in read.topics
    ]
    assert read._replace(topics=plain) == response


def test_records_are_writable_views_of_the_frame() -> None:
    """The broker patches offsets where the records lie."""
    body = bytearray(b"".join(produce.write_produce_request(9, ProduceRequest(None, 1, 1, [_one(b"records")]))))
    request = produce.read_produce_request(9, memoryview(body))
    view = request.topics[0].partitions[0].records
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
        produce.read_produce_request(version, memoryview(body)[:cut])


@given(VERSIONS, st.binary(max_size=200))
def test_garbage_is_read_or_a_protocol_error(version: int, body: bytes) -> None:
    for read in (produce.read_produce_request, produce.read_produce_response):
        with contextlib.suppress(ProtocolError):
            read(version, memoryview(body))


def test_flexible_since_the_version_of_the_table() -> None:
    assert FLEXIBLE_SINCE[ApiKey.PRODUCE] == produce.FLEXIBLE_SINCE


def _one(data: bytes | bytearray) -> TopicData:
    return TopicData("t", [PartitionData(0, data)])

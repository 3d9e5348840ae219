"""Setting the throttle time in an encoded response."""

from typing import Any

import pytest

from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import BROKER_VERSIONS, ApiKey
from kafka_zk.protocol.leader_hint import CurrentLeader, NodeEndpoint
from kafka_zk.protocol.produce import (
    PartitionResult,
    ProduceResponse,
    TopicResult,
    read_produce_response,
    write_produce_response,
)
from kafka_zk.protocol.request import response_body_position
from kafka_zk.protocol.throttle_time import set_throttle_time, throttle_time_at_start

_NONE_IN_ANY = {
    ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA, ApiKey.CONTROLLED_SHUTDOWN,
    ApiKey.SASL_HANDSHAKE, ApiKey.WRITE_TXN_MARKERS, ApiKey.SASL_AUTHENTICATE,
}  # fmt: skip
_CASES = [(key, version) for key, (low, high) in BROKER_VERSIONS.items() for version in range(low, high + 1)]


def decoded(api_key: int, version: int, parts: list[Any]) -> Any:
    frame = memoryview(b"".join(bytes(part) for part in parts))
    return codec.decode_response(api_key, version, frame[response_body_position(frame, api_key, version) :])


@pytest.mark.parametrize(("api_key", "version"), _CASES)
def test_the_field_of_any_response_is_set_and_nothing_else(api_key: ApiKey, version: int) -> None:
    """The field is set even if header and body are separate parts."""
    response = codec.response(api_key)()
    encoded = codec.encode_response(api_key, version, 7, response)
    position = response_body_position(memoryview(encoded), api_key, version)
    before = decoded(api_key, version, [encoded])
    whole: list[Any] = [bytes(encoded)]
    in_two: list[Any] = [bytes(encoded[:position]), bytearray(encoded[position:])]
    for parts in (whole, in_two):
        has_one = set_throttle_time(api_key, version, 7, parts, 1234)
        after = decoded(api_key, version, parts)
        assert has_one == ("throttle_time_ms" in _fields(api_key, version))
        if not has_one:
            assert b"".join(map(bytes, parts)) == encoded
        else:
            assert after.throttle_time_ms == 1234
            after.throttle_time_ms = before.throttle_time_ms
            assert codec.encode_response(api_key, version, 7, after) == encoded
    assert not (has_one and api_key in _NONE_IN_ANY)


@pytest.mark.parametrize(("version", "has_time"), [(1, False), (2, False), (3, False), (4, True), (6, True)])
def test_a_refusal_of_one_coordinator_keeps_a_zero(version: int, has_time: bool) -> None:
    """FindCoordinatorRequest.getErrorResponse sets the throttle time in an object that Kafka does not send."""
    response = codec.response(ApiKey.FIND_COORDINATOR)
    for code in (0, 15):
        coordinator = response.Coordinator(key="g", node_id=-1, host="", port=-1, error_code=code)
        message = response(error_code=code, node_id=-1, host="", port=-1, coordinators=[coordinator])
        parts: list[Any] = [codec.encode_response(ApiKey.FIND_COORDINATOR, version, 7, message)]
        assert set_throttle_time(ApiKey.FIND_COORDINATOR, version, 7, parts, 99) == (has_time or not code)
        after = decoded(ApiKey.FIND_COORDINATOR, version, parts)
        assert after.throttle_time_ms == (99 if has_time or not code else 0)


@pytest.mark.parametrize(("code", "has_time"), [(0, True), (91, True), (31, False), (41, False)])
def test_a_refusal_of_all_scram_changes_keeps_a_zero(code: int, has_time: bool) -> None:
    response = codec.response(ApiKey.ALTER_USER_SCRAM_CREDENTIALS)
    result = response.AlterUserScramCredentialsResult(user="u", error_code=code, error_message=None)
    parts: list[Any] = [codec.encode_response(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 7, response(results=[result]))]
    assert set_throttle_time(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 7, parts, 99) == has_time
    after = decoded(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, parts)
    assert after.throttle_time_ms == (99 if has_time else 0)


def _fields(api_key: int, version: int) -> set[str]:
    return {field.name for field in codec.response(api_key).table.fields if field.versions.include(version)}


@pytest.mark.parametrize("version", range(1, 12))
def test_the_field_of_produce_stands_before_the_tags(version: int) -> None:
    """The tags end in a zero if they contain a broker's address."""
    hint = CurrentLeader(1, 5) if version >= 10 else None
    topics = [TopicResult("t", [PartitionResult(0, 6, -1, -1, -1, (), None, hint), PartitionResult(1, 0, 5, -1, -1)])]
    endpoints = [NodeEndpoint(1, "host", 9092, None)] if version >= 10 else []
    for response in (ProduceResponse(topics, 0, endpoints), ProduceResponse(topics[:0])):
        parts: list[Any] = [write_produce_response(version, 7, response)]
        assert set_throttle_time(ApiKey.PRODUCE, version, 7, parts, 99)
        frame = memoryview(bytes(parts[0]))
        expected = write_produce_response(version, 7, response._replace(throttle_time_ms=99))
        assert bytes(frame) == expected
        body = frame[response_body_position(frame, ApiKey.PRODUCE, version) :]
        assert read_produce_response(version, body).throttle_time_ms == 99


def test_the_field_can_be_read_where_it_comes_first() -> None:
    response = codec.response(ApiKey.CREATE_TOPICS)(throttle_time_ms=77, topics=[])
    encoded = bytes(codec.encode_response(ApiKey.CREATE_TOPICS, 7, 1, response))
    for parts in ([encoded], [encoded[:5], encoded[5:]]):
        assert throttle_time_at_start(ApiKey.CREATE_TOPICS, 7, list(parts)) == 77

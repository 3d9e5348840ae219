"""The codec: byte for byte equal to kafka-python and kio, and invalid input raises only ProtocolError."""

import contextlib
import random
import time
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.protocol import codec
from kafka_zk.protocol.api_keys import BROKER_VERSIONS, FLEXIBLE_SINCE, ApiKey, is_flexible
from kafka_zk.protocol.errors import ErrorCode, ProtocolError
from kafka_zk.protocol.field_table import Field, Table
from kafka_zk.protocol.memory import OBJECT_BYTES, VALUE_BYTES
from kafka_zk.protocol.request_limits import max_elements
from tests.kafka_zk.protocol.oracles import through_kafka_python, through_kio

MESSAGES = [
    (int(key), kind, version)
    for key, (low, high) in BROKER_VERSIONS.items()
    for kind in ("request", "response")
    for version in range(low, high + 1)
]
_RANGES = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
_ONLY_KIO_HAS = {
    38: "create_delegation_token",
    39: "renew_delegation_token",
    40: "expire_delegation_token",
    41: "describe_delegation_token",
    56: "alter_partition",
    67: "allocate_producer_ids",
    68: "consumer_group_heartbeat",
    69: "consumer_group_describe",
}

_DURATIONS = {"max_lifetime_ms", "renew_period_ms", "expiry_time_period_ms"}
"""Fields that kio turns into a timedelta, whose range is smaller than that of an int64."""


def _class(api_key: int, kind: str) -> Any:
    return codec.request(api_key) if kind == "request" else codec.response(api_key)


def _value(field: Field, version: int, rnd: random.Random) -> Any:
    """A random value for a field."""
    if field.nullable_versions.include(version) and rnd.random() < 0.25:
        return None
    if field.is_array:
        return [_one(field, version, rnd) for _ in range(rnd.randint(0, 3))]
    return _one(field, version, rnd)


def _one(field: Field, version: int, rnd: random.Random) -> Any:
    """A random value of the field's type, or of its elements'."""
    return _simple(field.type_name, rnd) if field.struct is None else _message(field.struct, version, rnd)


def _simple(type_name: str, rnd: random.Random) -> Any:
    if type_name in _RANGES:
        return rnd.randint(-(2 ** _RANGES[type_name]), 2 ** _RANGES[type_name] - 1)
    values: dict[str, Callable[[], Any]] = {
        "uint16": lambda: rnd.randint(0, 65535),
        "float64": rnd.random,
        "bool": lambda: rnd.random() < 0.5,
        "string": lambda: "".join(rnd.choice("aé€😀") for _ in range(rnd.choice((0, 1, 9, 90)))),
        "bytes": lambda: rnd.randbytes(rnd.choice((0, 1, 9, 300))),
        "records": lambda: rnd.randbytes(rnd.choice((0, 1, 9, 300))),
        "uuid": lambda: uuid.UUID(int=rnd.getrandbits(128)),
    }
    return values[type_name]()


def _message(table: Table, version: int, rnd: random.Random) -> Any:
    values = {field.name: _value(field, version, rnd) for field in table.fields if field.versions.include(version)}
    return table.message_class(**values)


def _encoded(api_key: int, kind: str, version: int, seed: int) -> bytes:
    message = _message(_class(api_key, kind).table, version, random.Random(seed))
    return bytes(codec.encode_body(message, api_key, version))


def _decode(api_key: int, kind: str, version: int, body: bytes) -> Any:
    decode = codec.decode_request if kind == "request" else codec.decode_response
    return decode(api_key, version, memoryview(body))


@pytest.mark.parametrize(("api_key", "kind", "version"), MESSAGES)
def test_every_message_decodes_to_what_was_encoded(api_key: int, kind: str, version: int) -> None:
    """kafka-python reads and writes the same bytes."""
    for seed in range(4):
        body = _encoded(api_key, kind, version, seed)
        if (api_key, kind) == (18, "response") and body[:2] != b"\0\0":
            continue  # an error is read as version 0
        message = _decode(api_key, kind, version, body)
        assert codec.encode_body(message, api_key, version) == body
        assert through_kafka_python(api_key, kind, version, body) == body


@pytest.mark.parametrize("api_key", sorted(_ONLY_KIO_HAS))
def test_messages_that_kafka_python_lacks_equal_those_of_kio(api_key: int) -> None:
    low, high = BROKER_VERSIONS[ApiKey(api_key)]
    compared = 0
    for version in range(low, high + 1):
        table = codec.request(api_key).table
        made = _message(table, version, random.Random(1))
        for name in _DURATIONS & {field.name for field in table.fields}:
            setattr(made, name, 86_400_000)
        body = bytes(codec.encode_body(made, api_key, version))
        compared += through_kio(_ONLY_KIO_HAS[api_key], "request", version, body) == body
    assert compared >= 1


def test_flexible_versions_are_those_of_the_field_tables() -> None:
    for api_key, kind, version in MESSAGES:
        assert _class(api_key, kind).flexible_versions.include(version) == is_flexible(api_key, version)
    of_kraft = (
        ApiKey.DESCRIBE_QUORUM, ApiKey.FETCH_SNAPSHOT, ApiKey.BROKER_REGISTRATION, ApiKey.BROKER_HEARTBEAT,
    )  # fmt: skip
    assert set(FLEXIBLE_SINCE) == {*BROKER_VERSIONS, *of_kraft}


def _in_steps(api_key: int, version: int, body: bytes) -> Any:
    steps = codec.decode_request_in_steps(api_key, version, memoryview(body))
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


@pytest.mark.parametrize(("api_key", "kind", "version"), [case for case in MESSAGES if case[1] == "request"])
def test_a_request_decoded_in_steps_is_the_same(api_key: int, kind: str, version: int) -> None:
    """A truncated body raises ProtocolError in both cases."""
    for seed in range(4):
        body = _encoded(api_key, kind, version, seed)
        for part in (body, body[: len(body) // 2]):
            try:
                expected = _decode(api_key, kind, version, part)
            except ProtocolError:
                with pytest.raises(ProtocolError):
                    _in_steps(api_key, version, part)
            else:
                assert _in_steps(api_key, version, part) == expected


@pytest.mark.parametrize("in_steps", [False, True])
def test_elements_are_counted_before_they_are_made(in_steps: bool) -> None:
    """All arrays count together: many topics with many partitions each are as bad as one with too many."""
    request = codec.request(ApiKey.OFFSET_FETCH)

    def body(topics: int, partitions: int) -> bytes:
        wanted = [
            request.OffsetFetchRequestTopic(name="t", partition_indexes=list(range(partitions))) for _ in range(topics)
        ]
        return bytes(codec.encode_body(request(group_id="g", topics=wanted), ApiKey.OFFSET_FETCH, 0))

    decode = _in_steps if in_steps else codec.decode_request
    most = max_elements(ApiKey.OFFSET_FETCH)
    assert len(decode(ApiKey.OFFSET_FETCH, 0, body(1, most - 1)).topics[0].partition_indexes) == most - 1
    for topics, partitions in ((1, most), (most // 100, 100)):
        with pytest.raises(ProtocolError, match="elements more"):
            decode(ApiKey.OFFSET_FETCH, 0, body(topics, partitions))


def _isrs(*sizes: int) -> bytes:
    request = codec.request(ApiKey.LEADER_AND_ISR)
    states = [
        request.LeaderAndIsrPartitionState(
            partition_index=number, controller_epoch=1, leader=1, leader_epoch=1, partition_epoch=1, is_new=False,
            isr=list(range(size)), replicas=[], adding_replicas=[], removing_replicas=[], leader_recovery_state=0,
        )
        for number, size in enumerate(sizes)
    ]  # fmt: skip
    topic = request.LeaderAndIsrTopicState(topic_name="t", topic_id=uuid.UUID(int=1), partition_states=states)
    message = request(
        controller_id=1, controller_epoch=1, broker_epoch=1, type=0, is_k_raft_controller=False,
        ungrouped_partition_states=[], topic_states=[topic], live_leaders=[],
    )  # fmt: skip
    return bytes(codec.encode_body(message, ApiKey.LEADER_AND_ISR, 7))


def test_an_element_with_many_numbers_is_read_in_steps() -> None:
    """An element with few numbers is read in one step, with the same result and the same memory count."""
    sizes = [3] * 1000 + [5000] * 2 + [3] * 1000 + [0, 1, 7, 8, 127, 128, 129]
    body = _isrs(*sizes)
    steps = codec.decode_request_in_steps(ApiKey.LEADER_AND_ISR, 7, memoryview(body))
    told = []
    try:
        while True:
            told.append(next(steps))
    except StopIteration as end:
        message = end.value
    assert message == codec.decode_request(ApiKey.LEADER_AND_ISR, 7, body)
    assert [len(state.isr) for state in message.topic_states[0].partition_states] == sizes
    assert len(told) > sum(sizes) / 100
    few = sum(size for size in sizes if size < 1000)
    assert sum(told) >= (len(sizes) + 1) * OBJECT_BYTES + (2 * 5000 + few // 2) * VALUE_BYTES


def test_numbers_are_counted_whether_they_are_few_or_many() -> None:
    most = max_elements(ApiKey.LEADER_AND_ISR)
    for sizes in ([3] * (most // 4 + 1), [most]):
        body = _isrs(*sizes)
        for decode in (_in_steps, codec.decode_request):
            with pytest.raises(ProtocolError, match="elements more"):
                decode(ApiKey.LEADER_AND_ISR, 7, body)


@given(st.sampled_from(MESSAGES), st.data())
def test_a_mutated_message_is_read_or_a_protocol_error(case: tuple[int, str, int], data: st.DataObject) -> None:
    body = bytearray(_encoded(*case, data.draw(st.integers(0, 20))))
    for _ in range(data.draw(st.integers(1, 3))):
        if body:
            body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    body = body[: data.draw(st.integers(0, len(body)))]
    with contextlib.suppress(ProtocolError):
        _decode(*case, bytes(body))


@pytest.mark.parametrize("filler", [b"\xff", b"\x00", b"\x80", b"\x01", b"\x7f"])
def test_a_megabyte_of_one_byte_takes_no_time(filler: bytes) -> None:
    """kafka-python takes 53 s for one of these, because its varints have no length limit."""
    body = filler * 1_000_000
    start = time.process_time()
    for api_key, kind, version in ((3, "request", 12), (3, "request", 0), (8, "request", 9), (19, "request", 7)):
        with contextlib.suppress(ProtocolError):
            _decode(api_key, kind, version, body)
    assert time.process_time() - start < 5


def test_many_tagged_fields_take_linear_time() -> None:
    """Each topic has an unknown tag: for each of them, kafka-python copies the rest of the frame."""
    count = 50_000
    topic = b"\x00" * 16 + b"\x02a" + b"\x01\x05\x01x"
    body = (count + 1).to_bytes(1, "big") if count < 127 else bytes([0xD1, 0x86, 0x03])
    start = time.process_time()
    message = _decode(3, "request", 12, body + topic * count + b"\x01\x00\x00\x00")
    assert len(message.topics) == count
    assert time.process_time() - start < 3


@pytest.mark.parametrize(
    ("version", "body"),
    [
        (0, b"\x7f\xff\xff\xff"),  # more topics than bytes
        (0, b"\x00\x00\x00\x01\x00\x09abc"),  # a name beyond the frame
        (0, b"\xff\xff\xff\xff"),  # null where version 0 has no null
        (12, b"\xff\xff\xff\xff\x7f"),  # a varint above 32 bits
        (12, b"\x01"),
        (99, b""),
    ],
)
def test_what_kafka_refuses_is_refused(version: int, body: bytes) -> None:
    with pytest.raises(ProtocolError):
        codec.decode_request(ApiKey.METADATA, version, body)


def test_a_string_has_at_most_as_many_bytes_as_in_kafka() -> None:
    """The limit is 32767, even where the length is a varint: a longer string would cost a large copy."""
    body = b"\x80\x80\x02" + b"a" * 32767 + b"\x02v\x00"
    assert len(codec.decode_request(ApiKey.API_VERSIONS, 3, body).client_software_name) == 32767
    with pytest.raises(ProtocolError, match="32768"):
        codec.decode_request(ApiKey.API_VERSIONS, 3, b"\x81\x80\x02" + b"a" * 32768 + b"\x02v\x00")


def test_an_unknown_api_is_a_protocol_error() -> None:
    with pytest.raises(ProtocolError):
        codec.decode_request(999, 0, b"")


def test_an_api_versions_error_is_read_as_version_0() -> None:
    """KIP-511."""
    message = codec.decode_response(ApiKey.API_VERSIONS, 4, bytes.fromhex("00230000000100120000" + "0004"))
    assert message.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(entry.api_key, entry.max_version) for entry in message.api_keys] == [(18, 4)]


def test_a_message_without_version_encodes_in_any() -> None:
    cls = codec.response(ApiKey.METADATA)
    broker = cls.MetadataResponseBroker(node_id=1, host="h", port=2)
    message = cls(brokers=[broker], topics=[], cluster_id="c", controller_id=1)
    for version in range(13):
        body = bytes(codec.encode_body(message, ApiKey.METADATA, version))
        assert through_kafka_python(3, "response", version, body) == body

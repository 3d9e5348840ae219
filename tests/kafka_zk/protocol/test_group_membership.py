"""JoinGroup, SyncGroup and Heartbeat, decoded and encoded by hand in every version, compared with the tables."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.base.steps import run_to_end
from kafka_zk.protocol import codec
from kafka_zk.protocol import group_membership as by_hand
from kafka_zk.protocol.api_keys import BROKER_VERSIONS, ApiKey, is_flexible
from kafka_zk.protocol.errors import ProtocolError
from kafka_zk.protocol.request import response_body_position
from kafka_zk.protocol.request_limits import MAX_BODY_BYTES, max_elements
from tests.kafka_zk.protocol.strategies import error_code, int32, long_text, text

KEYS = (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.HEARTBEAT)

Join, Sync, Heartbeat = (codec.request(key) for key in KEYS)

nullable = st.one_of(st.none(), text)
metadata = st.binary(max_size=200)


def _members(kind: Any, most: int = 3, **fields: Any) -> Any:
    """Sometimes more members than one step reads."""
    one = st.builds(kind, **fields)
    return st.one_of(st.lists(one, max_size=most), st.lists(one, max_size=1).map(lambda few: few * 100))


REQUESTS = {
    ApiKey.JOIN_GROUP: st.builds(
        Join, group_id=long_text, session_timeout_ms=int32, rebalance_timeout_ms=int32, member_id=text,
        group_instance_id=nullable, protocol_type=text, reason=nullable,
        protocols=_members(Join.JoinGroupRequestProtocol, name=text, metadata=metadata),
    ),
    ApiKey.SYNC_GROUP: st.builds(
        Sync, group_id=long_text, generation_id=int32, member_id=text, group_instance_id=nullable,
        protocol_type=nullable, protocol_name=nullable,
        assignments=_members(Sync.SyncGroupRequestAssignment, member_id=text, assignment=metadata),
    ),
    ApiKey.HEARTBEAT: st.builds(
        Heartbeat, group_id=long_text, generation_id=int32, member_id=text, group_instance_id=nullable
    ),
}  # fmt: skip

READERS: dict[ApiKey, Callable[[int, memoryview], Any]] = {
    ApiKey.JOIN_GROUP: by_hand.read_join_group_request,
    ApiKey.SYNC_GROUP: lambda version, body: run_to_end(by_hand.read_sync_group_request(version, body)),
    ApiKey.HEARTBEAT: by_hand.read_heartbeat_request,
}


def versions(key: ApiKey) -> Any:
    return st.integers(*BROKER_VERSIONS[key])


@st.composite
def bodies(draw: Any) -> tuple[ApiKey, int, bytes]:
    key = draw(st.sampled_from(KEYS))
    version = draw(versions(key))
    return key, version, bytes(codec.encode_body(draw(REQUESTS[key]), key, version))


def by_table(key: ApiKey, version: int, body: bytes) -> Any:
    request = codec.decode_request(key, version, body)

    def since(first: int, value: Any, absent: Any = None) -> Any:
        return value if version >= first else absent

    if key is ApiKey.JOIN_GROUP:
        return by_hand.JoinGroupRequest(
            request.group_id, request.session_timeout_ms,
            since(1, request.rebalance_timeout_ms, request.session_timeout_ms), request.member_id,
            since(5, request.group_instance_id), request.protocol_type,
            tuple((each.name, bytes(each.metadata)) for each in request.protocols), since(8, request.reason),
        )  # fmt: skip
    member = request.group_id, request.generation_id, request.member_id, since(3, request.group_instance_id)
    if key is ApiKey.HEARTBEAT:
        return by_hand.HeartbeatRequest(*member)
    assignments = {each.member_id: bytes(each.assignment) for each in request.assignments}
    return by_hand.SyncGroupRequest(
        *member, since(5, request.protocol_type), since(5, request.protocol_name), assignments
    )


@given(bodies())
def test_a_request_is_read_as_the_table_says(case: tuple[ApiKey, int, bytes]) -> None:
    key, version, body = case
    assert READERS[key](version, memoryview(body)) == by_table(key, version, body)


@given(bodies(), st.data())
def test_a_spoilt_request_is_read_as_the_table_says_or_refused_by_both(
    case: tuple[ApiKey, int, bytes], data: Any
) -> None:
    key, version, whole = case
    body = bytearray(whole[: data.draw(st.integers(0, len(whole)))] if data.draw(st.booleans()) else whole)
    for _ in range(data.draw(st.integers(0, 3)) if body else 0):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF]))
    try:
        expected = by_table(key, version, bytes(body))
    except ProtocolError:
        with pytest.raises(ProtocolError):
            READERS[key](version, memoryview(body))
    else:
        assert READERS[key](version, memoryview(body)) == expected


@given(bodies(), st.binary(max_size=20))
def test_tagged_fields_that_nobody_knows_are_skipped(case: tuple[ApiKey, int, bytes], value: bytes) -> None:
    key, version, body = case
    if not is_flexible(key, version):
        return
    tagged = body[:-1] + bytes([1, 90, len(value)]) + value
    assert READERS[key](version, memoryview(tagged)) == by_table(key, version, body)


@pytest.mark.parametrize(
    ("key", "element"),
    [
        (ApiKey.JOIN_GROUP, b"\0\1n\0\0\0\0"),
        (ApiKey.SYNC_GROUP, b"\0\1n\0\0\0\0"),
    ],
)
def test_elements_are_counted_before_they_are_read(key: ApiKey, element: bytes) -> None:
    count = max_elements(key) + 1
    fronts = {
        ApiKey.JOIN_GROUP: (5, b"\0\1g" + bytes(8) + b"\0\0" + b"\xff\xff" + b"\0\0"),
        ApiKey.SYNC_GROUP: (3, b"\0\1g" + bytes(4) + b"\0\0" + b"\xff\xff"),
    }
    version, front = fronts[key]
    body = memoryview(front + count.to_bytes(4, "big") + element * count)
    with pytest.raises(ProtocolError, match="elements"):
        READERS[key](version, body)
    with pytest.raises(ProtocolError, match="at most"):
        READERS[key](version, memoryview(bytes(MAX_BODY_BYTES + 1)))


def decoded(key: ApiKey, version: int, frame: bytes) -> Any:
    """The response, as the table decodes it; the table must encode it to the same bytes."""
    view = memoryview(frame)
    assert bytes(view[:4]) == b"\0\0\0\7"
    body = view[response_body_position(view, key, version) :]
    answer = codec.decode_response(key, version, body)
    assert bytes(body) == codec.encode_body(answer, key, version)
    return answer


@given(
    versions(ApiKey.JOIN_GROUP), error_code, int32, st.tuples(nullable, nullable), text, text, st.booleans(),
    st.one_of(st.lists(st.tuples(text, nullable, metadata), max_size=3), st.just([("m", None, b"x")] * 130)),
)  # fmt: skip
def test_the_answer_to_a_join_is_what_the_table_reads(
    version: int, error: int, generation_id: int, protocol: tuple[str | None, str | None], leader: str,
    member_id: str, skips: bool, members: list[tuple[str, str | None, bytes]],
) -> None:  # fmt: skip
    frame = run_to_end(
        by_hand.write_join_group_response(
            version, 7, error, generation_id, protocol, leader, member_id, members, skip_assignment=skips
        )
    )
    answer = decoded(ApiKey.JOIN_GROUP, version, frame)
    assert (answer.error_code, answer.generation_id, answer.leader) == (error, generation_id, leader)
    assert answer.member_id == member_id
    if version >= 7:
        assert (answer.protocol_type, answer.protocol_name) == protocol
    else:
        assert answer.protocol_name == (protocol[1] or "")
    if version >= 9:
        assert answer.skip_assignment is skips
    read = [(each.member_id, each.group_instance_id, bytes(each.metadata)) for each in answer.members]
    assert read == [(name, instance if version >= 5 else None, data) for name, instance, data in members]


@given(versions(ApiKey.SYNC_GROUP), error_code, st.tuples(nullable, nullable), metadata)
def test_the_answer_to_a_sync_is_what_the_table_reads(
    version: int, error: int, protocol: tuple[str | None, str | None], assignment: bytes
) -> None:
    frame = by_hand.write_sync_group_response(version, 7, error, protocol, assignment)
    answer = decoded(ApiKey.SYNC_GROUP, version, frame)
    assert (answer.error_code, bytes(answer.assignment)) == (error, assignment)
    if version >= 5:
        assert (answer.protocol_type, answer.protocol_name) == protocol


@given(versions(ApiKey.HEARTBEAT), error_code)
def test_the_answer_to_a_heartbeat_is_what_the_table_reads(version: int, error: int) -> None:
    frame = by_hand.write_heartbeat_response(version, 7, error)
    assert decoded(ApiKey.HEARTBEAT, version, frame).error_code == error

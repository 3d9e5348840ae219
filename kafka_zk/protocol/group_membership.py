"""JoinGroup 0 to 9, SyncGroup 0 to 5 and Heartbeat 0 to 4. With message objects, the joins of a large group would take
a fifth more CPU (``make bench-groups``).

A response may have thousands of members, so generators read and write them. They yield how many bytes of memory
the next elements need or the written ones took, or 0. ``whole`` runs them to the end; ``coded_in_turns`` yields to
other requests. Fields that a version lacks have their defaults. Readers raise ProtocolError.

Source: JoinGroupRequest.json and the like@3.9.
"""

import struct
from collections.abc import Generator, Sequence
from typing import NamedTuple, TypeVar

from kafka_zk.protocol.api_keys import FLEXIBLE_SINCE, ApiKey
from kafka_zk.protocol.errors import ProtocolError
from kafka_zk.protocol.memory import OBJECT_BYTES
from kafka_zk.protocol.primitives import (
    MALFORMED,
    length,
    read_count,
    read_length,
    read_name,
    read_string,
    skip_tagged_fields,
    string,
)
from kafka_zk.protocol.request import response_header
from kafka_zk.protocol.request_limits import MAX_BODY_BYTES, max_elements

_JOIN_FLEXIBLE = FLEXIBLE_SINCE[ApiKey.JOIN_GROUP]
_SYNC_FLEXIBLE = FLEXIBLE_SINCE[ApiKey.SYNC_GROUP]
_HEARTBEAT_FLEXIBLE = FLEXIBLE_SINCE[ApiKey.HEARTBEAT]
_AT_ONCE = 64
_BYTES_AT_ONCE = 64 * 1024

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_TWO_INT32 = struct.Struct(">ii")
_ERROR_AND_GENERATION = struct.Struct(">hi")
_NO_THROTTLE = bytes(4)

T = TypeVar("T")
Steps = Generator[int, None, T]


class JoinGroupRequest(NamedTuple):
    """``rebalance_timeout_ms``: the session timeout before version 1. ``protocols``: (name, metadata) of each."""

    group_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    reason: str | None


class SyncGroupRequest(NamedTuple):
    """``assignments``: by member id. If an id occurs twice, its last assignment counts."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    assignments: dict[str, bytes]


class HeartbeatRequest(NamedTuple):
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None


def read_join_group_request(version: int, body: memoryview) -> JoinGroupRequest:
    """``body``: the frame without its header."""
    try:
        return _read_join(version, body)
    except MALFORMED as error:
        raise _malformed("JoinGroup", version, error) from error


def _read_join(version: int, body: memoryview) -> JoinGroupRequest:
    flexible = version >= _JOIN_FLEXIBLE
    group_id, position = read_name(body, 0, flexible)
    if version >= 1:
        session_timeout_ms, rebalance_timeout_ms = _TWO_INT32.unpack_from(body, position)
        position += 8
    else:
        (session_timeout_ms,) = _INT32.unpack_from(body, position)
        rebalance_timeout_ms = session_timeout_ms
        position += 4
    member_id, position = read_name(body, position, flexible)
    group_instance_id = None
    if version >= 5:
        group_instance_id, position = read_string(body, position, flexible)
    protocol_type, position = read_name(body, position, flexible)
    count, position = _read_array(ApiKey.JOIN_GROUP, body, position, flexible)
    protocols: list[tuple[str, bytes]] = []
    while len(protocols) < count:
        position = _read_named_bytes(body, position, flexible, protocols, count)
    reason = None
    if version >= 8:
        reason, position = read_string(body, position, flexible)
    if flexible:
        skip_tagged_fields(body, position)
    return JoinGroupRequest(
        group_id, session_timeout_ms, rebalance_timeout_ms, member_id, group_instance_id, protocol_type,
        tuple(protocols), reason,
    )  # fmt: skip


def read_sync_group_request(version: int, body: memoryview) -> Steps[SyncGroupRequest]:
    try:
        return (yield from _read_sync(version, body))
    except MALFORMED as error:
        raise _malformed("SyncGroup", version, error) from error


def _read_sync(version: int, body: memoryview) -> Steps[SyncGroupRequest]:
    flexible = version >= _SYNC_FLEXIBLE
    (group_id, generation_id, member_id, group_instance_id), position = _read_member(version, body, flexible)
    protocol_type = protocol_name = None
    if version >= 5:
        protocol_type, position = read_string(body, position, flexible)
        protocol_name, position = read_string(body, position, flexible)
    count, position = _read_array(ApiKey.SYNC_GROUP, body, position, flexible)
    yield count * OBJECT_BYTES
    assignments: list[tuple[str, bytes]] = []
    while len(assignments) < count:
        position = _read_named_bytes(body, position, flexible, assignments, count)
        yield 0
    if flexible:
        skip_tagged_fields(body, position)
    return SyncGroupRequest(
        group_id, generation_id, member_id, group_instance_id, protocol_type, protocol_name, dict(assignments)
    )


def read_heartbeat_request(version: int, body: memoryview) -> HeartbeatRequest:
    flexible = version >= _HEARTBEAT_FLEXIBLE
    try:
        request, position = _read_member(version, body, flexible)
        if flexible:
            skip_tagged_fields(body, position)
    except MALFORMED as error:
        raise _malformed("Heartbeat", version, error) from error
    return request


def _read_member(version: int, body: memoryview, flexible: bool) -> tuple[HeartbeatRequest, int]:
    """Read the fields that Heartbeat and SyncGroup share."""
    group_id, position = read_name(body, 0, flexible)
    (generation_id,) = _INT32.unpack_from(body, position)
    member_id, position = read_name(body, position + 4, flexible)
    group_instance_id = None
    if version >= 3:
        group_instance_id, position = read_string(body, position, flexible)
    return HeartbeatRequest(group_id, generation_id, member_id, group_instance_id), position


def _malformed(name: str, version: int, error: Exception) -> ProtocolError:
    return ProtocolError(f"a malformed {name} request of version {version}: {error}")


def _read_array(api_key: ApiKey, body: memoryview, position: int, flexible: bool) -> tuple[int, int]:
    if len(body) > MAX_BODY_BYTES:
        raise ProtocolError(f"a request of {len(body)} bytes, at most {MAX_BODY_BYTES} are allowed")
    count, position = read_count(body, position, flexible)
    if count > max_elements(api_key):
        raise ProtocolError(f"{count} elements, at most {max_elements(api_key)} are allowed")
    return count, position


def _read_named_bytes(
    body: memoryview, position: int, flexible: bool, found: list[tuple[str, bytes]], count: int
) -> int:
    for _ in range(min(_AT_ONCE, count - len(found))):
        name, position = read_name(body, position, flexible)
        size_bytes, position = read_length(body, position, flexible)
        if size_bytes < 0:
            raise ProtocolError("null instead of bytes")
        end = position + size_bytes
        found.append((name, bytes(body[position:end])))
        position = skip_tagged_fields(body, end) if flexible else end
    return position


def write_join_group_response(
    version: int,
    correlation_id: int,
    error: int,
    generation_id: int,
    protocol: tuple[str | None, str | None],
    leader: str,
    member_id: str,
    members: Sequence[tuple[str, str | None, bytes]],
    *,
    skip_assignment: bool,
) -> Steps[bytes]:
    """Header and body, without the size prefix. ``protocol``: type and name (None is "" before version 7).
    ``members``: (id, group instance id, metadata) of each."""
    flexible = version >= _JOIN_FLEXIBLE
    protocol_type, protocol_name = protocol
    parts = [response_header(ApiKey.JOIN_GROUP, version, correlation_id), _NO_THROTTLE if version >= 2 else b""]
    parts.append(_ERROR_AND_GENERATION.pack(error, generation_id))
    if version >= 7:
        parts += (string(protocol_type, flexible), string(protocol_name, flexible))
    else:
        parts.append(string(protocol_name or "", flexible))
    parts.append(string(leader, flexible))
    if version >= 9:
        parts.append(b"\1" if skip_assignment else b"\0")
    parts += (string(member_id, flexible), length(len(members), flexible))
    tags = b"\0" if flexible else b""
    needed_bytes = 0
    for number, (its_id, group_instance_id, metadata) in enumerate(members, 1):
        needed_bytes += OBJECT_BYTES + len(metadata)
        if number % _AT_ONCE == 0 or needed_bytes >= _BYTES_AT_ONCE:
            yield needed_bytes
            needed_bytes = 0
        parts.append(string(its_id, flexible))
        if version >= 5:
            parts.append(string(group_instance_id, flexible))
        parts += (length(len(metadata), flexible), metadata, tags)
    yield needed_bytes
    parts.append(tags)
    return b"".join(parts)


def write_sync_group_response(
    version: int, correlation_id: int, error: int, protocol: tuple[str | None, str | None], assignment: bytes
) -> bytes:
    """``protocol``: type and name."""
    flexible = version >= _SYNC_FLEXIBLE
    parts = [response_header(ApiKey.SYNC_GROUP, version, correlation_id), _NO_THROTTLE if version >= 1 else b""]
    parts.append(_INT16.pack(error))
    if version >= 5:
        parts += (string(protocol[0], flexible), string(protocol[1], flexible))
    parts += (length(len(assignment), flexible), assignment, b"\0" if flexible else b"")
    return b"".join(parts)


def write_heartbeat_response(version: int, correlation_id: int, error: int) -> bytes:
    body = (_NO_THROTTLE if version >= 1 else b"") + _INT16.pack(error)
    header = response_header(ApiKey.HEARTBEAT, version, correlation_id)
    return header + body + b"\0" if version >= _HEARTBEAT_FLEXIBLE else header + body

"""Partitions' new leaders in tagged fields of Produce and Fetch responses (KIP-951)."""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from kafka_zk.protocol.primitives import (
    Buffer,
    length,
    read_count,
    read_name,
    read_string,
    skip_tagged_fields,
    string,
    unsigned_varint,
)

_LEADER = struct.Struct(">ii")
_INT32 = struct.Struct(">i")


class CurrentLeader(NamedTuple):
    """The leader that a client should try next. Either field is -1 if it is unknown."""

    leader_id: int
    leader_epoch: int


class NodeEndpoint(NamedTuple):
    node_id: int
    host: str
    port: int
    rack: str | None


def tagged_fields(fields: Sequence[tuple[int, bytes]]) -> bytes:
    """``fields``: (tag, value), in the order of their tags."""
    if not fields:
        return b"\x00"
    out = [unsigned_varint(len(fields))]
    for tag, value in fields:
        out += (unsigned_varint(tag), unsigned_varint(len(value)), value)
    return b"".join(out)


def current_leader(leader: CurrentLeader) -> bytes:
    return _LEADER.pack(leader.leader_id, leader.leader_epoch) + b"\x00"


def read_current_leader(buffer: Buffer, position: int) -> CurrentLeader:
    return CurrentLeader(*_LEADER.unpack_from(buffer, position))


def node_endpoints(endpoints: Sequence[NodeEndpoint]) -> bytes:
    """The tagged fields at the end of a response, with ``NodeEndpoints``."""
    if not endpoints:
        return b"\x00"
    out = [length(len(endpoints), True)]
    for endpoint in endpoints:
        out += (
            _INT32.pack(endpoint.node_id),
            string(endpoint.host, True),
            _INT32.pack(endpoint.port),
            string(endpoint.rack, True),
            b"\x00",
        )
    return tagged_fields([(0, b"".join(out))])


def read_node_endpoints(buffer: Buffer, position: int) -> list[NodeEndpoint]:
    count, position = read_count(buffer, position, True)
    endpoints = []
    for _ in range(count):
        (node_id,) = _INT32.unpack_from(buffer, position)
        host, position = read_name(buffer, position + 4, True)
        (port,) = _INT32.unpack_from(buffer, position)
        rack, position = read_string(buffer, position + 4, True)
        position = skip_tagged_fields(buffer, position)
        endpoints.append(NodeEndpoint(node_id, host, port, rack))
    return endpoints

"""Keys and values of the records in ``__consumer_offsets``, in Kafka's formats.

Keys of versions 0 and 1 are for offsets, keys of version 2 for groups; a tombstone removes the key. Values have their
own version. Records are written as by Kafka 3.9: offsets in version 3 (1 with an expiry time), groups in version 3. All
versions can be read, including the flexible version 4.

Source: OffsetCommitKey, OffsetCommitValue, GroupMetadataKey, GroupMetadataValue (messages of 3.9),
GroupMetadataManager.scala@3.9.
"""

import struct
from dataclasses import dataclass
from typing import NamedTuple

from kafka_zk.base.types import TopicPartition
from kafka_zk.protocol.errors import ProtocolError
from kafka_zk.protocol.primitives import (
    MALFORMED,
    Buffer,
    length,
    read_count,
    read_length,
    read_name,
    read_string,
    skip_tagged_fields,
    string,
)

NO_LEADER_EPOCH = -1
NO_EXPIRY = -1
NO_TIMESTAMP = -1

_OFFSET_KEY_VERSIONS = (0, 1)
_OFFSET_KEY_VERSION = 1
_GROUP_KEY_VERSION = 2
_VALUE_VERSIONS = range(5)
_OFFSET_VALUE_VERSION = 3
_OFFSET_VALUE_WITH_EXPIRY = 1
_GROUP_VALUE_VERSION = 3
_FLEXIBLE_SINCE = 4

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_OFFSET_AND_EPOCH = struct.Struct(">hqi")  # version, offset, leader epoch
_OFFSET_WITHOUT_METADATA = struct.Struct(">hqihq")
_OFFSET_WITHOUT_EPOCH = struct.Struct(">hq")


class OffsetKey(NamedTuple):
    group_id: str
    tp: TopicPartition


class GroupKey(NamedTuple):
    """Key of a group's members and generation."""

    group_id: str


class UnknownKey(NamedTuple):
    """A key of an unknown version; ignored, as in Kafka."""

    version: int


Key = OffsetKey | GroupKey | UnknownKey


class OffsetAndMetadata(NamedTuple):
    """A committed offset.

    Attributes:
        offset: the offset of the next record to consume.
        leader_epoch: the leader epoch of the last consumed record.
        metadata: the client's text.
        commit_timestamp_ms: wall clock, or the client's timestamp (version 1).
        expire_timestamp_ms: wall clock, from clients before 2.1.
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int = NO_EXPIRY


@dataclass(frozen=True, slots=True)
class StoredMember:
    """A stored member.

    Attributes:
        group_instance_id: None if dynamic, or before version 3.
        rebalance_timeout_ms: the session timeout if the record is older than version 1.
        subscription: metadata for the group's protocol, or b"".
        assignment: at the time of the write.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class GroupMetadataValue:
    """A stored group.

    Attributes:
        protocol_type: "" before the first member.
        protocol_name: the assignor; None without members.
        leader: member id; None without members.
        state_timestamp_ms: last change of state, wall clock; NO_TIMESTAMP before version 2.
        members: oldest first.
    """

    protocol_type: str
    generation_id: int
    protocol_name: str | None
    leader: str | None
    state_timestamp_ms: int
    members: tuple[StoredMember, ...]


class OffsetKeys:
    """Encodes keys of one group's offsets; consecutive keys of a topic share their prefix."""

    def __init__(self, group_id: str) -> None:
        self._group = _INT16.pack(_OFFSET_KEY_VERSION) + string(group_id, False)
        self._topic: str | None = None
        self._front = b""

    def encode(self, tp: TopicPartition) -> bytes:
        topic, partition = tp
        if topic != self._topic:
            self._topic, self._front = topic, self.front(topic)
        return self._front + _INT32.pack(partition)

    def front(self, topic: str) -> bytes:
        """Prefix of a topic's keys, before the partition (four bytes)."""
        return self._group + string(topic, False)

    @classmethod
    def front_of(cls, raw_key: bytes, key: OffsetKey) -> bytes | None:
        """Prefix of all keys of this group and topic; None if ``encode`` would write the key differently."""
        front = cls(key.group_id).front(key.tp.topic)
        return front if front + _INT32.pack(key.tp.partition) == raw_key else None


def encode_group_key(group_id: str) -> bytes:
    return _INT16.pack(_GROUP_KEY_VERSION) + string(group_id, False)


def decode_key(key: Buffer) -> Key:
    """Decode the key of a record. Raises: ProtocolError."""
    try:
        (version,) = _INT16.unpack_from(key, 0)
        if version in _OFFSET_KEY_VERSIONS:
            group_id, position = read_name(key, 2, False)
            topic, position = read_name(key, position, False)
            (partition,) = _INT32.unpack_from(key, position)
            return OffsetKey(group_id, TopicPartition(topic, partition))
        if version == _GROUP_KEY_VERSION:
            return GroupKey(read_name(key, 2, False)[0])
        return UnknownKey(version)
    except MALFORMED as error:
        raise ProtocolError(f"a malformed key in __consumer_offsets: {error}") from error


def encode_offset_value(committed: OffsetAndMetadata) -> bytes:
    offset, leader_epoch, metadata_text, commit_timestamp_ms, expire_timestamp_ms = committed
    if not metadata_text and expire_timestamp_ms == NO_EXPIRY:  # the usual commit
        return _OFFSET_WITHOUT_METADATA.pack(_OFFSET_VALUE_VERSION, offset, leader_epoch, 0, commit_timestamp_ms)
    metadata = string(committed.metadata, False)
    timestamp = _INT64.pack(committed.commit_timestamp_ms)
    if committed.expire_timestamp_ms != NO_EXPIRY:
        head = _OFFSET_WITHOUT_EPOCH.pack(_OFFSET_VALUE_WITH_EXPIRY, committed.offset)
        return head + metadata + timestamp + _INT64.pack(committed.expire_timestamp_ms)
    head = _OFFSET_AND_EPOCH.pack(_OFFSET_VALUE_VERSION, committed.offset, committed.leader_epoch)
    return head + metadata + timestamp


def decode_offset_value(value: Buffer) -> OffsetAndMetadata:
    """Decode a committed offset. Raises: ProtocolError, also for an unknown version."""
    try:
        if len(value) == _OFFSET_WITHOUT_METADATA.size:  # the usual size, unless the record is truncated
            version, offset, leader_epoch, size, commit_timestamp_ms = _OFFSET_WITHOUT_METADATA.unpack(value)
            if version == _OFFSET_VALUE_VERSION and not size:
                return OffsetAndMetadata(offset, leader_epoch, "", commit_timestamp_ms)
        (version,) = _INT16.unpack_from(value, 0)
        _check_version(version)
        (offset,) = _INT64.unpack_from(value, 2)
        leader_epoch, position = NO_LEADER_EPOCH, 10
        if version >= 3:
            (leader_epoch,) = _INT32.unpack_from(value, position)
            position += 4
        metadata, position = read_name(value, position, version >= _FLEXIBLE_SINCE)
        (commit_timestamp_ms,) = _INT64.unpack_from(value, position)
        expire_timestamp_ms = NO_EXPIRY
        if version == _OFFSET_VALUE_WITH_EXPIRY:
            (expire_timestamp_ms,) = _INT64.unpack_from(value, position + 8)
        return OffsetAndMetadata(offset, leader_epoch, metadata, commit_timestamp_ms, expire_timestamp_ms)
    except MALFORMED as error:
        raise ProtocolError(f"a malformed committed offset: {error}") from error


def encode_group_value(group: GroupMetadataValue) -> bytes:
    parts = [
        _INT16.pack(_GROUP_VALUE_VERSION),
        string(group.protocol_type, False),
        _INT32.pack(group.generation_id),
        string(group.protocol_name, False),
        string(group.leader, False),
        _INT64.pack(group.state_timestamp_ms),
        length(len(group.members), False),
    ]
    for member in group.members:
        parts += (
            string(member.member_id, False),
            string(member.group_instance_id, False),
            string(member.client_id, False),
            string(member.client_host, False),
            _INT32.pack(member.rebalance_timeout_ms),
            _INT32.pack(member.session_timeout_ms),
            length(len(member.subscription), False),
            member.subscription,
            length(len(member.assignment), False),
            member.assignment,
        )
    return b"".join(parts)


def decode_group_value(value: Buffer) -> GroupMetadataValue:
    """Decode a group. Raises: ProtocolError, also for an unknown version."""
    try:
        (version,) = _INT16.unpack_from(value, 0)
        _check_version(version)
        flexible = version >= _FLEXIBLE_SINCE
        protocol_type, position = read_name(value, 2, flexible)
        (generation_id,) = _INT32.unpack_from(value, position)
        protocol_name, position = read_string(value, position + 4, flexible)
        leader, position = read_string(value, position, flexible)
        state_timestamp_ms = NO_TIMESTAMP
        if version >= 2:
            (state_timestamp_ms,) = _INT64.unpack_from(value, position)
            position += 8
        count, position = read_count(value, position, flexible)
        members = []
        for _ in range(count):
            member, position = _read_member(value, position, version)
            members.append(member)
        return GroupMetadataValue(
            protocol_type, generation_id, protocol_name, leader, state_timestamp_ms, tuple(members)
        )
    except MALFORMED as error:
        raise ProtocolError(f"a malformed group: {error}") from error


def _check_version(version: int) -> None:
    if version not in _VALUE_VERSIONS:
        raise ProtocolError(f"a value of version {version} in __consumer_offsets, at most 4 is supported")


def _read_member(value: Buffer, position: int, version: int) -> tuple[StoredMember, int]:
    flexible = version >= _FLEXIBLE_SINCE
    member_id, position = read_name(value, position, flexible)
    group_instance_id = None
    if version >= 3:
        group_instance_id, position = read_string(value, position, flexible)
    client_id, position = read_name(value, position, flexible)
    client_host, position = read_name(value, position, flexible)
    rebalance_timeout_ms = None
    if version >= 1:
        (rebalance_timeout_ms,) = _INT32.unpack_from(value, position)
        position += 4
    (session_timeout_ms,) = _INT32.unpack_from(value, position)
    subscription, position = _read_bytes(value, position + 4, flexible)
    assignment, position = _read_bytes(value, position, flexible)
    if flexible:
        position = skip_tagged_fields(value, position)
    if rebalance_timeout_ms is None:
        rebalance_timeout_ms = session_timeout_ms
    member = StoredMember(
        member_id, group_instance_id, client_id, client_host,
        rebalance_timeout_ms, session_timeout_ms, subscription, assignment,
    )  # fmt: skip
    return member, position


def _read_bytes(value: Buffer, position: int, flexible: bool) -> tuple[bytes, int]:
    size, position = read_length(value, position, flexible)
    if size < 0:
        raise ProtocolError("null instead of bytes")
    return bytes(value[position : position + size]), position + size

"""The formats of __consumer_offsets, against bytes that Apache Kafka wrote and against themselves."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.group.records import (
    GroupKey,
    GroupMetadataValue,
    OffsetAndMetadata,
    OffsetKey,
    OffsetKeys,
    StoredMember,
    UnknownKey,
    decode_group_value,
    decode_key,
    decode_offset_value,
    encode_group_key,
    encode_group_value,
    encode_offset_value,
)
from kafka_zk.protocol.errors import ProtocolError

names = st.text(max_size=20)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
members = st.builds(
    StoredMember, names, st.none() | names, names, names, int32, int32, st.binary(max_size=30), st.binary(max_size=30)
)
groups = st.builds(
    GroupMetadataValue, names, int32, st.none() | names, st.none() | names, int64, st.lists(members).map(tuple)
)


@given(names, names, int32)
def test_keys_read_as_they_were_written(group: str, topic: str, partition: int) -> None:
    key = OffsetKey(group, TopicPartition(topic, partition))
    assert decode_key(OffsetKeys(group).encode(key.tp)) == key
    assert decode_key(encode_group_key(group)) == GroupKey(group)


@given(st.builds(OffsetAndMetadata, int64, int32, names, int64, st.just(-1)))
def test_offsets_read_as_they_were_written(offset: OffsetAndMetadata) -> None:
    assert decode_offset_value(encode_offset_value(offset)) == offset


def test_an_offset_with_an_expiry_is_written_in_the_version_that_has_one() -> None:
    """This record version has no leader epoch."""
    encoded = encode_offset_value(OffsetAndMetadata(7, 3, "m", 1000, 2000))
    assert encoded[:2] == b"\x00\x01"
    assert decode_offset_value(encoded) == OffsetAndMetadata(7, -1, "m", 1000, 2000)


@given(groups)
def test_groups_read_as_they_were_written(group: GroupMetadataValue) -> None:
    assert decode_group_value(encode_group_value(group)) == group


def test_older_and_newer_versions_can_be_read() -> None:
    offset = (5).to_bytes(8, "big")
    timestamp = (1000).to_bytes(8, "big")
    assert decode_offset_value(b"\x00\x00" + offset + b"\x00\x01m" + timestamp) == OffsetAndMetadata(5, -1, "m", 1000)
    flexible = b"\x00\x04" + offset + b"\x00\x00\x00\x02" + b"\x02m" + timestamp + b"\x00"
    assert decode_offset_value(flexible) == OffsetAndMetadata(5, 2, "m", 1000)
    member = b"\x00\x01a" + b"\x00\x01c" + b"\x00\x01h" + b"\x00\x00\x00\x09" + b"\x00\x00\x00\x00" * 2
    group = b"\x00\x00" + b"\x00\x08consumer" + b"\x00\x00\x00\x01" + b"\x00\x05range" + b"\xff\xff"
    decoded = decode_group_value(group + b"\x00\x00\x00\x01" + member)
    assert decoded.members == (StoredMember("a", None, "c", "h", 9, 9, b"", b""),)
    assert (decoded.leader, decoded.state_timestamp_ms) == (None, -1)


def test_a_key_of_an_unknown_version_says_so() -> None:
    assert decode_key(b"\x00\x09rest") == UnknownKey(9)


@pytest.mark.parametrize("decode", [decode_key, decode_offset_value, decode_group_value])
@given(st.binary(max_size=80))
def test_nonsense_is_a_protocol_error_at_most(decode: object, data: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        decode(data)  # type: ignore[operator]


@pytest.mark.parametrize("decode", [decode_offset_value, decode_group_value])
def test_a_value_of_an_unknown_version_is_refused(decode: object) -> None:
    with pytest.raises(ProtocolError, match="version 9"):
        decode(b"\x00\x09" + bytes(40))  # type: ignore[operator]


def test_a_member_without_metadata_or_assignment_is_damage() -> None:
    """Kafka's field tables do not allow null there."""
    member = b"\x00\x01a" + b"\x00\x01c" + b"\x00\x01h" + b"\x00\x00\x00\x09"
    group = b"\x00\x00" + b"\x00\x08consumer" + b"\x00\x00\x00\x01" + b"\x00\x05range" + b"\xff\xff"
    for missing in (b"\xff" * 4 + bytes(4), bytes(4) + b"\xff" * 4):
        with pytest.raises(ProtocolError):
            decode_group_value(group + b"\x00\x00\x00\x01" + member + missing)

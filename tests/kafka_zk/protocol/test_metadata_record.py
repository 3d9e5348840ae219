"""Records of the metadata log: as Kafka writes them; invalid ones raise only ProtocolError."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.protocol.errors import ProtocolError
from kafka_zk.protocol.metadata_record import RecordType, decode, record_class, record_type

MIGRATION_STATE = bytes.fromhex("0115000200")
FEATURE_LEVEL = bytes.fromhex("010c0011") + b"metadata.version" + bytes.fromhex("001500")


def test_a_record_as_kafka_writes_it() -> None:
    kind, record = decode(MIGRATION_STATE)
    assert (kind, record.zk_migration_state) == (RecordType.ZK_MIGRATION_STATE, 2)


def test_a_record_without_a_counterpart_in_zookeeper_has_no_type() -> None:
    assert record_type(FEATURE_LEVEL) is None


@pytest.mark.parametrize("kind", RecordType)
def test_each_type_has_the_table_of_its_number(kind: RecordType) -> None:
    assert record_class(kind).flexible_versions.first == 0


@pytest.mark.parametrize(
    ("value", "text"),
    [(b"\x02\x15\x00\x02\x00", "frame version 2"), (b"\x01\x15\x07\x02\x00", "version 7, which 3.9 does not have"),
     (b"\x01\x15\x00", "malformed"), (b"\x01", "truncated"), (b"", "truncated")],
)  # fmt: skip
def test_what_cannot_be_read(value: bytes, text: str) -> None:
    with pytest.raises(ProtocolError, match=text):
        record_type(value)
        decode(value)


@given(st.sampled_from(RecordType), st.integers(0, 2), st.binary(max_size=200))
def test_garbage_is_a_protocol_error(kind: RecordType, version: int, body: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        decode(bytes([1, kind, version]) + body)

"""The records of ``__remote_log_metadata`` that an Apache Kafka 3.9.1 broker wrote, and malformed ones."""

import contextlib
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.protocol import messages
from kafka_zk.protocol.errors import ProtocolError
from kafka_zk.protocol.message import class_of
from kafka_zk.protocol.remote_log_metadata import decode_remote_log_record, encode_remote_log_record
from kafka_zk.protocol.schema_writer import struct_writer
from kafka_zk.storage.tiered.remote_log_metadata import RemoteLogMetadata
from kafka_zk.storage.tiered.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
    TopicIdPartition,
)

STARTED = bytes.fromhex(
    "010000037474df29f37d87cf4861a08298b602be89830000000000d3a6c557edf4461cb798b472197e4fd3000000000000000000"
    "000000000000003300000000000001a21a4d3c4d000001a21a4d3f75020000000000000000000000000000004caa000000"
)
FINISHED = bytes.fromhex(
    "010100037474df29f37d87cf4861a08298b602be89830000000000d3a6c557edf4461cb798b472197e4fd30000000000000001a2"
    "1a4d4057000100"
)
TT = TopicIdPartition(UUID("df29f37d-87cf-4861-a082-98b602be8983"), "tt", 0)
SEGMENT = RemoteLogSegmentId(TT, UUID("d3a6c557-edf4-461c-b798-b472197e4fd3"))
RECORDED = Path(__file__).with_name("remote_log_metadata_records.txt")


def test_segment_of_kafka_is_decoded() -> None:
    """Every field of the record that begins a copy."""
    assert decode_remote_log_record(STARTED) == RemoteLogSegmentMetadata(
        SEGMENT, 0, 51, 1795737599053, 1795737599861, ((0, 0),), 19626, None, RemoteLogSegmentState.COPY_SEGMENT_STARTED
    )


def test_the_broker_that_began_a_copy_is_decoded() -> None:
    decoded = decode_remote_log_record(STARTED)
    assert isinstance(decoded, RemoteLogSegmentMetadata)
    assert decoded.broker_id == 0
    other = decode_remote_log_record(encode_remote_log_record(decoded, 1001))
    assert isinstance(other, RemoteLogSegmentMetadata)
    assert other.broker_id == 1001


def test_update_of_kafka_is_decoded() -> None:
    """Every field of the record that ends a copy."""
    assert decode_remote_log_record(FINISHED) == RemoteLogSegmentMetadataUpdate(
        SEGMENT, 1795737600087, None, RemoteLogSegmentState.COPY_SEGMENT_FINISHED
    )


@pytest.mark.parametrize("written", [STARTED, FINISHED])
def test_records_are_encoded_as_kafka_does(written: bytes) -> None:
    """Broker 0 wrote both records."""
    record = decode_remote_log_record(written)
    assert not isinstance(record, RemotePartitionDeleteMetadata)
    assert encode_remote_log_record(record, 0) == written


def test_custom_metadata_and_epochs_survive_encoding() -> None:
    """The recorded segments have neither."""
    segment = RemoteLogSegmentMetadata(
        SEGMENT, 5, 300, -1, 7, ((0, 5), (3, 200)), 2**31 - 1, b"x", RemoteLogSegmentState.COPY_SEGMENT_STARTED
    )
    update = RemoteLogSegmentMetadataUpdate(SEGMENT, 8, b"", RemoteLogSegmentState.DELETE_SEGMENT_FINISHED)
    for record in (segment, update):
        assert decode_remote_log_record(encode_remote_log_record(record, 1000)) == record


def test_log_that_kafka_wrote_is_replayed() -> None:
    """The five segments of one topic are readable; the other topic was deleted, and none of its segments remains."""
    metadata = RemoteLogMetadata()
    for line in RECORDED.read_text().splitlines():
        metadata.apply(decode_remote_log_record(bytes.fromhex(line)))
    [(tp, log)] = metadata.partitions.items()
    assert (tp.topic, tp.partition) == ("tt", 0)
    ranges = sorted((each.start_offset, each.end_offset) for each in log.segments.values())
    assert ranges == [(0, 59), (60, 119), (120, 179), (180, 239), (240, 299)]
    assert {each.state for each in log.segments.values()} == {RemoteLogSegmentState.COPY_SEGMENT_FINISHED}


def test_unknown_tagged_fields_are_skipped() -> None:
    """Kafka 4.3 adds a tagged field 0 to the record of a segment."""
    assert decode_remote_log_record(STARTED[:-1] + bytes((1, 0, 1, 1))) == decode_remote_log_record(STARTED)


def test_deletion_of_a_partition_is_decoded() -> None:
    """Brokers of 3.9 do not write this record, but their plugins may."""
    table = class_of(messages, "RemotePartitionDeleteMetadataRecord").table
    struct = table.field("topic_id_partition").struct
    assert struct is not None
    values = {"broker_id": 1, "event_timestamp_ms": 5, "remote_partition_delete_state": 2}
    tp = struct.message_class(name="tt", id=TT.topic_id, partition=0)
    row = table.message_class(topic_id_partition=tp, **values)
    out = bytearray((1, 2, 0))
    struct_writer(table, 0, True)(row, out)
    state = RemotePartitionDeleteState.DELETE_PARTITION_FINISHED
    assert decode_remote_log_record(out) == RemotePartitionDeleteMetadata(TT, 5, state)


@pytest.mark.parametrize(
    "value",
    [None, b"", b"\x02\x00\x00", b"\x01\x03\x00", b"\x01\x00\x01", b"\x01\x63\x00", STARTED[:-2] + b"\x09\x00"],
)  # fmt: skip
def test_unknown_records_are_refused(value: bytes | None) -> None:
    """Empty values, other frames, kinds, versions and states."""
    with pytest.raises(ProtocolError):
        decode_remote_log_record(value)


def test_segment_that_contradicts_itself_is_refused() -> None:
    """One segment ends before it begins, another has no epochs."""
    start_byte, epochs = 51, slice(80, 94)
    for before, changed, after in (
        (STARTED[:start_byte], bytes((52,)), STARTED[start_byte + 1 :]),
        (STARTED[: epochs.start], b"\x01", STARTED[epochs.stop :]),
    ):
        with pytest.raises(ProtocolError, match="invalid offsets or leader epochs of a remote segment"):
            decode_remote_log_record(before + changed + after)


@given(st.binary(max_size=200), st.integers(0, len(STARTED)))
def test_garbage_raises_protocol_error_only(garbage: bytes, kept: int) -> None:
    with contextlib.suppress(ProtocolError):
        decode_remote_log_record(STARTED[:kept] + garbage)

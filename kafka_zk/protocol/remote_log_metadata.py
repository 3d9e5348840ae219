"""Decodes and encodes the records of ``__remote_log_metadata`` (KIP-405). Their keys are null.

Unknown tagged fields are skipped, because later versions of Kafka add such fields. ``kafka-zk tier check`` decodes
records; a broker that copies segments also encodes them.
Source: RemoteLogMetadataSerde.java@3.9.
"""

from functools import cache
from typing import Any

from kafka_zk.protocol import messages
from kafka_zk.protocol.errors import ProtocolError
from kafka_zk.protocol.message import class_of
from kafka_zk.protocol.primitives import MALFORMED, Buffer
from kafka_zk.protocol.record_frame import read_record_frame, record_frame
from kafka_zk.protocol.schema_reader import Allowance, Reader, struct_reader
from kafka_zk.protocol.schema_writer import struct_writer
from kafka_zk.protocol.uuids import ZERO
from kafka_zk.storage.tiered.remote_log_metadata import RemoteLogRecord
from kafka_zk.storage.tiered.segment_metadata import (
    RemoteLogSegmentId,
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    RemoteLogSegmentState,
    RemotePartitionDeleteMetadata,
    RemotePartitionDeleteState,
    TopicIdPartition,
)

_VERSION = 0
_SEGMENT, _UPDATE, _PARTITION_DELETE = range(3)
_NAMES = (
    "RemoteLogSegmentMetadataRecord", "RemoteLogSegmentMetadataUpdateRecord", "RemotePartitionDeleteMetadataRecord",
)  # fmt: skip
_MAX_EPOCHS = 100_000


def decode_remote_log_record(value: Buffer | None) -> RemoteLogRecord:
    """Raises ProtocolError for a malformed record, and for one of an unknown kind or version."""
    try:
        return _decode(value or b"")
    except MALFORMED as error:
        raise ProtocolError(f"a malformed record of remote log metadata: {error}") from error


def _decode(value: Buffer) -> RemoteLogRecord:
    api_key, version, position = read_record_frame(value)
    if api_key >= len(_NAMES) or version != _VERSION:
        raise ProtocolError(f"a record of remote log metadata of kind {api_key}, version {version}")
    row, _ = _reader(api_key)(value, position, Allowance(_MAX_EPOCHS))
    if api_key == _PARTITION_DELETE:
        state = RemotePartitionDeleteState(row.remote_partition_delete_state)
        return RemotePartitionDeleteMetadata(_tp(row.topic_id_partition), row.event_timestamp_ms, state)
    segment_id = RemoteLogSegmentId(_tp(row.remote_log_segment_id.topic_id_partition), _id(row.remote_log_segment_id))
    custom = None if row.custom_metadata is None else bytes(row.custom_metadata)
    segment_state = RemoteLogSegmentState(row.remote_log_segment_state)
    if api_key == _UPDATE:
        return RemoteLogSegmentMetadataUpdate(segment_id, row.event_timestamp_ms, custom, segment_state)
    assert api_key == _SEGMENT
    return RemoteLogSegmentMetadata(
        segment_id, row.start_offset, row.end_offset, row.max_timestamp_ms, row.event_timestamp_ms, _epochs(row),
        row.segment_size_in_bytes, custom, segment_state, row.broker_id,
    )  # fmt: skip


def encode_remote_log_record(
    record: RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate, broker_id: int
) -> bytes:
    """The value of a record that this broker writes."""
    api_key = _SEGMENT if isinstance(record, RemoteLogSegmentMetadata) else _UPDATE
    message = _message(api_key)
    entry = message.RemoteLogSegmentIdEntry
    tp, segment_id = record.segment_id
    row = message(
        remote_log_segment_id=entry(
            topic_id_partition=entry.TopicIdPartitionEntry(name=tp.topic, id=tp.topic_id, partition=tp.partition),
            id=segment_id,
        ),
        broker_id=broker_id,
        event_timestamp_ms=record.event_timestamp_ms,
        custom_metadata=record.custom_metadata,
        remote_log_segment_state=record.state,
    )
    if isinstance(record, RemoteLogSegmentMetadata):
        row.start_offset = record.start_offset
        row.end_offset = record.end_offset
        row.max_timestamp_ms = record.max_timestamp_ms
        row.segment_size_in_bytes = record.size_bytes
        row.segment_leader_epochs = [
            message.SegmentLeaderEpochEntry(leader_epoch=epoch, offset=offset) for epoch, offset in record.leader_epochs
        ]
    value = bytearray(record_frame(api_key, _VERSION))
    struct_writer(message.table, _VERSION, flexible=True)(row, value)
    return bytes(value)


@cache
def _reader(api_key: int) -> Reader:
    return struct_reader(_message(api_key).table, _VERSION, flexible=True)


@cache
def _message(api_key: int) -> Any:
    return class_of(messages, _NAMES[api_key])


def _tp(row: Any) -> TopicIdPartition:
    return TopicIdPartition(_id(row), row.name, row.partition)


def _id(row: Any) -> Any:
    return ZERO if row.id is None else row.id


def _epochs(row: Any) -> tuple[tuple[int, int], ...]:
    """Raises ProtocolError if there are no epochs, or for offsets that the segment does not have."""
    epochs = tuple(sorted((each.leader_epoch, each.offset) for each in row.segment_leader_epochs))
    starts = [start for _, start in epochs]
    if not starts or starts != sorted(starts) or not 0 <= row.start_offset <= row.end_offset:
        raise ProtocolError(
            f"invalid offsets or leader epochs of a remote segment: offsets {row.start_offset} to {row.end_offset}, "
            f"epochs {epochs[:9]}"
        )
    return epochs

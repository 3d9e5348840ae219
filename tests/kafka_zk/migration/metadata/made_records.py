"""Makes records and batches of a metadata log."""

from typing import Any
from uuid import UUID

from kafka_zk.protocol.metadata_record import RecordType, record_class
from kafka_zk.protocol.schema_writer import struct_writer
from kafka_zk.storage.records.record_batch import RecordBatchBuilder

TOPIC_ID = UUID(int=77)


def record(kind: RecordType, version: int = 0, **fields: Any) -> bytes:
    out = bytearray((1, kind, version))
    message = record_class(kind)(**fields)
    struct_writer(message.table, version, flexible=True)(message, out)
    return bytes(out)


def batch(offset: int, *values: bytes, control_type: int | None = None, leader_epoch: int = 1) -> bytes:
    builder = RecordBatchBuilder(control=control_type is not None)
    if control_type is not None:
        builder.append(0, b"\0\0" + control_type.to_bytes(2, "big"), b"")
    for value in values:
        builder.append(0, None, value)
    return builder.build(base_offset=offset, partition_leader_epoch=leader_epoch)


def topic(name: str = "orders") -> bytes:
    return record(RecordType.TOPIC, name=name, topic_id=TOPIC_ID)


def partition(**fields: Any) -> bytes:
    defaults: dict[str, Any] = {
        "partition_id": 0, "topic_id": TOPIC_ID, "replicas": [1, 2], "isr": [2, 1], "adding_replicas": [],
        "removing_replicas": [], "leader": 1, "leader_epoch": 4, "partition_epoch": 9,
    }  # fmt: skip
    return record(RecordType.PARTITION, **{**defaults, **fields})


def change(**fields: Any) -> bytes:
    return record(RecordType.PARTITION_CHANGE, partition_id=0, topic_id=TOPIC_ID, **fields)


def config(value: str | None, key: str = "retention.ms", resource_type: int = 2) -> bytes:
    return record(RecordType.CONFIG, resource_type=resource_type, resource_name="orders", name=key, value=value)


BEGIN = record(RecordType.BEGIN_TRANSACTION, name="ZK Migration")
END = record(RecordType.END_TRANSACTION)
ABORT = record(RecordType.ABORT_TRANSACTION, reason="a new leader")

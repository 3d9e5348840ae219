"""Records of KRaft's metadata log: those that have a counterpart in ZooKeeper, and what encloses them.

A value is a frame version (1), the record's type, its version, and its fields; the three numbers are unsigned varints.
The fields' tables in ``metadata_records/`` use the format of ``field_table``.
Source: MetadataRecordSerde.java, AbstractApiMessageSerde.java, metadata/src/main/resources/common/metadata@3.9.
"""

import enum
from functools import cache
from typing import Any

from kafka_zk.protocol import metadata_records
from kafka_zk.protocol.errors import ProtocolError
from kafka_zk.protocol.message import class_of
from kafka_zk.protocol.primitives import MALFORMED, Buffer, read_unsigned_varint
from kafka_zk.protocol.schema_reader import Allowance, Reader, struct_reader

_FRAME_VERSION = 1
_MOST_ELEMENTS = 100_000  # of a record's arrays; a partition has a few replicas


class RecordType(enum.IntEnum):
    """The number (``apiKey``) of each record that has a table."""

    TOPIC = 2
    PARTITION = 3
    CONFIG = 4
    PARTITION_CHANGE = 5
    REMOVE_TOPIC = 9
    DELEGATION_TOKEN = 10
    USER_SCRAM_CREDENTIAL = 11
    CLIENT_QUOTA = 14
    PRODUCER_IDS = 15
    ACCESS_CONTROL_ENTRY = 18
    REMOVE_ACCESS_CONTROL_ENTRY = 19
    ZK_MIGRATION_STATE = 21
    REMOVE_USER_SCRAM_CREDENTIAL = 22
    BEGIN_TRANSACTION = 23
    END_TRANSACTION = 24
    ABORT_TRANSACTION = 25
    REMOVE_DELEGATION_TOKEN = 26


def record_type(value: Buffer) -> RecordType | None:
    """None for a record without a table, such as NoOpRecord. Raises ProtocolError."""
    try:
        return RecordType(_type_and_version(value)[0])
    except ValueError:
        return None


def decode(value: Buffer) -> tuple[RecordType, Any]:
    """The type and fields of a record that has a table. Raises ProtocolError, also for versions after 3.9."""
    number, version, position = _type_and_version(value)
    try:
        record, _ = _reader(RecordType(number), version)(value, position, Allowance(_MOST_ELEMENTS))
    except MALFORMED as error:
        raise ProtocolError(f"a malformed metadata record of type {number}, version {version}: {error}") from error
    return RecordType(number), record


@cache
def record_class(kind: RecordType) -> Any:
    return class_of(metadata_records, kind.name.title().replace("_", "") + "Record")


def _type_and_version(value: Buffer) -> tuple[int, int, int]:
    try:
        frame_version, position = read_unsigned_varint(value, 0)
        number, position = read_unsigned_varint(value, position)
        version, position = read_unsigned_varint(value, position)
    except MALFORMED:
        raise ProtocolError(f"a truncated metadata record of {len(value)} bytes") from None
    if frame_version != _FRAME_VERSION:
        raise ProtocolError(f"a metadata record with frame version {frame_version}, expected {_FRAME_VERSION}")
    return number, version, position


@cache
def _reader(kind: RecordType, version: int) -> Reader:
    found = record_class(kind)
    if not found.valid_versions.include(version):
        raise ProtocolError(f"a metadata record of type {int(kind)} has version {version}, which 3.9 does not have")
    return struct_reader(found.table, version, flexible=True)

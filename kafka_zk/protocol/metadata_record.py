"""Records of KRaft's metadata log: those that have a counterpart in ZooKeeper, and transactions' begins and ends.

The fields' tables in ``metadata_records/`` use the format of ``field_table``.
Source: MetadataRecordSerde.java, metadata/src/main/resources/common/metadata@3.9.
"""

import enum
from functools import cache
from typing import Any

from kafka_zk.protocol import metadata_records
from kafka_zk.protocol.errors import ProtocolError
from kafka_zk.protocol.message import class_of
from kafka_zk.protocol.primitives import MALFORMED, Buffer
from kafka_zk.protocol.record_frame import read_record_frame
from kafka_zk.protocol.schema_reader import Allowance, Reader, struct_reader

_MOST_ELEMENTS = 100_000  # limit for a record's arrays; a partition has a few replicas


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
        return RecordType(read_record_frame(value)[0])
    except ValueError:
        return None


def decode(value: Buffer) -> tuple[RecordType, Any]:
    """The type and fields of a record that has a table. Raises ProtocolError, also for versions after 3.9."""
    number, version, position = read_record_frame(value)
    try:
        record, _ = _reader(RecordType(number), version)(value, position, Allowance(_MOST_ELEMENTS))
    except MALFORMED as error:
        raise ProtocolError(f"a malformed metadata record of type {number}, version {version}: {error}") from error
    return RecordType(number), record


@cache
def record_class(kind: RecordType) -> Any:
    return class_of(metadata_records, kind.name.title().replace("_", "") + "Record")


@cache
def _reader(kind: RecordType, version: int) -> Reader:
    found = record_class(kind)
    if not found.valid_versions.include(version):
        raise ProtocolError(f"a metadata record of type {int(kind)} has version {version}, which 3.9 does not have")
    return struct_reader(found.table, version, flexible=True)

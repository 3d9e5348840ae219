"""Groups and offsets in a partition of ``__consumer_offsets``: each key's last record.

Source: GroupMetadataManager.doLoadGroupsAndOffsets@3.9. Tests: tests/kafka_zk/broker/group/test_offset_manager.py.
"""

import struct
from collections.abc import Iterator

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.coordinator.log_reading import LastValues, LogReading
from kafka_zk.broker.group.offsets import OpenTransactions
from kafka_zk.broker.group.records import (
    GroupKey,
    GroupMetadataValue,
    OffsetAndMetadata,
    OffsetKey,
    OffsetKeys,
    decode_group_value,
    decode_key,
    decode_offset_value,
)
from kafka_zk.broker.group.transactional_offsets import Marker, Written
from kafka_zk.broker.replica.manager import ReplicaManager
from kafka_zk.protocol.errors import ProtocolError
from kafka_zk.storage.records.end_transaction_marker import COMMIT_MARKER, NO_TYPE, marker_of
from kafka_zk.storage.records.record_batch import BatchHeader

_INT32 = struct.Struct(">i")


class LoadedPartition(LogReading):
    """The partition's groups, offsets and open transactions; complete after ``load_steps``.

    ``ended``: producer id -> the producer's first marker since loading began.
    """

    OLD_VERSION, NEW_VERSION = b"\0\0", b"\0\1"  # offset keys before 0.9

    def __init__(self) -> None:
        super().__init__()
        self.ended: dict[int, Marker] = {}
        self.groups: dict[str, GroupMetadataValue] = {}
        self.offsets: dict[str, dict[TopicPartition, OffsetAndMetadata]] = {}
        self.open_transactions: dict[str, OpenTransactions] = {}
        self.group_count = 0
        self._front: bytes | None = None  # prefix of the last decoded key; _topic and _of_group belong to it
        self._topic = ""
        self._of_group: dict[TopicPartition, OffsetAndMetadata] = {}
        self._pending: dict[int, LastValues] = {}  # producer id -> records without a marker so far

    def load_steps(self, replicas: ReplicaManager, tp: TopicPartition, buffer_bytes: int) -> Iterator[None]:
        """Like ``LogReading.load_steps``, but keeps the records before damage. Otherwise, members would be unknown and
        commits lost."""
        yield from super().load_steps(replicas, tp, buffer_bytes)
        self.group_count = len(self.group_ids)

    @property
    def group_ids(self) -> list[str]:
        """Ids of all groups with a record in this partition."""
        return list(dict.fromkeys((*self.groups, *self.offsets, *self.open_transactions)))

    def _values_of(self, header: BatchHeader) -> LastValues:
        return self._pending.setdefault(header.producer_id, {}) if header.is_transactional else self._last

    def _take_marker(self, data: bytes, position: int, header: BatchHeader) -> None:
        marker = marker_of(memoryview(data)[position : position + header.size_bytes], header)
        if marker is None:
            return  # compaction removed the marker, after the transaction's records
        pending = self._pending.pop(header.producer_id, {})
        if marker.type == NO_TYPE:
            self._skip(header.base_offset, "a control record without a type")
        elif marker.type == COMMIT_MARKER:
            for key, (base_offset, value) in pending.items():
                if key not in self._last or self._last[key][0] < base_offset:
                    self._last[key] = base_offset, value

    def _before_decoding(self) -> Iterator[None]:
        """Save open transactions with base offsets, which decoding discards."""
        for producer_id, pending in self._pending.items():
            for raw_key, (base_offset, value) in pending.items():
                try:
                    key = decode_key(raw_key)
                    if not isinstance(key, OffsetKey):
                        raise ProtocolError("a transaction with records other than committed offsets")
                    written = Written(decode_offset_value(value), base_offset)
                except ProtocolError as error:
                    self._skip(base_offset, str(error))
                    continue
                found = self.open_transactions.setdefault(key.group_id, OpenTransactions())
                found.offsets.setdefault(producer_id, {})[key.tp] = written
                if raw_key in self._last:
                    found.committed[key.tp] = self._last[raw_key][0]
            yield
        self._pending.clear()

    def _decode(self, raw_key: bytes, base_offset: int, value: bytes) -> None:
        if raw_key[:-4] == self._front:  # usually keys differ only in the partition
            tp = TopicPartition(self._topic, _INT32.unpack_from(raw_key, len(raw_key) - 4)[0])
            self._of_group[tp] = decode_offset_value(value)
            return
        key = decode_key(raw_key)
        if isinstance(key, OffsetKey):
            committed = decode_offset_value(value)
            self._of_group = self.offsets.setdefault(key.group_id, {})
            self._of_group[key.tp] = committed
            self._front, self._topic = OffsetKeys.front_of(raw_key, key), key.tp.topic
        elif isinstance(key, GroupKey):
            self.groups[key.group_id] = _consistent(decode_group_value(value))
        else:
            self._skip(base_offset, f"a key of the unknown version {key.version}")


def _consistent(group: GroupMetadataValue) -> GroupMetadataValue:
    """Check that the members can belong to one group."""
    members = group.members
    instance_ids = [member.group_instance_id for member in members if member.group_instance_id is not None]
    if len({member.member_id for member in members}) < len(members) or len(set(instance_ids)) < len(instance_ids):
        raise ProtocolError("a group that has a member twice")
    if members and group.protocol_name is None:
        raise ProtocolError("a group with members and without a protocol")
    return group

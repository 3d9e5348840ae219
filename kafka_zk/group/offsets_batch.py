"""The record batch of one commit of offsets: every consumer writes one every few seconds."""

import struct
from collections.abc import Iterable

from kafka_zk.group.records import NO_EXPIRY, OffsetAndMetadata, OffsetKeys, encode_offset_value
from kafka_zk.storage.record_batch import assemble_batch
from kafka_zk.storage.types import TopicPartition
from kafka_zk.storage.varint import encode_varint

_PARTITION = struct.Struct(">i")
_PARTITION_AND_VALUE = struct.Struct(">iBhqihqB")
"""What a record ends with if no metadata are committed: partition, the value's length, its version, offset, leader
epoch, the length of the metadata, timestamp, the number of headers."""

_VALUE_LENGTH = 2 * 24  # as a varint
_VALUE_VERSION = 3


class OffsetsBatch:
    """``offsets`` are those that were added; of metadata above ``metadata_max_bytes`` none are."""

    def __init__(self, group_id: str, now_ms: int, metadata_max_bytes: int) -> None:
        self.offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        self._keys = OffsetKeys(group_id)
        self._now_ms = now_ms
        self._metadata_max_bytes = metadata_max_bytes
        self._topic: str | None = None
        self._front = b""  # of the topic's keys, after their length
        self._parts: list[bytes] = []

    def add(self, offsets: Iterable[tuple[TopicPartition, OffsetAndMetadata]]) -> None:
        """Some more, each for a partition that has none yet."""
        added, parts = self.offsets, self._parts
        for tp, committed in offsets:
            topic, partition = tp
            if topic != self._topic:
                self._begin_topic(topic)
            offset, leader_epoch, metadata, commit_ms, expire_ms = committed
            if not metadata and expire_ms == NO_EXPIRY:  # as most clients commit
                end = _PARTITION_AND_VALUE.pack(
                    partition, _VALUE_LENGTH, _VALUE_VERSION, offset, leader_epoch, 0, commit_ms, 0
                )
            elif len(metadata) <= self._metadata_max_bytes:
                value = encode_offset_value(committed)
                end = b"".join((_PARTITION.pack(partition), encode_varint(len(value)), value, b"\0"))
            else:
                continue
            record = b"".join((b"\0\0", encode_varint(len(added)), self._front, end))
            parts += (encode_varint(len(record)), record)
            added[tp] = committed

    def _begin_topic(self, topic: str) -> None:
        front = self._keys.front(topic)
        self._topic, self._front = topic, encode_varint(len(front) + _PARTITION.size) + front

    def build(self) -> bytearray:
        """The batch."""
        return assemble_batch(
            b"".join(self._parts),
            attributes=0,
            record_count=len(self.offsets),
            base_timestamp=self._now_ms,
            max_timestamp=self._now_ms,
        )

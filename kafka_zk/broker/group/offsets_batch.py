"""An offset commit's record batch. Optimised, because every consumer commits every few seconds."""

import struct
from collections.abc import Collection, Iterable
from functools import lru_cache
from itertools import chain, repeat

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.group.records import NO_EXPIRY, OffsetAndMetadata, OffsetKeys, encode_offset_value
from kafka_zk.broker.group.transactional_offsets import Producer
from kafka_zk.storage.records.record_batch import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_FLAG,
    assemble_batch,
    set_crc,
)
from kafka_zk.storage.records.varint import encode_varint, encode_varints

_PARTITION = struct.Struct(">i")
_PARTITION_AND_VALUE = struct.Struct(">i3sqi2xqx")
"""End of a record without metadata or headers: partition, ``_VALUE_BEGINS``, offset, leader epoch, timestamp."""

_VALUE_BEGINS = encode_varint(24) + b"\0\3"  # the value's length and version
_RECORD_BEGINS = b"\0\0"  # attributes, timestamp delta
_MANY = 8  # from this many offsets on, adding by column is faster than a loop
_NO_PRODUCER = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE)
_SEQUENCE = 0  # all batches of a transaction have this sequence, as in Kafka; it is not checked
_LONGEST_CACHED = 255  # length of a group id; topic names are shorter


class OffsetsBatch:
    """The records of one commit.

    Attributes:
        offsets: the offsets added, except those whose metadata exceeds ``metadata_max_bytes``.
        metadata_bytes: total length of their metadata.
        now_ms: timestamp of the records, in ms since the epoch.
    """

    def __init__(self, group_id: str, now_ms: int, metadata_max_bytes: int) -> None:
        self.offsets: dict[TopicPartition, OffsetAndMetadata] = {}
        self.metadata_bytes = 0
        self.now_ms = now_ms
        self._group_id = group_id
        self._metadata_max_bytes = metadata_max_bytes
        self._parts: list[bytes] = []

    def add(self, offsets: Collection[tuple[TopicPartition, OffsetAndMetadata]]) -> None:
        """Add offsets of partitions that were not added before."""
        if len(offsets) < _MANY or not self._add_plain(offsets):
            self._add_one_by_one(offsets)

    def _add_one_by_one(self, offsets: Iterable[tuple[TopicPartition, OffsetAndMetadata]]) -> None:
        added = self.offsets
        known: str | None = None
        front = b""
        for tp, committed in offsets:
            topic, partition = tp
            if topic != known:
                known, front = topic, self._front(topic)
            offset, leader_epoch, metadata, commit_ms, expire_ms = committed
            if not metadata and expire_ms == NO_EXPIRY:  # the usual case
                end = _PARTITION_AND_VALUE.pack(partition, _VALUE_BEGINS, offset, leader_epoch, commit_ms)
            elif len(metadata) <= self._metadata_max_bytes:
                value = encode_offset_value(committed)
                self.metadata_bytes += len(metadata)
                end = b"".join((_PARTITION.pack(partition), encode_varint(len(value)), value, b"\0"))
            else:
                continue
            record = b"".join((_RECORD_BEGINS, encode_varint(len(added)), front, end))
            self._parts += (encode_varint(len(record)), record)
            added[tp] = committed

    def _add_plain(self, offsets: Iterable[tuple[TopicPartition, OffsetAndMetadata]]) -> bool:
        """Add many offsets by column, which takes half the time. If an offset has metadata or an expiry time, returns
        False and adds none."""
        tps, committed = zip(*offsets, strict=True)
        values, epochs, metadata, commits_ms, expires_ms = zip(*committed, strict=True)
        if any(metadata) or expires_ms.count(NO_EXPIRY) < len(expires_ms):
            return False
        topics, partitions = zip(*tps, strict=True)
        fronts = {topic: self._front(topic) for topic in dict.fromkeys(topics)}
        ends = map(_PARTITION_AND_VALUE.pack, partitions, repeat(_VALUE_BEGINS), values, epochs, commits_ms)
        first = len(self.offsets)
        deltas = encode_varints(range(first, first + len(tps)))
        columns = repeat(_RECORD_BEGINS, len(tps)), deltas, map(fronts.__getitem__, topics), ends
        records = list(map(b"".join, zip(*columns, strict=True)))
        lengths = encode_varints(list(map(len, records)))
        self._parts += chain.from_iterable(zip(lengths, records, strict=True))
        self.offsets.update(offsets)
        return True

    def _front(self, topic: str) -> bytes:
        group_id = self._group_id
        return _cached_front(group_id, topic) if len(group_id) <= _LONGEST_CACHED else _front(group_id, topic)

    def build(self, producer: Producer | None = None) -> bytearray:
        """The batch; transactional if ``producer`` is given."""
        return assemble_batch(
            b"".join(self._parts),
            attributes=0 if producer is None else TRANSACTIONAL_FLAG,
            producer=_NO_PRODUCER if producer is None else (*producer, _SEQUENCE),
            record_count=len(self.offsets),
            base_timestamp=self.now_ms,
            max_timestamp=self.now_ms,
        )


class EncodedBatch(OffsetsBatch):
    """Offsets without metadata whose batch the native module has encoded. ``batch``: the batch without its CRC."""

    def __init__(self, offsets: dict[TopicPartition, OffsetAndMetadata], now_ms: int, batch: bytearray) -> None:
        self.offsets = offsets
        self.metadata_bytes = 0
        self.now_ms = now_ms
        self._batch = batch

    def build(self, producer: Producer | None = None) -> bytearray:
        assert producer is None, "commits in transactions have batches of their own"
        set_crc(self._batch)
        return self._batch


def _front(group_id: str, topic: str) -> bytes:
    """A topic's keys up to the partition, after their length."""
    front = OffsetKeys(group_id).front(topic)
    return encode_varint(len(front) + _PARTITION.size) + front


_cached_front = lru_cache(maxsize=4096)(_front)

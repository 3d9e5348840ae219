"""Decodes records, one batch at a time.

Pure.
"""

from typing import Any, NamedTuple

from kafka_zk.base.types import TopicPartition
from kafka_zk.storage.files.errors import CorruptRecord, InvalidRecord, StorageError
from kafka_zk.storage.records.record_batch import BatchHeader, Buffer, Header, check_crc
from kafka_zk.storage.records.record_decoder import decode_records


class ConsumerRecord(NamedTuple):
    """One record and its place.

    ``timestamp_ms``: set by the producer, or by the broker if the topic has LogAppendTime (``is_log_append_time``).
    ``leader_epoch``: the epoch of the leader that wrote the record; -1 if unknown. ``key``, ``value``: bytes or None,
    or the results of the deserializers.
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: Any
    value: Any
    headers: tuple[Header, ...]
    leader_epoch: int
    is_log_append_time: bool

    @property
    def tp(self) -> TopicPartition:
        """The topic and partition."""
        return TopicPartition(self.topic, self.partition)


def decode_batch(
    tp: TopicPartition,
    data: Buffer,
    position: int,
    header: BatchHeader,
    from_offset: int,
    check_crcs: bool,
    is_aborted: bool = False,
) -> list[ConsumerRecord]:
    """The records of one batch from ``from_offset`` on; none of control batches and aborted transactions.

    Raises: CorruptRecord if the CRC (if checked) is wrong or decompression fails; InvalidRecord.
    """
    if check_crcs:
        check_crc(data, position, header)
    if header.is_control or is_aborted:
        return []
    topic, partition = tp
    epoch = header.partition_leader_epoch
    appended = header.timestamp_type == "LogAppendTime"
    make = tuple.__new__  # the constructor of a NamedTuple takes three times as long
    records: list[ConsumerRecord] = [
        make(ConsumerRecord, (topic, partition, offset, timestamp_ms, key, value, headers, epoch, appended))
        for offset, timestamp_ms, key, value, headers in decode_records(data, position)
    ]
    if records and records[0].offset < from_offset:
        records = [record for record in records if record.offset >= from_offset]
    return records


def is_unreadable(data: Buffer, position: int, header: BatchHeader, error: StorageError) -> bool:
    """True if the producer wrote an invalid batch, so that no other fetch or replica returns a valid one."""
    if not isinstance(error, CorruptRecord | InvalidRecord):
        return False
    try:
        check_crc(data, position, header)
    except CorruptRecord:
        return False
    return True

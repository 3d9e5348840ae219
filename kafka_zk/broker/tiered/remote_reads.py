"""Reads of a partition's records that are only in remote storage, for consumers and ListOffsets.

Where to read is decided on the reactor thread; the store is read on threads, within a deadline.
Source: RemoteLogReader.java, DelayedRemoteFetch.scala, UnifiedLog.fetchOffsetByTimestamp@3.9.
"""

from itertools import islice
from typing import NamedTuple

from kafka_zk.base.types import FetchIsolation, TimestampOffset
from kafka_zk.broker.replica.partition import Partition
from kafka_zk.broker.tiered.remote_log_metadata_manager import MetadataUnavailable, RemoteLogMetadataManager
from kafka_zk.broker.tiered.storage_calls import StorageCalls
from kafka_zk.protocol import uuids
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.storage.files.errors import OffsetOutOfRange
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.records.record_batch import read_header
from kafka_zk.storage.segments.transaction_index import AbortedTransaction
from kafka_zk.storage.tiered.epoch_lineage import RemoteExtent, extents, latest_tiered_offset, locate
from kafka_zk.storage.tiered.object_store import ObjectStoreError
from kafka_zk.storage.tiered.remote_log_metadata import RemotePartitionLog
from kafka_zk.storage.tiered.remote_segment_reader import RemoteSegmentReader
from kafka_zk.storage.tiered.segment_metadata import TopicIdPartition

READ_TIMEOUT_S = 5.0
"""Unlike in Kafka, where a read gets 500 ms and its result is lost afterwards: slow stores would never serve any."""
_MOST_BYTES = 1 << 20
_MOST_SEGMENTS = 10_000


class RemoteRecords(NamedTuple):
    """Whole batches. ``aborted``: with records in them; only for read_committed."""

    records: bytes
    aborted: list[AbortedTransaction]


NOTHING_YET = RemoteRecords(b"", [])


class RemoteReads:
    def __init__(self, metadata: RemoteLogMetadataManager, reader: RemoteSegmentReader, calls: StorageCalls) -> None:
        self._metadata = metadata
        self._reader = reader
        self._calls = calls

    async def read(
        self, partition: Partition, log: Log, offset: int, max_bytes: int, isolation: FetchIsolation
    ) -> RemoteRecords:
        """Records from ``offset`` on, which is before the first local one; NOTHING_YET if the store or the metadata do
        not answer now. At most 1 MiB, unless one batch is larger.

        Raises: OffsetOutOfRange if no segment has the offset; CorruptRecord, OSError.
        """
        try:
            extent = await self._located(partition, log, offset)
            following = self._following(partition, log, extent) if isolation is FetchIsolation.TXN_COMMITTED else None
            visible = extent._replace(last=min(extent.last, log.readable_end(isolation) - 1))
            found, is_complete = await self._calls.call(
                lambda: self._read(visible, min(max_bytes, _MOST_BYTES), following), READ_TIMEOUT_S
            )
        except (ObjectStoreError, MetadataUnavailable):
            return NOTHING_YET
        if not is_complete:
            found.aborted.extend(log.aborted_transactions(offset, _end_of(found.records)))
        return found

    async def _located(self, partition: Partition, log: Log, offset: int) -> RemoteExtent:
        """Raises: OffsetOutOfRange, MetadataUnavailable."""
        lineage, end = log.leader_epochs.entries, log.log_end_offset
        found = locate(self._log(partition), lineage, offset, end)
        if found is None:
            tp = _id_of(partition)
            found = locate(await self._metadata.complete_log(tp), lineage, offset, end)
        if found is None:
            raise OffsetOutOfRange(f"{log.tp}: no remote segment has offset {offset}")
        return found

    def _following(self, partition: Partition, log: Log, extent: RemoteExtent) -> list[RemoteExtent]:
        start, end = extent.last + 1, log.local_log_start_offset
        return list(islice(extents(self._log(partition), log.leader_epochs.entries, start, end), _MOST_SEGMENTS))

    def _read(
        self, extent: RemoteExtent, max_bytes: int, following: list[RemoteExtent] | None
    ) -> tuple[RemoteRecords, bool]:
        """On a thread. Also returns whether no later segment has more aborted transactions. ``following``: None if they
        are not wanted."""
        records = self._reader.read(extent, max_bytes)
        if following is None:
            return RemoteRecords(records, []), True
        segments = [extent.segment, *(each.segment for each in following)]
        aborted, is_complete = self._reader.aborted_transactions(segments, extent.first, _end_of(records))
        return RemoteRecords(records, aborted), is_complete

    def latest_tiered(self, partition: Partition, log: Log) -> int:
        """The last offset that was copied; -1 if none was."""
        return latest_tiered_offset(self._log(partition), log.leader_epochs.entries, log.log_end_offset)

    async def offset_for_timestamp(self, partition: Partition, log: Log, timestamp_ms: int) -> TimestampOffset | None:
        """The first record before the local ones with at least this timestamp.

        Raises: ApiError(OFFSET_NOT_AVAILABLE) while remote storage does not answer, so that clients retry;
            CorruptRecord.
        """
        try:
            remote = await self._metadata.complete_log(_id_of(partition))
            start, end = log.log_start_offset, log.local_log_start_offset
            places = list(islice(extents(remote, log.leader_epochs.entries, start, end), _MOST_SEGMENTS))
            return await self._calls.call(
                lambda: self._reader.offset_for_timestamp(places, timestamp_ms), READ_TIMEOUT_S
            )
        except (ObjectStoreError, MetadataUnavailable) as error:
            raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE, str(error)) from error

    def _log(self, partition: Partition) -> RemotePartitionLog:
        return self._metadata.log(_id_of(partition))


def _end_of(records: bytes) -> int:
    """The offset after the last batch; 0 without one."""
    end, position = 0, 0
    while position < len(records):
        header = read_header(records, position)
        end = header.next_offset
        position += header.size_bytes
    return end


def _id_of(partition: Partition) -> TopicIdPartition:
    assert partition.topic_id != uuids.ZERO, "a tiered topic has an id"
    return TopicIdPartition(partition.topic_id, partition.tp.topic, partition.tp.partition)

"""Reads of a partition's records that are only in remote storage, for consumers and ListOffsets.

Where to read is decided on the reactor thread; the store is read on threads, within a deadline.
Source: RemoteLogReader.java, DelayedRemoteFetch.scala, UnifiedLog.fetchOffsetByTimestamp@3.9.
"""

from functools import partial
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
_PLACES_AT_ONCE = 64
"""Of segments that are looked up in one turn of the reactor."""


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
    ) -> RemoteRecords | None:
        """Records from ``offset`` on, which is before the first local one; NOTHING_YET if the store or the metadata do
        not answer now. At most 1 MiB, unless one batch is larger. None if compaction, before the topic was tiered,
        removed all records from there to the first local one.

        Raises: OffsetOutOfRange if no segment has the offset; CorruptRecord, OSError.
        """
        try:
            while offset < log.local_log_start_offset:
                extent = await self._located(partition, log, offset)
                visible = extent._replace(last=min(extent.last, log.readable_end(isolation) - 1))
                records = await self._calls.call(
                    partial(self._reader.read, visible, min(max_bytes, _MOST_BYTES)), READ_TIMEOUT_S
                )
                if records:
                    is_filtered = isolation is FetchIsolation.TXN_COMMITTED
                    aborted = await self._aborted(partition, log, extent, _end_of(records)) if is_filtered else []
                    return RemoteRecords(records, aborted)
                if visible.last < extent.last:
                    return NOTHING_YET
                offset = extent.last + 1
        except (ObjectStoreError, MetadataUnavailable):
            return NOTHING_YET
        return None

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

    async def _aborted(
        self, partition: Partition, log: Log, extent: RemoteExtent, end_offset: int
    ) -> list[AbortedTransaction]:
        """Aborted transactions with records from the extent's first offset to before ``end_offset``. Their markers may
        be in later segments, and local ones may become remote meanwhile.

        Raises: ObjectStoreError, OSError.
        """
        start_offset, places = extent.first, [extent]
        found: list[AbortedTransaction] = []
        while places:
            segments, following = [place.segment for place in places], places[-1].last + 1
            some, is_complete = await self._calls.call(
                partial(self._reader.aborted_transactions, segments, start_offset, end_offset), READ_TIMEOUT_S
            )
            found += some
            if is_complete:
                break
            lineage, local_start = log.leader_epochs.entries, log.local_log_start_offset
            places = list(islice(extents(self._log(partition), lineage, following, local_start), _PLACES_AT_ONCE))
        else:
            found += log.aborted_transactions(start_offset, end_offset)
        return list(dict.fromkeys(found))  # a segment has a place for each of its epochs

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

"""Reads records that are only in remote storage, for consumers and ListOffsets.

Where to read is decided on the reactor thread; the store is read on threads, within a deadline.
Source: RemoteLogReader.java, DelayedRemoteFetch.scala, UnifiedLog.fetchOffsetByTimestamp@3.9.
"""

from functools import partial
from itertools import islice
from uuid import UUID

from twisted.internet.defer import ensureDeferred
from twisted.logger import Logger

from kafka_zk.base.clock import Timers
from kafka_zk.base.types import FetchIsolation, TimestampOffset, TopicPartition
from kafka_zk.broker.replica.partition import Partition
from kafka_zk.broker.tiered.broker_topic_stats import RequestRates
from kafka_zk.broker.tiered.remote_log_metadata_manager import MetadataUnavailable, RemoteLogMetadataManager
from kafka_zk.broker.tiered.rlm_quota_manager import RLMQuotaManager
from kafka_zk.broker.tiered.storage_calls import StorageCalls
from kafka_zk.broker.tiered.unclaimed_reads import ReadKey, RemoteRead, RemoteRecords, UnclaimedReads
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

_log = Logger()

READ_TIMEOUT_S = 5.0
"""Time limit of a call to the store."""
_MOST_BYTES = 1 << 20
_MOST_SEGMENTS = 10_000
_PLACES_AT_ONCE = 64
"""Number of segments that are looked up in one turn of the reactor."""


NOTHING_YET = RemoteRecords(b"", [])


class RemoteReads:
    """``quota``: limits the records that consumers get."""

    def __init__(
        self,
        clock: Timers,
        metadata: RemoteLogMetadataManager,
        reader: RemoteSegmentReader,
        calls: StorageCalls,
        quota: RLMQuotaManager,
    ) -> None:
        self._metadata = metadata
        self._reader = reader
        self._calls = calls
        self.quota = quota
        self.rates = RequestRates()
        self._unclaimed = UnclaimedReads(clock)
        self._failing: dict[TopicPartition, tuple[UUID, FetchIsolation]] = {}
        """Partition -> the failing read that was logged. A successful read of another segment does not clear it."""

    def begin(
        self, partition: Partition, log: Log, offset: int, max_bytes: int, isolation: FetchIsolation
    ) -> tuple[ReadKey, RemoteRead]:
        """Claim the read that an earlier fetch left, whatever its ``max_bytes`` were, or begin one: see ``read``. The
        caller must await it, or ``leave`` it."""
        key = ReadKey(log, partition.leader_epoch, offset, isolation)
        left = self._unclaimed.claim(key)
        if left is not None:
            return key, left
        return key, ensureDeferred(self.read(partition, log, offset, max_bytes, isolation))

    def leave(self, key: ReadKey, read: RemoteRead) -> None:
        """Keep a read for the next fetch, for a limited time."""
        self._unclaimed.leave(key, read)

    async def read(
        self, partition: Partition, log: Log, offset: int, max_bytes: int, isolation: FetchIsolation
    ) -> RemoteRecords | int:
        """Return at most 1 MiB of records from ``offset``, which must be below the first local offset; more if the
        first batch is larger. Returns NOTHING_YET if the store or the metadata is unavailable, or the quota is
        exceeded.
        Returns the first local offset if there are no records from ``offset`` to it, because the topic was compacted
        before it was tiered.

        Raises: OffsetOutOfRange if no segment has the offset; CorruptRecord, OSError.
        """
        if self.quota.note_throttle():
            return NOTHING_YET
        try:
            while offset < log.local_log_start_offset:
                extent = await self._located(partition, log, offset)
                visible = extent._replace(last=min(extent.last, log.readable_end(isolation) - 1))
                found = await self._read_segment(partition, log, extent, visible, max_bytes, isolation)
                if found.records:
                    return found
                if visible.last < extent.last:
                    return NOTHING_YET
                offset = extent.last + 1
        except (ObjectStoreError, MetadataUnavailable):
            return NOTHING_YET
        return log.local_log_start_offset

    async def _read_segment(
        self,
        partition: Partition,
        log: Log,
        extent: RemoteExtent,
        visible: RemoteExtent,
        max_bytes: int,
        isolation: FetchIsolation,
    ) -> RemoteRecords:
        """Raises: ObjectStoreError, which is logged; CorruptRecord, OSError."""
        key = extent.segment.segment_id.id, isolation
        aborted: list[AbortedTransaction] = []
        try:
            reading = partial(self._reader.read, visible, min(max_bytes, _MOST_BYTES))
            records = await self.rates.counted(self._calls.call(reading, READ_TIMEOUT_S))
            self.quota.record(len(records))
            self.rates.size_bytes += len(records)
            if records and isolation is FetchIsolation.TXN_COMMITTED:
                aborted = await self._aborted(partition, log, extent, _end_of(records))
        except ObjectStoreError as error:
            self._tell(partition, log.tp, key, error)
            raise
        if self._failing.get(log.tp) == key:
            del self._failing[log.tp]
        return RemoteRecords(records, aborted)

    def _tell(
        self, partition: Partition, tp: TopicPartition, key: tuple[UUID, FetchIsolation], fault: ObjectStoreError
    ) -> None:
        """Log a partition's first failed read, and no other until that read succeeds or its segment is deleted."""
        told = self._failing.get(tp)
        if told is None or told[0] not in self._log(partition).segments:
            self._failing[tp] = key
            _log.warn("remote records of {tp} cannot be read, and consumers wait: {fault}", tp=tp, fault=fault)

    async def _located(self, partition: Partition, log: Log, offset: int) -> RemoteExtent:
        """Find the remote segment that has the offset. Raises: OffsetOutOfRange, MetadataUnavailable."""
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
        """Aborted transactions with records from the extent's first offset up to ``end_offset``, exclusive. Markers may
        be in later segments, and local segments may become remote during the search.

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
        return list(dict.fromkeys(found))  # a segment with several epochs has several extents

    async def latest_tiered(self, partition: Partition, log: Log) -> int:
        """The last offset that was copied; -1 if nothing was copied. If no remote segment is known, the metadata is
        read first, because the broker may have just started.

        Raises: ApiError(OFFSET_NOT_AVAILABLE) if the metadata cannot be read, so that clients retry.
        """
        try:
            known = latest_tiered_offset(self._log(partition), log.leader_epochs.entries, log.log_end_offset)
            if known >= 0 or not self._metadata.is_ready:
                return known
            remote = await self._metadata.complete_log(_id_of(partition))
        except MetadataUnavailable as error:
            raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE, str(error)) from error
        return latest_tiered_offset(remote, log.leader_epochs.entries, log.log_end_offset)

    async def offset_for_timestamp(self, partition: Partition, log: Log, timestamp_ms: int) -> TimestampOffset | None:
        """Find the first remote record at or after this timestamp; None if there is none.

        Raises: ApiError(OFFSET_NOT_AVAILABLE) while remote storage is unavailable, so that clients retry;
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
    """The offset after the last batch; 0 if there is no batch."""
    end, position = 0, 0
    while position < len(records):
        header = read_header(records, position)
        end = header.next_offset
        position += header.size_bytes
    return end


def _id_of(partition: Partition) -> TopicIdPartition:
    """Raises MetadataUnavailable until a controller has sent the topic's id."""
    if partition.topic_id == uuids.ZERO:
        raise MetadataUnavailable(f"the controller has not sent the id of topic {partition.tp.topic}")
    return TopicIdPartition(partition.topic_id, partition.tp.topic, partition.tp.partition)

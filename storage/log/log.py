"""The log of one partition: appends, reads, and the offsets that limit them. ``local_log`` writes the files.

Call all methods on the reactor thread. For other threads, ``prepare_flush`` returns work, and
``segments.pending_removals`` collects deletions. An ``OSError`` from any method means that the log directory has
failed.
Source: UnifiedLog.scala@3.9.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kafka_zk.base.steps import run_to_end
from kafka_zk.base.types import FetchIsolation, LoadedOffsets, LogAppendInfo, TopicPartition, Truncation, new_tuple
from kafka_zk.storage.files.errors import InvalidRecord, OffsetOutOfRange, RecordBatchTooLarge, RecordTooLarge
from kafka_zk.storage.files.files import sync_path
from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.log.leader_epoch_cache import LeaderEpochCache
from kafka_zk.storage.log.local_log import LocalLog
from kafka_zk.storage.log.producer_reload import reload_producers
from kafka_zk.storage.log.producer_state import MarkerRefusal, ProducerState
from kafka_zk.storage.log.recovery_work import Steps
from kafka_zk.storage.log.verification_state import VerificationStateEntry
from kafka_zk.storage.records.end_transaction_marker import MarkerBatch
from kafka_zk.storage.records.log_validator import (
    NotConformed,
    RecordCheck,
    check_at_once,
    needs_records,
    refuse_header,
    stamp_append_time,
)
from kafka_zk.storage.records.record_batch import (
    CODEC_MASK,
    CONTROL_FLAG,
    LAST_OFFSET_DELTA,
    LAST_OFFSET_DELTA_POSITION,
    LOG_OVERHEAD,
    MAX_CODEC,
    PLACE,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    Buffer,
    check_crc,
    iter_batches,
    read_header,
)
from kafka_zk.storage.segments.file_slice import FileSlice
from kafka_zk.storage.segments.log_segments import LogRead, LogSegments
from kafka_zk.storage.segments.retention import count_deletable
from kafka_zk.storage.segments.timestamp_search import Search
from kafka_zk.storage.segments.transaction_index import AbortedTransaction

_LOG_END, _TXN_COMMITTED = FetchIsolation.LOG_END, FetchIsolation.TXN_COMMITTED
MAX_MARKERS_PER_WRITE = 50
"""Maximum number of markers per write."""


class MarkersAppended(NamedTuple):
    """``info``: the offsets of the accepted markers, which are consecutive; None if none was accepted. ``refused``:
    index in the request -> reason."""

    info: LogAppendInfo | None
    refused: Mapping[int, MarkerRefusal]


class Log(LocalLog):
    """One partition's log, opened by ``log_loader``.

    Offsets: ``log_start_offset`` (first readable offset) <= ``last_stable_offset`` <= ``high_watermark`` (first offset
    that is not committed) <= ``log_end_offset`` (offset of the next append). ``commits_appends``: the high watermark
    equals the log end. It is True until the first ``update_high_watermark``. ``cleaned_offset``: end of the last
    compaction; None before the first. ``is_being_cleaned``: retention must wait for a compaction or a move to another
    log directory.
    """

    __slots__ = (
        "_high_watermark", "_needs_records", "_stamps_append_time", "cleaned_offset", "commits_appends",
        "is_being_cleaned",
    )  # fmt: skip

    def __init__(
        self,
        tp: TopicPartition,
        config: LogConfig,
        segments: LogSegments,
        offsets: LoadedOffsets,
        leader_epochs: LeaderEpochCache,
        producers: ProducerState,
        topic_id: str | None,
    ) -> None:
        super().__init__(tp, config, segments, offsets, leader_epochs, producers, topic_id)
        self._follow_config(config)
        self._high_watermark: int | None = None  # None: the log end offset
        self.commits_appends = True
        self.cleaned_offset: int | None = None
        self.is_being_cleaned = False

    def update_config(self, config: LogConfig) -> None:
        super().update_config(config)
        self._follow_config(config)

    def _follow_config(self, config: LogConfig) -> None:
        self._needs_records = needs_records(config)
        self._stamps_append_time = config.message_timestamp_type != "CreateTime"

    # -- what is visible ----------------------------------------------------------------------------------------

    @property
    def high_watermark(self) -> int:
        """The first offset that is not committed. Consumers read, and retention deletes, only records below it."""
        mark = self._high_watermark
        return self.log_end_offset if mark is None else mark

    @property
    def last_stable_offset(self) -> int:
        """The high watermark, or the start of the oldest transaction that is open or ends at or above it (KIP-98)."""
        mark = self._high_watermark
        if mark is None:
            mark = self.log_end_offset
        transactions = self.producers.transactions
        if not transactions.unstable:
            return mark
        unstable = transactions.first_offset(mark)
        return mark if unstable is None else max(self.log_start_offset, min(mark, unstable))

    def readable_end(self, isolation: FetchIsolation) -> int:
        """The first offset that a reader with this isolation level must not see."""
        if isolation is _TXN_COMMITTED:
            return self.last_stable_offset
        mark = self._high_watermark
        return self.log_end_offset if mark is None or isolation is _LOG_END else mark

    def follow_log_end(self) -> None:
        """Commit all records now, and later appends immediately, because no other replica is in sync."""
        self._high_watermark = None
        self.commits_appends = True

    def update_high_watermark(self, offset: int) -> int:
        """Set the high watermark; later appends do not move it. Returns the new value, limited to the log's offsets."""
        mark = self._high_watermark = max(self.log_start_offset, min(offset, self.log_end_offset))
        self.commits_appends = False
        return mark

    # -- append -------------------------------------------------------------------------------------------------

    def append_as_leader(
        self,
        batch: bytearray | memoryview,
        header: BatchHeader,
        *,
        leader_epoch: int,
        now_ms: int,
        from_client: bool = True,
        conforms_to: LogConfig | None = None,
        guard: VerificationStateEntry | None = None,
        check: RecordCheck = check_at_once,
    ) -> LogAppendInfo:
        """Assign offsets to one batch and append it.

        Args:
            batch: exactly one magic-2 batch in writable memory, which is changed in place.
            header: the result of ``validate_batch``, which checked the CRC.
            from_client: False also allows control batches, and batches of a producer without sequences.
            conforms_to: the configuration for which ``log_validator.conform`` returned the batch.
            guard: for a transactional batch, see ``ProducerState.check_transactional``.
            check: checks the records of a client's batch, unless ``conform`` did so.
        Returns: the assigned offsets; for a duplicate those of the first append, with that batch's largest timestamp as
            the log append time, as in Kafka.
        Raises: RecordTooLarge, RecordBatchTooLarge, InvalidRecord, InvalidTimestamp, OutOfOrderSequence,
            InvalidProducerEpoch, InvalidTransactionState, TransactionCoordinatorFenced; NotConformed if the caller must
            first conform the batch, which may take long. Nothing was written in these cases.
        """
        config = self.config
        size_bytes = header.batch_length + 12
        delta, attributes, producer_id = header.last_offset_delta, header.attributes, header.producer_id
        if size_bytes > config.max_message_bytes and (from_client or not attributes & CONTROL_FLAG):
            raise _record_too_large(size_bytes, config)
        if (
            header.record_count != delta + 1
            or delta < 0
            or (from_client and (attributes & CONTROL_FLAG or producer_id >= 0 > header.base_sequence))
            or (producer_id < 0 and attributes & TRANSACTIONAL_FLAG)
            or attributes & CODEC_MASK > MAX_CODEC
        ):
            raise refuse_header(header)
        max_timestamp_ms = header.max_timestamp
        if from_client and conforms_to is not config:
            if self._needs_records or attributes & TIMESTAMP_TYPE_FLAG:
                raise NotConformed(header, config)
            max_timestamp_ms = check(batch, header, config)
        if size_bytes > config.segment_bytes:
            raise _batch_too_large(size_bytes, config)
        if producer_id >= 0 and not from_client:
            self.producers.check_of_broker(batch, header, guard)
        elif producer_id >= 0:
            is_open = attributes & TRANSACTIONAL_FLAG
            known = self.producers.check_transactional(header, guard) if is_open else self.producers.check(header)
            if known is not None:
                return LogAppendInfo(known[2], known[3], known[4], self.log_start_offset, 0, True)
        append_time_ms = -1
        if self._stamps_append_time:
            append_time_ms = max_timestamp_ms = now_ms
            stamp_append_time(batch, header, now_ms)
        first = self.log_end_offset
        last = first + delta
        PLACE.pack_into(batch, 0, first, header.batch_length, leader_epoch)
        self._write(batch, size_bytes, leader_epoch, first, last, last, max_timestamp_ms, now_ms)
        if producer_id >= 0:
            if attributes & CONTROL_FLAG:
                self._end_transaction(batch, header, first, max_timestamp_ms)
            else:
                self.producers.update(header, first, max_timestamp_ms)
        return new_tuple(LogAppendInfo, (first, last, append_time_ms, self.log_start_offset, size_bytes, False))

    def append_own_records(self, batch: bytearray, *, leader_epoch: int, now_ms: int) -> LogAppendInfo:
        """Append an uncompressed batch that the broker itself created, without a producer id. Its records have the
        timestamp ``now_ms``. Only the batch's size is checked.

        Raises: RecordTooLarge, RecordBatchTooLarge.
        """
        size_bytes = len(batch)
        if size_bytes > self.config.max_message_bytes:
            raise _record_too_large(size_bytes, self.config)
        if size_bytes > self.config.segment_bytes:
            raise _batch_too_large(size_bytes, self.config)
        append_time_ms = -1
        if self._stamps_append_time:
            append_time_ms = now_ms
            stamp_append_time(batch, read_header(batch), now_ms)
        first = self.log_end_offset
        last: int = first + LAST_OFFSET_DELTA.unpack_from(batch, LAST_OFFSET_DELTA_POSITION)[0]
        PLACE.pack_into(batch, 0, first, size_bytes - LOG_OVERHEAD, leader_epoch)
        self._write(batch, size_bytes, leader_epoch, first, last, last, now_ms, now_ms)
        return new_tuple(LogAppendInfo, (first, last, append_time_ms, self.log_start_offset, size_bytes, False))

    def append_own_batch(
        self, batch: bytearray, *, leader_epoch: int, now_ms: int, guard: VerificationStateEntry | None = None
    ) -> LogAppendInfo:
        """Append any other batch that the broker built. ``guard`` and errors: see ``append_as_leader``."""
        return self.append_as_leader(
            batch, read_header(batch), leader_epoch=leader_epoch, now_ms=now_ms, from_client=False, guard=guard
        )

    def append_as_follower(self, batches: memoryview | bytes, *, now_ms: int) -> LogAppendInfo:
        """Append batches from the leader, which contain their offsets and epochs. An incomplete last batch is ignored.

        Raises: InvalidRecord if offsets do not ascend from the log end offset, CorruptRecord for a bad CRC or magic.
        """
        view = memoryview(batches)
        spans = list(iter_batches(view))
        expected = self.log_end_offset
        for position, header in spans:  # check all batches before the first write
            check_crc(view, position, header)
            if header.base_offset < expected or header.last_offset_delta < 0:
                raise InvalidRecord(f"{self.tp}: the leader sent offset {header.base_offset}, not {expected}")
            expected = header.next_offset
        if not spans:
            return LogAppendInfo(-1, -1, -1, self.log_start_offset, 0)
        for position, header in spans:
            self._write_given(view[position : position + header.size_bytes], header, now_ms)
        last_position, last_header = spans[-1]
        size_bytes = last_position + last_header.size_bytes
        return LogAppendInfo(spans[0][1].base_offset, last_header.last_offset, -1, self.log_start_offset, size_bytes)

    def _write_given(self, batch: memoryview, header: BatchHeader, now_ms: int) -> None:
        offset, last_offset, timestamp_ms = header.base_offset, header.last_offset, header.max_timestamp
        epoch = header.partition_leader_epoch
        self._write(batch, len(batch), epoch, offset, last_offset, last_offset, timestamp_ms, now_ms)
        if header.producer_id >= 0 and header.attributes & CONTROL_FLAG:
            self._end_transaction(batch, header, offset, timestamp_ms)
        elif header.producer_id >= 0:
            self.producers.update(header, offset, timestamp_ms)

    def append_markers(self, batches: Sequence[MarkerBatch], *, leader_epoch: int, now_ms: int) -> MarkersAppended:
        """Append transaction markers with one write, each as in ``append_as_leader``.

        Args:
            batches: from different producers, with the same timestamp; at most MAX_MARKERS_PER_WRITE.
        Raises: RecordBatchTooLarge if they exceed ``segment.bytes`` together.
        """
        refused = self.producers.refused_markers(batches)
        if refused:
            batches = [each for place, each in enumerate(batches) if place not in refused]
            if not batches:
                return MarkersAppended(None, refused)
        append_time_ms, timestamp_ms = -1, batches[0].header.max_timestamp
        if self._stamps_append_time:
            append_time_ms = timestamp_ms = now_ms
        first = self.log_end_offset
        whole = bytearray()
        for offset, (batch, header, _) in enumerate(batches, first):
            data = bytearray(batch)
            if append_time_ms >= 0:
                stamp_append_time(data, header, now_ms)
            PLACE.pack_into(data, 0, offset, header.batch_length, leader_epoch)
            whole += data
        size_bytes = len(whole)
        if size_bytes > self.config.segment_bytes:
            raise RecordBatchTooLarge(f"{len(batches)} markers exceed segment.bytes={self.config.segment_bytes}")
        last = first + len(batches) - 1
        self._write(whole, size_bytes, leader_epoch, first, last, first, timestamp_ms, now_ms)
        producers = self.producers
        producers.transactions.first_offset(min(first, self.high_watermark))  # drops ended transactions
        for offset, (_, header, marker) in enumerate(batches, first):
            aborted = producers.end_transaction(header, marker, offset, timestamp_ms)
            if aborted is not None:
                self.segments.add_aborted(aborted)
        info = (first, last, append_time_ms, self.log_start_offset, size_bytes, False)
        return new_tuple(MarkersAppended, (new_tuple(LogAppendInfo, info), refused))

    def _end_transaction(self, marker: Buffer, header: BatchHeader, offset: int, timestamp_ms: int) -> None:
        producers = self.producers
        producers.transactions.first_offset(min(offset, self.high_watermark))
        aborted = producers.apply_marker(marker, header, offset, timestamp_ms)
        if aborted is not None:
            self.segments.add_aborted(aborted)

    # -- read ---------------------------------------------------------------------------------------------------

    def read(
        self,
        fetch_offset: int,
        max_bytes: int,
        *,
        isolation: FetchIsolation = FetchIsolation.LOG_END,
        min_one_batch: bool = True,
    ) -> LogRead:
        """Find the bytes for a fetch, from the batch that contains ``fetch_offset``. Only headers are read.

        Args:
            max_bytes: limit of the slice, which holds whole batches.
            isolation: batches that reach ``readable_end(isolation)`` are excluded.
            min_one_batch: return the first batch even if it exceeds ``max_bytes``.
        Returns: a slice of one segment, in a LogRead; no slice if there is nothing to read.
        Raises: OffsetOutOfRange if before the log's start or after its end; OffsetMovedToTieredStorage; CorruptRecord.
        """
        end_offset = self.log_end_offset
        if not self.log_start_offset <= fetch_offset <= end_offset:
            raise OffsetOutOfRange(
                f"{self.tp}: offset {fetch_offset} is outside [{self.log_start_offset}, {end_offset}]"
            )
        upper = self.readable_end(isolation)
        if fetch_offset >= upper:
            return LogRead(None, fetch_offset, False)
        return self.segments.read(fetch_offset, max_bytes, upper, end_offset, min_one_batch)

    def is_behind(self, found: FileSlice, isolation: FetchIsolation) -> bool:
        """True if the slice ends at a limit or at its segment's end, and a reader can see more records after it.

        Raises: OSError, CorruptRecord.
        """
        return self.segments.is_behind(found, self.readable_end(isolation))

    def aborted_transactions(self, start_offset: int, end_offset: int) -> list[AbortedTransaction]:
        """Aborted transactions with records in ``[start_offset, end_offset)``, below the last stable offset."""
        return self.segments.aborted_transactions(start_offset, end_offset)

    def timestamp_search(self, timestamp_ms: int) -> Search:
        """Resumable search for the first readable local record with a timestamp of at least ``timestamp_ms``."""
        return self.segments.offset_for_timestamp(timestamp_ms, self.local_log_start_offset)

    def max_timestamp_search(self) -> Search:
        """Resumable search for the first record with the largest timestamp (KIP-734)."""
        return self.segments.max_timestamp_offset()

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """(epoch, end offset) for OffsetForLeaderEpoch; (-1, -1) if unknown."""
        return self.leader_epochs.end_offset_for(leader_epoch, self.log_end_offset)

    # -- truncation ---------------------------------------------------------------------------------------------

    def truncate_to(self, offset: int, now_ms: int = 0) -> Truncation | None:
        """Drop all batches that contain or follow ``offset``, and leader epochs without records. Batches below the high
        watermark are moved aside. A log compacted beyond ``offset`` loses everything.

        Returns: the new log end and the folder of the records that were moved aside; None if no batch was dropped.
        Raises: OffsetOutOfRange for a negative offset.
        """
        self._refuse_negative(offset)
        if offset >= self.log_end_offset:
            # The next leader's epoch may begin at the same offset.
            self.leader_epochs.truncate_from_end(self.log_end_offset)
            return None
        first = self.segments[0].base_offset
        if self.cleaned_offset is not None and offset < self.cleaned_offset:
            offset = first  # compaction dropped records in favour of later ones, which are dropped now
        last_end = self.segments.end_before(max(offset, first))
        self._rewind(offset, min(offset, last_end))
        due_ms, keeps = now_ms + self.config.file_delete_delay_ms, offset < self.high_watermark
        end_offset, kept_as = self.segments.truncate_to(max(offset, first), due_ms, keeps=keeps)
        if offset < first:
            self.truncate_fully_and_start_at(offset, now_ms)
            return Truncation(offset, kept_as)
        self._complete_truncation(end_offset)
        if last_end < end_offset:
            self.extend_to(end_offset, now_ms)
        return Truncation(end_offset, kept_as)

    def truncate_fully_and_start_at(self, offset: int, now_ms: int = 0) -> None:
        """Drop all local records and continue the log at ``offset``. A tiered log keeps its log start offset and leader
        epochs, by which the remote records before ``offset`` are read; any other log begins at ``offset``.

        Raises: OffsetOutOfRange for a negative offset.
        """
        self._refuse_negative(offset)
        self._rewind(offset, offset)
        self.segments.replace_all(offset, self.config, now_ms)
        if not self.config.is_tiered:
            self.log_start_offset = offset
            self.leader_epochs.clear()
        self._complete_truncation(offset)
        self._skip_to(offset)

    def _rewind(self, offset: int, last_end: int) -> None:
        """Move the cleaned offset back to ``offset``, and the recovery point to ``last_end``, the end of the last
        record before ``offset``. Otherwise, other records at these offsets would count as durable after a crash."""
        before = self.recovery_point, self.cleaned_offset
        self.recovery_point = min(self.recovery_point, last_end)
        if self.cleaned_offset is not None:
            self.cleaned_offset = min(self.cleaned_offset, offset)
        if self.owner is not None and before != (self.recovery_point, self.cleaned_offset):
            self.owner.recovery_point_went_back(self.tp)

    def _refuse_negative(self, offset: int) -> None:
        if offset < 0:
            raise OffsetOutOfRange(f"{self.tp} cannot be truncated to offset {offset}")

    def _complete_truncation(self, end_offset: int) -> None:
        self.truncation_count += 1
        self.log_end_offset = end_offset
        self._rewind(end_offset, end_offset)  # a batch that contained the offset was dropped completely
        self.log_start_offset = min(self.log_start_offset, end_offset)
        if self._high_watermark is not None:
            self.update_high_watermark(self._high_watermark)
        self.leader_epochs.truncate_from_end(end_offset)
        run_to_end(self.reload_producers_steps())

    def reload_producers_steps(self, rebuild_from: int | None = None) -> Steps[None]:
        return reload_producers(self.producers, self.segments, self.log_start_offset, self.log_end_offset, rebuild_from)

    # -- retention ----------------------------------------------------------------------------------------------

    def increment_log_start_offset(self, offset: int) -> bool:
        """Move the log start offset forward, for DeleteRecords or the leader's offset. Returns whether it moved.

        Raises: OffsetOutOfRange if negative or above the high watermark.
        """
        if not 0 <= offset <= self.high_watermark:
            raise OffsetOutOfRange(f"{self.tp}: offset {offset} is not within [0, {self.high_watermark}]")
        if offset <= self.log_start_offset:
            return False
        self.log_start_offset = offset
        self.leader_epochs.truncate_from_start(offset)
        return True

    def delete_old_segments(self, now_ms: int) -> int:
        """Delete segments by age, size and log start offset; returns how many. For a tiered log, see ``tiered_log``.

        Keeps segments that reach the high watermark. If even the active segment is deleted, a new one begins at the log
        end offset, so that no offset is assigned twice.
        """
        segments = self.segments
        segments.settle()
        count = count_deletable(
            segments[:], self.config, self.log_start_offset, self.log_end_offset, self.high_watermark, now_ms
        )
        if count == len(segments):
            self.roll(now_ms)
        count = self.delete_oldest(count, now_ms)
        if count:
            self.increment_log_start_offset(min(segments[0].base_offset, self.log_end_offset))
        return count

    def delete_oldest(self, count: int, now_ms: int) -> int:
        """Delete up to ``count`` closed segments; returns how many. Keeps segments whose producers need a snapshot.
        Snapshots are synced first. Files are removed after ``file.delete.delay.ms`` (``LogSegments.take_due``)."""
        segments = self.segments
        while count and self.producers.lacks_snapshot(segments[count].base_offset):
            count -= 1
        if not count:
            return 0
        first_kept = segments[count].base_offset
        if self.recovery_point < first_kept or self.producers.has_unsynced_snapshots:
            self.flush(first_kept)
        if self.owner is not None:
            # After a power loss, a dropped segment may reappear although later ones do not.
            self.owner.recovery_point_is_needed(self.tp, first_kept)
        if self.recovery_point <= first_kept:
            sync_path(segments.directory)  # only the new segment's name now preserves the next offset
        segments.drop(segments[:count], now_ms + self.config.file_delete_delay_ms)
        return count


def _record_too_large(size_bytes: int, config: LogConfig) -> RecordTooLarge:
    return RecordTooLarge(f"a batch of {size_bytes} bytes exceeds max.message.bytes={config.max_message_bytes}")


def _batch_too_large(size_bytes: int, config: LogConfig) -> RecordBatchTooLarge:
    return RecordBatchTooLarge(f"a batch of {size_bytes} bytes exceeds segment.bytes={config.segment_bytes}")

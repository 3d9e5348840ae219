"""The log of one partition: what may be appended to it, and reading it back.

Built on ``local_log``, where the files are. Offsets, all "first offset that is not …": ``log_start_offset`` (deleted),
``recovery_point`` (not yet fsynced), ``log_end_offset`` (written).
Source: UnifiedLog.scala@3.9. Tests: tests/storage/test_log.py.
"""

from struct import Struct

from kafka_zk.storage import follower_append, producer_state
from kafka_zk.storage.errors import OffsetOutOfRange, RecordBatchTooLarge, RecordTooLarge
from kafka_zk.storage.file_pool import FilePool
from kafka_zk.storage.findings import Observe, ignore
from kafka_zk.storage.leader_epoch_cache import LeaderEpochCache
from kafka_zk.storage.local_log import LocalLog
from kafka_zk.storage.log_config import LogConfig
from kafka_zk.storage.log_reader import LogRead
from kafka_zk.storage.log_validator import NotConformed, needs_records, refuse_header, stamp_append_time
from kafka_zk.storage.producer_state import ProducerState
from kafka_zk.storage.record_batch import (
    CODEC_MASK,
    CONTROL_FLAG,
    MAX_CODEC,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    BatchHeader,
)
from kafka_zk.storage.segment import MAX_RELATIVE_OFFSET, Segment
from kafka_zk.storage.timestamp_search import Search, search_here
from kafka_zk.storage.types import LogAppendInfo, TimestampOffset, TopicPartition

_BASE_OFFSET = Struct(">q")
_LEADER_EPOCH = Struct(">i")
_LEADER_EPOCH_POSITION = 12


class Log(LocalLog):
    """One partition's log. Built by ``log_loader``; ``local_log`` says what holds for threads and errors."""

    __slots__ = ("_needs_records",)

    def __init__(
        self,
        topic_partition: TopicPartition,
        directory: str,
        config: LogConfig,
        pool: FilePool,
        *,
        segments: list[Segment],
        log_start_offset: int,
        log_end_offset: int,
        recovery_point: int,
        leader_epochs: LeaderEpochCache,
        producers: ProducerState,
        topic_id: str | None,
        observe: Observe = ignore,
    ) -> None:
        super().__init__(
            topic_partition,
            directory,
            config,
            pool,
            segments=segments,
            log_start_offset=log_start_offset,
            log_end_offset=log_end_offset,
            recovery_point=recovery_point,
            leader_epochs=leader_epochs,
            producers=producers,
            topic_id=topic_id,
            observe=observe,
        )
        self._needs_records = needs_records(config)

    def update_config(self, config: LogConfig) -> None:
        """Follow a change of the topic's configuration; it holds from the next append on."""
        super().update_config(config)
        self._needs_records = needs_records(config)

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
    ) -> LogAppendInfo:
        """Assign offsets to one batch and make it readable up to the log end offset.

        Args:
            batch: exactly one magic-2 batch, writable; offset and epoch (and, with LogAppendTime, timestamp and CRC)
                are patched in place.
            header: what ``validate_batch`` returned for it (that is where the CRC is checked).
            now_ms: wall clock, ms since the epoch.
            from_client: False lets the broker itself write control batches.
            conforms_to: the configuration for which ``log_validator.conform`` gave the batch.
        Returns: the offsets given; for a duplicate of an idempotent producer those of the first time, and as log
            append time the largest timestamp that the batch has in the log, whichever kind it is, as Kafka does.
        Raises: RecordTooLarge, RecordBatchTooLarge, InvalidRecord, InvalidTimestamp, OutOfOrderSequence,
            InvalidProducerEpoch, InvalidTransactionState; NotConformed if the batch must be taken apart first, which
            may take long and is therefore the caller's to do. Nothing was written then.
        Durable only after a flush: call ``flush_due`` afterwards if the topic asks for flushes.
        """
        config = self.config
        size_bytes = header.batch_length + 12
        delta = header.last_offset_delta
        attributes = header.attributes
        producer_id = header.producer_id
        if size_bytes > config.max_message_bytes and from_client:
            raise _too_large(size_bytes, config)
        if (
            header.record_count != delta + 1
            or delta < 0
            or (from_client and attributes & CONTROL_FLAG)
            or (producer_id >= 0 > header.base_sequence and not attributes & CONTROL_FLAG)
            or (producer_id < 0 and attributes & TRANSACTIONAL_FLAG)
            or attributes & CODEC_MASK > MAX_CODEC
        ):
            raise refuse_header(header)
        if (self._needs_records or attributes & TIMESTAMP_TYPE_FLAG) and conforms_to is not config:
            raise NotConformed(header, config)
        if size_bytes > config.segment_bytes:
            raise RecordBatchTooLarge(f"a batch of {size_bytes} bytes, segment.bytes is {config.segment_bytes}")
        if producer_id >= 0 and not attributes & CONTROL_FLAG:
            known = self.producers.check(header)
            if known is not None:
                return LogAppendInfo(known[2], known[3], known[4], self.log_start_offset, 0, True)
        append_time_ms = -1
        max_timestamp_ms = header.max_timestamp
        if config.message_timestamp_type != "CreateTime":
            append_time_ms = max_timestamp_ms = now_ms
            stamp_append_time(batch, header, now_ms)
        base_offset = self.log_end_offset
        last_offset = base_offset + delta
        _BASE_OFFSET.pack_into(batch, 0, base_offset)
        _LEADER_EPOCH.pack_into(batch, _LEADER_EPOCH_POSITION, leader_epoch)
        if leader_epoch != self.leader_epochs.written_epoch:
            self.leader_epochs.assign(leader_epoch, base_offset)
        self._write(batch, size_bytes, base_offset, last_offset, max_timestamp_ms, now_ms)
        if producer_id >= 0:
            self._update_producer(batch, header, base_offset, max_timestamp_ms)
        return LogAppendInfo(base_offset, last_offset, append_time_ms, self.log_start_offset, size_bytes)

    def append_as_follower(self, batches: memoryview | bytes, *, now_ms: int) -> LogAppendInfo:
        """Append batches as the leader sent them, offsets and epochs included; a partial one at the end is left out.

        Raises: InvalidRecord if offsets do not ascend from the log end offset, CorruptRecord for a bad CRC or magic.
        """
        return follower_append.append(self, batches, now_ms)

    def write_given(self, batch: memoryview, header: BatchHeader, now_ms: int) -> None:
        """Append one checked batch that carries its offsets and epoch (follower, recovery of a copy)."""
        if header.partition_leader_epoch != self.leader_epochs.written_epoch:
            self.leader_epochs.assign(header.partition_leader_epoch, header.base_offset)
        self._write(batch, len(batch), header.base_offset, header.last_offset, header.max_timestamp, now_ms)
        if header.producer_id >= 0:
            self._update_producer(batch, header, header.base_offset, header.max_timestamp)

    def _write(
        self,
        batch: bytearray | memoryview | bytes,
        size_bytes: int,
        base_offset: int,
        last_offset: int,
        max_timestamp_ms: int,
        now_ms: int,
    ) -> None:
        """Roll if need be, write, move the log end offset, note that there is something to flush."""
        segment = self._active
        config = self.config
        if (
            segment.size_bytes + size_bytes > config.segment_bytes
            or last_offset - segment.base_offset > MAX_RELATIVE_OFFSET
            or segment.index_is_full
            or self.is_roll_due(segment, max_timestamp_ms, now_ms)
        ):
            segment = self.roll(now_ms, base_offset)
        segment.append(batch, size_bytes, last_offset, max_timestamp_ms)
        self.log_end_offset = last_offset + 1
        self._unflushed_count += last_offset - base_offset + 1
        self._last_append_ms = now_ms
        if self._oldest_unflushed_ms < 0:
            self._oldest_unflushed_ms = now_ms
            if self._on_dirty is not None:
                self._on_dirty(self.topic_partition)

    def _update_producer(
        self, batch: bytearray | memoryview | bytes, header: BatchHeader, base_offset: int, max_timestamp_ms: int
    ) -> None:
        if header.attributes & CONTROL_FLAG:
            producer_state.apply_marker(self.producers, batch, header)
        else:
            self.producers.update(header, base_offset, max_timestamp_ms)

    # -- read ---------------------------------------------------------------------------------------------------

    def read(
        self, fetch_offset: int, max_bytes: int, *, upper_bound_offset: int | None = None, min_one_batch: bool = True
    ) -> LogRead:
        """Find the bytes from the batch that holds ``fetch_offset`` on; nothing is read but headers.

        Args:
            max_bytes: the slice is at most this big, whole batches only.
            upper_bound_offset: no batch that reaches this offset is included (high watermark, last stable offset);
                None stands for the log end offset.
            min_one_batch: if even the first batch is bigger than ``max_bytes``, return it alone.
        Returns: one slice of one segment, or None for the slice if there is nothing (yet) to read.
        Raises: OffsetOutOfRange before the log start offset or after the log end offset; CorruptRecord.
        """
        end_offset = self.log_end_offset
        if not self.log_start_offset <= fetch_offset <= end_offset:
            raise OffsetOutOfRange(
                f"{self.topic_partition}: offset {fetch_offset} is outside [{self.log_start_offset}, {end_offset}]"
            )
        upper = end_offset if upper_bound_offset is None or upper_bound_offset > end_offset else upper_bound_offset
        if fetch_offset >= upper:
            return LogRead(None, fetch_offset, False)
        return self.reader.read(fetch_offset, max_bytes, upper, end_offset, min_one_batch)

    def offset_for_timestamp(self, timestamp_ms: int) -> TimestampOffset | None:
        """The first record, from the log start offset on, whose timestamp is at least ``timestamp_ms``."""
        return search_here(self.timestamp_search(timestamp_ms))

    def timestamp_search(self, timestamp_ms: int) -> Search:
        """As ``offset_for_timestamp``, for an owner that must not be kept."""
        return self.reader.offset_for_timestamp(timestamp_ms, self.log_start_offset)

    def max_timestamp_offset(self) -> TimestampOffset | None:
        """The first record that has the largest timestamp, None without any (KIP-734)."""
        return search_here(self.max_timestamp_search())

    def max_timestamp_search(self) -> Search:
        """As ``max_timestamp_offset``, for an owner that must not be kept."""
        return self.reader.max_timestamp_offset()

    def end_offset_for_epoch(self, leader_epoch: int) -> tuple[int, int]:
        """(epoch, end offset) for OffsetForLeaderEpoch; (-1, -1) if unknown."""
        return self.leader_epochs.end_offset_for(leader_epoch, self.log_end_offset)


def _too_large(size_bytes: int, config: LogConfig) -> RecordTooLarge:
    return RecordTooLarge(f"a batch of {size_bytes} bytes, max.message.bytes is {config.max_message_bytes}")

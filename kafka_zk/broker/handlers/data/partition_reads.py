"""Reads one Fetch request's partitions. Source: ReplicaManager.readFromLog@3.9."""

from collections.abc import Sequence

from kafka_zk.base.types import FetchIsolation
from kafka_zk.broker.handlers.data import conversion
from kafka_zk.broker.handlers.data.preferred_read_replica import Elsewhere
from kafka_zk.broker.handlers.data.requested_partitions import RequestedPartition
from kafka_zk.broker.handlers.error_map import EXPECTED, error_code
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.replica import follower_fetch
from kafka_zk.broker.replica.fetch_session import Fetched
from kafka_zk.broker.replica.isr_updates import Follower
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.protocol.fetch import AbortedTransaction, FetchedPartition
from kafka_zk.protocol.fetch_request import FetchRequest
from kafka_zk.storage.files.errors import OffsetOutOfRange
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.segments.file_slice import FileSlice
from kafka_zk.storage.segments.log_segments import LogRead

_ANY_REPLICA_SINCE = 11
"""Consumers may read from followers since this version (KIP-392)."""
_READ_COMMITTED = 1
_FILES_SHARE = 8
"""One response uses at most 1/8 of the open files, because they stay open until the client has received it."""


class PartitionReads:
    """``elsewhere``: returns the result for a partition that the consumer should read from another broker."""

    __slots__ = ("_elsewhere", "_follower", "_services", "isolation", "max_slices", "request", "version")

    def __init__(
        self, services: Services, version: int, request: FetchRequest, elsewhere: Elsewhere | None = None
    ) -> None:
        self._services = services
        self._elsewhere = elsewhere
        self._follower = Follower(request.replica_id, request.replica_epoch) if request.replica_id >= 0 else None
        self.version = version
        self.request = request
        self.max_slices = services.replicas.logs.pool.max_open_files // _FILES_SHARE
        self.isolation = FetchIsolation.HIGH_WATERMARK
        if self._follower is not None:
            self.isolation = FetchIsolation.LOG_END
        elif request.isolation_level == _READ_COMMITTED:
            self.isolation = FetchIsolation.TXN_COMMITTED

    @property
    def is_of_follower(self) -> bool:
        return self._follower is not None

    @property
    def reads_committed(self) -> bool:
        return self.isolation is FetchIsolation.TXN_COMMITTED

    @property
    def is_redirected(self) -> bool:
        """True if the consumer may be sent to other brokers."""
        return self._elsewhere is not None

    def read_all(
        self, requested: Sequence[RequestedPartition], *, is_first_read: bool = False
    ) -> tuple[Fetched, int, bool]:
        """Return the results, their size in bytes, and whether the fetch should not wait (an error, nothing requested,
        or more records are available).
        """
        follower, elsewhere = self._follower, self._elsewhere
        left_bytes = min(self.request.max_bytes, self._services.config.fetch_max_bytes)
        slices_left = self.max_slices
        size_bytes = 0
        is_final = not requested
        fetched = []
        for entry in requested:
            if entry.error is not None:
                result = FetchedPartition(entry.fetch.partition, entry.error)
            elif follower is not None:
                result = self._read_for(follower, entry, left_bytes, size_bytes == 0, is_first_read)
            elif elsewhere is not None and (moved := elsewhere(entry.tp, entry.fetch)) is not None:
                result = moved
            elif self.version >= conversion.MAGIC_2_SINCE_FETCH:
                result = self.read(entry, left_bytes, size_bytes == 0)
            else:
                result = conversion.read(
                    self._services, self.version, entry.tp, entry.fetch, self.isolation, left_bytes, size_bytes == 0
                )
            found_bytes = 0 if result.records is None else len(result.records)
            if result.error_code:
                is_final = True
            elif found_bytes:
                size_bytes += found_bytes
                slices_left -= 1
                left_bytes = max(0, left_bytes - found_bytes)
                if slices_left <= 0:
                    left_bytes = 0
                    is_final = True
            elif result.diverging_epoch is not None or result.preferred_read_replica >= 0:
                is_final = True
            fetched.append((entry.topic, result))
        if 0 < size_bytes < self.request.min_bytes and not is_final:
            is_final = any(map(self._leaves_records, requested, fetched))
        return fetched, size_bytes, is_final

    def _leaves_records(self, entry: RequestedPartition, fetched: tuple[object, FetchedPartition]) -> bool:
        """True if more records can be read, but not in this response. Source: DelayedFetch.tryComplete, case F."""
        records = fetched[1].records
        try:
            return isinstance(records, FileSlice) and self._services.replicas.is_behind(
                entry.tp, records, self.isolation
            )
        except EXPECTED:
            return True  # the next request reads from there, and gets the error

    def has_something(self, entry: RequestedPartition, before: FetchedPartition | None = None) -> bool:
        """True if a read would return records, an error, or another high watermark or log start offset."""
        partition = self._services.replicas.partitions.get(entry.tp)
        if partition is None:
            return True
        any_replica = self.version >= _ANY_REPLICA_SINCE and self._follower is None
        fetch = entry.fetch
        try:
            log = (partition.readable_log if any_replica else partition.leader_log)(fetch.current_leader_epoch)
        except ApiError:
            return True
        return log.readable_end(self.isolation) > fetch.fetch_offset or (
            before is not None
            and (log.high_watermark != before.high_watermark or log.log_start_offset != before.log_start_offset)
        )

    def read(self, requested: RequestedPartition, left_bytes: int, min_one_batch: bool) -> FetchedPartition:
        """Read one partition for a consumer. ``min_one_batch``: the first batch may exceed ``left_bytes``."""
        fetch = requested.fetch
        try:
            log, found = self._services.replicas.read(
                requested.tp,
                fetch.fetch_offset,
                min(fetch.partition_max_bytes, left_bytes),
                self.isolation,
                current_leader_epoch=fetch.current_leader_epoch,
                min_one_batch=min_one_batch,
                any_replica=self.version >= _ANY_REPLICA_SINCE,
            )
        except OffsetOutOfRange:
            return self._out_of_range(requested)
        except EXPECTED as error:
            return FetchedPartition(fetch.partition, error_code(error))
        aborted: list[AbortedTransaction] | None = None
        if self.isolation is FetchIsolation.TXN_COMMITTED:
            try:
                aborted = self._aborted(log, fetch.fetch_offset, found)
            except OSError as error:
                return FetchedPartition(fetch.partition, error_code(error))
        return FetchedPartition(
            fetch.partition,
            0,
            log.high_watermark,
            log.last_stable_offset,
            log.log_start_offset,
            found.slice if found.slice is not None else b"",
            aborted,
        )

    def _aborted(self, log: Log, fetch_offset: int, found: LogRead) -> list[AbortedTransaction]:
        """Aborted transactions whose records a read_committed consumer must skip in ``found``."""
        if found.slice is None:
            return []
        transactions = self._services.replicas.aborted_transactions(log, fetch_offset, found.next_offset)
        return [AbortedTransaction(each.producer_id, each.first_offset) for each in transactions]

    def _read_for(
        self,
        follower: Follower,
        requested: RequestedPartition,
        left_bytes: int,
        min_one_batch: bool,
        is_first_read: bool,
    ) -> FetchedPartition:
        fetch = requested.fetch
        try:
            log, records, diverging_epoch = follower_fetch.read(
                self._services.replicas,
                requested.tp,
                follower,
                fetch,
                min(fetch.partition_max_bytes, left_bytes),
                min_one_batch=min_one_batch,
                is_first_read=is_first_read,
            )
        except OffsetOutOfRange:
            return self._out_of_range(requested)
        except EXPECTED as error:
            return FetchedPartition(fetch.partition, error_code(error))
        return FetchedPartition(
            fetch.partition,
            0,
            log.high_watermark,
            log.last_stable_offset,
            log.log_start_offset,
            b"" if records is None else records,
            diverging_epoch=diverging_epoch,
        )

    def _out_of_range(self, requested: RequestedPartition) -> FetchedPartition:
        log = self._services.replicas.partition(requested.tp).readable_log()
        code = ErrorCode.OFFSET_OUT_OF_RANGE
        return FetchedPartition(requested.fetch.partition, code, log_start_offset=log.log_start_offset)

"""Fetches offset ranges of partitions in an executor: every record once and in order, or an error.

The next fetch is in flight while the records of the previous one are decoded. The fetcher follows moving leaders. It
never resets an offset. An offset that the log does not contain is a loss or a gap:

- **gap**: a fetch succeeds, and its first record has a higher offset than requested, or there are no records below the
  range's end although the log continues. Compaction, aborted transactions and control records cause gaps; nothing is
  missing.
- **loss**: the broker returns OFFSET_OUT_OF_RANGE. The log starts later (retention) or ends earlier (truncation, or the
  topic was recreated). ``fail_on_data_loss``: raise an error, or continue with the remaining records.
"""

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress

import pyarrow as pa

from kafka_zk.base.clock import monotonic_s
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.fetch import FetchedPartition
from kafka_zk.protocol.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kafka_zk.spark_jobs.errors import DataLoss, FetchFailed
from kafka_zk.spark_jobs.source.arrow_columns import ArrowColumns
from kafka_zk.spark_jobs.source.batch_decoder import AbortedTransaction, BatchDecoder, Fetched, scan
from kafka_zk.spark_jobs.source.broker_connection import BrokerConnection
from kafka_zk.spark_jobs.source.cluster_client import BROKEN, EARLIEST, ClusterClient
from kafka_zk.spark_jobs.source.offset_ranges import OffsetRange
from kafka_zk.spark_jobs.source.range_settings import FetchSettings
from kafka_zk.storage.files.errors import StorageError

SKIPS_UNREADABLE = "onUnreadableBatch=skip, or extract --on-undecodable null, skips unreadable records"
_MOVED = frozenset((ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.UNKNOWN_LEADER_EPOCH, ErrorCode.KAFKA_STORAGE_ERROR))


def fetch(ranges: Sequence[OffsetRange], settings: FetchSettings) -> Iterator[pa.RecordBatch]:
    """Read one range after the other. Raises DataLoss, FetchFailed."""
    cluster = ClusterClient(settings.client)
    try:
        with suppress(FetchFailed):  # the first fetch raises the error after patience_ms
            cluster.refresh(sorted({each.topic for each in ranges}))
        for each in ranges:
            yield from RangeFetcher(each, settings, cluster)
    finally:
        cluster.close()


class RangeFetcher:
    """The record batches of a range. Raises DataLoss, FetchFailed."""

    def __init__(self, offset_range: OffsetRange, settings: FetchSettings, cluster: ClusterClient) -> None:
        self._tp = offset_range.tp
        self._settings = settings
        self._cluster = cluster
        self._position = offset_range.from_offset
        self._until = offset_range.until_offset
        self._max_bytes = settings.max_bytes
        self._in_flight: BrokerConnection | None = None
        self._decoder = BatchDecoder(
            ArrowColumns(self._tp.topic, self._tp.partition, settings.include_headers),
            offset_range.from_offset,
            offset_range.until_offset,
            read_committed=settings.client.read_committed,
            check_crcs=settings.check_crcs,
            on_unreadable=self._tell_unreadable if settings.skip_unreadable else None,
        )

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        while self._position < self._until:
            answer = self._fetch()
            if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                self._out_of_range()
                continue
            fetched = self._scan(answer)
            if not self._advance(fetched, answer):
                continue
            if self._position < self._until:
                self._send()
            aborted = [AbortedTransaction(*each) for each in answer.aborted_transactions or ()]
            yield from self._decode(fetched, aborted)
        yield from self._decoder.finish()

    def _decode(self, fetched: Fetched, aborted: list[AbortedTransaction]) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._decoder.feed(fetched, aborted)
        except StorageError as error:
            way_out = "" if self._settings.skip_unreadable else f" ({SKIPS_UNREADABLE})"
            raise FetchFailed(f"{self._tp}: {error}{way_out}") from error

    def _tell_unreadable(self, first_offset: int, last_offset: int, reason: str) -> None:
        """Report skipped records on stderr, which Spark adds to the executor's log."""
        where = f"{self._tp}, offsets {first_offset} to {last_offset}"
        sys.stderr.write(f"{where}: records are skipped, because {reason}\n")

    def _scan(self, answer: FetchedPartition) -> Fetched:
        records = answer.records
        try:
            return scan(memoryview(b"") if records is None else memoryview(records), self._position)  # type: ignore[arg-type]
        except StorageError as error:
            raise FetchFailed(f"{self._tp} at offset {self._position}: {error}") from error

    def _advance(self, fetched: Fetched, answer: FetchedPartition) -> bool:
        if fetched.next_offset > self._position:
            self._position = min(fetched.next_offset, self._until)
            return True
        if len(fetched.data):  # a batch larger than max_bytes, from a broker older than 0.10.1
            self._max_bytes *= 2
            return False
        if self._readable_end(answer) >= self._until:
            self._position = self._until  # a gap to the end of the range
        return False

    # --- one fetch

    def _fetch(self) -> FetchedPartition:
        """The next response that makes progress, or OFFSET_OUT_OF_RANGE.

        Raises: FetchFailed for an error that is not retriable, or if no such response arrives within ``patience_ms``.
        """
        settings = self._settings.client
        deadline_s = monotonic_s() + settings.patience_ms / 1000
        cause = "no leader is known"
        while True:
            try:
                answer = self._answer()
                if answer is not None:
                    code = ErrorCode.of(answer.error_code)
                    if code is ErrorCode.OFFSET_OUT_OF_RANGE or (code is ErrorCode.NONE and self._useful(answer)):
                        return answer
                    if code is not ErrorCode.NONE and not code.retriable and code not in _MOVED:
                        raise FetchFailed(f"fetching {self._tp} at offset {self._position}: {code.name}")
                    cause = code.name if code else f"the log ends at offset {answer.high_watermark}"
            except BROKEN as error:
                cause = str(error) or type(error).__name__
                self._broke()
            if monotonic_s() >= deadline_s:
                raise FetchFailed(
                    f"fetching {self._tp} at offset {self._position}: {cause}, for {settings.patience_ms} ms"
                )
            self._find_leader()

    def _useful(self, answer: FetchedPartition) -> bool:
        return bool(answer.records) or self._readable_end(answer) >= self._until

    def _readable_end(self, answer: FetchedPartition) -> int:
        """The offset up to which records can be read. Brokers without transactions (before Fetch version 4) return no
        stable offset."""
        stable = answer.last_stable_offset
        return stable if self._settings.client.read_committed and stable >= 0 else answer.high_watermark

    def _answer(self) -> FetchedPartition | None:
        if self._in_flight is None and not self._send():
            return None
        connection = self._in_flight
        assert connection is not None
        response = connection.receive_fetch()
        self._in_flight = None
        if response.error_code:
            raise FetchFailed(f"fetching {self._tp}: {ErrorCode.of(response.error_code).name}")
        return response.topics[0].partitions[0]

    def _send(self) -> bool:
        connection = None
        try:
            connection = self._cluster.leader(self._tp)
            if connection is None:
                return False
            connection.send_fetch(self._request())
        except BROKEN:
            self._in_flight = connection
            self._broke()
            return False
        self._in_flight = connection
        return True

    def _request(self) -> FetchRequest:
        fetched = FetchPartition(
            self._tp.partition, self._position, self._max_bytes, self._cluster.leader_epoch(self._tp)
        )
        return FetchRequest(
            self._settings.max_wait_ms,
            1,
            [FetchTopic(self._tp.topic, None, [fetched])],
            max_bytes=self._max_bytes,
            isolation_level=int(self._settings.client.read_committed),
        )

    def _broke(self) -> None:
        if self._in_flight is not None:
            self._cluster.forget(self._in_flight)
            self._in_flight = None

    def _find_leader(self) -> None:
        self._cluster.pause()
        with suppress(FetchFailed):  # the next attempt raises the error after patience_ms
            self._cluster.refresh([self._tp.topic])

    # --- loss

    def _out_of_range(self) -> None:
        start = self._cluster.offsets({self._tp: EARLIEST})[self._tp]
        end = self._cluster.log_ends([self._tp])[self._tp]
        if start > self._position:
            lost_until, why = min(start, self._until), f"the log starts at offset {start} now"
        elif end < self._until:
            lost_until, why = self._until, f"the log ends at offset {end} now"
        else:
            return  # in range again: the leader had not caught up
        if self._settings.fail_on_data_loss:
            raise DataLoss(
                f"offsets {self._position} to {lost_until - 1} of {self._tp} are missing: {why} "
                f"(failOnDataLoss=false reads the rest)"
            )
        self._position = lost_until
        self._decoder.skip_to(lost_until)

"""The remote log metadata of the partitions that this broker hosts, stored in ``__remote_log_metadata``.

A broker reads the metadata partitions of its tiered partitions from the beginning, and keeps the result in memory. It
applies its own records when it reads them back, so all brokers apply records in the order of the log.
Source: TopicBasedRemoteLogMetadataManager.java, ConsumerTask.java@3.9.
"""

from collections.abc import Awaitable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, Protocol

from twisted.internet.defer import Deferred, DeferredList, ensureDeferred
from twisted.internet.error import ConnectError, ConnectionClosed
from twisted.logger import Logger

from kafka_zk.base.clock import Clock
from kafka_zk.base.turns import in_slices
from kafka_zk.broker.tiered.metadata_client import Fetched
from kafka_zk.protocol.errors import ApiError, ErrorCode, ProtocolError
from kafka_zk.protocol.remote_log_metadata import decode_remote_log_record, encode_remote_log_record
from kafka_zk.storage.files.errors import StorageError
from kafka_zk.storage.records.record_batch import RecordBatchBuilder, iter_batches
from kafka_zk.storage.records.record_decoder import decode_keys_and_values
from kafka_zk.storage.tiered.metadata_partition import METADATA_TOPIC, metadata_partition
from kafka_zk.storage.tiered.remote_log_metadata import RemoteLogMetadata, RemotePartitionLog
from kafka_zk.storage.tiered.segment_metadata import (
    RemoteLogSegmentMetadata,
    RemoteLogSegmentMetadataUpdate,
    TopicIdPartition,
)

_log = Logger()

CONSUME_WAIT_S = 120.0  # remote.log.metadata.consume.wait.ms
_UNREACHABLE = (ApiError, ConnectError, ConnectionClosed, ConnectionError, OSError, ProtocolError)


class MetadataUnavailable(Exception):
    """The metadata could not be read or written in time. A record may have been written."""


class Client(Protocol):
    """The methods of ``MetadataClient`` that this module uses."""

    @property
    def partition_count(self) -> int: ...

    def leader(self, partition: int) -> int | None: ...

    def produce(self, partition: int, batch: bytes) -> Awaitable[int]: ...

    def fetch(self, leader: int, positions: Mapping[int, int]) -> Awaitable[dict[int, Fetched]]: ...

    def committed_ends(self, leader: int, partitions: Iterable[int]) -> Awaitable[dict[int, int]]: ...


class _Waiting(NamedTuple):
    """A caller that waits until the record at ``offset`` is applied, or, if ``offset`` is None, until a later poll than
    number ``poll`` reaches the end of the log."""

    offset: int | None
    poll: int
    done: "Deferred[None]"


class _MetadataPartition:
    """``position``: the next offset to apply."""

    def __init__(self) -> None:
        self.position = 0
        self.metadata = RemoteLogMetadata()
        self.waiting: list[_Waiting] = []

    @property
    def waits_for_end(self) -> bool:
        return any(each.offset is None for each in self.waiting)


class RemoteLogMetadataManager:
    """``poll`` reads new records; call it about once a second. A caller that waits also starts a poll."""

    def __init__(self, broker_id: int, clock: Clock, client: Client) -> None:
        self._broker_id = broker_id
        self._clock = clock
        self._client = client
        self._partitions: dict[int, _MetadataPartition] = {}
        self._poll_count = 0
        self._is_polling = self._polls_again = False
        self._faults: dict[str, str] = {}  # by broker or partition; already logged; cleared by the next success

    @property
    def is_ready(self) -> bool:
        """False while ``__remote_log_metadata`` does not exist."""
        return bool(self._client.partition_count)

    def assign(self, tps: Iterable[TopicIdPartition]) -> None:
        """Read the metadata of these partitions. Forget all partitions that do not share a metadata partition with
        them."""
        count = self._client.partition_count
        wanted = {metadata_partition(tp.topic_id, tp.partition, count) for tp in tps} if count else set()
        for number in self._partitions.keys() - wanted:
            for waiting in list(self._partitions.pop(number).waiting):  # each removes itself when its wait ends
                waiting.done.errback(MetadataUnavailable(f"{METADATA_TOPIC}-{number} is not read any more"))
        for number in wanted - self._partitions.keys():
            self._partitions[number] = _MetadataPartition()

    def log(self, tp: TopicIdPartition) -> RemotePartitionLog:
        """The metadata read so far; may be empty."""
        found = self._partition(tp)
        known = None if found is None else found[1].metadata.partitions.get(tp)
        return RemotePartitionLog() if known is None else known

    async def complete_log(self, tp: TopicIdPartition) -> RemotePartitionLog:
        """All metadata that were committed before this call. The partition need not be assigned yet, so that a broker
        that has just started, or received a replica, need not wait for its next round of tasks. Cancelling the call
        ends its wait. Raises: MetadataUnavailable."""
        if count := self._client.partition_count:
            self._partitions.setdefault(metadata_partition(tp.topic_id, tp.partition, count), _MetadataPartition())
        await self._wait(tp, None)
        return self.log(tp)

    async def write(self, record: RemoteLogSegmentMetadata | RemoteLogSegmentMetadataUpdate) -> None:
        """Append a record, and wait until it is read back. Raises: MetadataUnavailable."""
        tp = record.segment_id.tp
        found = self._partition(tp)
        if found is None:
            raise MetadataUnavailable(f"the metadata of {tp.topic}-{tp.partition} are not read")
        batch = RecordBatchBuilder()
        batch.append(self._clock.wall_ms(), None, encode_remote_log_record(record, self._broker_id))
        try:
            offset = await self._client.produce(found[0], bytes(batch.build()))
        except _UNREACHABLE as error:
            raise MetadataUnavailable(f"a record for {tp.topic}-{tp.partition}: {error}") from error
        await self._wait(tp, offset)

    def _partition(self, tp: TopicIdPartition) -> tuple[int, _MetadataPartition] | None:
        count = self._client.partition_count
        number = metadata_partition(tp.topic_id, tp.partition, count) if count else -1
        found = self._partitions.get(number)
        return None if found is None else (number, found)

    async def _wait(self, tp: TopicIdPartition, offset: int | None) -> None:
        found = self._partition(tp)
        if found is None:
            raise MetadataUnavailable(f"the metadata of {tp.topic}-{tp.partition} are not read")
        partition = found[1]
        waiting = _Waiting(offset, self._poll_count, Deferred())

        def expire() -> None:
            waiting.done.errback(MetadataUnavailable(f"{METADATA_TOPIC}-{found[0]} was not read in time"))

        timer = self._clock.callLater(CONSUME_WAIT_S, expire)
        partition.waiting.append(waiting)
        self.poll()
        try:
            await waiting.done
        finally:
            if timer.active():
                timer.cancel()
            if waiting in partition.waiting:
                partition.waiting.remove(waiting)

    def poll(self) -> None:
        """Start to read new records. If a poll is in progress, it also reads the records that were written since it
        began."""
        if self._is_polling:
            self._polls_again = True
            return
        self._is_polling = True
        ensureDeferred(self._poll()).addErrback(lambda failure: _log.failure("reading remote log metadata failed",
        failure))

    async def _poll(self) -> None:
        try:
            is_behind = True
            while is_behind or self._polls_again:
                self._polls_again = False
                self._poll_count += 1
                by_leader: dict[int, dict[int, int]] = {}
                for number, partition in self._partitions.items():
                    leader = self._client.leader(number)
                    if leader is not None:
                        by_leader.setdefault(leader, {})[number] = partition.position
                fetches = [ensureDeferred(self._fetch(*each)) for each in by_leader.items()]
                results: list[Any] = await DeferredList(fetches, fireOnOneErrback=True)
                is_behind = any(behind for _, behind in results)
        finally:
            self._is_polling = False

    async def _fetch(self, leader: int, positions: Mapping[int, int]) -> bool:
        """Returns True if there is more to read."""
        poll = self._poll_count
        asked = [number for number in positions if self._partitions[number].waits_for_end]
        try:
            ends = await self._client.committed_ends(leader, asked) if asked else {}
            fetched = await self._client.fetch(leader, positions)
        except _UNREACHABLE as error:
            self._tell(f"broker {leader}", str(error))
            return False
        self._faults.pop(f"broker {leader}", None)
        is_behind = False
        for number, result in fetched.items():
            partition = self._partitions.get(number)
            if partition is None or partition.position != positions[number]:
                continue
            if result.error is ErrorCode.OFFSET_OUT_OF_RANGE and result.log_start_offset > partition.position:
                partition.position = result.log_start_offset  # retention deleted the records up to here
                is_behind = True
            elif result.error is ErrorCode.OFFSET_OUT_OF_RANGE:
                self._tell(
                    f"{METADATA_TOPIC}-{number}",
                    f"it ends before offset {partition.position}, which was committed: an unclean election lost"
                    " records, so no segments of the partitions in it are copied or deleted until a restart",
                )
            elif result.error is not ErrorCode.NONE:
                self._tell(f"{METADATA_TOPIC}-{number}", result.error.name)
            else:
                before = partition.position
                await in_slices(self._clock, self._apply(number, partition, result.records))
                is_behind |= before < partition.position < result.high_watermark
                self._wake(partition, poll, number in ends and partition.position >= ends[number])
        return is_behind

    def _apply(self, number: int, partition: _MetadataPartition, records: bytes) -> Iterator[None]:
        try:
            for at, header in iter_batches(records):
                for offset, _, value in () if header.is_control else decode_keys_and_values(records, at):
                    try:
                        partition.metadata.apply(decode_remote_log_record(value))
                    except ProtocolError as error:
                        _log.error("{topic}-{partition}: skipped the record at {offset}: {error}",
                                       topic=METADATA_TOPIC, partition=number, offset=offset, error=error)  # fmt: skip
                    yield
                partition.position = max(partition.position, header.next_offset)
        except StorageError as error:
            self._tell(f"{METADATA_TOPIC}-{number}", f"at {partition.position}: {error}")
        else:
            self._faults.pop(f"{METADATA_TOPIC}-{number}", None)

    def _wake(self, partition: _MetadataPartition, poll: int, is_at_end: bool) -> None:
        done = [
            each
            for each in partition.waiting
            if (is_at_end and poll > each.poll if each.offset is None else partition.position > each.offset)
        ]
        for each in done:
            partition.waiting.remove(each)
        for each in done:
            each.done.callback(None)

    def _tell(self, source: str, fault: str) -> None:
        if fault != self._faults.get(source):
            self._faults[source] = fault
            _log.warn("remote log metadata cannot be read now from {source}: {fault}", source=source, fault=fault)

"""Serves the partitions of a consumer's Fetch that are in remote storage. Source:
ReplicaManager.processRemoteFetch@3.9.

Up to READS_AT_ONCE remote partitions of a request are read concurrently. The others are empty in this response; the
client requests them first next time.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kafka_zk.base.turns import ClientWait, pause
from kafka_zk.broker.handlers.data import conversion
from kafka_zk.broker.handlers.data.partition_reads import PartitionReads
from kafka_zk.broker.handlers.data.requested_partitions import RequestedPartition
from kafka_zk.broker.handlers.error_map import EXPECTED, error_code
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.replica.fetch_session import Fetched
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.fetch import AbortedTransaction, FetchedPartition
from kafka_zk.storage.log.log import Log

if TYPE_CHECKING:  # most brokers have no remote storage
    from kafka_zk.broker.tiered.remote_reads import RemoteReads
    from kafka_zk.broker.tiered.unclaimed_reads import ReadKey, RemoteRead

READS_AT_ONCE = 8
"""Maximum number of concurrent reads. At 1 MiB each, this bounds the memory of a response."""


T = TypeVar("T")


class _Read(NamedTuple):
    """A read of remote records. ``key``: for ``RemoteReads.leave``."""

    requested: RequestedPartition
    log: Log
    max_bytes: int
    key: "ReadKey"
    records: "RemoteRead"


async def read_remote(
    services: Services, reads: PartitionReads, requested: Sequence[RequestedPartition], fetched: Fetched
) -> tuple[Fetched, int]:
    """Replace OFFSET_MOVED_TO_TIERED_STORAGE with records, except for followers and clients before message format 2.
    Returns the results, and the size of the new records.

    A partition that was not read within ``remote.fetch.max.wait.ms`` is empty, and the next fetch gets its records. If
    remote storage returns no records at all, the fetch waits for ``max_wait_ms``; otherwise clients would retry
    immediately.
    """
    remote = services.remote_reads
    if remote is None or reads.is_of_follower or reads.version < conversion.MAGIC_2_SINCE_FETCH:
        return fetched, 0
    places = [
        place
        for place, (_, result) in enumerate(fetched)
        if result.error_code == ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE
    ]
    if not places:
        return fetched, 0
    left_bytes = _left_bytes(services, reads, fetched)
    begun = {
        place: _begin(services, remote, reads, requested[place], left_bytes // min(len(places), READS_AT_ONCE))
        for place in places[:READS_AT_ONCE]
    }
    is_late = await _wait(services, remote, [each for each in begun.values() if isinstance(each, _Read)])
    again, size_bytes = list(fetched), 0
    for place in places:
        read = begun.get(place)
        if isinstance(read, FetchedPartition):
            result = read
        elif read is not None and read.records.called:
            result = await _result(services, reads, read)
            size_bytes += len(result.records or b"")
        else:
            result = _nothing(services, requested[place])
        again[place] = again[place][0], result
    if not is_late and not any(result.error_code or result.records for _, result in again):
        tps = [requested[place].tp for place in places]
        await services.fetch_purgatory.wait(tps, lambda: False, reads.request.max_wait_ms)
    return again, size_bytes


def _left_bytes(services: Services, reads: PartitionReads, fetched: Fetched) -> int:
    most_bytes = min(reads.request.max_bytes, services.config.fetch_max_bytes)
    return max(0, most_bytes - sum(len(result.records or b"") for _, result in fetched))


def _begin(
    services: Services, remote: "RemoteReads", reads: PartitionReads, requested: RequestedPartition, most_bytes: int
) -> _Read | FetchedPartition:
    """Returns a FetchedPartition with the error of a partition that this broker does not serve."""
    fetch = requested.fetch
    try:
        partition = services.replicas.partition(requested.tp)
        log = partition.readable_log(fetch.current_leader_epoch)
    except EXPECTED as error:
        return FetchedPartition(fetch.partition, error_code(error))
    max_bytes = min(fetch.partition_max_bytes, most_bytes)
    return _Read(
        requested, log, max_bytes, *remote.begin(partition, log, fetch.fetch_offset, max_bytes, reads.isolation)
    )


async def _wait(services: Services, remote: "RemoteReads", begun: Sequence[_Read]) -> bool:
    """Wait until the reads have ended, for at most ``remote.fetch.max.wait.ms``. Leave the reads that have not ended,
    and return True if there are any. Raises ClientGone, after it has left all."""
    late = begun
    try:
        await _ended(pause(services.clock, services.config.remote_fetch_max_wait_ms / 1000), begun)
        late = [each for each in begun if not each.records.called]
    finally:
        for each in late:
            remote.leave(each.key, each.records)
    return bool(late)


def _ended(wait: ClientWait[None], begun: Sequence[_Read]) -> ClientWait[None]:
    """End the wait when all reads have ended. A late read must not keep the others' records in memory, as it would in a
    DeferredList."""
    left = len(begun)

    def note(result: T) -> T:
        nonlocal left
        left -= 1
        if not left and not wait.called:
            wait.callback(None)
        return result

    for each in begun:
        each.records.addBoth(note)
    if not begun:
        wait.callback(None)
    return wait


async def _result(services: Services, reads: PartitionReads, read: _Read) -> FetchedPartition:
    """The result of a read that has ended."""
    fetch = read.requested.fetch
    try:
        found = await read.records
    except EXPECTED as error:
        return FetchedPartition(fetch.partition, error_code(error))
    if isinstance(found, int):
        if found != read.log.local_log_start_offset:
            return _nothing(services, read.requested)  # local records have become remote: the next fetch reads them
        local = fetch._replace(fetch_offset=found)
        return reads.read(read.requested._replace(fetch=local), read.max_bytes, True)
    found = found.at_most(read.max_bytes)
    aborted = [AbortedTransaction(each.producer_id, each.first_offset) for each in found.aborted]
    return _nothing(services, read.requested)._replace(
        records=found.records, aborted_transactions=aborted if reads.reads_committed else None
    )


def _nothing(services: Services, requested: RequestedPartition) -> FetchedPartition:
    """The result without records."""
    partition = services.replicas.partitions.get(requested.tp)
    log = None if partition is None else partition.log
    if log is None:
        return FetchedPartition(requested.fetch.partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    return FetchedPartition(
        requested.fetch.partition, 0, log.high_watermark, log.last_stable_offset, log.log_start_offset
    )

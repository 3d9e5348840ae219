"""Serves the partitions of a consumer's Fetch that are in remote storage. Source:
ReplicaManager.processRemoteFetch@3.9.

Up to READS_AT_ONCE remote partitions of a request are read concurrently. The others are empty in this response; the
client requests them first next time.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from twisted.internet.defer import DeferredList, ensureDeferred

from kafka_zk.broker.handlers.data import conversion
from kafka_zk.broker.handlers.data.partition_reads import PartitionReads
from kafka_zk.broker.handlers.data.requested_partitions import RequestedPartition
from kafka_zk.broker.handlers.error_map import EXPECTED, error_code
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.replica.fetch_session import Fetched
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.fetch import AbortedTransaction, FetchedPartition

if TYPE_CHECKING:  # most brokers have no remote storage
    from kafka_zk.broker.tiered.remote_reads import RemoteReads

READS_AT_ONCE = 8
"""Maximum number of concurrent reads. At 1 MiB each, this bounds the memory of a response."""


async def read_remote(
    services: Services, reads: PartitionReads, requested: Sequence[RequestedPartition], fetched: Fetched
) -> tuple[Fetched, int]:
    """Replace OFFSET_MOVED_TO_TIERED_STORAGE with records, except for followers and clients before message format 2.
    Returns the results, and the size of the new records.

    If remote storage returns no records now, the fetch waits for ``max_wait_ms``; otherwise clients would retry
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
    left_bytes = min(reads.request.max_bytes, services.config.fetch_max_bytes)
    left_bytes = max(0, left_bytes - sum(len(result.records or b"") for _, result in fetched))
    begun = [
        ensureDeferred(_read(services, remote, reads, requested[place], left_bytes // min(len(places), READS_AT_ONCE)))
        for place in places[:READS_AT_ONCE]
    ]
    found: list[Any] = await DeferredList(begun, fireOnOneErrback=True)
    again = list(fetched)
    for place, (_, result) in zip(places[:READS_AT_ONCE], found, strict=True):
        again[place] = again[place][0], result
    for place in places[READS_AT_ONCE:]:
        again[place] = again[place][0], _nothing(services, requested[place])
    size_bytes = sum(len(result.records) for _, result in found)
    if not any(result.error_code or result.records for _, result in again):
        tps = [requested[place].tp for place in places]
        await services.fetch_purgatory.wait(tps, lambda: False, reads.request.max_wait_ms)
    return again, size_bytes


async def _read(
    services: Services, remote: "RemoteReads", reads: PartitionReads, requested: RequestedPartition, max_bytes: int
) -> FetchedPartition:
    fetch = requested.fetch
    try:
        partition = services.replicas.partition(requested.tp)
        log = partition.readable_log(fetch.current_leader_epoch)
        found = await remote.read(
            partition, log, fetch.fetch_offset, min(fetch.partition_max_bytes, max_bytes), reads.isolation
        )
    except EXPECTED as error:
        return FetchedPartition(fetch.partition, error_code(error))
    if found is None:
        local = fetch._replace(fetch_offset=log.local_log_start_offset)
        return reads.read(requested._replace(fetch=local), max_bytes, True)
    aborted = [AbortedTransaction(each.producer_id, each.first_offset) for each in found.aborted]
    return _nothing(services, requested)._replace(
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

"""A consumer's Fetch that waits for ``min_bytes``. Source: DelayedFetch.scala@3.9."""

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.handlers.data.partition_reads import PartitionReads
from kafka_zk.broker.handlers.data.requested_partitions import RequestedPartition
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.replica.fetch_session import Fetched
from kafka_zk.protocol.fetch import FetchedPartition


class _Awaited:
    """A waiting request's result; only changed partitions are read again.

    As in Kafka, the size of each partition is counted as if it were alone in the response.
    """

    def __init__(self, reads: PartitionReads) -> None:
        self._reads = reads
        self._requested: dict[TopicPartition, RequestedPartition] = {}
        self._sizes_bytes: dict[TopicPartition, int] = {}  # only partitions with records
        self._size_bytes = 0  # their sum
        self.is_over = False

    def add(self, key: TopicPartition, entry: RequestedPartition, result: FetchedPartition) -> None:
        self._requested[key] = entry
        if result.records:
            self._count(key, len(result.records))

    def changed(self, key: TopicPartition) -> None:
        entry = self._requested[key]
        if self._reads.request.min_bytes <= 1:
            self.is_over = self._reads.has_something(entry)
            return
        _, size_bytes, is_final = self._reads.read_all([entry])
        self._count(key, size_bytes)
        has_enough = self._size_bytes >= self._reads.request.min_bytes
        self.is_over = is_final or has_enough or len(self._sizes_bytes) >= self._reads.max_slices

    def _count(self, key: TopicPartition, size_bytes: int) -> None:
        self._size_bytes += size_bytes - self._sizes_bytes.pop(key, 0)
        if size_bytes:
            self._sizes_bytes[key] = size_bytes


async def wait(
    services: Services, reads: PartitionReads, requested: list[RequestedPartition], fetched: Fetched
) -> None:
    """Wait for ``min_bytes``, or until a change (such as an error) ends the wait early, for at most ``max_wait_ms``.

    ``fetched``: the results so far.
    """
    awaited = _Awaited(reads)
    for entry, (_, result) in zip(requested, fetched, strict=True):
        awaited.add(entry.tp, entry, result)
    keys = [entry.tp for entry in requested]
    await services.fetch_purgatory.wait(keys, lambda: awaited.is_over, reads.request.max_wait_ms, awaited.changed)


def read_again(
    reads: PartitionReads, requested: list[RequestedPartition], fetched: Fetched
) -> tuple[Fetched, int, bool]:
    """The result after the wait, the size of its records in bytes, and whether it may contain an error.

    If the fetch waited for its first byte, only changed partitions can have records.
    """
    if reads.request.min_bytes > 1 or reads.is_redirected:
        return reads.read_all(requested)
    places = [
        place for place, (_, before) in enumerate(fetched) if reads.has_something(requested[place], before)
    ]
    news, size_bytes, is_final = reads.read_all([requested[place] for place in places])
    again = list(fetched)
    for place, result in zip(places, news, strict=True):
        again[place] = result
    return again, size_bytes, is_final

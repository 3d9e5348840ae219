"""A consumer's Fetch that waits for ``min_bytes``. Source: DelayedFetch.scala@3.9."""

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.handlers.data.partition_reads import PartitionReads
from kafka_zk.broker.handlers.data.requested_partitions import RequestedPartition
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.replica.fetch_session import Fetched, FetchSession
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
        if self.is_over:
            return
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


class _News:
    """The news of a session during a wait. The next fetch examines these partitions, too."""

    def __init__(self, session: FetchSession, awaited: _Awaited, requested: list[RequestedPartition]) -> None:
        self._session = session
        self._awaited = awaited
        self._requested = {entry.tp for entry in requested}
        self._seen: set[TopicPartition] = set()
        self.more: list[RequestedPartition] = []

    def look(self, key: FetchSession | None = None) -> None:
        news, self._session.news = self._session.news, set()
        self._seen |= news
        for tp in sorted(news):
            if tp not in self._requested:
                self._add(tp)
            if tp in self._requested:
                self._awaited.changed(tp)

    def _add(self, tp: TopicPartition) -> None:
        key = self._session.key_of(tp)
        if key is not None:
            entry = RequestedPartition(key[0], tp, self._session.wanted[key], None)
            self._requested.add(tp)
            self.more.append(entry)
            self._awaited.add(tp, entry, FetchedPartition(key[1]))

    def put_back(self) -> None:
        self._session.news |= self._seen


async def wait(
    services: Services,
    reads: PartitionReads,
    requested: list[RequestedPartition],
    fetched: Fetched,
    session: FetchSession | None,
) -> list[RequestedPartition]:
    """Wait for ``min_bytes``, or until a change makes waiting pointless, for at most ``max_wait_ms``.

    ``fetched``: the results so far. ``session``: waits for all of its partitions. Returns those that changed, without
    the requested ones.
    """
    awaited = _Awaited(reads)
    for entry, (_, result) in zip(requested, fetched, strict=True):
        awaited.add(entry.tp, entry, result)
    purgatory, max_wait_ms = services.fetch_purgatory, reads.request.max_wait_ms
    if session is None or session.purgatory is None:
        keys = [entry.tp for entry in requested]
        await purgatory.wait(keys, lambda: awaited.is_over, max_wait_ms, awaited.changed)
        return []
    news = _News(session, awaited, requested)
    news.look()  # this fetch may have been suspended since it examined the partitions
    if not awaited.is_over:
        await purgatory.wait([session], lambda: awaited.is_over, max_wait_ms, news.look)
        news.look()
    news.put_back()
    return news.more


def read_again(
    reads: PartitionReads,
    requested: list[RequestedPartition],
    fetched: Fetched,
    more: list[RequestedPartition],
) -> tuple[Fetched, int, bool]:
    """The result after the wait, the size of its records in bytes, and whether it may contain an error.

    If the fetch waited for its first byte, only changed partitions can have records. ``more``: the result of ``wait``.
    """
    if reads.request.min_bytes > 1 or reads.is_redirected:
        return reads.read_all([*requested, *more])
    places = [
        place for place, (_, before) in enumerate(fetched) if reads.has_something(requested[place], before)
    ]
    news, size_bytes, is_final = reads.read_all([*(requested[place] for place in places), *more])
    again = list(fetched)
    for place, result in zip(places, news, strict=False):
        again[place] = result
    return [*again, *news[len(places) :]], size_bytes, is_final

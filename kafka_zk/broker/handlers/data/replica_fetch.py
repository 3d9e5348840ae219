"""A follower's Fetch: which partitions are read, how the fetch waits, and what its session remembers.

Unlike in Kafka, a fetch waits for a change in any of the follower's partitions (``follower_waits``).
Source: DelayedFetch.scala@3.9.
"""

from collections.abc import Iterator

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.handlers.data.partition_reads import PartitionReads
from kafka_zk.broker.handlers.data.requested_partitions import RequestedPartition, resolve_topic
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.replica import follower_fetch
from kafka_zk.broker.replica.fetch_session import FetchContext, Fetched, PartitionKey, TopicKey, Wanted
from kafka_zk.broker.replica.follower_waits import FOLLOWER_FETCHES, FollowerFetches, NewlyLed
from kafka_zk.broker.security.authorizer import CLUSTER, Operation
from kafka_zk.protocol.fetch import FetchedPartition, Part
from kafka_zk.protocol.fetch_request import TOPIC_IDS_SINCE, FetchPartition, FetchRequest
from kafka_zk.protocol.request import RequestContext


def due(services: Services, context: RequestContext, request: FetchRequest, fetching: FetchContext) -> Wanted:
    """The partitions that may have changed. If none has changed, the fetch waits for changes of any partition in its
    session. The wait does not check permissions, so this function does."""
    session, replicas = fetching.session, services.replicas
    if session is None or not fetching.is_incremental:
        return fetching.wanted
    changed = None
    if not replicas.quotas.leader.throttled:
        tps = replicas.changes.since(session.seen_count)
        if tps is not None and tps <= replicas.partitions.keys():
            changed = {_key_of(services, tp, session.uses_topic_ids) for tp in tps}
    names: dict[TopicKey, str] = {}

    def agrees(key: PartitionKey, fetch: FetchPartition) -> bool:
        topic, number = key
        if topic not in names:
            names[topic] = resolve_topic(services, context, request, topic)[0]
        return _is_of_one_epoch(services, TopicPartition(names[topic], number), fetch)

    asked = session.due(request, changed, replicas.isr_updates.now_ms(), agrees)
    if not asked and not services.authorizer.may(context, Operation.CLUSTER_ACTION, CLUSTER):
        return fetching.wanted  # each partition has an error: do not wait
    return asked


def _is_of_one_epoch(services: Services, tp: TopicPartition, fetch: FetchPartition) -> bool:
    """True if the follower has this broker's leader epoch, or if one of the two epochs is unknown."""
    partition = services.replicas.partitions.get(tp)
    return partition is None or fetch.current_leader_epoch in (-1, partition.leader_epoch)


def _key_of(services: Services, tp: TopicPartition, uses_topic_ids: bool) -> PartitionKey:
    return (services.replicas.partitions[tp].topic_id.bytes if uses_topic_ids else tp.topic), tp.partition


def note_answer(
    services: Services,
    broker_id: int,
    fetching: FetchContext,
    requested: list[RequestedPartition],
    fetched: Fetched,
    seen_count: int,
) -> None:
    """Remember in the session which partitions the next fetch must read even if they do not change."""
    if fetching.session is not None:
        fetching.session.answered(_unfinished(services, broker_id, requested, fetched), seen_count)


def _unfinished(
    services: Services, broker_id: int, requested: list[RequestedPartition], fetched: Fetched
) -> Iterator[PartitionKey]:
    for entry, (key, result) in zip(requested, fetched, strict=True):
        partition = services.replicas.partitions.get(entry.tp)
        if (
            result.error_code
            or result.records
            or result.diverging_epoch is not None
            or partition is None
            or partition.log is None
            or partition.log.log_end_offset != entry.fetch.fetch_offset
            or partition.remotes is None
            or broker_id not in partition.remotes.state.maximal_isr
            or not partition.remotes.knows(broker_id, entry.fetch.fetch_offset, entry.fetch.log_start_offset)
        ):
            yield key, result.partition


def count_replication(
    services: Services, requested: list[RequestedPartition], fetched: Fetched, parts: list[Part]
) -> None:
    """Count bytes for the replication quota: followers in sync are not throttled, but their bytes count."""
    replicas = services.replicas
    replicas.replication_bytes_out += sum(map(len, parts))
    quota = replicas.quotas.leader
    if quota.throttled:
        sizes_bytes = (
            len(result.records or b"")
            for entry, (_, result) in zip(requested, fetched, strict=True)
            if quota.is_throttled(entry.tp)
        )
        quota.record(sum(sizes_bytes), replicas.isr_updates.now_ms())


class FollowerWait:
    """A waiting fetch collects changed partitions and reads them for the response.

    Args:
        wanted: all partitions that the follower replicates from this broker.
        looked_at: the partitions that were read before the wait, after ``seen_count`` changes.
    """

    def __init__(
        self,
        services: Services,
        reads: PartitionReads,
        wanted: Wanted,
        looked_at: list[RequestedPartition],
        seen_count: int,
    ) -> None:
        self._services = services
        self._reads = reads
        self._wanted = wanted
        self._looked_at = looked_at
        self._news: dict[TopicPartition, RequestedPartition] = {}
        self._is_over = False
        self.seen_count = seen_count

    async def wait(self) -> None:
        """Wait for changes, including changes since the read, because this fetch may have advanced a high watermark,
        and the producer that waited for it may have sent more records."""
        self._look()
        if not self._is_over:
            replicas = self._services.replicas
            max_wait_ms = replicas.follower_waits.limit_ms(self._reads.request.max_wait_ms)
            keys = (FOLLOWER_FETCHES, NewlyLed())
            await replicas.purgatory.wait(keys, lambda: self._is_over, max_wait_ms, self._look)
            self._look()

    def _look(self, key: FollowerFetches | NewlyLed | None = None) -> None:
        changes = self._services.replicas.changes
        changed = changes.since(self.seen_count)
        if isinstance(key, NewlyLed) or changed is None or not changed <= self._services.replicas.partitions.keys():
            self._is_over = True  # the next request handles other changes
            return
        self.seen_count = changes.count
        news = [entry for entry in map(self._entry, sorted(changed)) if entry is not None]
        self._news.update((entry.tp, entry) for entry in news)
        if self._reads.request.min_bytes <= 1:
            self._is_over = any(map(self._has_something, news))
        elif news:
            followed = list({entry.tp: entry for entry in (*self._looked_at, *self._news.values())}.values())
            _, size_bytes, is_final = self._reads.read_all(followed)
            self._is_over = is_final or size_bytes >= self._reads.request.min_bytes

    def _entry(self, tp: TopicPartition) -> RequestedPartition | None:
        key = _key_of(self._services, tp, self._reads.version >= TOPIC_IDS_SINCE)
        fetch = self._wanted.get(key)
        if fetch is None or not _is_of_one_epoch(self._services, tp, fetch):
            return None
        return RequestedPartition(key[0], tp, fetch, None)

    def _has_something(self, entry: RequestedPartition, before: FetchedPartition | None = None) -> bool:
        if follower_fetch.is_held_back(self._services.replicas, entry.tp, self._reads.request.replica_id):
            return False
        return self._reads.has_something(entry, before)

    def read(self, fetched: Fetched) -> tuple[list[RequestedPartition], Fetched, bool]:
        """Return the partitions, their results, and whether one may be an error. ``fetched``: the results before the
        wait."""
        places = [
            place
            for place, (entry, (_, before)) in enumerate(zip(self._looked_at, fetched, strict=True))
            if self._reads.has_something(entry, before)
        ]
        known = {entry.tp for entry in self._looked_at}
        more = [entry for tp, entry in self._news.items() if tp not in known]
        again = [*(self._looked_at[place] for place in places), *more]
        news, _, is_final = self._reads.read_all(again)
        told = list(fetched)
        for place, result in zip(places, news, strict=False):
            told[place] = result
        return [*self._looked_at, *more], [*told, *news[len(places) :]], is_final

"""A consumer's Fetch in a session: which partitions are examined, and what the session remembers.

Partitions without news cost nothing: the session watches its partitions in the purgatory, whose checks announce every
change that could end the wait of a fetch.
"""

from collections.abc import Iterable, Iterator

from kafka_zk.broker.handlers.data.partition_reads import PartitionReads
from kafka_zk.broker.handlers.data.requested_partitions import RequestedPartition, resolve_topic
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.replica.fetch_session import FetchContext, Fetched, FetchSession, PartitionKey, Wanted
from kafka_zk.protocol.fetch_request import FetchRequest
from kafka_zk.protocol.request import RequestContext


def due(services: Services, context: RequestContext, request: FetchRequest, fetching: FetchContext) -> Wanted:
    """Partitions whose result may differ from the last one. All of them if a topic cannot be read, or if the consumer
    may be sent to another broker."""
    session = fetching.session
    is_redirected = request.rack_id and services.config.replica_selector_class is not None
    if session is None or not fetching.is_incremental or is_redirected:
        return fetching.wanted
    if any(resolve_topic(services, context, request, key)[1] is not None for key in session.topics):
        return fetching.wanted
    return session.due_to_consumer(request, services.replicas.isr_updates.now_ms())


def watch(session: FetchSession | None, requested: Iterable[RequestedPartition]) -> None:
    """Let a consumer's session receive news of partitions. Call this before they are examined."""
    if session is not None and session.purgatory is not None:
        for entry in requested:
            if entry.error is None:
                session.watch(entry.tp, (entry.topic, entry.fetch.partition))


def note_answer(
    fetching: FetchContext, reads: PartitionReads, requested: list[RequestedPartition], fetched: Fetched
) -> None:
    """Remember in the session which partitions the next fetch must examine even without news."""
    if fetching.session is not None:
        unfinished = _unfinished(reads, requested, fetched)
        fetching.session.answered(unfinished, fetching.session.seen_count)


def _unfinished(
    reads: PartitionReads, requested: list[RequestedPartition], fetched: Fetched
) -> Iterator[PartitionKey]:
    for entry, (topic, result) in zip(requested, fetched, strict=True):
        if result.error_code or result.records or reads.has_something(entry, result):
            yield topic, result.partition


def note_refusal(fetching: FetchContext, requested: Iterable[RequestedPartition]) -> None:
    """The client gets an empty response: the next fetch examines the same partitions again."""
    if fetching.session is not None:
        fetching.session.news.update(entry.tp for entry in requested)

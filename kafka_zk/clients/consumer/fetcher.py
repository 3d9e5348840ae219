"""The thin driver of ``fetch_state``, with one fetch in flight per broker.

It fetches ahead while the user processes records. After a leader change, a lost connection or a malformed response it
refreshes the metadata and fetches again.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any
from uuid import UUID

from twisted.internet.defer import gatherResults
from twisted.logger import Logger

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.cluster import Cluster
from kafka_zk.clients.connection.connections import version_between
from kafka_zk.clients.connection.errors import KafkaError, broker_error
from kafka_zk.clients.connection.list_offsets import ListedOffset, list_offsets
from kafka_zk.clients.connection.metadata import NO_TOPIC_ID
from kafka_zk.clients.connection.waiting import Reactor, Signal, run
from kafka_zk.clients.consumer.config import ReaderConfig
from kafka_zk.clients.consumer.fetch_state import After, FetchState, Lookup, UnreadableBatch, Wanted
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.fetch import FetchedPartition, FetchResponse, read_fetch_response
from kafka_zk.protocol.fetch_request import (
    TOPIC_IDS_SINCE,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    write_fetch_request,
)

_log = Logger()
_PURPOSE = "fetch"
_VERSION_MIN = 4  # the first version whose responses contain magic 2
_VERSION_MAX = 17
_CONSUMER = -1
_SESSIONLESS_EPOCH = -1


class Fetcher:
    """Supplies ``state`` with records after ``start``; on the reactor thread.

    ``arrived`` fires when records, positions or errors arrive. ``on_reset`` is called with each position that was
    looked up.
    """

    def __init__(
        self,
        reactor: Reactor,
        config: ReaderConfig,
        cluster: Cluster,
        state: FetchState,
        on_reset: Callable[[TopicPartition, int], None] = lambda tp, offset: None,
    ) -> None:
        self._reactor = reactor
        self._config = config
        self._cluster = cluster
        self._state = state
        self._on_reset = on_reset
        state.on_unreadable = _tell_unreadable
        self.arrived = Signal(reactor)
        self._busy: set[int] = set()
        self._timer: Any = None
        self._running = False
        cluster.on_update.append(self.pump)

    def start(self) -> None:
        self._running = True
        self.pump()

    def stop(self) -> None:
        """Responses to pending requests are still handled."""
        self._running = False
        if self._timer is not None and self._timer.active():
            self._timer.cancel()

    def learn(self, topics: Iterable[str]) -> None:
        self._cluster.add_topics(topics)
        run(self._once(self._cluster.refresh()))

    def prepare(self, partitions: Collection[TopicPartition]) -> None:
        """Connect to the leaders, so that the first fetch does not wait."""
        self._cluster.add_topics(sorted({tp.topic for tp in partitions}))
        run(self._once(self._connect_leaders(partitions)))

    async def _connect_leaders(self, partitions: Collection[TopicPartition]) -> None:
        if any(self._cluster.metadata.leader_id(tp) is None for tp in partitions):
            await self._cluster.refresh()
        leaders = {self._cluster.metadata.leader_id(tp) for tp in partitions}
        opening = [run(self._cluster.connection(leader, _PURPOSE)) for leader in leaders if leader is not None]
        await gatherResults(opening, consumeErrors=True)

    async def _once(self, preparation: Awaitable[object]) -> None:
        """A failed preparation is ignored: the fetch tries again and logs the reason."""
        try:
            await preparation
        except Exception as error:
            _log.debug("partitions being claimed could not be prepared: {error}", error=error)

    def pump(self) -> None:
        if not self._running:
            return
        now_ms = self._now_ms()
        lookups, lookup_leaderless = self._state.plan_lookups(self._cluster.metadata.leader_id, now_ms)
        if lookups:
            run(self._look_up(lookups))
        plans, leaderless = self._state.plan(self._cluster.metadata.leader_id, self._busy, now_ms)
        for node_id, wanted in plans.items():
            self._busy.add(node_id)
            run(self._fetch(node_id, wanted))
        if leaderless or lookup_leaderless:
            self._cluster.request_update()
        retry_ms = self._state.next_retry_ms(now_ms)
        if retry_ms is not None and (self._timer is None or not self._timer.active()):
            self._timer = self._reactor.callLater((retry_ms - now_ms) / 1000, self.pump)

    async def _look_up(self, wanted: Mapping[TopicPartition, Lookup]) -> None:
        try:
            found = await self.list_offsets({tp: lookup.spec for tp, lookup in wanted.items()})
        except KafkaError as error:
            for tp, lookup in wanted.items():
                self._state.lookup_failed(tp, lookup.generation, error, self._now_ms())
        else:
            for tp, listed in found.items():
                if self._state.looked_up(tp, wanted[tp].generation, listed.offset):
                    self._on_reset(tp, listed.offset)
        self.arrived.fire()
        self.pump()

    async def _fetch(self, node_id: int, wanted: list[Wanted]) -> None:
        after = []
        try:
            response, names = await self._exchange(node_id, wanted)
            after = self._take_in(response, names, wanted)
        except Exception as error:
            # Connection lost, request timed out or malformed response: retry, perhaps with another leader.
            if self._running:
                _log.warn("a fetch from broker {node_id} failed: {error}", node_id=node_id, error=error)
                for each in wanted:
                    self._state.fetch_lost(each, self._now_ms())
                after = [After.REFRESH]
        finally:
            self._busy.discard(node_id)
        if After.REFRESH in after and self._running:
            self._cluster.request_update()
        if self._state.has_records:
            self.arrived.fire()
        self.pump()

    def _take_in(self, response: FetchResponse, names: Mapping[bytes, str], wanted: list[Wanted]) -> list[After]:
        if response.error_code:
            raise broker_error(response.error_code, "fetching")
        answers: dict[TopicPartition, FetchedPartition] = {}
        for topic, topic_id, partitions in response.topics:
            name = names.get(topic_id, "") if topic_id is not None else topic
            for answer in partitions:
                answers[TopicPartition(name or "", answer.partition)] = answer
        leaders = {tp: answer.current_leader for tp, answer in answers.items() if answer.current_leader is not None}
        moved = self._cluster.learn_leaders(leaders, response.node_endpoints) if leaders else ()
        now_ms = self._now_ms()
        missing = FetchedPartition(-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return [
            self._state.fetched(each, answers.get(each.tp, missing), now_ms, has_moved=each.tp in moved)
            for each in wanted
        ]

    async def _exchange(self, node_id: int, wanted: list[Wanted]) -> tuple[FetchResponse, dict[bytes, str]]:
        connection = await self._cluster.connection(node_id, _PURPOSE)
        metadata = self._cluster.metadata
        by_topic: dict[str, list[FetchPartition]] = {}
        ids: dict[str, UUID] = {}
        for (topic, partition), fetch_offset, _ in wanted:
            epoch = metadata.leader_epoch(TopicPartition(topic, partition))
            entry = FetchPartition(partition, fetch_offset, self._config.max_partition_fetch_bytes, epoch)
            by_topic.setdefault(topic, []).append(entry)
            known = metadata.topics.get(topic)
            ids[topic] = NO_TOPIC_ID if known is None else known.topic_id
        highest = _VERSION_MAX if NO_TOPIC_ID not in ids.values() else TOPIC_IDS_SINCE - 1
        version = version_between(connection, ApiKey.FETCH, _VERSION_MIN, highest)
        request = FetchRequest(
            self._config.fetch_max_wait_ms,
            self._config.fetch_min_bytes,
            [FetchTopic(topic, ids[topic].bytes, partitions) for topic, partitions in by_topic.items()],
            max_bytes=self._config.fetch_max_bytes,
            isolation_level=int(self._config.read_committed),
            session_epoch=_SESSIONLESS_EPOCH,
            rack_id=self._config.client_rack,
            replica_id=_CONSUMER,
        )
        body = await connection.send_raw(ApiKey.FETCH, version, [write_fetch_request(version, request)])
        return read_fetch_response(version, body), {ids[topic].bytes: topic for topic in by_topic}

    async def list_offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, ListedOffset]:
        return await list_offsets(
            self._reactor,
            self._cluster,
            wanted,
            self._config.default_api_timeout_ms,
            self._config.retry_backoff_ms,
            read_committed=self._config.read_committed,
        )

    def _now_ms(self) -> int:
        return int(self._reactor.seconds() * 1000)


def _tell_unreadable(batch: UnreadableBatch) -> None:
    _log.warn(
        "{tp}: stepped over offsets {first} to {last}, whose batch no consumer can read: {reason}",
        tp=batch.tp,
        first=batch.first_offset,
        last=batch.last_offset,
        reason=batch.reason,
    )

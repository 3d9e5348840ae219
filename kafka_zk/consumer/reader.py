"""A plain reader of assigned partitions for Twisted programs: no group, no commits.

The thin driver around ``fetch_state``. One fetch is in flight per broker; while the user works on what came, the next
one is on its way, up to ``max.partition.fetch.bytes`` ahead per partition. For threads there is ``blocking_reader``.
"""

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any
from uuid import UUID

from twisted.logger import Logger

from kafka_zk.client.cluster import Cluster
from kafka_zk.client.connections import Connect, version_between
from kafka_zk.client.errors import ClientClosed, KafkaError, broker_error
from kafka_zk.client.list_offsets import EARLIEST, LATEST, ListedOffset, list_offsets
from kafka_zk.client.metadata import NO_TOPIC_ID, TopicMetadata
from kafka_zk.client.waiting import Reactor, Signal, run
from kafka_zk.consumer.config import ReaderConfig
from kafka_zk.consumer.fetch_state import After, FetchState, Start, Wanted
from kafka_zk.consumer.records import ConsumerRecord
from kafka_zk.network.client import connect
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
from storage.types import TopicPartition

_log = Logger()
_PURPOSE = "fetch"
_VERSION_MIN = 4  # the first one whose answers carry magic 2
_VERSION_MAX = 17
_CONSUMER = -1
_SESSIONLESS_EPOCH = -1


class Reader:
    """Reads partitions that you assign; all methods on the reactor's thread.

    ``Reader(reactor, bootstrap_servers="h:9092")`` takes Kafka's consumer keys with ``.`` as ``_``, or a ready
    ReaderConfig. Records come in order within a partition, each offset once; leaders may move meanwhile. A partition's
    log that was truncated behind the reader is noticed only when its position falls out of the log (auto.offset.reset).

    Raises: ConfigError naming the key and what is allowed.
    """

    def __init__(
        self,
        reactor: Reactor,
        config: ReaderConfig | None = None,
        *,
        connect: Connect = connect,
        **options: Any,
    ) -> None:
        if config is not None and options:
            raise TypeError("give either a config or options, not both")
        self._reactor = reactor
        self.config = ReaderConfig.from_properties(options) if config is None else config
        self._cluster = Cluster(reactor, self.config, connect=connect)
        self._cluster.on_update.append(self._pump)
        self._state = FetchState(self.config)
        self._arrived = Signal(reactor)
        self._busy: set[int] = set()
        self._looking_up = False
        self._timer: Any = None
        self._started = False
        self._closed = False

    # --- what to read ---

    def assign(self, starts: Mapping[TopicPartition, Start]) -> None:
        """Read exactly these partitions, each from its start: an offset, "earliest", "latest" or ``Timestamp(ms)``.

        Raises: ValueError for a start that is none of these.
        """
        self._check_open()
        self._state.assign(starts)
        self._cluster.add_topics(sorted({tp.topic for tp in starts}))
        self._started = False

    def assignment(self) -> list[TopicPartition]:
        """The assigned partitions, sorted."""
        return self._state.assignment

    def seek(self, tp: TopicPartition, start: Start) -> None:
        """Go on elsewhere in an assigned partition; what was fetched of it is dropped."""
        self._state.seek(tp, start)
        self._pump()

    async def position(self, tp: TopicPartition) -> int:
        """The offset of the next record that ``poll`` would give of this partition.

        Raises: KafkaError when it is not assigned, or its start cannot be looked up within default.api.timeout.ms.
        """
        await self._start()
        deadline_s = self._reactor.seconds() + self.config.default_api_timeout_ms / 1000
        while (found := self._state.position(tp)) is None:
            self._pump()
            timeout = broker_error(ErrorCode.REQUEST_TIMED_OUT, f"looking up the position of {tp}")
            await self._arrived.wait_until(deadline_s, timeout)
            self._check_open()
        return found

    # --- reading ---

    async def poll(self, timeout_ms: int) -> list[ConsumerRecord]:
        """Return the next records, at most ``max.poll.records``; an empty list when none came in ``timeout_ms``.

        Raises: BrokerError of a partition that cannot be read on (OFFSET_OUT_OF_RANGE without a reset, CORRUPT_MESSAGE,
        authorization …) once what lies before it was given; KafkaTimeoutError when a topic does not exist.
        """
        self._check_open()
        deadline_s = self._reactor.seconds() + timeout_ms / 1000
        await self._start()
        self._pump()
        while not self._state.has_records:
            try:
                await self._arrived.wait_until(deadline_s, _Nothing())
            except _Nothing:
                return []
            self._check_open()
        records = self._state.take()
        self._pump()
        return records

    async def batches(self, until: Mapping[TopicPartition, int] | None = None) -> AsyncIterator[list[ConsumerRecord]]:
        """Yield lists of records, for ever, or until the position of each partition of ``until`` reached its offset.

        ``until=await reader.end_offsets(reader.assignment())`` reads to the end as it is now; the last lists may hold
        records beyond it.
        """
        if until is not None:
            for tp in until:
                await self.position(tp)
        while until is None or any((self._state.position(tp) or 0) < end for tp, end in until.items()):
            records = await self.poll(self.config.fetch_max_wait_ms)
            if records:
                yield records

    def high_watermark(self, tp: TopicPartition) -> int:
        """The high watermark that the last answer told, -1 before the first one."""
        return self._state.high_watermark(tp)

    # --- offsets and topics ---

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset after the last record that can be read, now."""
        return {tp: found.offset for tp, found in (await self._list(dict.fromkeys(partitions, LATEST))).items()}

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset of each log."""
        return {tp: found.offset for tp, found in (await self._list(dict.fromkeys(partitions, EARLIEST))).items()}

    async def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, ListedOffset | None]:
        """The first record at or after each time; None where there is none."""
        found = await self._list(times_ms)
        return {tp: listed if listed.offset >= 0 else None for tp, listed in found.items()}

    async def partitions_for(self, topic: str) -> TopicMetadata:
        """The topic's metadata. Raises: KafkaTimeoutError when it does not exist after default.api.timeout.ms."""
        self._check_open()
        return await self._cluster.topic(topic, self.config.default_api_timeout_ms)

    async def close(self) -> None:
        """Stop reading; calls that wait fail with ClientClosed."""
        self._closed = True
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._arrived.fire()
        await self._cluster.close()

    # --- driving ---

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosed("the reader was closed")

    async def _start(self) -> None:
        """Before the first fetch of an assignment: its topics must exist."""
        if self._started:
            return
        for topic, count in sorted(_partition_counts(self._state.assignment).items()):
            known = await self._cluster.topic(topic, self.config.default_api_timeout_ms)
            if count > len(known.partitions):
                raise broker_error(
                    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                    f"partition {count - 1} of {topic}, which has 0..{len(known.partitions) - 1}",
                )
        self._started = True
        self._pump()

    def _now_ms(self) -> int:
        return int(self._reactor.seconds() * 1000)

    def _pump(self) -> None:
        """Start whatever lookups and fetches can be started now."""
        if self._closed or not self._started:
            return
        now_ms = self._now_ms()
        if not self._looking_up and self._state.lookups(now_ms):
            self._looking_up = True
            run(self._look_up())
        plans, leaderless = self._state.plan(self._cluster.metadata.leader_id, self._busy, now_ms)
        for node_id, wanted in plans.items():
            self._busy.add(node_id)
            run(self._fetch(node_id, wanted))
        if leaderless:
            self._cluster.request_update()
        retry_ms = self._state.next_retry_ms(now_ms)
        if retry_ms is not None and (self._timer is None or not self._timer.active()):
            self._timer = self._reactor.callLater((retry_ms - now_ms) / 1000, self._pump)

    async def _look_up(self) -> None:
        wanted = self._state.lookups(self._now_ms())
        try:
            found = await self._list({tp: spec for tp, (spec, _) in wanted.items()})
        except KafkaError as error:
            for tp, (_, generation) in wanted.items():
                self._state.lookup_failed(tp, generation, error, self._now_ms())
        else:
            for tp, listed in found.items():
                self._state.looked_up(tp, wanted[tp][1], listed.offset)
        finally:
            self._looking_up = False
        self._arrived.fire()
        self._pump()

    async def _fetch(self, node_id: int, wanted: list[Wanted]) -> None:
        after = []
        try:
            response, names = await self._exchange(node_id, wanted)
            after = self._take_in(response, names, wanted)
        except Exception as error:
            # Connection lost, timed out or nonsense received: ask again, perhaps another leader.
            if not self._closed:
                _log.warn("a fetch from broker {node_id} failed: {error}", node_id=node_id, error=error)
                for each in wanted:
                    self._state.fetch_lost(each, self._now_ms())
                after = [After.REFRESH]
        finally:
            self._busy.discard(node_id)
        if After.REFRESH in after and not self._closed:
            self._cluster.request_update()
        if self._state.has_records:
            self._arrived.fire()
        self._pump()

    def _take_in(self, response: FetchResponse, names: Mapping[bytes, str], wanted: list[Wanted]) -> list[After]:
        if response.error_code:
            raise broker_error(response.error_code, "fetching")
        answers: dict[TopicPartition, FetchedPartition] = {}
        for topic, topic_id, partitions in response.topics:
            name = names.get(topic_id, "") if topic_id is not None else topic
            for answer in partitions:
                answers[TopicPartition(name or "", answer.partition)] = answer
        now_ms = self._now_ms()
        missing = FetchedPartition(-1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return [self._state.fetched(each, answers.get(each.topic_partition, missing), now_ms) for each in wanted]

    async def _exchange(self, node_id: int, wanted: list[Wanted]) -> tuple[FetchResponse, dict[bytes, str]]:
        connection = await self._cluster.connection(node_id, _PURPOSE)
        metadata = self._cluster.metadata
        by_topic: dict[str, list[FetchPartition]] = {}
        ids: dict[str, UUID] = {}
        for (topic, partition), fetch_offset, _ in wanted:
            epoch = metadata.leader_epoch(TopicPartition(topic, partition))
            entry = FetchPartition(partition, fetch_offset, self.config.max_partition_fetch_bytes, epoch)
            by_topic.setdefault(topic, []).append(entry)
            known = metadata.topics.get(topic)
            ids[topic] = NO_TOPIC_ID if known is None else known.topic_id
        highest = _VERSION_MAX if NO_TOPIC_ID not in ids.values() else TOPIC_IDS_SINCE - 1
        version = version_between(connection, ApiKey.FETCH, _VERSION_MIN, highest)
        request = FetchRequest(
            self.config.fetch_max_wait_ms,
            self.config.fetch_min_bytes,
            [FetchTopic(topic, ids[topic].bytes, partitions) for topic, partitions in by_topic.items()],
            max_bytes=self.config.fetch_max_bytes,
            session_epoch=_SESSIONLESS_EPOCH,
            replica_id=_CONSUMER,
        )
        body = await connection.send_raw(ApiKey.FETCH, version, [write_fetch_request(version, request)])
        return read_fetch_response(version, body), {ids[topic].bytes: topic for topic in by_topic}

    async def _list(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, ListedOffset]:
        self._check_open()
        return await list_offsets(
            self._reactor, self._cluster, wanted, self.config.default_api_timeout_ms, self.config.retry_backoff_ms
        )


class _Nothing(Exception):
    """Nothing came in time; never seen outside ``poll``."""


def _partition_counts(partitions: Iterable[TopicPartition]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for topic, partition in partitions:
        counts[topic] = max(counts.get(topic, 0), partition + 1)
    return counts

"""A plain reader of assigned partitions for Twisted programs, without group or commits.

``fetcher`` fetches ahead, up to ``max.partition.fetch.bytes`` per partition. ``blocking_reader`` is for threads.
"""

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Any

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.cluster import Cluster
from kafka_zk.clients.connection.errors import ClientClosed, broker_error
from kafka_zk.clients.connection.list_offsets import EARLIEST, LATEST, ListedOffset
from kafka_zk.clients.connection.metadata import TopicMetadata
from kafka_zk.clients.connection.waiting import Reactor
from kafka_zk.clients.consumer.config import ReaderConfig
from kafka_zk.clients.consumer.fetch_state import FetchState
from kafka_zk.clients.consumer.fetcher import Fetcher
from kafka_zk.clients.consumer.records import ConsumerRecord
from kafka_zk.clients.consumer.starts import Start
from kafka_zk.network.client import Connect, connect
from kafka_zk.protocol.errors import ErrorCode


class Reader:
    """Reads partitions that you assign, on the reactor thread.

    ``Reader(reactor, bootstrap_servers="h:9092")`` takes Kafka's consumer keys with ``_`` for ``.``, or a ReaderConfig.
    Records of a partition arrive in order, each offset once, even across leader changes. A log truncation is noticed
    only if the position is then out of range (auto.offset.reset).

    Raises: ConfigError naming the key and the allowed values.
    """

    def __init__(
        self,
        reactor: Reactor,
        config: ReaderConfig | None = None,
        *,
        connect: Connect = connect,
        **options: Any,
    ) -> None:
        self._reactor = reactor
        self.config = ReaderConfig.given(config, options)
        self._cluster = Cluster(reactor, self.config, connect=connect)
        self._state = FetchState(self.config)
        self._fetcher = Fetcher(reactor, self.config, self._cluster, self._state)
        self._started = False
        self._closed = False

    # --- what to read ---

    def assign(self, starts: Mapping[TopicPartition, Start]) -> None:
        """Read exactly these partitions. A start is an offset, "earliest", "latest" or ``Timestamp(ms)``.

        Raises: ValueError for any other start.
        """
        self._check_open()
        self._state.assign(starts)
        self._cluster.add_topics(sorted({tp.topic for tp in starts}))
        self._fetcher.stop()
        self._started = False

    def assignment(self) -> list[TopicPartition]:
        """The assigned partitions, sorted."""
        return self._state.assignment

    def seek(self, tp: TopicPartition, start: Start) -> None:
        """Continue at another offset of an assigned partition; its fetched records are dropped."""
        self._state.seek(tp, start)
        self._fetcher.pump()

    async def position(self, tp: TopicPartition) -> int:
        """The offset of the next record of this partition that ``poll`` would return.

        Raises: KafkaError if the partition is not assigned, or its start cannot be looked up within
        default.api.timeout.ms.
        """
        await self._start()
        deadline_s = self._reactor.seconds() + self.config.default_api_timeout_ms / 1000
        while (found := self._state.position(tp)) is None:
            self._fetcher.pump()
            if not await self._fetcher.arrived.wait_until(deadline_s):
                raise broker_error(ErrorCode.REQUEST_TIMED_OUT, f"looking up the position of {tp}")
            self._check_open()
        return found

    # --- reading ---

    async def poll(self, timeout_ms: int) -> list[ConsumerRecord]:
        """The next records, at most ``max.poll.records``; an empty list if none arrive within ``timeout_ms``.

        Raises: BrokerError of a partition that cannot be read (OFFSET_OUT_OF_RANGE without a reset, CORRUPT_MESSAGE,
        authorization …), after all records before the error; KafkaTimeoutError if a topic does not exist.
        """
        deadline_s = self._reactor.seconds() + timeout_ms / 1000
        while True:  # records may follow a marker or aborted records
            records = await self._take(deadline_s)
            if records or self._reactor.seconds() >= deadline_s:
                return records

    async def _take(self, deadline_s: float) -> list[ConsumerRecord]:
        self._check_open()
        await self._start()
        self._fetcher.pump()
        while not self._state.has_records:
            if not await self._fetcher.arrived.wait_until(deadline_s):
                return []
            self._check_open()
        records = self._state.take()
        self._fetcher.pump()
        return records

    async def batches(self, until: Mapping[TopicPartition, int] | None = None) -> AsyncIterator[list[ConsumerRecord]]:
        """Yield lists of records endlessly, or until the position of each partition of ``until`` reaches its offset.

        ``until=await reader.end_offsets(reader.assignment())`` reads to the current end; the last lists may contain
        later records.
        """
        if until is not None:
            for tp in until:
                await self.position(tp)
        while until is None or any((self._state.position(tp) or 0) < end for tp, end in until.items()):
            records = await self._take(self._reactor.seconds() + self.config.fetch_max_wait_ms / 1000)
            if records:
                yield records

    def high_watermark(self, tp: TopicPartition) -> int:
        """The high watermark in the last response, -1 before the first one."""
        return self._state.high_watermark(tp)

    # --- offsets and topics ---

    async def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The current offset after the last readable record; for read_committed, the last stable offset."""
        found = await self._list_offsets(dict.fromkeys(partitions, LATEST))
        return {tp: listed.offset for tp, listed in found.items()}

    async def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset of each log."""
        found = await self._list_offsets(dict.fromkeys(partitions, EARLIEST))
        return {tp: listed.offset for tp, listed in found.items()}

    async def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, ListedOffset | None]:
        """The first record at or after each timestamp; None if no such record exists."""
        found = await self._list_offsets(times_ms)
        return {tp: listed if listed.offset >= 0 else None for tp, listed in found.items()}

    async def partitions_for(self, topic: str, timeout_ms: int | None = None) -> TopicMetadata:
        """The topic's metadata. Waits for the topic to exist, for at most ``timeout_ms`` (None:
        default.api.timeout.ms).

        Raises: KafkaTimeoutError.
        """
        self._check_open()
        return await self._cluster.topic(
            topic, self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        )

    async def close(self) -> None:
        """Stop reading; waiting calls fail with ClientClosed."""
        self._closed = True
        self._fetcher.stop()
        self._fetcher.arrived.fire()
        await self._cluster.close()

    # --- driving ---

    def _check_open(self) -> None:
        if self._closed:
            raise ClientClosed("the reader was closed")

    async def _start(self) -> None:
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
        self._fetcher.start()

    async def _list_offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, ListedOffset]:
        self._check_open()
        return await self._fetcher.list_offsets(wanted)


def _partition_counts(partitions: Iterable[TopicPartition]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for topic, partition in partitions:
        counts[topic] = max(counts.get(topic, 0), partition + 1)
    return counts

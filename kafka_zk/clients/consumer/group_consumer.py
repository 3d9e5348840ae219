"""The common part of the consumers of both kinds of groups; the kinds differ in their ``Group``."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Mapping
from types import TracebackType
from typing import Generic, NamedTuple, Protocol, Self, TypeVar

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.errors import KafkaError
from kafka_zk.clients.connection.waiting import Reactor
from kafka_zk.clients.consumer.group_commits import Answers, GroupCommits, Settled
from kafka_zk.clients.consumer.group_consumer_config import GroupConsumerConfig
from kafka_zk.clients.consumer.group_delivery import GroupDelivery
from kafka_zk.clients.consumer.membership import Lease, Membership
from kafka_zk.clients.consumer.records import ConsumerRecord
from kafka_zk.clients.consumer.starts import Start
from kafka_zk.clients.consumer.stream import Stream
from kafka_zk.clients.consumer.topics_subscribed import TopicsSubscribed, parse_subscription
from kafka_zk.clients.consumer.user_side import UserSide


class Group(Lease, Protocol):
    """One consumer's group: who assigns partitions to the consumer's delivery, and where its offsets are kept."""

    async def start(self) -> None:
        """Join. Raises: the reason why this member may not join."""

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> Answers:
        """Write the offsets of owned partitions."""

    async def leave(self, settled: Settled) -> None:
        """Revoke the owned partitions, then leave, as far as the group can be reached.

        ``settled()`` ends with the last of the user's commits; none begins after it.
        """

    async def close(self) -> None:
        """Close all connections; may be called again."""


C = TypeVar("C", bound=GroupConsumerConfig)
G = TypeVar("G", bound=Group)


class Joined(NamedTuple, Generic[G]):
    """The parts of a consumer that exist from ``start`` on."""

    group: G
    delivery: GroupDelivery
    commits: GroupCommits


class GroupConsumer(ABC, Generic[C, G]):
    """One member of a group; all methods on the reactor's thread.

    Attributes:
        config: the given configuration, with all defaults.
        consumer_id: this member's name.
    """

    def __init__(self, reactor: Reactor, config: C, consumer_id: str, user: UserSide) -> None:
        self.config = config
        self.consumer_id = consumer_id
        self._reactor = reactor
        self._user = user
        self._membership = Membership()
        self._topics: TopicsSubscribed | None = None
        self._started = False
        self._joined: Joined[G] | None = None
        self._left = False

    @abstractmethod
    async def _make_group(self, topics: TopicsSubscribed) -> tuple[G, GroupDelivery]:
        """Connect to what decides about the group. Raises: what ``start`` may be tried again after; ClientClosed."""

    # --- joining ---

    def _subscribe(self, topics: Iterable[str], white_list: str | None, black_list: str | None) -> None:
        if self._topics is not None:
            raise KafkaError("a member's subscription does not change: make another consumer")
        names, pattern = parse_subscription(topics, white_list, black_list)
        self._topics = TopicsSubscribed(tuple(names), pattern, self.config.exclude_internal_topics)

    async def start(self) -> None:
        """Join the group. Partitions come as soon as the group assigns some.

        Raises: NoBrokersAvailable, or ConnectionTimeout when ZooKeeper is not reached (it may be called again);
        BrokerError, FencedInstanceId or DuplicateConsumerId when this client may not join; KafkaError without a
        subscription or after ``close``.
        """
        self._membership.check()
        if self._topics is None:
            raise KafkaError("subscribe to something first")
        if self._started:
            raise KafkaError("the consumer has joined already")
        self._started = True
        try:
            group, delivery = await self._make_group(self._topics)
        except BaseException:
            self._started = False
            raise
        commits = GroupCommits(self._reactor, self.config, delivery, group.commit)
        self._joined = Joined(group, delivery, commits)
        self._membership.begin(group)
        delivery.fetcher.start()
        try:
            await group.start()
        except Exception:  # not GeneratorExit: a simulated process has ended then
            self._started, self._joined = False, None
            delivery.fetcher.stop()
            await group.close()
            self._membership.check()
            raise
        commits.start()

    @property
    def streams(self) -> list[Stream]:
        """The streams, in the order of their thread numbers; empty before ``start``."""
        return [] if self._joined is None else self._joined.delivery.streams

    # --- reading ---

    async def poll(self, timeout_ms: int) -> list[ConsumerRecord]:
        """Return the next records, at most ``max.poll.records``; an empty list when none came in ``timeout_ms``.

        Joins the group at the first call. Marks the records of the previous call as processed.
        Raises: what ``Stream.poll`` and ``start`` raise; KafkaError with several streams (each has its own ``poll``).
        """
        return await (await self._only_stream()).poll(timeout_ms)

    async def batches(self) -> AsyncIterator[list[ConsumerRecord]]:
        """Yield lists of records without end; raises what ``poll`` raises."""
        stream = await self._only_stream()
        async for records in stream.batches():
            yield records

    async def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Write the next offsets to consume: those given, or those after all delivered records.

        Raises: CommitRefused naming partitions that this consumer does not own, or no longer owns, or may not own (the
        connection to ZooKeeper is suspended: try again later), or whose group has rebalanced for longer than
        ``default.api.timeout.ms``; the others are written.
        """
        await self._require_joined().commits.commit(offsets)

    def assignment(self) -> list[TopicPartition]:
        """The partitions that this consumer owns now, sorted."""
        return [] if self._joined is None else self._joined.delivery.assignment

    def position(self, tp: TopicPartition) -> int | None:
        """The offset of the next record of an owned partition; None while its start is looked up."""
        return self._require_joined().delivery.position(tp)

    def high_watermark(self, tp: TopicPartition) -> int:
        """The high watermark in the last response, -1 before the first one."""
        return self._require_joined().delivery.state.high_watermark(tp)

    def seek(self, tp: TopicPartition, start: Start) -> None:
        """Continue at another offset of an owned partition; the next commit writes the new position."""
        self._require_joined().delivery.seek(tp, start)

    def pause(self, *partitions: TopicPartition) -> None:
        """Deliver no more records of these owned partitions until ``resume``, or until they are reassigned."""
        self._require_joined().delivery.pause(partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        """Resume paused partitions."""
        self._require_joined().delivery.unpause(partitions)

    # --- leaving ---

    async def close(self) -> None:
        """Leave the group: commit what was processed, release all partitions. Waiting calls fail with ClientClosed.

        The records delivered last do not count as processed, unless ``commit`` was called; leaving the ``async
        with`` block without an exception says that they are. A second close does nothing.
        """
        for stream in self.streams:
            stream.awaited = False
        await self.leave()

    async def leave(self) -> None:
        """The second half of ``close``: users of awaited streams get time to return what they hold."""
        self._membership.closed = True
        if self._left:
            return
        self._left = True
        if self._joined is None:
            return
        group, delivery, commits = self._joined
        commits.stop()
        delivery.wake()
        try:
            await group.leave(commits.settled)
        except Exception:  # not GeneratorExit: see ``start``
            delivery.fetcher.stop()
            await group.close()
            raise
        delivery.fetcher.stop()
        await group.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            for stream in self.streams:
                stream.handout.done()
        await self.close()

    # --- inside ---

    def _require_joined(self) -> Joined[G]:
        if self._joined is None:
            raise KafkaError("the consumer has not joined its group yet")
        return self._joined

    async def _only_stream(self) -> Stream:
        if not self._started:
            await self.start()
        streams = self._require_joined().delivery.streams
        if len(streams) > 1:
            raise KafkaError("a consumer with several streams is read stream by stream")
        return streams[0]

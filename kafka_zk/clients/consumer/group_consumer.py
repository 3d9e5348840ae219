"""The code that the consumers of both kinds of groups share. The consumers differ in their ``Group``."""

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
    """One consumer's group: it assigns partitions to the consumer's delivery and stores offsets."""

    async def start(self) -> None:
        """Join the group. Raises the error if this member may not join."""

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> Answers:
        """Write the offsets of owned partitions."""

    async def leave(self, settled: Settled) -> None:
        """Revoke the owned partitions, then leave the group if it can be reached.

        ``settled()`` returns when the user's last commit is done.
        """

    async def close(self) -> None:
        """Close all connections; further calls do nothing."""


C = TypeVar("C", bound=GroupConsumerConfig)
G = TypeVar("G", bound=Group)


class Joined(NamedTuple, Generic[G]):
    """The parts of a consumer that ``start`` creates."""

    group: G
    delivery: GroupDelivery
    commits: GroupCommits


class GroupConsumer(ABC, Generic[C, G]):
    """One member of a group, on the reactor thread.

    Attributes:
        config: the configuration, including defaults.
        consumer_id: the name of this member.
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
        """Connect to the group. Raises ClientClosed, and errors after which ``start`` may be called again."""

    # --- joining ---

    def _subscribe(self, topics: Iterable[str], white_list: str | None, black_list: str | None) -> None:
        if self._topics is not None:
            raise KafkaError("a member's subscription cannot change: create another consumer")
        names, pattern = parse_subscription(topics, white_list, black_list)
        self._topics = TopicsSubscribed(tuple(names), pattern, self.config.exclude_internal_topics)

    async def start(self) -> None:
        """Join the group. Partitions arrive when the group assigns some.

        Raises: NoBrokersAvailable, or ConnectionTimeout if ZooKeeper cannot be reached (``start`` may be called again);
        BrokerError, FencedInstanceId or DuplicateConsumerId if this client may not join; KafkaError without a
        subscription or after ``close``.
        """
        self._membership.check()
        if self._topics is None:
            raise KafkaError("call subscribe first")
        if self._started:
            raise KafkaError("the consumer has already joined")
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
        except Exception:  # not GeneratorExit, which ends a simulated process
            self._started, self._joined = False, None
            delivery.fetcher.stop()
            await group.close()
            self._membership.check()
            raise
        commits.start()

    @property
    def streams(self) -> list[Stream]:
        """The streams, in the order of thread numbers; empty before ``start``."""
        return [] if self._joined is None else self._joined.delivery.streams

    # --- reading ---

    async def poll(self, timeout_ms: int) -> list[ConsumerRecord]:
        """The next records, at most ``max.poll.records``; an empty list if none arrive within ``timeout_ms``.

        The first call joins the group. Each call marks the records of the previous one as processed.
        Raises: the errors of ``Stream.poll`` and ``start``; KafkaError with several streams (poll each of them).
        """
        return await (await self._only_stream()).poll(timeout_ms)

    async def batches(self) -> AsyncIterator[list[ConsumerRecord]]:
        """Yield lists of records endlessly. Raises what ``poll`` raises."""
        stream = await self._only_stream()
        async for records in stream.batches():
            yield records

    async def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Write the next offsets to consume: ``offsets``, or those after all delivered records.

        Raises: CommitRefused naming partitions that this consumer does not own, or might not own while the connection
        to ZooKeeper is suspended (try again later). Also raised if the group rebalances for longer than
        ``default.api.timeout.ms``. The other offsets are written.
        """
        await self._require_joined().commits.commit(offsets)

    def assignment(self) -> list[TopicPartition]:
        """The partitions that this consumer owns now, sorted."""
        return [] if self._joined is None else self._joined.delivery.assignment

    def position(self, tp: TopicPartition) -> int | None:
        """The offset of the next record of an owned partition; None while the start is looked up."""
        return self._require_joined().delivery.position(tp)

    def high_watermark(self, tp: TopicPartition) -> int:
        """The high watermark in the last response, -1 before the first one."""
        return self._require_joined().delivery.state.high_watermark(tp)

    def seek(self, tp: TopicPartition, start: Start) -> None:
        """Continue at another offset of an owned partition; the next commit writes the new position."""
        self._require_joined().delivery.seek(tp, start)

    def pause(self, *partitions: TopicPartition) -> None:
        """Stop delivering records of these owned partitions until ``resume``, or until they are reassigned."""
        self._require_joined().delivery.pause(partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        """Resume paused partitions."""
        self._require_joined().delivery.unpause(partitions)

    # --- leaving ---

    async def close(self) -> None:
        """Leave the group: commit processed records and release all partitions. Waiting calls fail with ClientClosed.

        The records delivered last count as processed after ``commit``, and when the ``async with`` block ends without
        an exception.
        """
        for stream in self.streams:
            stream.awaited = False
        await self.leave()

    async def leave(self) -> None:
        """The second half of ``close``: gives the users of awaited streams time to process their records."""
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

    # --- internals ---

    def _require_joined(self) -> Joined[G]:
        if self._joined is None:
            raise KafkaError("the consumer has not joined its group yet")
        return self._joined

    async def _only_stream(self) -> Stream:
        if not self._started:
            await self.start()
        streams = self._require_joined().delivery.streams
        if len(streams) > 1:
            raise KafkaError("a consumer with several streams must be read through its streams")
        return streams[0]

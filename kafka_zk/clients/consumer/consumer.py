"""A consumer whose group the broker coordinates, for Twisted programs. For threads: ``blocking_consumer``.

What a group of ZooKeeper is for ``zookeeper_consumer``, the group's coordinator is here; it shares groups with every
current client.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from kafka_zk.base.clock import boottime_ms
from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.cluster import Cluster
from kafka_zk.clients.connection.errors import KafkaError
from kafka_zk.clients.connection.group_coordinator import ConsumerGroupMetadata
from kafka_zk.clients.connection.waiting import Reactor
from kafka_zk.clients.consumer.consumer_config import ConsumerConfig
from kafka_zk.clients.consumer.consumer_coordinator import ConsumerCoordinator
from kafka_zk.clients.consumer.group_commits import GroupCommits
from kafka_zk.clients.consumer.group_delivery import GroupDelivery
from kafka_zk.clients.consumer.membership import Membership
from kafka_zk.clients.consumer.owned_partitions import OwnedPartitions
from kafka_zk.clients.consumer.rebalance_listener import RebalanceListener
from kafka_zk.clients.consumer.records import ConsumerRecord
from kafka_zk.clients.consumer.stream import Stream
from kafka_zk.clients.consumer.topics_subscribed import TopicsSubscribed, parse_subscription
from kafka_zk.clients.consumer.user_side import ReactorUser, UserSide, UserThread
from kafka_zk.network.client import Connect, connect
from kafka_zk.registry.znodes.consumers import STATIC

_ON_THE_REACTOR = ReactorUser()
_CLOSE_PATIENCE_S = 30.0
"""What Kafka's consumer gives ``close``."""


class Consumer(OwnedPartitions):
    """One member of a group; all methods on the reactor's thread.

    ::

        async with Consumer(reactor, group_id="g", bootstrap_servers="h:9092") as consumer:
            consumer.subscribe(["orders"])
            async for records in consumer.batches():
                ...

    Takes the keys of Kafka's consumer with ``.`` as ``_``, or a ready ConsumerConfig. Records of a partition come in
    order. With ``enable.auto.commit`` (the default) the offsets of what was processed are committed every
    ``auto.commit.interval.ms`` and whenever a partition goes to another member; records count as processed when the
    next ones are requested, so each is delivered at least once. For at most once, ``commit()`` before processing.

    Whoever requests nothing for ``max.poll.interval.ms`` is out of the group until they do.

    Args:
        listener: called before partitions are released and before records of new ones come.
    Raises: ConfigError naming the key and what is allowed.
    """

    def __init__(
        self,
        reactor: Reactor,
        config: ConsumerConfig | None = None,
        *,
        listener: RebalanceListener | None = None,
        user_thread: UserThread = _ON_THE_REACTOR,
        connect: Connect = connect,
        lease_clock_ms: Callable[[], float] = boottime_ms,
        **options: Any,
    ) -> None:
        if config is not None and options:
            raise TypeError("give either a config or options, not both")
        self._reactor = reactor
        self.config = ConsumerConfig.from_properties(options) if config is None else config
        self.consumer_id = self.config.client_id
        self._user = UserSide(self.consumer_id, listener, user_thread)
        self._membership = Membership()
        self._connect = connect
        self._lease_clock_ms = lease_clock_ms
        self._topics: TopicsSubscribed | None = None
        self._cluster: Cluster | None = None
        self._delivery: GroupDelivery | None = None
        self._coordinator: ConsumerCoordinator | None = None
        self._commits: GroupCommits | None = None
        self._left = False

    # --- joining ---

    def subscribe(
        self, topics: Iterable[str] = (), *, white_list: str | None = None, black_list: str | None = None
    ) -> None:
        """Subscribe, once and before ``start``: to topics, or all whose names (do not) match a Java regex.

        Raises: KafkaError when it is too late; InvalidTopicFilter; ValueError for anything but one of the three.
        """
        if self._topics is not None:
            raise KafkaError("a member's subscription does not change: make another consumer")
        names, pattern = parse_subscription(topics, white_list, black_list)
        self._topics = TopicsSubscribed(tuple(names), pattern, self.config.exclude_internal_topics)

    async def start(self) -> None:
        """Join the group; returns when its coordinator is found. Partitions come when the group assigns some.

        Raises: NoBrokersAvailable (it may be called again); BrokerError when this client may not join; KafkaError
        without a subscription or after ``close``.
        """
        self._membership.check()
        if self._topics is None:
            raise KafkaError("subscribe to something first")
        if self._coordinator is not None:
            raise KafkaError("the consumer has joined already")
        is_static = self._topics.pattern == STATIC
        self._cluster = cluster = Cluster(
            self._reactor, self.config, track_all_topics=not is_static, connect=self._connect
        )
        if is_static:
            cluster.add_topics(self._topics.names)
        self._delivery = delivery = GroupDelivery(self._reactor, self.config, cluster, 1, self._membership, self._user)
        self._coordinator = coordinator = ConsumerCoordinator(
            self._reactor, self.config, cluster, delivery, self._topics, self._lease_clock_ms
        )
        self._commits = GroupCommits(self._reactor, self.config, delivery, coordinator.commit)
        if not self.config.enable_auto_commit:
            delivery.on_starts_due = lambda: None  # nothing is committed but what the user commits
        self._membership.begin(coordinator)
        delivery.fetcher.start()
        try:
            await coordinator.start()
        except BaseException:
            self._coordinator = self._delivery = self._commits = None
            delivery.fetcher.stop()
            await cluster.close()
            self._membership.check()
            raise
        self._commits.start()

    @property
    def streams(self) -> list[Stream]:
        """The one stream; empty before ``start``."""
        return [] if self._delivery is None else self._delivery.streams

    # --- reading ---

    async def poll(self, timeout_ms: int) -> list[ConsumerRecord]:
        """Return the next records, at most ``max.poll.records``; an empty list when none came in ``timeout_ms``.

        Joins the group at the first call. Marks the records of the previous call as processed.
        Raises: what ``Stream.poll`` and ``start`` raise.
        """
        if self._coordinator is None:
            await self.start()
        return await self._joined()[0].streams[0].poll(timeout_ms)

    async def batches(self) -> AsyncIterator[list[ConsumerRecord]]:
        """Yield lists of records for ever; raises what ``poll`` raises."""
        if self._coordinator is None:
            await self.start()
        async for records in self._joined()[0].streams[0].batches():
            yield records

    async def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Write the next offsets to consume: those given, or those after all delivered records.

        Raises: CommitRefused naming partitions that this consumer does not own, or no longer owns, or whose group has
        rebalanced for longer than ``default.api.timeout.ms``; the others are written.
        """
        await self._joined()[1].commit(offsets)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """The membership under which this consumer commits now; no member id and generation -1 outside a generation.

        For a producer's ``send_offsets``: the group rejects anyone who is no longer a member of its generation. This
        consumer is in none while the application holds records of revoked partitions, even if it has joined again.

        Raises: KafkaError before the first ``start``. Source: KafkaConsumer.groupMetadata@3.9.
        """
        if self._coordinator is None:
            raise KafkaError("the consumer has not joined its group yet")
        if any(stream.handout.lost() for stream in self.streams):
            return ConsumerGroupMetadata(self.config.group_id)
        return ConsumerGroupMetadata(self.config.group_id, *self._coordinator.committer)

    # --- leaving ---

    async def close(self) -> None:
        """Leave the group: commit what was processed, release all partitions. Waiting calls fail with ClientClosed.

        A static member (``group.instance.id``) commits and goes without leaving: its partitions wait for it for
        ``session.timeout.ms``. The records delivered last do not count as processed, unless ``commit`` was called;
        leaving the ``async with`` block without an exception says that they are. A second close does nothing.

        Commits under way and the last one are given up after 5 s when the coordinator does not answer, and leaving
        after another 5 s; the group then misses this member after ``session.timeout.ms``.
        """
        for stream in self.streams:
            stream.awaited = False
        await self.leave()

    async def leave(self) -> None:
        """The second half of ``close``: users of streams that are awaited are given time to come back."""
        self._membership.closed = True
        if self._left:
            return
        self._left = True
        if self._commits is not None:
            self._commits.stop()
        if self._delivery is not None:
            self._delivery.close_within(_CLOSE_PATIENCE_S)
        try:
            if self._coordinator is not None and self._commits is not None:
                await self._coordinator.leave(self._commits.settled())
        finally:
            if self._delivery is not None:
                self._delivery.close_within(0)
                self._delivery.fetcher.stop()
            if self._cluster is not None:
                await self._cluster.close()

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

    def _joined(self) -> tuple[GroupDelivery, GroupCommits]:
        if self._delivery is None or self._commits is None:
            raise KafkaError("the consumer has not joined its group yet")
        return self._delivery, self._commits

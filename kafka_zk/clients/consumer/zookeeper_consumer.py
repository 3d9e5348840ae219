"""A consumer whose group coordinates through ZooKeeper, for Twisted programs. For threads: ``blocking_consumer``.

It joins the group with a registration in ZooKeeper; which partitions are its own, and from where, is worked out by
``rebalance.driver``; brokers are found in ZooKeeper's registry.
"""

import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from random import Random
from types import TracebackType
from typing import Any, Self

from twisted.logger import Logger

from kafka_zk.base.clock import Clock, SystemClock
from kafka_zk.base.events import Observe, ignore
from kafka_zk.base.randomness import SYSTEM_RANDOM
from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.cluster import Cluster
from kafka_zk.clients.connection.errors import KafkaError, NoBrokersAvailable
from kafka_zk.clients.connection.group_coordinator import GroupCoordinator
from kafka_zk.clients.connection.waiting import Reactor, run
from kafka_zk.clients.consumer.group_commits import GroupCommits, Write
from kafka_zk.clients.consumer.group_delivery import GroupDelivery
from kafka_zk.clients.consumer.membership import Membership
from kafka_zk.clients.consumer.offsets_in_kafka import OffsetsInKafka
from kafka_zk.clients.consumer.owned_partitions import OwnedPartitions
from kafka_zk.clients.consumer.rebalance_listener import RebalanceListener
from kafka_zk.clients.consumer.records import ConsumerRecord
from kafka_zk.clients.consumer.stream import Stream
from kafka_zk.clients.consumer.topics_subscribed import parse_subscription
from kafka_zk.clients.consumer.user_side import ReactorUser, UserSide, UserThread
from kafka_zk.clients.consumer.zookeeper_config import ZookeeperConsumerConfig
from kafka_zk.network.client import Connect, connect
from kafka_zk.rebalance.driver import GroupDriver
from kafka_zk.registry.brokers import BrokerRegistry
from kafka_zk.registry.client.client import RegistryClient
from kafka_zk.registry.client.errors import RegistryError
from kafka_zk.registry.client.kazoo_twisted import KazooTwistedClient
from kafka_zk.registry.client.session import fires_within
from kafka_zk.registry.znodes.consumers import MOST_STREAMS, STATIC, ConsumerRegistration

_log = Logger()
_ON_THE_REACTOR = ReactorUser()


class ZookeeperConsumer(OwnedPartitions):
    """One member of a group; all methods on the reactor's thread.

    ::

        async with ZookeeperConsumer(reactor, group_id="g", zookeeper_connect="h:2181/kafka") as consumer:
            consumer.subscribe(["orders"])
            async for records in consumer.batches():
                ...

    Takes the keys of Kafka's old consumer with ``.`` as ``_``, or a ready ZookeeperConsumerConfig. Records of a
    partition come in order. With ``auto.commit.enable`` (the default) the offsets of what was processed are committed
    every ``auto.commit.interval.ms`` and whenever a partition goes to another member; records count as processed when
    the next ones are requested, so each is delivered at least once. For at most once, ``commit()`` before processing.

    Args:
        listener: called before partitions are released and before records of new ones come.
        observe: called with everything that happens in the group, see ``rebalance.events``.
    Raises: ConfigError naming the key and what is allowed.
    """

    def __init__(
        self,
        reactor: Reactor,
        config: ZookeeperConsumerConfig | None = None,
        *,
        listener: RebalanceListener | None = None,
        observe: Observe = ignore,
        user_thread: UserThread = _ON_THE_REACTOR,
        open_client: "Callable[[], Awaitable[RegistryClient]] | None" = None,
        make_driver: Callable[..., GroupDriver] = GroupDriver,
        connect: Connect = connect,
        clock: Clock | None = None,
        random: Random = SYSTEM_RANDOM,
        **options: Any,
    ) -> None:
        if config is not None and options:
            raise TypeError("give either a config or options, not both")
        self._reactor = reactor
        self._clock: Clock = clock or SystemClock(reactor)
        self.config = ZookeeperConsumerConfig.from_properties(options) if config is None else config
        self.consumer_id = _consumer_id(self.config, self._clock.wall_ms(), random)
        self._user = UserSide(self.consumer_id, listener, user_thread)
        self._membership = Membership()
        self._observe = observe
        self._open_client = open_client or self._open_kazoo
        self._make_driver = make_driver
        self._cluster = Cluster(reactor, self.config.reader, find_brokers=self._find_brokers, connect=connect)
        self._registration: ConsumerRegistration | None = None
        self._client: RegistryClient | None = None
        self._driver: GroupDriver | None = None
        self._delivery: GroupDelivery | None = None
        self._commits: GroupCommits | None = None
        self._coordinator: GroupCoordinator | None = None
        self._started = False
        self._left = False

    # --- joining ---

    def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        white_list: str | None = None,
        black_list: str | None = None,
        streams: int = 1,
    ) -> None:
        """Subscribe, once and before ``start``: to topics, or all whose names (do not) match a Java regex.

        With several ``streams``, each is given partitions of its own.
        Raises: KafkaError when it is too late; InvalidTopicFilter; ValueError for anything but one of the three.
        """
        if self._registration is not None:
            raise KafkaError("a member's subscription does not change: make another consumer")
        names, pattern = parse_subscription(topics, white_list, black_list)
        if not 1 <= streams <= MOST_STREAMS:
            raise ValueError(f"a consumer has 1 to {MOST_STREAMS} streams, not {streams}")
        static = self.config.group_instance_id is not None
        self._registration = ConsumerRegistration(
            dict.fromkeys(names, streams),
            pattern,
            self._clock.wall_ms(),
            self.config.strategies,
            self.config.group_instance_id,
            self.config.session_timeout_ms if static else None,
        )

    async def start(self) -> None:
        """Join the group; returns when registered. Partitions come as soon as the group assigns some.

        Raises: ConnectionTimeout when ZooKeeper is not reached (it may be called again); FencedInstanceId or
        DuplicateConsumerId when another live member has the name (as every call from then on); KafkaError without a
        subscription or after ``close``.
        """
        self._membership.check()
        if self._registration is None:
            raise KafkaError("subscribe to something first")
        if self._started:
            raise KafkaError("the consumer has joined already")
        self._started = True
        try:
            self._client = client = await self._open_client()
        except BaseException:
            self._started = False
            raise
        if self._left:  # meanwhile
            await client.close()
            self._membership.check()
        self._delivery = delivery = GroupDelivery(
            self._reactor,
            self.config,
            self._cluster,
            max(self._registration.subscription.values()),
            self._membership,
            self._user,
        )
        storage = self._offsets_storage(delivery)
        self._driver = driver = self._make_driver(
            client,
            self._clock,
            self.config.group_id,
            self.consumer_id,
            self._registration,
            delivery if storage is None else storage,
            self.config.group,
            self._observe,
        )
        self._membership.begin(driver)
        write: Write = driver.commit
        if storage is not None:
            storage.begin(driver.commit)
            write = storage.commit
        self._commits = commits = GroupCommits(self._reactor, self.config, delivery, write)
        delivery.fetcher.start()
        if self._registration.pattern == STATIC:  # else the topics are known when partitions of them are claimed
            delivery.fetcher.learn(self._registration.subscription)
        try:
            await driver.start()
        except BaseException as error:
            await self._close_connections()
            self._membership.check()
            if isinstance(error, Exception):
                self._membership.failure = error
            raise
        commits.start()

    @property
    def streams(self) -> list[Stream]:
        """The streams, in the order of their thread numbers; empty before ``start``."""
        return [] if self._delivery is None else self._delivery.streams

    # --- reading ---

    async def poll(self, timeout_ms: int) -> list[ConsumerRecord]:
        """Return the next records, at most ``max.poll.records``; an empty list when none came in ``timeout_ms``.

        Joins the group at the first call. Marks the records of the previous call as processed.
        Raises: what ``Stream.poll`` and ``start`` raise; KafkaError with several streams (each has its own ``poll``).
        """
        if not self._started:
            await self.start()
        return await self._only_stream().poll(timeout_ms)

    async def batches(self) -> AsyncIterator[list[ConsumerRecord]]:
        """Yield lists of records for ever; raises what ``poll`` raises."""
        if not self._started:
            await self.start()
        async for records in self._only_stream().batches():
            yield records

    async def commit(self, offsets: Mapping[TopicPartition, int] | None = None) -> None:
        """Write the next offsets to consume: those given, or those after all delivered records.

        Raises: CommitRefused naming partitions that this consumer does not own, no longer owns, or may not own (the
        connection to ZooKeeper is suspended: try again later); the others are written.
        """
        _, commits = self._joined()
        await commits.commit(offsets)

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
        """The second half of ``close``: users of streams that are awaited are given time to come back."""
        self._membership.closed = True
        if self._left:
            return
        self._left = True
        if self._commits is not None:
            self._commits.stop()
        if self._delivery is not None:
            self._delivery.wake()
        try:
            if self._driver is not None and self._client is not None and self._membership.failure is None:
                # Without ZooKeeper nothing can be given back; after this time it is taken from us anyway. The same time
                # is enough for a coordinator that keeps the offsets.
                patience_ms = self.config.backoff_ms + self._client.session_timeout_ms
                if not await fires_within(self._reactor, run(self._commit_and_leave(self._driver)), patience_ms / 1000):
                    _log.warn(
                        "the group was not left in an orderly way: ZooKeeper, or the brokers that keep the offsets, "
                        "did not answer for {seconds} s",
                        seconds=patience_ms / 1000,
                    )
        finally:
            await self._close_connections()

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

    async def _commit_and_leave(self, driver: GroupDriver) -> None:
        if self._commits is not None:
            await self._commits.settled()
        await driver.leave()

    def _joined(self) -> tuple[GroupDelivery, GroupCommits]:
        if self._delivery is None or self._commits is None:
            raise KafkaError("the consumer has not joined its group yet")
        return self._delivery, self._commits

    def _only_stream(self) -> Stream:
        streams = self._joined()[0].streams
        if len(streams) > 1:
            raise KafkaError("a consumer with several streams is read stream by stream")
        return streams[0]

    def _offsets_storage(self, delivery: GroupDelivery) -> OffsetsInKafka | None:
        """None: ZooKeeper keeps the offsets, as it keeps the owners."""
        if self.config.offsets_storage == "zookeeper":
            return None
        channel = self.config.offsets_channel
        self._coordinator = GroupCoordinator(self._reactor, channel, self._cluster, self.config.group_id)
        return OffsetsInKafka(
            self._reactor,
            self._coordinator,
            delivery,
            self._membership.may_act,
            dual=bool(self.config.dual_commit_enabled),
            max_retries=self.config.offsets_commit_max_retries,
            backoff_ms=self.config.offsets_channel_backoff_ms,
        )

    async def _open_kazoo(self) -> RegistryClient:
        client = KazooTwistedClient(
            self._reactor,
            self.config.zookeeper_connect,
            self.config.zookeeper_session_timeout_ms,
            connection_timeout_ms=self.config.zookeeper_connection_timeout_ms,
            security=self.config.zookeeper_security,
        )
        await client.start()
        return client

    async def _find_brokers(self) -> list[tuple[str, int]]:
        assert self._client is not None, "brokers are asked for after the start"
        try:
            live = await BrokerRegistry(self._client).live()
        except RegistryError as error:
            raise NoBrokersAvailable(f"ZooKeeper does not say which brokers there are: {error}") from error
        if not live:
            raise NoBrokersAvailable("no broker is registered in ZooKeeper")
        protocol = self.config.security.protocol
        addresses = [address for info, _ in live.values() if (address := info.address(protocol)) is not None]
        if not addresses:
            raise NoBrokersAvailable(f"no broker that is registered in ZooKeeper has a listener for {protocol}")
        return addresses

    async def _close_connections(self) -> None:
        if self._delivery is not None:
            self._delivery.fetcher.stop()
        if self._coordinator is not None:
            self._coordinator.close()
        await self._cluster.close()
        if self._client is not None:
            await self._client.close()


def _consumer_id(config: ZookeeperConsumerConfig, now_ms: int, random: Random) -> str:
    """The member's name, as Kafka's old consumer makes it."""
    if config.group_instance_id is not None:
        return f"{config.group_id}_{config.group_instance_id}"
    if config.consumer_id is not None:
        return f"{config.group_id}_{config.consumer_id}"
    return f"{config.group_id}_{socket.gethostname()}-{now_ms}-{random.getrandbits(32):08x}"

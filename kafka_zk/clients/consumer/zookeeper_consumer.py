"""Consumers whose groups coordinate through ZooKeeper, for Twisted programs; ``blocking_consumer`` is for threads.
Brokers are found in ZooKeeper.
"""

import socket
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from random import Random
from typing import Any

from kafka_zk.base.clock import Clock, SystemClock
from kafka_zk.base.events import Observe, ignore
from kafka_zk.base.randomness import SYSTEM_RANDOM
from kafka_zk.clients.connection.cluster import Cluster
from kafka_zk.clients.connection.errors import NoBrokersAvailable
from kafka_zk.clients.connection.waiting import Reactor
from kafka_zk.clients.consumer.group_consumer import GroupConsumer
from kafka_zk.clients.consumer.group_delivery import GroupDelivery
from kafka_zk.clients.consumer.rebalance_listener import RebalanceListener
from kafka_zk.clients.consumer.topics_subscribed import TopicsSubscribed
from kafka_zk.clients.consumer.user_side import ReactorUser, UserSide, UserThread
from kafka_zk.clients.consumer.zookeeper_config import ZookeeperConsumerConfig
from kafka_zk.clients.consumer.zookeeper_group import ZookeeperGroup
from kafka_zk.network.client import Connect, connect
from kafka_zk.rebalance.delivery import Delivery
from kafka_zk.rebalance.driver import GroupDriver, Identity
from kafka_zk.registry.brokers import BrokerRegistry
from kafka_zk.registry.client.client import RegistryClient
from kafka_zk.registry.client.errors import RegistryError
from kafka_zk.registry.client.kazoo_twisted import KazooTwistedClient
from kafka_zk.registry.znodes.consumers import MOST_STREAMS, STATIC, ConsumerRegistration

_ON_THE_REACTOR = ReactorUser()


class ZookeeperConsumer(GroupConsumer[ZookeeperConsumerConfig, ZookeeperGroup]):
    """One member of a group, on the reactor thread.

    ::

        async with ZookeeperConsumer(reactor, group_id="g", zookeeper_connect="h:2181/kafka") as consumer:
            consumer.subscribe(["orders"])
            async for records in consumer.batches():
                ...

    Takes the keys of Kafka's old consumer with ``_`` for ``.``, or a ZookeeperConsumerConfig. Records of a partition
    arrive in order. Requesting more records marks the previous ones as processed. With ``auto.commit.enable`` (the
    default), the offsets of processed records are committed every ``auto.commit.interval.ms`` and before a partition
    moves to another member, so each record is delivered at least once. For at most once, call ``commit()`` before
    processing.

    Args:
        listener: called before partitions are released and before records of new ones arrive.
        observe: called with each event of the group, see ``rebalance.events``.
    Raises: ConfigError naming the key and the allowed values.
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
        config = ZookeeperConsumerConfig.given(config, options)
        self._clock: Clock = clock or SystemClock(reactor)
        consumer_id = _consumer_id(config, self._clock.wall_ms(), random)
        super().__init__(reactor, config, consumer_id, UserSide(consumer_id, listener, user_thread))
        self._observe = observe
        self._open_client = open_client or self._open_kazoo
        self._make_driver = make_driver
        self._connect = connect
        self._stream_count = 1

    def subscribe(
        self,
        topics: Iterable[str] = (),
        *,
        white_list: str | None = None,
        black_list: str | None = None,
        streams: int = 1,
    ) -> None:
        """Subscribe, once and before ``start``, to topics, or to all topics whose names match (white) or do not match
        (black) a Java regular expression.

        ``streams``: number of streams, among which the partitions are divided.
        Raises: KafkaError after ``start``; InvalidTopicFilter; ValueError unless exactly one of the three is given.
        """
        if not 1 <= streams <= MOST_STREAMS:
            raise ValueError(f"a consumer has 1 to {MOST_STREAMS} streams, not {streams}")
        self._subscribe(topics, white_list, black_list)
        self._stream_count = streams

    async def _make_group(self, topics: TopicsSubscribed) -> tuple[ZookeeperGroup, GroupDelivery]:
        client = await self._open_client()
        if self._membership.closed:  # closed while connecting
            await client.close()
            self._membership.check()
        find_brokers = partial(_find_brokers, client, self.config.security.protocol)
        cluster = Cluster(self._reactor, self.config.reader, find_brokers=find_brokers, connect=self._connect)
        delivery = GroupDelivery(
            self._reactor, self.config, cluster, self._stream_count, self._membership, self._user
        )
        if topics.pattern == STATIC:  # with a filter, topics are learned when their partitions are claimed
            delivery.fetcher.learn(topics.names)

        def make_driver(of: Delivery) -> GroupDriver:
            identity = Identity(self.config.group_id, self.consumer_id, self._registration(topics))
            return self._make_driver(client, self._clock, identity, of, self.config.group, self._observe)

        group = ZookeeperGroup(
            self._reactor, self.config, client, cluster, delivery, self._membership, make_driver
        )
        return group, delivery

    def _registration(self, topics: TopicsSubscribed) -> ConsumerRegistration:
        config = self.config
        return ConsumerRegistration(
            dict.fromkeys(topics.names, self._stream_count),
            topics.pattern,
            self._clock.wall_ms(),
            config.strategies,
            config.group_instance_id,
            None if config.group_instance_id is None else config.session_timeout_ms,
            config.consumer_capacity,
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


async def _find_brokers(client: RegistryClient, protocol: str) -> list[tuple[str, int]]:
    try:
        live = await BrokerRegistry(client).live()
    except RegistryError as error:
        raise NoBrokersAvailable(f"the brokers cannot be read from ZooKeeper: {error}") from error
    if not live:
        raise NoBrokersAvailable("no broker is registered in ZooKeeper")
    addresses = [address for info, _ in live.values() if (address := info.address(protocol)) is not None]
    if not addresses:
        raise NoBrokersAvailable(f"no broker registered in ZooKeeper has a listener for {protocol}")
    return addresses


def _consumer_id(config: ZookeeperConsumerConfig, now_ms: int, random: Random) -> str:
    if config.group_instance_id is not None:
        return f"{config.group_id}_{config.group_instance_id}"
    if config.consumer_id is not None:
        return f"{config.group_id}_{config.consumer_id}"
    return f"{config.group_id}_{socket.gethostname()}-{now_ms}-{random.getrandbits(32):08x}"

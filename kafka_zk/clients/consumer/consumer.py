"""Consumers in a broker-coordinated group, for Twisted programs; ``blocking_consumer`` is the version for threads."""

from collections.abc import Callable, Iterable
from typing import Any

from kafka_zk.base.clock import boottime_ms
from kafka_zk.clients.connection.cluster import Cluster
from kafka_zk.clients.connection.group_coordinator import ConsumerGroupMetadata
from kafka_zk.clients.connection.waiting import Reactor
from kafka_zk.clients.consumer.consumer_config import ConsumerConfig
from kafka_zk.clients.consumer.consumer_coordinator import ConsumerCoordinator
from kafka_zk.clients.consumer.group_consumer import GroupConsumer
from kafka_zk.clients.consumer.group_delivery import GroupDelivery
from kafka_zk.clients.consumer.rebalance_listener import RebalanceListener
from kafka_zk.clients.consumer.topics_subscribed import TopicsSubscribed
from kafka_zk.clients.consumer.user_side import ReactorUser, UserSide, UserThread
from kafka_zk.network.client import Connect, connect
from kafka_zk.registry.znodes.consumers import STATIC

_ON_THE_REACTOR = ReactorUser()


class Consumer(GroupConsumer[ConsumerConfig, ConsumerCoordinator]):
    """One member of a group, on the reactor thread.

    ::

        async with Consumer(reactor, group_id="g", bootstrap_servers="h:9092") as consumer:
            consumer.subscribe(["orders"])
            async for records in consumer.batches():
                ...

    Takes the keys of Kafka's consumer with ``_`` for ``.``, or a ConsumerConfig. Records of a partition arrive in
    order. Requesting more records marks the previous ones as processed. With ``enable.auto.commit`` (the default), the
    offsets of processed records are committed every ``auto.commit.interval.ms`` and before a partition moves to another
    member, so each record is delivered at least once. For at most once, call ``commit()`` before processing.

    A consumer that requests nothing for ``max.poll.interval.ms`` leaves the group until its next request.

    A static member (``group.instance.id``) commits when it is closed but does not leave the group, so its partitions
    are reserved for ``session.timeout.ms``. If the coordinator does not respond, ``close`` stops committing after 5 s
    and leaving after another 5 s; the group then removes this member after ``session.timeout.ms``.

    Args:
        listener: called before partitions are released and before records of new ones arrive.
    Raises: ConfigError naming the key and the allowed values.
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
        config = ConsumerConfig.given(config, options)
        super().__init__(reactor, config, config.client_id, UserSide(config.client_id, listener, user_thread))
        self._connect = connect
        self._lease_clock_ms = lease_clock_ms

    def subscribe(
        self, topics: Iterable[str] = (), *, white_list: str | None = None, black_list: str | None = None
    ) -> None:
        """Subscribe, once and before ``start``, to topics, or to all topics whose names match (white) or do not match
        (black) a Java regular expression.

        Raises: KafkaError after ``start``; InvalidTopicFilter; ValueError unless exactly one of the three is given.
        """
        self._subscribe(topics, white_list, black_list)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """The membership under which this consumer commits now; no member id and generation -1 outside a generation.

        For a producer's ``send_offsets``: the coordinator rejects offsets from earlier generations. While the
        application holds records of revoked partitions, this consumer counts as outside a generation, even if it has
        rejoined.

        Raises: KafkaError before the first ``start``. Source: KafkaConsumer.groupMetadata@3.9.
        """
        coordinator = self._require_joined().group
        if any(stream.handout.lost() for stream in self.streams):
            return ConsumerGroupMetadata(self.config.group_id)
        return ConsumerGroupMetadata(self.config.group_id, *coordinator.committer)

    async def _make_group(self, topics: TopicsSubscribed) -> tuple[ConsumerCoordinator, GroupDelivery]:
        is_static = topics.pattern == STATIC
        cluster = Cluster(self._reactor, self.config, track_all_topics=not is_static, connect=self._connect)
        if is_static:
            cluster.add_topics(topics.names)
        delivery = GroupDelivery(self._reactor, self.config, cluster, 1, self._membership, self._user)
        coordinator = ConsumerCoordinator(
            self._reactor, self.config, cluster, delivery, topics, self._lease_clock_ms
        )
        return coordinator, delivery

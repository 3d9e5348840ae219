"""A consumer's group in ZooKeeper; ``rebalance.driver`` determines the partitions and where they start.

ZooKeeper stores the offsets, or with ``offsets.storage=kafka`` the broker's coordinator.
"""

from collections.abc import Callable, Mapping

from twisted.logger import Logger

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.cluster import Cluster
from kafka_zk.clients.connection.group_coordinator import GroupCoordinator
from kafka_zk.clients.connection.waiting import Reactor, run
from kafka_zk.clients.consumer.group_commits import Answers, Settled
from kafka_zk.clients.consumer.group_delivery import GroupDelivery
from kafka_zk.clients.consumer.membership import Membership
from kafka_zk.clients.consumer.offsets_in_kafka import OffsetsInKafka
from kafka_zk.clients.consumer.zookeeper_config import ZookeeperConsumerConfig
from kafka_zk.rebalance.delivery import Delivery
from kafka_zk.rebalance.driver import GroupDriver
from kafka_zk.registry.client.client import RegistryClient
from kafka_zk.registry.client.session import fires_within

_log = Logger()


class ZookeeperGroup:
    """One member's session in ZooKeeper, its connections to brokers, and the driver between them."""

    def __init__(
        self,
        reactor: Reactor,
        config: ZookeeperConsumerConfig,
        client: RegistryClient,
        cluster: Cluster,
        delivery: GroupDelivery,
        membership: Membership,
        make_driver: Callable[[Delivery], GroupDriver],
    ) -> None:
        self._reactor = reactor
        self._config = config
        self._client = client
        self._cluster = cluster
        self._delivery = delivery
        self._membership = membership
        self._coordinator: GroupCoordinator | None = None
        self._offsets_in_kafka: OffsetsInKafka | None = None
        if config.offsets_storage == "kafka":
            self._coordinator = GroupCoordinator(reactor, config.offsets_channel, cluster, config.group_id)
            self._offsets_in_kafka = OffsetsInKafka(
                reactor, config, self._coordinator, delivery, membership.may_act, self._commit_in_zookeeper
            )
        self._driver = make_driver(self._offsets_in_kafka or delivery)
        self.may_act = self._driver.lease.may_act
        self.report_if_ended = self._driver.lease.report_if_ended

    async def start(self) -> None:
        """Raises FencedInstanceId or DuplicateConsumerId if another live member has the id."""
        try:
            await self._driver.start()
        except Exception as error:
            self._delivery.failed(error)
            raise

    async def commit(self, offsets: Mapping[TopicPartition, int]) -> Answers:
        if self._offsets_in_kafka is None:
            return await self._driver.commit(offsets)
        return await self._offsets_in_kafka.commit(offsets)

    async def leave(self, settled: Settled) -> None:
        """Wait for pending commits, release the owned partitions, and remove the registration.

        If ZooKeeper is unavailable, give up after the back-off plus the session timeout, because the partitions are
        lost by then. Commits to a coordinator get the same time.
        """
        if self._membership.failure is not None:
            return
        patience_s = (self._config.backoff_ms + self._client.session_timeout_ms) / 1000
        if not await fires_within(self._reactor, run(self._leave(settled)), patience_s):
            _log.warn(
                "the group was not left in an orderly way: ZooKeeper, or the brokers that keep the offsets, "
                "did not answer for {seconds} s",
                seconds=patience_s,
            )

    async def close(self) -> None:
        if self._coordinator is not None:
            self._coordinator.close()
        await self._cluster.close()
        await self._client.close()

    async def _leave(self, settled: Settled) -> None:
        await settled()
        await self._driver.leave()

    async def _commit_in_zookeeper(self, offsets: Mapping[TopicPartition, int]) -> Answers:
        return await self._driver.commit(offsets)

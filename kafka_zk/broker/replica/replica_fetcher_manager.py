"""One fetcher per leader, for followed partitions.

``num.replica.fetchers`` has no effect: on one reactor thread, more fetchers would not be faster.
Source: ReplicaFetcherManager.scala@3.9. Tests: tests/kafka_zk/broker/replica/test_replica_fetcher.py.
"""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from twisted.logger import Logger

from kafka_zk.base.clock import Clock
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.config.inter_broker_protocol import FollowerVersions, follower_versions
from kafka_zk.broker.config.kafka_config import KafkaConfig
from kafka_zk.broker.replica.fetcher_state import FetcherState
from kafka_zk.broker.replica.leader_endpoint import FetchLimits, LeaderConnection, LeaderEndPoint
from kafka_zk.broker.replica.partition import Partition, Role
from kafka_zk.broker.replica.replica_fetcher import FollowerHost, ReplicaFetcher
from kafka_zk.broker.replica.replication_quota import ReplicationQuota

_log = Logger()

ConnectToLeader = Callable[[int], Awaitable[LeaderConnection]]
"""Connects to a broker by id, over the inter-broker listener; fails if it is unknown or unreachable."""


class ReplicaFetcherSettings(NamedTuple):
    """The keys replica.fetch.* and inter.broker.protocol.version. ``max_bytes``: per partition and response."""

    versions: FollowerVersions
    limits: FetchLimits
    max_bytes: int
    backoff_s: float

    @classmethod
    def of(cls, config: KafkaConfig) -> "ReplicaFetcherSettings":
        return cls(
            follower_versions(config.inter_broker_protocol_version),
            FetchLimits(
                config.replica_fetch_wait_max_ms,
                config.replica_fetch_min_bytes,
                config.replica_fetch_response_max_bytes,
            ),
            config.replica_fetch_max_bytes,
            config.replica_fetch_backoff_ms / 1000,
        )


class ReplicaFetcherManager:
    """``quota``: limits throttled replicas, for all leaders together."""

    def __init__(
        self,
        broker_id: int,
        broker_epoch: Callable[[], int],
        clock: Clock,
        settings: ReplicaFetcherSettings,
        connect: ConnectToLeader,
        host: FollowerHost,
        quota: ReplicationQuota | None = None,
    ) -> None:
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._clock = clock
        self._settings = settings
        self._connect = connect
        self._host = host
        self._quota = quota
        self._fetchers: dict[int, ReplicaFetcher] = {}
        self._fetcher_of: dict[TopicPartition, ReplicaFetcher] = {}
        self._is_stopped = False
        self._is_leaving = False

    @property
    def max_lag(self) -> int:
        """The largest lag of a replica, in records."""
        return max((fetcher.max_lag for fetcher in self._fetchers.values()), default=0)

    @property
    def failed_count(self) -> int:
        """Number of partitions that are not fetched because of a local error."""
        return sum(fetcher.failed_count for fetcher in self._fetchers.values())

    @property
    def bytes_in(self) -> int:
        """Bytes of records fetched and appended."""
        return sum(fetcher.bytes_in for fetcher in self._fetchers.values())

    def role_changed(self, partition: Partition) -> None:
        """Follow the current leader, and no other."""
        follows = partition.role is Role.FOLLOWER and partition.leader >= 0 and not self._is_stopped
        if self._is_leaving and self._broker_id not in partition.isr:
            follows = False
        fetcher = self._fetcher(partition.leader) if follows else None
        before = self._fetcher_of.pop(partition.tp, None)
        if before is not None and before is not fetcher:
            before.remove(partition.tp)
        if fetcher is not None:
            self._fetcher_of[partition.tp] = fetcher
            fetcher.add(partition)

    def leave(self) -> None:
        """Follow new leaders only if this broker is in the ISR, because it is about to stop.

        The controller would not let it join an ISR, but leaders would wait for it once it has caught up.
        """
        self._is_leaving = True

    async def stop(self) -> None:
        """Returns when no request is in progress."""
        self._is_stopped = True
        self._fetcher_of.clear()
        for under_way in [fetcher.stop() for fetcher in self._fetchers.values()]:
            if under_way is not None:
                await under_way

    def _fetcher(self, leader: int) -> ReplicaFetcher:
        fetcher = self._fetchers.get(leader)
        if fetcher is None:
            fetcher = self._fetchers[leader] = self._new_fetcher(leader)
        return fetcher

    def _new_fetcher(self, leader: int) -> ReplicaFetcher:
        settings = self._settings
        endpoint = LeaderEndPoint(
            self._broker_id, self._broker_epoch, lambda: self._connect(leader), settings.versions, settings.limits
        )
        state = FetcherState(
            settings.versions.fetch,
            asks_for_epochs=settings.versions.offset_for_leader_epoch is not None,
            max_bytes=settings.max_bytes,
            backoff_s=settings.backoff_s,
            quota=self._quota,
            has_remote_storage=self._host.remote_state is not None,
        )
        return ReplicaFetcher(leader, self._clock, endpoint, state, self._host, settings.backoff_s)

"""A broker's components: built together once its logs are open, closed together in Kafka's order.

Source: KafkaServer.startup and shutdown@3.9.
"""

from collections.abc import Callable, Collection, Iterable
from functools import partial
from typing import TYPE_CHECKING

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from kafka_zk.base.clock import Clock, end_of_turn
from kafka_zk.base.rate import QuotaWindow
from kafka_zk.base.turns import in_slices
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.config.inter_broker_protocol import alter_partition_version, control_versions
from kafka_zk.broker.config.kafka_config import KafkaConfig
from kafka_zk.broker.controller.environment import Environment
from kafka_zk.broker.controller.loop import Controller, ControllerConfig
from kafka_zk.broker.group.config import CoordinatorConfig
from kafka_zk.broker.group.coordinator import GroupCoordinator
from kafka_zk.broker.group.offsets_topic import OffsetsTopic
from kafka_zk.broker.group.reporter import GroupReporter
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.handlers.table import Dispatcher
from kafka_zk.broker.metadata.cache import MetadataCache
from kafka_zk.broker.process.controlled_shutdown import ClusterView, ControlledShutdown
from kafka_zk.broker.process.controller_channel import ControllerChannel
from kafka_zk.broker.process.foundation import Foundation
from kafka_zk.broker.process.live_config import HIDDEN_CONFIG_INTERVAL_MS, LiveConfig
from kafka_zk.broker.process.peers import Peers
from kafka_zk.broker.process.transaction_verifications import verify_transactions
from kafka_zk.broker.process.transactions import BrokerTransactions
from kafka_zk.broker.quota.client_quotas import KEEP_MS, ClientQuotas
from kafka_zk.broker.quota.enforcement import Enforcement
from kafka_zk.broker.quota.quota_configs import QuotaConfigs
from kafka_zk.broker.replica.alter_partition_manager import AlterPartitionManager
from kafka_zk.broker.replica.fetch_session import FetchSessions
from kafka_zk.broker.replica.log_cleaner import LogCleaner, LogCleanerSettings
from kafka_zk.broker.replica.manager import ReplicaManager
from kafka_zk.broker.replica.purgatory import Purgatory
from kafka_zk.broker.replica.remote_replicas import InSyncRule
from kafka_zk.broker.replica.replica_alter_log_dirs_manager import ReplicaAlterLogDirsManager
from kafka_zk.broker.replica.replica_fetcher import FollowerHost
from kafka_zk.broker.replica.replica_fetcher_manager import ReplicaFetcherManager, ReplicaFetcherSettings
from kafka_zk.broker.replica.zk_alter_partition_manager import CHECK_INTERVAL_MS, ZkAlterPartitionManager
from kafka_zk.broker.security.login_stats import LoginStats
from kafka_zk.broker.transaction.state_topic import TransactionStateTopic
from kafka_zk.network.connection_rates import ConnectionRates
from kafka_zk.network.listener import Listener
from kafka_zk.network.memory_pool import MemoryPool
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.registry.client.client import SessionState
from kafka_zk.registry.client.errors import RegistryError
from kafka_zk.registry.controller_epoch import ControllerEpochs
from kafka_zk.registry.offsets import OffsetRegistry
from kafka_zk.registry.topics import TopicRegistry

if TYPE_CHECKING:
    from kafka_zk.broker.process.client_report import ClientReport
    from kafka_zk.broker.process.live_tls import LiveTls
    from kafka_zk.broker.process.remote_storage import RemoteStorage

_log = Logger()

HIGH_WATERMARK_CHECKPOINT_MS = 5_000  # replica.high.watermark.checkpoint.interval.ms
DELETION_INTERVAL_MS = 5_000
"""Interval between deletions of files whose ``file.delete.delay.ms`` has passed. Deleting gigabytes at once would block
the disk."""
CHANGE_PURGE_INTERVAL_MS = 15 * 60 * 1000
CERTIFICATES_INTERVAL_MS = 3_600_000


class BrokerParts:
    """The components of a broker.

    Attributes:
        memory: the budget that all requests share.
        security, credentials: the listeners' security, and their users' credentials.
        logins: counts by listener.
        services: used by handlers.
        client_quotas, connection_rates: quotas from ZooKeeper, and their effect on connections.
        peers: opens connections to other brokers.
        tls: keys and certificates; None until a listener with TLS is bound.
        controller, replica_fetchers, log_cleaner: used by ``start`` and the metrics.
    """

    def __init__(self, base: Foundation) -> None:
        config, machine = base.config, base.machine
        clock = machine.clock
        self._base = base
        self.security, self.credentials = base.security, base.credentials
        self.logins: dict[str, LoginStats] = {}
        self.memory = MemoryPool(config.queued_max_request_bytes)
        metadata = MetadataCache()
        self.peers = Peers(machine, config, base.broker_id, metadata, base.security.between_brokers)
        self.tls: LiveTls | None = None
        self._client_report: ClientReport | None = None
        self._fetch_purgatory = Purgatory(clock, end_of_turn(machine.reactor))
        replicas = ReplicaManager(
            base.broker_id, base.logs, clock, self._fetch_purgatory, machine.run_in_thread, metadata, base.events
        )
        self.controller = self._new_controller(replicas)
        self._lead_followers(replicas, metadata)
        topics = TopicRegistry(base.client)
        coordinator = GroupCoordinator(
            CoordinatorConfig.of(config), clock, replicas, metadata, machine.random, GroupReporter(base.events).report
        )
        self.remote_storage = self._new_remote_storage(replicas, metadata, topics)
        self.replica_fetchers = self._new_fetchers(replicas)
        self._alter_log_dirs = ReplicaAlterLogDirsManager(
            clock,
            replicas,
            machine.run_in_thread,
            lambda: self.services.config.replica_alter_log_dirs_io_max_bytes_per_second,
        )
        replicas.role_listeners += [
            self.replica_fetchers.role_changed, coordinator.role_changed, self._alter_log_dirs.role_changed
        ]  # fmt: skip
        replicas.marker_listeners.append(coordinator.transactional_commits.markers_written)
        self._transactions = BrokerTransactions(base, replicas, metadata, self.peers.connect_to, topics.missing)
        self.log_cleaner = LogCleaner(
            clock, machine.run_in_thread, machine.when_readable, base.logs, LogCleanerSettings.of(config),
            replicas.role_state_of, machine.start_helper,
        )  # fmt: skip
        self.services = self._new_services(replicas, metadata, topics, coordinator)
        self.dispatcher = Dispatcher(self.services)
        self._transactions.serve(self.services)
        self.connection_rates = ConnectionRates(_window(config))
        self.client_quotas = QuotaConfigs(self.services.client_quotas, base.configs, machine.run_in_thread)
        self._verifications = verify_transactions(self.services, self.peers.connect_to_broker)

    def _new_controller(self, replicas: ReplicaManager) -> Controller:
        base, config = self._base, self._base.config
        return Controller(
            Environment(
                base.broker_id,
                base.client,
                base.machine.clock,
                self.peers.connect_as_controller,
                base.machine.random,
            ),
            ControllerConfig(
                config.inter_broker_listener,
                config.delete_topic_enable,
                config.topic_defaults.unclean_leader_election_enable,
                config.auto_leader_rebalance_enable,
                config.leader_imbalance_check_interval_seconds,
                config.leader_imbalance_per_broker_percentage,
                control_versions(config.inter_broker_protocol_version),
            ),
            base.observe,
            known_epoch=lambda: replicas.controller_epoch,
            on_kraft=base.on_kraft,
        )

    def _new_remote_storage(
        self, replicas: ReplicaManager, metadata: MetadataCache, topics: TopicRegistry
    ) -> "RemoteStorage | None":
        if not self._base.config.remote_log_storage_system_enable:
            return None
        from kafka_zk.broker.process.remote_storage import RemoteStorage  # most brokers have no remote storage

        return RemoteStorage(
            self._base, lambda: self.services.config, replicas, metadata, topics, self.peers.connect_to_broker
        )

    def _lead_followers(self, replicas: ReplicaManager, metadata: MetadataCache) -> None:
        base, config = self._base, self._base.config
        replicas.in_sync_rule = InSyncRule(config.replica_lag_time_max_ms, metadata.is_alive)
        replicas.quotas.configure(config)
        self._controller_channel = ControllerChannel(
            lambda: self.controller.controller_id,
            metadata,
            config.inter_broker_listener,
            lambda host, port: Deferred.fromCoroutine(self.peers.connect_to(host, port)),
        )
        self.controller.on_controller_change(lambda controller_id: self._controller_channel.controller_changed())
        version = alter_partition_version(config.inter_broker_protocol_version)
        self._alter_partitions: AlterPartitionManager | ZkAlterPartitionManager
        if version is None:
            self._alter_partitions = ZkAlterPartitionManager(base.broker_id, base.client, base.machine.clock)
        else:
            self._alter_partitions = AlterPartitionManager(
                base.broker_id, base.broker_epoch, base.machine.clock, self._controller_channel.connected, version
            )
        replicas.isr_updates.alter_partitions = self._alter_partitions

    def _new_fetchers(self, replicas: ReplicaManager) -> ReplicaFetcherManager:
        base = self._base
        return ReplicaFetcherManager(
            base.broker_id,
            base.broker_epoch,
            base.machine.clock,
            ReplicaFetcherSettings.of(base.config),
            self.peers.connect_as_follower,
            FollowerHost(
                self._fetch_purgatory.check,
                base.logs.fail_directory,
                replicas.role_changes,
                base.machine.run_in_thread,
                None if self.remote_storage is None else self.remote_storage.state,
            ),
            replicas.quotas.follower,
        )

    def _new_services(
        self, replicas: ReplicaManager, metadata: MetadataCache, topics: TopicRegistry, coordinator: GroupCoordinator
    ) -> Services:
        base, config, random = self._base, self._base.config, self._base.machine.random
        return Services(
            broker_id=base.broker_id,
            cluster_id=base.cluster_id,
            config=config,
            clock=base.machine.clock,
            authorizer=base.authorizer,
            metadata=metadata,
            replicas=replicas,
            fetch_purgatory=self._fetch_purgatory,
            fetch_sessions=FetchSessions(
                config.max_incremental_fetch_session_cache_slots,
                lambda: random.randrange(1, 2**31),
                self.memory,
                lambda topic, partition: metadata.knows(topic, partition) or replicas.hosts(topic, partition),
                config.replica_lag_time_max_ms,
            ),
            metadata_purgatory=Purgatory(base.machine.clock),
            controller=self.controller,
            topics=topics,
            configs=base.configs,
            broker_epoch=base.broker_epoch,
            controller_epochs=ControllerEpochs(base.client),
            dynamic_config=base.dynamic_config,
            group_offsets=lambda group: OffsetRegistry(base.client, group),
            coordinator=coordinator,
            offsets_topic=OffsetsTopic(config, metadata, topics, random),
            transactions=self._transactions.coordinator,
            transaction_state_topic=TransactionStateTopic(config, metadata, topics, random),
            alter_log_dirs=self._alter_log_dirs,
            delegation_tokens=base.delegation_tokens,
            remote_reads=None if self.remote_storage is None else self.remote_storage.reads,
            deleted_partitions=None if self.remote_storage is None else self.remote_storage.deleted,
            client_quotas=_client_quotas(config, base.machine.clock),
            scram_credentials=base.credentials,
            random=random,
        )

    def report_clients(self, listeners: Iterable[Listener]) -> None:
        """Report clients to observers if there are principals, ACLs or quotas."""
        base = self._base
        if not base.events.observed:
            return
        from kafka_zk.broker.process.client_report import ClientReport

        quotas = self.services.client_quotas
        report = self._client_report = ClientReport(base.events, base.machine.clock, listeners, quotas)
        self.listeners_changed()

        def quotas_changed() -> None:
            if not quotas.quotas.table.is_empty:
                report.start()

        quotas.on_change = quotas_changed
        quotas_changed()

    def listeners_changed(self) -> None:
        """Report clients from now on if a listener authenticates them."""
        config = self.services.config
        has_principals = set(config.listener_protocols.values()) != {"PLAINTEXT"}
        if self._client_report is not None and (config.authorizer_class_name or has_principals):
            self._client_report.start()

    def logins_at(self, listener: str) -> LoginStats:
        """Login statistics of a listener, which survive its removal."""
        return self.logins.setdefault(listener, LoginStats(self._base.machine.clock.seconds))

    def watch_tls(self) -> "LiveTls":
        """Creates ``tls`` on first use."""
        if self.tls is None:
            from kafka_zk.broker.process.live_tls import LiveTls  # imported here, because it loads OpenSSL

            self.tls = LiveTls(self._base.machine.clock, self._base.config.broker_listeners, self.peers)
        return self.tls

    # -- while it runs ------------------------------------------------------------------------------------------------

    def periodic_work(self, live_config: LiveConfig) -> list[tuple[int, Callable[[], object]]]:
        """The periodic tasks, as (interval in ms, task)."""
        config, logs, clock = self._base.config, self._base.logs, self._base.machine.clock
        now, in_steps = clock.wall_ms, partial(in_slices, clock)
        isr_updates, partitions = self.services.replicas.isr_updates, self.services.replicas.partitions
        work: list[tuple[int, Callable[[], object]]] = [
            (config.log_retention_check_interval_ms, lambda: in_steps(logs.upkeep.cleanup_steps(now()))),
            (
                config.producer_id_expiration_check_interval_ms,
                lambda: in_steps(logs.upkeep.expire_producers_steps(now())),
            ),
            (min(config.log_retention_check_interval_ms, DELETION_INTERVAL_MS), lambda: logs.upkeep.delete_due(now())),
            (config.log_flush_offset_checkpoint_interval_ms, logs.upkeep.checkpoint),
            (config.log_flush_offset_checkpoint_interval_ms, lambda: in_steps(logs.upkeep.write_topic_ids_steps())),
            (HIGH_WATERMARK_CHECKPOINT_MS, logs.upkeep.checkpoint_high_watermarks),
            (CHANGE_PURGE_INTERVAL_MS, self._purge_changes),
            (CERTIFICATES_INTERVAL_MS, self._warn_of_certificates),
            (HIDDEN_CONFIG_INTERVAL_MS, live_config.read_hidden),
            (
                max(1, config.replica_lag_time_max_ms // 2),
                lambda: in_steps(isr_updates.shrink(list(partitions.values()))),
            ),
            (config.offsets_retention_check_interval_ms, self.services.coordinator.offsets.remove_expired),
            *self._transactions.periodic_work,
            (1000, lambda: in_steps(logs.large_snapshots.steps())),
            (KEEP_MS // 4, self.services.client_quotas.forget_idle),
            (min(config.log_flush_scheduler_interval_ms, 1000), lambda: logs.upkeep.flush_dirty(now())),
        ]
        if self.remote_storage is not None:
            work += self.remote_storage.periodic_work
        if self._base.delegation_tokens is not None:
            work.append((config.delegation_token_expiry_check_interval_ms, self._delete_expired_tokens))
        if isinstance(self._alter_partitions, ZkAlterPartitionManager):
            work.append((CHECK_INTERVAL_MS, self._alter_partitions.propagate))
        return work

    def _warn_of_certificates(self) -> None:
        if self.tls is not None:
            self.tls.warn()

    async def _delete_expired_tokens(self) -> None:
        if self._base.delegation_tokens is not None and self.controller.is_active:
            await self._base.delegation_tokens.delete_expired()

    async def _purge_changes(self) -> None:
        """Delete old notifications of configurations and ACLs."""
        try:
            now_ms = self._base.machine.clock.wall_ms()
            await self._base.configs.purge_changes(now_ms)
            await self._base.authorizer.purge_changes(now_ms)
            if self._base.delegation_tokens is not None:
                await self._base.delegation_tokens.purge_changes()
        except RegistryError as error:
            _log.info("old change notifications could not be deleted, trying again later: {error}", error=error)

    # -- stop ---------------------------------------------------------------------------------------------------------

    async def hand_over(self) -> None:
        """Move leaderships away while the broker serves; see ``controlled_shutdown``.

        Does nothing under a KRaft controller, or without a session, because the controller notices the session's end.
        """
        base, config = self._base, self._base.config
        if base.client.state is SessionState.CONNECTED and not self.controller.is_kraft:
            self.replica_fetchers.leave()
            await ControlledShutdown(
                base.machine.clock,
                base.broker_id,
                self._ask_for_shutdown,
                self._cluster_view,
                config.controlled_shutdown_max_retries,
                config.controlled_shutdown_retry_backoff_ms,
            ).run()

    def _cluster_view(self) -> ClusterView:
        return ClusterView(self.controller.controller_id, frozenset(self.services.metadata.brokers))

    async def _ask_for_shutdown(self, controller_id: int) -> Collection[TopicPartition]:
        broker_id, broker_epoch = self._base.broker_id, self._base.broker_epoch()
        if controller_id == broker_id:
            return await self.controller.handle_controlled_shutdown(broker_id, broker_epoch)
        connection = await self.peers.connect_to_broker(controller_id)
        try:
            answer = await connection.request(
                ApiKey.CONTROLLED_SHUTDOWN, broker_id=broker_id, broker_epoch=broker_epoch
            )
        finally:
            connection.disconnect()
        if answer.error_code:
            raise ApiError(ErrorCode.of(answer.error_code))
        return [TopicPartition(left.topic_name, left.partition_index) for left in answer.remaining_partitions]

    async def close(self) -> None:
        """Stop everything except the parts that authorize requests. The caller then closes the listeners, calls
        ``close_security``, and closes the logs."""
        if self._client_report is not None:
            self._client_report.stop()
        self._alter_partitions.close()
        self._controller_channel.close()
        await self.controller.shutdown()
        await self.replica_fetchers.stop()
        self.log_cleaner.stop()
        self._alter_log_dirs.stop()
        self.services.coordinator.close()
        self._transactions.close()
        if self.remote_storage is not None:
            self.remote_storage.close()
        self._fetch_purgatory.abandon_all()
        self.services.metadata_purgatory.abandon_all()
        self._verifications.close()
        self.services.replicas.batch_helpers.close()

    def close_security(self) -> None:
        """Stop following ACLs and delegation tokens. Call this when no connection is left."""
        self._base.authorizer.close()
        if self._base.delegation_tokens is not None:
            self._base.delegation_tokens.close()


def _client_quotas(config: KafkaConfig, clock: Clock) -> Enforcement:
    mutations = QuotaWindow(config.controller_quota_window_num, config.controller_quota_window_size_seconds * 1000)
    return Enforcement(ClientQuotas(_window(config), mutations), clock)


def _window(config: KafkaConfig) -> QuotaWindow:
    return QuotaWindow(config.quota_window_num, config.quota_window_size_seconds * 1000)

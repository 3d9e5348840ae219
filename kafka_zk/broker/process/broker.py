"""One broker: creates its parts, and starts and stops them in Kafka's order.

Start: ZooKeeper → cluster id and broker id → logs → bind → register → accept → controller election → config changes.
Stop: the reverse. The ZooKeeper session ends last, so that the broker stays registered while its logs are flushed.
Source: KafkaServer.startup and shutdown@3.9.
"""

import resource
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred, gatherResults
from twisted.logger import Logger

from kafka_zk.base.clock import Clock, SystemClock, end_of_turn
from kafka_zk.base.events import EventSource, Observe, harmless, ignore
from kafka_zk.base.randomness import SYSTEM_RANDOM
from kafka_zk.base.threads import ReactorThreads, RunInThread
from kafka_zk.base.turns import after, in_slices
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.config.dynamic_config import DynamicBrokerConfig
from kafka_zk.broker.config.inter_broker_protocol import alter_partition_version, control_versions
from kafka_zk.broker.config.kafka_config import KafkaConfig
from kafka_zk.broker.controller.loop import Controller, ControllerConfig
from kafka_zk.broker.coordinator.partition_count import count_in_zookeeper
from kafka_zk.broker.group.config import CoordinatorConfig
from kafka_zk.broker.group.coordinator import GroupCoordinator
from kafka_zk.broker.group.offsets_topic import OffsetsTopic
from kafka_zk.broker.group.reporter import GroupReporter
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.handlers.table import OFFERED_VERSIONS, Dispatcher
from kafka_zk.broker.metadata.cache import BrokerEndPoint, MetadataCache
from kafka_zk.broker.metrics.request_stats import RequestStats
from kafka_zk.broker.process.advertised_host import advertised_host
from kafka_zk.broker.process.broker_id import identify
from kafka_zk.broker.process.controlled_shutdown import ClusterView, ControlledShutdown
from kafka_zk.broker.process.controller_channel import ControllerChannel
from kafka_zk.broker.process.live_config import HIDDEN_CONFIG_INTERVAL_MS, LiveConfig, read_broker_config
from kafka_zk.broker.process.opening_logs import StartAbandoned, open_logs, tell_finding, usable_configs
from kafka_zk.broker.process.transaction_verifications import verify_transactions
from kafka_zk.broker.process.transactions import BrokerTransactions
from kafka_zk.broker.replica.alter_partition_manager import AlterPartitionManager
from kafka_zk.broker.replica.batch_helpers import BatchHelpers
from kafka_zk.broker.replica.fetch_session import FetchSessions
from kafka_zk.broker.replica.log_cleaner import LogCleaner, LogCleanerSettings, StartHelper, WhenReadable
from kafka_zk.broker.replica.manager import ReplicaManager
from kafka_zk.broker.replica.purgatory import Purgatory
from kafka_zk.broker.replica.remote_replicas import InSyncRule
from kafka_zk.broker.replica.replica_alter_log_dirs_manager import ReplicaAlterLogDirsManager
from kafka_zk.broker.replica.replica_fetcher_manager import ReplicaFetcherManager, ReplicaFetcherSettings
from kafka_zk.broker.replica.zk_alter_partition_manager import CHECK_INTERVAL_MS, ZkAlterPartitionManager
from kafka_zk.broker.security.authorizer import NoAuthorizer
from kafka_zk.broker.transaction.state_topic import TransactionStateTopic
from kafka_zk.network.client import Connect, KafkaConnection, connect
from kafka_zk.network.connection_quotas import ConnectionQuotas, descriptors_for_connections
from kafka_zk.network.connection_settings import ConnectionSettings, Dispatch
from kafka_zk.network.listener import Listener, ListenerSettings, OpenPort
from kafka_zk.network.memory_pool import MemoryPool
from kafka_zk.network.periodic import Periodic
from kafka_zk.network.read_ahead import ReadAhead
from kafka_zk.network.readable import when_readable as reactor_when_readable
from kafka_zk.network.transport import FramePort
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.registry import isr, producer_ids
from kafka_zk.registry.brokers import BrokerRegistry
from kafka_zk.registry.client.client import RegistryClient, SessionState
from kafka_zk.registry.client.errors import RegistryError
from kafka_zk.registry.client.events import observe_session
from kafka_zk.registry.client.session import until_answered
from kafka_zk.registry.config import ConfigChangeWatcher, ConfigRegistry
from kafka_zk.registry.controller_epoch import ControllerEpochs
from kafka_zk.registry.offsets import OffsetRegistry
from kafka_zk.registry.topics import TopicRegistry
from kafka_zk.registry.znodes.brokers import BrokerInfo, EndPoint
from kafka_zk.registry.znodes.config import DEFAULT_ENTITY
from kafka_zk.storage.files.helper_process import Helper
from kafka_zk.storage.manager.log_manager import LogManager

_log = Logger()

HIGH_WATERMARK_CHECKPOINT_MS = 5_000  # replica.high.watermark.checkpoint.interval.ms
DELETION_INTERVAL_MS = 5_000
"""Files go soon after ``file.delete.delay.ms``, as in Kafka: gigabytes that go together cost others their disk."""
CHANGE_PURGE_INTERVAL_MS = 15 * 60 * 1000


class Broker:
    """A broker of a cluster, on the reactor thread.

    Args:
        client: a started ZooKeeper client; the broker closes it at the end.
        on_fatal: told in one sentence why the broker cannot go on (no log directory left, its id was taken).
        stats: counts requests, if somebody wants to know.
        observe: called with every event of ``registry.client.events``, ``controller.events``, ``replica.events`` and
            ``group.events``; what it raises is logged.
        clock, random, run_in_thread, connect, open_port, when_readable, start_helper: the machine's, and the reactor's
            threads and sockets, unless a simulated world has others.
    """

    def __init__(
        self,
        reactor: Any,
        config: KafkaConfig,
        client: RegistryClient,
        on_fatal: Callable[[str], None],
        stats: RequestStats | None = None,
        observe: Observe = ignore,
        *,
        clock: Clock | None = None,
        random: Random = SYSTEM_RANDOM,
        run_in_thread: RunInThread | None = None,
        connect: Connect = connect,
        open_port: OpenPort = FramePort,
        when_readable: WhenReadable | None = None,
        start_helper: StartHelper = Helper,
    ) -> None:
        self._reactor = reactor
        self._clock: Clock = clock or SystemClock(reactor)
        self._random = random
        self._connect_to = connect
        self._open_port = open_port
        self._when_readable = when_readable or partial(reactor_when_readable, reactor)
        self._start_helper = start_helper
        self._run_in_thread: RunInThread = run_in_thread or ReactorThreads(reactor)
        self._observe = observe
        self._config = config
        self._client = client
        self._on_fatal = on_fatal
        self._stats = stats
        self._brokers = BrokerRegistry(client, self._clock)
        self._dynamic_config = DynamicBrokerConfig(config.properties)
        self._listeners: list[Listener] = []
        self._periodic: list[Periodic] = []
        self._config_watcher: ConfigChangeWatcher | None = None
        self._sessions: list[int] = []
        self._unclean_start = False
        self._stopping = False
        self.broker_id = -1
        self.broker_epoch = -1

    # -- start --------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Returns when the broker is registered and serves. A connection to ZooKeeper that breaks is waited for.

        Raises: DuplicateBrokerId, LogDirLocked, InconsistentLogDir, RegistryError, OSError, CannotListenError;
            InvalidBrokerConfig for dynamic configuration that asks for security that is not built;
            StartAbandoned if it was stopped meanwhile.
        """
        cluster, self.broker_id = await until_answered(
            self._client, lambda: identify(self._config, self._client, self._random)
        )
        events = EventSource(f"broker-{self.broker_id}", harmless(self._observe), self._clock.wall_ms)
        observe_session(self._client, events)
        self._configs = ConfigRegistry(self._client, events)
        config = await read_broker_config(self._configs, self._dynamic_config, self.broker_id, starting=True)
        self._config = config
        self._logs = LogManager(
            config.log_directories,
            config.topic_defaults,
            broker_id=self.broker_id,
            cluster_id=cluster,
            clock_ms=self._clock.wall_ms,
            run_blocking=self._run_blocking,
            producer_id_expiration_ms=config.producer_id_expiration_ms,
            recovery_helper_count=config.num_recovery_threads_per_data_dir,
            on_directory_failure=self._directory_failed,
            observe=tell_finding,
            random=self._random,
        )
        await self._open_logs()
        self._build_services(cluster, events)
        counts = (self.services.coordinator.partition_count, self.services.transactions.partition_count)
        await until_answered(self._client, lambda: count_in_zookeeper(TopicRegistry(self._client), counts))
        if self._stopping:
            raise StartAbandoned
        self._bind()
        await self._register()
        if self._stopping:
            raise StartAbandoned
        self._client.add_session_listener(self._session_changed)
        for listener in self._listeners:
            listener.start_accepting()
        await self._controller.start()
        self._config_watcher = self._configs.watch_changes(self._config_changed)
        self._start_periodic_work()
        self.log_cleaner.start()
        _log.info("started", broker_id=self.broker_id, epoch=self.broker_epoch)

    async def _open_logs(self) -> None:
        configs = await usable_configs(self._configs, self._config.topic_defaults)
        self._unclean_start = not (await open_logs(self._clock, self._logs, configs, lambda: self._stopping)).is_clean

    def _build_services(self, cluster: str, events: EventSource) -> None:
        config = self._config
        self._memory = MemoryPool(config.queued_max_request_bytes)
        metadata = MetadataCache()
        clock, in_thread = self._clock, self._run_in_thread
        fetch_purgatory = Purgatory(clock, end_of_turn(self._reactor))
        helpers = BatchHelpers(clock, in_thread)
        replicas = ReplicaManager(
            self.broker_id, self._logs, clock, fetch_purgatory, in_thread, helpers, metadata, events
        )
        self._controller = self._new_controller(replicas)
        self._lead_followers(replicas, metadata)
        topics = TopicRegistry(self._client)
        coordinator = GroupCoordinator(
            CoordinatorConfig.of(config), self._clock, replicas, metadata, self._random, GroupReporter(events).tell
        )
        self.replica_fetchers = self._new_fetchers(replicas, fetch_purgatory)
        self._alter_log_dirs = self._new_alter_log_dirs(replicas)
        replicas.role_listeners += [
            self.replica_fetchers.role_changed, coordinator.role_changed, self._alter_log_dirs.role_changed
        ]  # fmt: skip
        replicas.marker_listeners.append(coordinator.transactional_commits.markers_written)
        self._transactions = BrokerTransactions(
            config, self._clock, replicas, metadata, self._connect_to_broker, self._allocate_producer_ids,
            topics.missing, events, end_of_turn(self._reactor),
        )  # fmt: skip
        self.log_cleaner = LogCleaner(
            clock, in_thread, self._when_readable, self._logs, LogCleanerSettings.of(config), replicas.standing_of,
            self._start_helper,
        )  # fmt: skip
        self.services = Services(
            broker_id=self.broker_id,
            cluster_id=cluster,
            config=config,
            clock=self._clock,
            authorizer=NoAuthorizer(config.broker_listeners),
            metadata=metadata,
            replicas=replicas,
            fetch_purgatory=fetch_purgatory,
            fetch_sessions=FetchSessions(
                config.max_incremental_fetch_session_cache_slots,
                lambda: self._random.randrange(1, 2**31),
                self._memory,
                lambda topic, partition: metadata.knows(topic, partition) or replicas.hosts(topic, partition),
                config.replica_lag_time_max_ms,
            ),
            metadata_purgatory=Purgatory(self._clock),
            controller=self._controller,
            topics=topics,
            configs=self._configs,
            broker_epoch=lambda: self.broker_epoch,
            controller_epochs=ControllerEpochs(self._client),
            dynamic_config=self._dynamic_config,
            group_offsets=lambda group: OffsetRegistry(self._client, group),
            batch_helpers=helpers,
            coordinator=coordinator,
            offsets_topic=OffsetsTopic(config, metadata, topics, self._random),
            transactions=self._transactions.coordinator,
            transaction_state_topic=TransactionStateTopic(config, metadata, topics, self._random),
            alter_log_dirs=self._alter_log_dirs,
            random=self._random,
        )
        self._transactions.serve(self.services)
        self._verifications = verify_transactions(self.services, self._connect_to_peer)

    def _lead_followers(self, replicas: ReplicaManager, metadata: MetadataCache) -> None:
        """What this broker does as the leader of followers: it goes by their lag, and asks for changes of the ISR."""
        config = self._config
        replicas.in_sync_rule = InSyncRule(config.replica_lag_time_max_ms, metadata.is_alive)
        replicas.quotas.configure(config)
        self._controller_channel = ControllerChannel(
            lambda: self._controller.controller_id,
            metadata,
            config.inter_broker_listener,
            lambda host, port: Deferred.fromCoroutine(self._connect_to_broker(host, port)),
        )
        self._controller.on_controller_change(lambda controller_id: self._controller_channel.controller_changed())
        version = alter_partition_version(config.inter_broker_protocol_version)
        self._alter_partitions: AlterPartitionManager | ZkAlterPartitionManager
        if version is None:
            self._alter_partitions = ZkAlterPartitionManager(self.broker_id, self._client, self._clock)
        else:
            self._alter_partitions = AlterPartitionManager(
                self.broker_id, lambda: self.broker_epoch, self._clock, self._controller_channel.connected, version
            )
        replicas.isr_updates.alter_partitions = self._alter_partitions

    def _new_controller(self, replicas: ReplicaManager) -> Controller:
        config = self._config
        return Controller(
            self.broker_id,
            self._client,
            self._clock,
            ControllerConfig(
                config.inter_broker_listener,
                config.delete_topic_enable,
                config.topic_defaults.unclean_leader_election_enable,
                config.auto_leader_rebalance_enable,
                config.leader_imbalance_check_interval_seconds,
                config.leader_imbalance_per_broker_percentage,
                control_versions(config.inter_broker_protocol_version),
            ),
            self._connect,
            self._observe,
            known_epoch=lambda: replicas.controller_epoch,
            random=self._random,
            on_kraft=lambda kraft: self._on_fatal(str(kraft)),
        )

    def _new_fetchers(self, replicas: ReplicaManager, purgatory: Purgatory) -> ReplicaFetcherManager:
        return ReplicaFetcherManager(
            self.broker_id,
            lambda: self.broker_epoch,
            self._clock,
            ReplicaFetcherSettings.of(self._config),
            self._connect_to_leader,
            purgatory.check,
            self._logs.fail_directory,
            replicas.role_changes,
            self._run_in_thread,
            replicas.quotas.follower,
        )

    def _new_alter_log_dirs(self, replicas: ReplicaManager) -> ReplicaAlterLogDirsManager:
        return ReplicaAlterLogDirsManager(
            self._clock,
            replicas,
            self._run_in_thread,
            lambda: self.services.config.replica_alter_log_dirs_io_max_bytes_per_second,
        )

    async def _allocate_producer_ids(self) -> range:
        """A block may be lost with a connection; there are enough."""
        return await until_answered(self._client, lambda: producer_ids.allocate_block(self._client, self.broker_id))

    def _bind(self) -> None:
        config = self._config
        dispatch: Dispatch = Dispatcher(self.services).dispatch
        if self._stats is not None:
            dispatch = self._stats.measure(dispatch)
        quotas = ConnectionQuotas(
            config.max_connections,
            config.max_connections_per_ip,
            config.connections_per_ip_overrides,
            descriptors_for_connections(resource.getrlimit(resource.RLIMIT_NOFILE)[0], self._logs.pool.max_open_files),
        )
        self._live_config = LiveConfig(self.services, quotas, self.log_cleaner, self._register)
        for wanted in config.listener_list:
            listener = Listener(
                self._reactor,
                ListenerSettings(
                    host=wanted.host,
                    port=wanted.port,
                    backlog=config.socket_listen_backlog_size,
                    send_buffer_size_bytes=config.socket_send_buffer_bytes,
                    receive_buffer_size_bytes=config.socket_receive_buffer_bytes,
                    max_idle_ms=config.connections_max_idle_ms,
                    inter_broker=self._is_between_brokers(wanted.name),
                ),
                ConnectionSettings(
                    clock=self._clock,
                    listener_name=wanted.name,
                    dispatch=dispatch,
                    security_protocol=wanted.security_protocol,
                    versions=OFFERED_VERSIONS,
                    max_request_size_bytes=config.socket_request_max_bytes,
                    read_ahead=ReadAhead(self._run_in_thread),
                    memory=self._memory,
                    between_brokers=self._is_between_brokers(wanted.name),
                ),
                quotas,
                self._open_port,
            )
            listener.bind()
            self._listeners.append(listener)

    def _is_between_brokers(self, listener: str) -> bool:
        """Whether clients have listeners of their own, other than this one."""
        return listener == self._config.inter_broker_listener and len(self._config.listener_list) > 1

    # -- registration -------------------------------------------------------------------------------------------------

    def _info(self) -> BrokerInfo:
        ports = {listener.name: listener.port for listener in self._listeners}
        endpoints = tuple(
            EndPoint(
                wanted.name, wanted.security_protocol, advertised_host(wanted.host), wanted.port or ports[wanted.name]
            )
            for wanted in self.services.config.advertised_listener_list
        )
        now_ms = self._clock.wall_ms()
        return BrokerInfo.of(self.broker_id, endpoints, rack=self._config.broker_rack, timestamp_ms=now_ms)

    async def _register(self) -> None:
        unclean_start = self._unclean_start and not self._sessions  # in a later session the page cache is the same
        self.broker_epoch = await self._brokers.register(self._info(), self._sessions, unclean_start=unclean_start)
        if self._client.session_id is not None and self._client.session_id not in self._sessions:
            self._sessions.append(self._client.session_id)

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED and self._client.session_id not in self._sessions and not self._stopping:
            ensureDeferred(self._register_again())

    async def _register_again(self) -> None:
        """A new session: register first, then take part in the election again, as Kafka does."""
        try:
            await self._register()
            await self._controller.session_renewed()
            self._config_changed("brokers", DEFAULT_ENTITY)  # a change may have been announced that could not be read
            _log.warn("registered again with a new session", epoch=self.broker_epoch)
        except RegistryError as error:
            if not self._stopping and self._client.state is SessionState.CONNECTED:
                self._on_fatal(f"broker {self.broker_id} cannot register again: {error}")

    async def _connect(self, info: BrokerInfo) -> KafkaConnection:
        endpoint = info.endpoint(self._config.inter_broker_listener) or info.endpoints[0]
        return await self._connect_to_broker(endpoint.host, endpoint.port)

    async def _connect_to_broker(self, host: str, port: int) -> KafkaConnection:
        timeout_s = self._config.controller_socket_timeout_ms / 1000
        return await self._connect_to(
            self._reactor,
            host,
            port,
            client_id=str(self.broker_id),
            timeout_s=timeout_s,
            request_timeout_s=timeout_s,
        )

    async def _connect_to_peer(self, broker_id: int) -> KafkaConnection:
        return await self._connect_to_broker(*self._address_of(broker_id))

    async def _connect_to_leader(self, broker_id: int) -> KafkaConnection:
        host, port = self._address_of(broker_id)
        timeout_s = self._config.replica_socket_timeout_ms / 1000
        return await self._connect_to(
            self._reactor,
            host,
            port,
            client_id=f"broker-{self.broker_id}-fetcher-0",
            request_timeout_s=timeout_s,
            negotiate=False,
        )

    def _address_of(self, broker_id: int) -> BrokerEndPoint:
        """Where another broker listens for brokers. Raises ApiError(BROKER_NOT_AVAILABLE) if that is not known."""
        known = self.services.metadata.brokers.get(broker_id)
        endpoint = None if known is None else known.endpoints.get(self._config.inter_broker_listener)
        if endpoint is None:
            raise ApiError(ErrorCode.BROKER_NOT_AVAILABLE, f"the address of broker {broker_id} is not known")
        return endpoint

    # -- while it runs ------------------------------------------------------------------------------------------------

    def _config_changed(self, entity_type: str, entity_name: str) -> None:
        ensureDeferred(self._live_config.changed(entity_type, entity_name))

    def _start_periodic_work(self) -> None:
        config, now = self._config, self._clock.wall_ms
        work: list[tuple[int, Callable[[], object]]] = [
            (config.log_retention_check_interval_ms, self._delete_old_segments),
            (config.producer_id_expiration_check_interval_ms, self._expire_producers),
            (min(config.log_retention_check_interval_ms, DELETION_INTERVAL_MS), lambda: self._logs.delete_due(now())),
            (config.log_flush_offset_checkpoint_interval_ms, self._logs.checkpoint),
            (config.log_flush_offset_checkpoint_interval_ms, self._write_topic_ids),
            (HIGH_WATERMARK_CHECKPOINT_MS, self._logs.checkpoint_high_watermarks),
            (CHANGE_PURGE_INTERVAL_MS, self._purge_changes),
            (HIDDEN_CONFIG_INTERVAL_MS, self._live_config.read_hidden),
            (max(1, config.replica_lag_time_max_ms // 2), self._shrink_isrs),
            (config.offsets_retention_check_interval_ms, self.services.coordinator.offsets.remove_expired),
            *self._transactions.periodic_work,
            (1000, lambda: in_slices(self._clock, self._logs.large_snapshots.steps())),
            (min(config.log_flush_scheduler_interval_ms, 1000), lambda: self._logs.flush_dirty(self._clock.wall_ms())),
        ]
        if isinstance(self._alter_partitions, ZkAlterPartitionManager):
            work.append((CHECK_INTERVAL_MS, self._alter_partitions.propagate))
        self._periodic = [Periodic(self._clock, interval_ms, task) for interval_ms, task in work]

    async def _delete_old_segments(self) -> None:
        await in_slices(self._clock, self._logs.cleanup_steps(self._clock.wall_ms()))

    async def _expire_producers(self) -> None:
        await in_slices(self._clock, self._logs.expire_producers_steps(self._clock.wall_ms()))

    async def _write_topic_ids(self) -> None:
        await in_slices(self._clock, self._logs.write_topic_ids_steps())

    async def _shrink_isrs(self) -> None:
        replicas = self.services.replicas
        await in_slices(self._clock, replicas.isr_updates.shrink(list(replicas.partitions.values())))

    async def _purge_changes(self) -> None:
        """Notes of configuration changes that every broker has seen by now."""
        try:
            await self._configs.purge_changes(self._clock.wall_ms())
        except RegistryError as error:
            _log.info("old configuration changes stay for now: {error}", error=error)

    def _directory_failed(self, directory: Path, error: OSError, lost: list[TopicPartition]) -> None:
        _log.error("log directory {directory} failed: {error}", directory=directory, error=error)
        self.services.replicas.directory_failed(lost)
        if not self._logs.live_directories:
            self._on_fatal(f"all log directories of broker {self.broker_id} failed, the last: {directory}: {error}")
        else:
            ensureDeferred(self._tell_of_failure())

    async def _tell_of_failure(self) -> None:
        """The controller asks then for each replica; a new session tells it as much."""
        try:
            await until_answered(self._client, lambda: isr.notify_log_dir_failure(self._client, self.broker_id))
        except RegistryError as told:
            _log.warn("the controller was not told of the failed log directory: {error}", error=told)

    def _run_blocking(self, work: Callable[[], None], done: Callable[[OSError | None], None]) -> None:
        ensureDeferred(self._finish(self._run_in_thread(work), done))

    async def _finish(self, finished: Awaitable[None], done: Callable[[OSError | None], None]) -> None:
        try:
            await finished
        except OSError as error:
            done(error)
        else:
            done(None)

    # -- stop ---------------------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """A clean shutdown; returns when everything is flushed and the session is closed.

        The controller first moves the leaderships away, while everything still serves; see ``controlled_shutdown``.
        """
        self._stopping = True
        if self._config.controlled_shutdown_enable and self.broker_epoch >= 0:
            await self._hand_over()
        for periodic in self._periodic:
            periodic.stop()
        try:
            if hasattr(self, "services"):
                await self._stop_serving()
            if hasattr(self, "_logs"):
                await self._close_logs()
        finally:
            await self._client.close()
        if self.broker_epoch >= 0:
            _log.info("stopped", broker_id=self.broker_id)

    async def _hand_over(self) -> None:
        """Without a session, or under KRaft, there is nobody to ask: the controller hears of it by that."""
        if self._client.state is SessionState.CONNECTED and not self._controller.is_kraft:
            config = self._config
            self.replica_fetchers.leave()
            await ControlledShutdown(
                self._clock,
                self.broker_id,
                self._ask_for_shutdown,
                self._cluster_view,
                config.controlled_shutdown_max_retries,
                config.controlled_shutdown_retry_backoff_ms,
            ).run()

    def _cluster_view(self) -> ClusterView:
        return ClusterView(self._controller.controller_id, frozenset(self.services.metadata.brokers))

    async def _ask_for_shutdown(self, controller_id: int) -> Collection[TopicPartition]:
        if controller_id == self.broker_id:
            return await self._controller.handle_controlled_shutdown(self.broker_id, self.broker_epoch)
        connection = await self._connect_to_peer(controller_id)
        try:
            answer = await connection.request(
                ApiKey.CONTROLLED_SHUTDOWN, broker_id=self.broker_id, broker_epoch=self.broker_epoch
            )
        finally:
            connection.disconnect()
        if answer.error_code:
            raise ApiError(ErrorCode.of(answer.error_code))
        return [TopicPartition(left.topic_name, left.partition_index) for left in answer.remaining_partitions]

    async def _close_logs(self) -> None:
        """In steps, with fsyncs in threads: the session must not be lost over thousands of logs. What is still being
        answered has no log to append to meanwhile."""
        if hasattr(self, "services"):
            self.services.replicas.partitions.clear()
        for works in self._logs.shutdown_steps(self.broker_epoch):
            await gatherResults([self._run_in_thread(work) for work in works])
            await after(self._clock, 0)

    async def _stop_serving(self) -> None:
        if self._config_watcher is not None:
            self._config_watcher.close()
        self._alter_partitions.close()
        self._controller_channel.close()
        await self._controller.shutdown()
        await self.replica_fetchers.stop()
        self.log_cleaner.stop()
        self._alter_log_dirs.stop()
        self.services.coordinator.close()
        self._transactions.close()
        self.services.fetch_purgatory.abandon_all()
        self.services.metadata_purgatory.abandon_all()
        self._verifications.close()
        self.services.batch_helpers.close()
        for listener in self._listeners:
            await listener.stop()

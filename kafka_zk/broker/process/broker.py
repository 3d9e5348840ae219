"""A broker's lifecycle in Kafka's order: start, registration in ZooKeeper, service, stop.

Start: ZooKeeper → cluster id and broker id → keys and certificates → logs → parts → bind → register → accept →
controller election → config changes. Stop: the reverse. The ZooKeeper session ends last, so the broker stays registered
while its logs are flushed.

Source: KafkaServer.startup and shutdown@3.9.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path

from twisted.internet.defer import ensureDeferred, gatherResults
from twisted.logger import Logger

from kafka_zk.base.events import EventSource, Observe, harmless, ignore
from kafka_zk.base.turns import after
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.config.dynamic_config import DynamicBrokerConfig
from kafka_zk.broker.config.kafka_config import KafkaConfig
from kafka_zk.broker.coordinator.partition_count import count_in_zookeeper
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.metrics.request_stats import RequestStats
from kafka_zk.broker.process.authorization import start_authorizer
from kafka_zk.broker.process.broker_id import identify
from kafka_zk.broker.process.config_changes import ConfigChanges
from kafka_zk.broker.process.foundation import Foundation
from kafka_zk.broker.process.listeners import connection_quotas, listener_maker
from kafka_zk.broker.process.live_config import LiveConfig, read_broker_config
from kafka_zk.broker.process.live_listeners import LiveListeners
from kafka_zk.broker.process.machine import Machine
from kafka_zk.broker.process.opening_logs import (
    StartAbandoned,
    log_full_producers,
    open_logs,
    tell_finding,
    usable_configs,
)
from kafka_zk.broker.process.parts import BrokerParts
from kafka_zk.broker.process.security import BrokerSecurity
from kafka_zk.broker.process.tokens import ListenerTokenKeys, start_delegation_tokens
from kafka_zk.broker.security.scram_credentials import ScramCredentials
from kafka_zk.network.periodic import Periodic
from kafka_zk.registry import isr
from kafka_zk.registry.brokers import BrokerRegistry
from kafka_zk.registry.client.client import RegistryClient, SessionState
from kafka_zk.registry.client.errors import RegistryError
from kafka_zk.registry.client.events import observe_session
from kafka_zk.registry.client.session import retry_until_connected
from kafka_zk.registry.cluster_secret import cluster_secret
from kafka_zk.registry.config import ConfigRegistry
from kafka_zk.registry.topics import TopicRegistry
from kafka_zk.registry.znodes.brokers import BrokerInfo, EndPoint
from kafka_zk.storage.manager.hosted_logs import LogCallbacks
from kafka_zk.storage.manager.log_manager import LogManager, ManagerSettings

_log = Logger()


class Broker:
    """A broker of a cluster, on the reactor thread.

    Args:
        client: started; the broker closes it.
        on_fatal: called with one sentence if the broker cannot continue (no log directory is left, or its id is taken).
        stats: counts requests; None without a metrics endpoint.
        observe: called with every event of ``registry.client.events``, ``controller.events``, ``replica.events`` and
            ``group.events``; its errors are logged.
        on_bound: called with the parts before the broker registers; may raise CannotListenError.
    """

    def __init__(
        self,
        machine: Machine,
        config: KafkaConfig,
        client: RegistryClient,
        on_fatal: Callable[[str], None],
        stats: RequestStats | None = None,
        observe: Observe = ignore,
        on_bound: Callable[[BrokerParts], None] = lambda parts: None,
    ) -> None:
        self._on_bound = on_bound
        self._machine = machine
        self._observe = observe
        self._config = config
        self._client = client
        self._on_fatal = on_fatal
        self._stats = stats
        self._brokers = BrokerRegistry(client, machine.clock)
        self._dynamic_config = DynamicBrokerConfig(config.properties)
        self._logs: LogManager | None = None
        self._parts: BrokerParts | None = None
        self._live_config: LiveConfig | None = None
        self._listeners: LiveListeners | None = None
        self._registered: tuple[EndPoint, ...] = ()
        self._periodic: list[Periodic] = []
        self._config_changes: ConfigChanges | None = None
        self._token_keys = ListenerTokenKeys(machine)
        self._sessions: list[int] = []
        self._unclean_start = False
        self._stopping = False
        self.broker_id = -1
        self.broker_epoch = -1

    @property
    def parts(self) -> BrokerParts:
        """The broker's parts, which exist once the logs are open."""
        assert self._parts is not None, "the logs are not open"
        return self._parts

    @property
    def services(self) -> Services:
        return self.parts.services

    # -- start --------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Returns when the broker is registered and serves. Waits while there is no connection to ZooKeeper.

        Raises: DuplicateBrokerId, LogDirLocked, InconsistentLogDir, RegistryError, OSError, CannotListenError;
            InvalidBrokerConfig for key files or dynamic security that cannot be used; StartAbandoned if the broker was
            stopped during the start.
        """
        client, machine = self._client, self._machine
        cluster_id, self.broker_id = await retry_until_connected(
            client, lambda: identify(self._config, client, machine.random)
        )
        events = EventSource(f"broker-{self.broker_id}", harmless(self._observe), machine.clock.wall_ms)
        observe_session(client, events)
        configs = ConfigRegistry(client, events)
        self._config_changes = ConfigChanges(configs)
        config = await read_broker_config(configs, self._dynamic_config, self.broker_id, starting=True)
        self._config = config
        security = BrokerSecurity.of(config)  # read before the logs are opened, which may take minutes
        logs = self._logs = self._new_logs(cluster_id)
        await self._open(logs, configs)
        credentials = await self._read_credentials(security, configs)
        authorizer = await start_authorizer(config, machine, client, events)
        tokens = await start_delegation_tokens(config, machine, client, events, credentials)
        for name, listener in security.listeners.items():
            await self._token_keys.fetch(name, listener)
        parts = self._parts = BrokerParts(
            Foundation(
                self.broker_id, cluster_id, lambda: self.broker_epoch, config, self._dynamic_config, configs, logs,
                client, machine, events, self._observe, lambda kraft: self._on_fatal(str(kraft)), security, credentials,
                authorizer,
                tokens,
            )
        )  # fmt: skip
        await parts.client_quotas.load()
        counts = (parts.services.coordinator.partition_count, parts.services.transactions.partition_count)
        await retry_until_connected(client, lambda: count_in_zookeeper(TopicRegistry(client), counts))
        if self._stopping:
            raise StartAbandoned
        live_config = self._live_config = self._bind(parts)
        self._on_bound(parts)
        await self._register()
        if self._stopping:
            raise StartAbandoned
        client.add_session_listener(self._session_changed)
        self._bound.start_accepting()
        await parts.controller.start()
        self._config_changes.follow(live_config)
        work = parts.periodic_work(live_config)
        self._periodic = [Periodic(machine.clock, interval_ms, task) for interval_ms, task in work]
        parts.log_cleaner.start()
        _log.info("started", broker_id=self.broker_id, epoch=self.broker_epoch)

    async def _read_credentials(self, security: BrokerSecurity, configs: ConfigRegistry) -> ScramCredentials:
        """Read the SCRAM credentials if a listener needs them."""
        credentials = ScramCredentials(b"")
        if security.needs_credentials:
            await self._load_credentials(credentials, configs)
        return credentials

    async def _load_credentials(self, credentials: ScramCredentials, configs: ConfigRegistry) -> None:
        credentials.invent_from(
            await retry_until_connected(self._client, lambda: cluster_secret(self._client, self._machine.random))
        )
        await credentials.load(configs)

    def _new_logs(self, cluster_id: str) -> LogManager:
        config = self._config
        logs = LogManager(
            config.log_directories,
            config.topic_defaults,
            broker_id=self.broker_id,
            cluster_id=cluster_id,
            clock_ms=self._machine.clock.wall_ms,
            settings=ManagerSettings(
                producer_id_expiration_ms=config.producer_id_expiration_ms,
                recovery_helper_count=config.num_recovery_threads_per_data_dir,
            ),
            callbacks=LogCallbacks(
                self._run_blocking, tell_finding, self._directory_failed, random=self._machine.random
            ),
        )
        logs.producer_ids.on_full = log_full_producers
        return logs

    async def _open(self, logs: LogManager, configs: ConfigRegistry) -> None:
        topics = await usable_configs(configs, self._config.topic_defaults)
        report = await open_logs(self._machine.clock, logs, topics, lambda: self._stopping)
        self._unclean_start = not report.is_clean

    def _bind(self, parts: BrokerParts) -> LiveConfig:
        quotas = connection_quotas(parts)
        maker = listener_maker(self._machine, parts, quotas, self._stats)
        self._listeners = LiveListeners(
            self._machine, parts, maker, self._load_users, self._token_keys, self._follow_listeners
        )
        self._listeners.bind()
        parts.report_clients(self._listeners)
        self._dynamic_config.check_listeners = self._listeners.check
        credentials = parts.credentials if parts.security.needs_credentials else None
        return LiveConfig(
            parts.services, quotas, parts.log_cleaner, self._follow_listeners, credentials, parts.client_quotas
        )

    @property
    def _bound(self) -> LiveListeners:
        assert self._listeners is not None, "no listener is bound"
        return self._listeners

    # -- registration -------------------------------------------------------------------------------------------------

    def _info(self) -> BrokerInfo:
        endpoints, now_ms = self._bound.endpoints(), self._machine.clock.wall_ms()
        return BrokerInfo.of(self.broker_id, endpoints, rack=self._config.broker_rack, timestamp_ms=now_ms)

    async def _register(self) -> None:
        unclean_start = self._unclean_start and not self._sessions  # announced only at the start
        info = self._info()
        self.broker_epoch = await self._brokers.register(info, self._sessions, unclean_start=unclean_start)
        self._registered = info.endpoints
        if self._client.session_id is not None and self._client.session_id not in self._sessions:
            self._sessions.append(self._client.session_id)

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.CONNECTED and self._client.session_id not in self._sessions and not self._stopping:
            ensureDeferred(self._register_again())

    async def _register_again(self) -> None:
        """Register, then take part in the election again, as in Kafka. Neither step waits for the configuration, which
        may be large or hidden by an ACL."""
        assert self._live_config is not None  # set at the start
        try:
            await self._register()
            await self.parts.controller.session_renewed()
            ensureDeferred(self._live_config.session_renewed())
            _log.warn("registered again with a new session", epoch=self.broker_epoch)
        except RegistryError as error:
            if not self._stopping and self._client.state is SessionState.CONNECTED:
                self._on_fatal(f"broker {self.broker_id} cannot register again: {error}")

    # -- while it runs ------------------------------------------------------------------------------------------------

    async def _follow_listeners(self) -> None:
        await self._bound.follow(self._register_changes)
        if not self._stopping:
            self.parts.listeners_changed()

    async def _register_changes(self) -> None:
        if self._bound.endpoints() != self._registered and not self._stopping:
            await self._register()

    async def _load_users(self) -> None:
        """Load SCRAM users. Called before the first listener with SCRAM is added."""
        assert self._live_config is not None  # set at the start
        if self._live_config.credentials is None:
            self._live_config.credentials = self.parts.credentials  # set first: no change is missed
            try:
                await self._load_credentials(self.parts.credentials, self.services.configs)
            except RegistryError:
                self._live_config.credentials = None
                raise

    def _directory_failed(self, directory: Path, error: OSError, lost: list[TopicPartition]) -> None:
        assert self._logs is not None  # the log manager calls this
        _log.error("log directory {directory} failed: {error}", directory=directory, error=error)
        if self._parts is not None:
            self._parts.services.replicas.directory_failed(lost)
        if not self._logs.live_directories:
            self._on_fatal(f"all log directories of broker {self.broker_id} failed, the last: {directory}: {error}")
        else:
            ensureDeferred(self._tell_of_failure())

    async def _tell_of_failure(self) -> None:
        """Notify the controller of the failure. It then asks for the state of each replica, as after a new session."""
        try:
            await retry_until_connected(self._client, lambda: isr.notify_log_dir_failure(self._client, self.broker_id))
        except RegistryError as told:
            _log.warn("the controller could not be informed of the failed log directory: {error}", error=told)

    def _run_blocking(self, work: Callable[[], None], done: Callable[[OSError | None], None]) -> None:
        ensureDeferred(self._finish(self._machine.run_in_thread(work), done))

    async def _finish(self, finished: Awaitable[None], done: Callable[[OSError | None], None]) -> None:
        try:
            await finished
        except OSError as error:
            done(error)
        else:
            done(None)

    # -- stop ---------------------------------------------------------------------------------------------------------

    async def stop(self) -> None:
        """Stop cleanly. Returns when all records are flushed and the session is closed."""
        self._stopping = True
        if self._config.controlled_shutdown_enable and self.broker_epoch >= 0:
            await self.parts.hand_over()
        for periodic in self._periodic:
            periodic.stop()
        try:
            if self._parts is not None:
                await self._stop_serving(self._parts)
            if self._config_changes is not None:
                self._config_changes.close()
            if self._logs is not None:
                await self._close(self._logs)
        except Exception:  # not GeneratorExit, which ends a simulated process
            await self._end_session()
            raise
        await self._end_session()
        if self.broker_epoch >= 0:
            _log.info("stopped", broker_id=self.broker_id)

    async def _end_session(self) -> None:
        self._token_keys.close()
        await self._client.close()

    async def _stop_serving(self, parts: BrokerParts) -> None:
        """Stop serving clients. This takes seconds, so ACLs, users, tokens and quotas are followed until the end."""
        if self._live_config is not None:
            self._live_config.follow_only_clients()
        await parts.close()
        if self._listeners is not None:
            await self._listeners.stop()
        self._token_keys.close()
        parts.close_security()

    async def _close(self, logs: LogManager) -> None:
        """Close the logs in steps, with fsyncs on worker threads, so that the ZooKeeper session does not expire before
        the end, even with thousands of logs.

        Requests in progress no longer find a log.
        """
        if self._parts is not None:
            self._parts.services.replicas.partitions.clear()
        for works in logs.shutdown_steps(self.broker_epoch):
            await gatherResults([self._machine.run_in_thread(work) for work in works])
            await after(self._machine.clock, 0)

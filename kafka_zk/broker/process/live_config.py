"""Applies changes of the configuration in ZooKeeper to the running broker.

A notification only names an entity; its current configuration is then read. So repeated notifications do no harm, and
after missed ones everything is read again. Source: ConfigHandler.scala, DynamicBrokerConfig.scala@3.9.
"""

from collections.abc import Awaitable, Callable

from twisted.logger import Logger

from kafka_zk.base.turns import in_slices
from kafka_zk.broker.config.dynamic_config import DynamicBrokerConfig
from kafka_zk.broker.config.kafka_config import KafkaConfig
from kafka_zk.broker.handlers.services import Services
from kafka_zk.broker.quota.quota_configs import ENTITY_TYPES, QuotaConfigs
from kafka_zk.broker.replica.log_cleaner import LogCleaner, LogCleanerSettings
from kafka_zk.broker.security.scram_credentials import ScramCredentials
from kafka_zk.network.connection_quotas import ConnectionQuotas
from kafka_zk.registry.client.errors import NoAuth, RegistryError
from kafka_zk.registry.config import ConfigRegistry
from kafka_zk.registry.znodes.config import DEFAULT_ENTITY, entity_path

_log = Logger()

HIDDEN_CONFIG_INTERVAL_MS = 10_000
_UNCLEAN = "unclean.leader.election.enable"


async def read_broker_config(
    configs: ConfigRegistry, dynamic: DynamicBrokerConfig, broker_id: int, *, starting: bool = False
) -> KafkaConfig:
    """The configuration with the dynamic part from ZooKeeper; invalid content counts as empty.

    Raises: RegistryError (NoAuth if an ACL hides a part). If ``starting``, InvalidBrokerConfig for unsupported security
        or invalid listeners in ZooKeeper; a running broker logs these problems instead.
    """
    own = str(broker_id)
    stored = await configs.synced_entities("brokers", [DEFAULT_ENTITY, own])
    for name in (DEFAULT_ENTITY, own):
        if name not in stored:
            raise NoAuth(f"{entity_path('brokers', name)}: its ACL does not let this broker read its configuration")
    if starting:
        dynamic.refuse_unbuilt_security(stored[own], stored[DEFAULT_ENTITY])
        if dynamic.reencoded(stored[own]) != stored[own]:
            await configs.update_entity("brokers", own, dynamic.reencoded)
    return dynamic.take(stored[own], stored[DEFAULT_ENTITY])


class LiveConfig:
    """``follow_listeners`` applies ``services.config`` to listeners and registration. It is called after each change of
    the broker's configuration, even while an earlier call is in progress.

    ``credentials``: None while no listener uses SCRAM.
    """

    def __init__(
        self,
        services: Services,
        quotas: ConnectionQuotas,
        log_cleaner: LogCleaner,
        follow_listeners: Callable[[], Awaitable[None]],
        credentials: ScramCredentials | None,
        client_quotas: QuotaConfigs,
    ) -> None:
        self._services = services
        self._log_cleaner = log_cleaner
        self._quotas = quotas
        self._follow_listeners = follow_listeners
        self.credentials = credentials
        self._client_quotas = client_quotas
        self._users_are_unread = False
        self._quotas_are_unread = False
        self._topics_are_unread = False
        self._only_clients = False

    def follow_only_clients(self) -> None:
        """Follow only users and quotas from now on, because the broker is stopping."""
        self._only_clients = True

    async def changed(self, entity_type: str, entity_name: str) -> None:
        """Apply an announced entity's current configuration."""
        if self._only_clients and entity_type not in ENTITY_TYPES:
            return
        try:
            if entity_type == "topics":
                await self._reload_topics([entity_name])
            elif entity_type in ENTITY_TYPES:
                await self._client_quotas.reload(entity_type, [entity_name])
                if entity_type == "users" and self.credentials is not None:
                    await self.credentials.reload(self._services.configs, [entity_name])
            elif entity_type == "brokers" and entity_name in (DEFAULT_ENTITY, str(self._services.broker_id)):
                await self._reload_broker()
        except RegistryError as error:
            _log.warn(
                "cannot read the configuration of {entity_type} {entity_name}: {error}",
                entity_type=entity_type,
                entity_name=entity_name,
                error=error,
            )

    async def session_renewed(self) -> None:
        """Read again everything that may have changed while there was no session, or whose notification was purged."""
        await self._load_users()
        await self.read_quotas_again()
        await self.changed("brokers", DEFAULT_ENTITY)
        if self._topics_are_unread and not self._only_clients:
            await self._read_topics_again()

    async def changes_missed(self) -> None:
        """Read everything again, because notifications were deleted unread."""
        self._topics_are_unread = True
        await self.session_renewed()

    async def read_hidden(self) -> None:
        """Read again the configurations that an ACL hid, since a changed ACL causes no notification."""
        if self._users_are_unread:
            await self._load_users()
        if self._quotas_are_unread:
            await self.read_quotas_again()
        topics, users = self._hidden("topics"), self._hidden("users")
        if users and self.credentials is not None:
            await self.credentials.reload(self._services.configs, users)
        if topics:
            await self._reload_topics(topics)
        for quotas_of in ENTITY_TYPES:
            if self._hidden(quotas_of):
                await self._client_quotas.reload(quotas_of, self._hidden(quotas_of))

    async def read_quotas_again(self) -> None:
        """Read all quotas again in a new session, because notifications may have been missed and purged."""
        failed_before, self._quotas_are_unread = self._quotas_are_unread, False
        try:
            await self._client_quotas.load()
        except RegistryError as error:
            self._quotas_are_unread = True
            if not failed_before:
                _log.error("cannot read the quotas; retrying: {error}", error=error)

    def _hidden(self, entity_type: str) -> list[str]:
        return sorted(name for kind, name in self._services.configs.hidden if kind == entity_type)

    async def _load_users(self) -> None:
        if self.credentials is None:
            return
        failed_before, self._users_are_unread = self._users_are_unread, False
        try:
            await self.credentials.load(self._services.configs)
        except RegistryError as error:
            self._users_are_unread = True
            if not failed_before:
                _log.error("cannot read the SCRAM users; retrying: {error}", error=error)

    async def _read_topics_again(self) -> None:
        self._topics_are_unread = False
        try:
            await self._reload_topics(self._hosted_topics())
        except RegistryError as error:
            self._topics_are_unread = True
            _log.warn("cannot read the topics' configurations; retrying in the next session: {error}", error=error)

    def _hosted_topics(self) -> list[str]:
        return sorted({partition.topic for partition in self._services.replicas.partitions})

    async def _reload_topics(self, topics: list[str]) -> None:
        replicas = self._services.replicas
        async with replicas.state_changes:
            stored = await self._services.configs.synced_entities("topics", topics)
            await in_slices(self._services.clock, replicas.update_topic_configs(stored))
        if any(_UNCLEAN in properties for properties in stored.values()):
            self._allow_unclean_elections()
        self._clean_at_once(set(topics))

    def _allow_unclean_elections(self) -> None:
        by_default = self._services.config.topic_defaults.unclean_leader_election_enable
        self._services.controller.allow_unclean_elections(by_default=by_default)

    def _clean_at_once(self, topics: set[str]) -> None:
        """Immediately clean topics whose ``min.cleanable.dirty.ratio`` is 0, for ``kafka-zk compact``."""
        for tp, partition in self._services.replicas.partitions.items():
            if tp.topic in topics and partition.log and partition.log.config.min_cleanable_dirty_ratio == 0:
                self._log_cleaner.clean_now(tp)

    async def _reload_broker(self) -> None:
        services = self._services
        config = await read_broker_config(services.configs, services.dynamic_config, services.broker_id)
        new_defaults = config.topic_defaults != services.config.topic_defaults
        services.config = config
        self._quotas.set_limits(
            config.max_connections, config.max_connections_per_ip, config.connections_per_ip_overrides
        )
        self._quotas.rates.set_limits(config.max_connection_creation_rate, config.listener_creation_rates)
        services.replicas.quotas.configure(config)
        services.replicas.logs.upkeep.producer_id_expiration_ms = config.producer_id_expiration_ms
        self._log_cleaner.reconfigure(LogCleanerSettings.of(config))
        if new_defaults:
            self._allow_unclean_elections()
            services.replicas.set_topic_defaults(config.topic_defaults)
            await self._reload_topics(self._hosted_topics())
        await self._follow_listeners()
        _log.info("the broker's configuration changed")

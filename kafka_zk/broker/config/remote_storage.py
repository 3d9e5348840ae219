"""Remote storage in ``server.properties``: the plugin's settings, and those of ``__remote_log_metadata``.

Source: RemoteLogManagerConfig.java, TopicBasedRemoteLogMetadataManagerConfig.java@3.9.
"""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kafka_zk.base.integers import NATURAL_INT32, decimal_integer
from kafka_zk.broker.config.broker_keys import BrokerKeys
from kafka_zk.broker.config.inter_broker_protocol import follower_versions
from kafka_zk.broker.config.plugin_keys import AIVEN_CLASS, PREFIX, BadRemoteStorage
from kafka_zk.broker.config.values import BadValue, check_local_retention
from kafka_zk.storage.files.log_config import LogConfig

if TYPE_CHECKING:  # most brokers have no remote storage
    from kafka_zk.broker.config.aiven_storage import AivenStorageConfig

REMOTE_FOLDER = f"{PREFIX}dir"
REMOTE_METADATA_PARTITIONS = "rlmm.config.remote.log.metadata.topic.num.partitions"
REMOTE_METADATA_REPLICATION = "rlmm.config.remote.log.metadata.topic.replication.factor"
_METADATA_KEYS = (REMOTE_METADATA_PARTITIONS, REMOTE_METADATA_REPLICATION)
_FIXED = (
    BrokerKeys.remote_log_metadata_manager_class_name,
    BrokerKeys.remote_log_metadata_manager_impl_prefix,
    BrokerKeys.remote_log_storage_manager_impl_prefix,
)
_POOL_SIZES = (
    BrokerKeys.remote_log_manager_copier_thread_pool_size,
    BrokerKeys.remote_log_manager_expiration_thread_pool_size,
)
_METADATA_LISTENER = BrokerKeys.remote_log_metadata_manager_listener_name.name
_FIRST_LIST_OFFSETS = 8  # the first version in which a follower can ask for the first local offset


class Configured(Protocol):
    """The attributes of ``KafkaConfig`` that this module uses."""

    @property
    def properties(self) -> Mapping[str, str]: ...

    @property
    def topic_defaults(self) -> LogConfig: ...

    @property
    def inter_broker_protocol_version(self) -> str: ...

    @property
    def remote_log_storage_manager_class_name(self) -> str | None: ...

    @property
    def remote_log_metadata_manager_listener_name(self) -> str | None: ...

    @property
    def listener_names(self) -> Collection[str]: ...

    @property
    def inter_broker_listener(self) -> str: ...


class LocalTieredStorageConfig(NamedTuple):
    """``folder``: parent of the folder that Kafka's LocalTieredStorage creates."""

    folder: str


class RemoteStorageConfig(NamedTuple):
    """``storage``: the storage plugin's settings. ``partition_count``, ``replication_factor``: those of the topic
    ``__remote_log_metadata`` when it is created."""

    storage: "LocalTieredStorageConfig | AivenStorageConfig"
    partition_count: int
    replication_factor: int

    @classmethod
    def of(cls, config: Configured) -> "RemoteStorageConfig":
        """Read and check the keys of remote storage. Raises BadRemoteStorage."""
        _check_brokers(config)
        partition_count = _count(config, REMOTE_METADATA_PARTITIONS, 50)
        return cls(_storage(config), partition_count, _count(config, REMOTE_METADATA_REPLICATION, 3))


def is_plugin_key(key: str, config: Configured) -> bool:
    """True if remote storage reads the key. ``config`` must contain a valid RemoteStorageConfig."""
    is_of_storage = key.startswith(PREFIX) if _is_aiven(config) else key == REMOTE_FOLDER
    return is_of_storage or key in _METADATA_KEYS


def _is_aiven(config: Configured) -> bool:
    return config.remote_log_storage_manager_class_name == AIVEN_CLASS


def _storage(config: Configured) -> "LocalTieredStorageConfig | AivenStorageConfig":
    if _is_aiven(config):
        from kafka_zk.broker.config.aiven_storage import parse_aiven_storage

        return parse_aiven_storage(config.properties)
    plugin = config.remote_log_storage_manager_class_name
    if plugin is None or not plugin.endswith("LocalTieredStorage"):
        raise BadRemoteStorage(
            f"remote.log.storage.manager.class.name={plugin or ''}: must be {AIVEN_CLASS}, or a name that ends in "
            "LocalTieredStorage"
        )
    folder = config.properties.get(REMOTE_FOLDER)
    if not folder:
        raise BadRemoteStorage(f"{REMOTE_FOLDER}: missing; must be the folder of remote storage")
    return LocalTieredStorageConfig(folder)


def metadata_listener_warnings(config: Configured) -> list[str]:
    """A warning if ``remote.log.metadata.manager.listener.name`` is not the inter-broker listener."""
    wanted, used = config.remote_log_metadata_manager_listener_name, config.inter_broker_listener
    if wanted is None or wanted.upper() == used:
        return []
    return [f"{_METADATA_LISTENER}={wanted}: ignored; brokers read the metadata through their own listener {used}"]


def _check_brokers(config: Configured) -> None:
    for row in _FIXED:
        text = config.properties.get(row.name, row.default_value).strip()
        if text != row.default_value:
            raise BadRemoteStorage(f"{row.name}={text}: must be {row.default_value}")
    for pool in _POOL_SIZES:
        if config.properties.get(pool.name, "").strip() == "0":
            raise BadRemoteStorage(f"{pool.name}=0: must be -1, or a number of at least 1")
    listener = config.remote_log_metadata_manager_listener_name
    if listener is not None and listener.upper() not in config.listener_names:
        raise BadRemoteStorage(f"{_METADATA_LISTENER}={listener}: must be one of {sorted(config.listener_names)}")
    protocol = config.inter_broker_protocol_version
    if follower_versions(protocol).list_offsets < _FIRST_LIST_OFFSETS:
        raise BadRemoteStorage(
            f"inter.broker.protocol.version={protocol}: must be at least 3.5 with remote storage, because the "
            "older requests of followers cannot ask for the first local offset"
        )
    try:
        check_local_retention(config.topic_defaults)
    except BadValue as error:
        problem = str(error).replace("local.", "log.local.", 1).replace(" retention.", " log.retention.")
        raise BadRemoteStorage(problem) from None


def _count(config: Configured, key: str, default: int) -> int:
    text = config.properties.get(key)
    number = default if text is None else decimal_integer(text.strip(), NATURAL_INT32)
    if not number:
        raise BadRemoteStorage(f"{key}={text}: must be a number of at least 1")
    return number

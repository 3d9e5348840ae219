"""Parses and checks ``server.properties``, whose keys ``broker_keys`` defines.

Unknown keys, keys without effect here (``Use.IGNORED``), and keys for the whole broker under a listener's prefix cause
warnings. A key for unsupported security is an error (``unbuilt_security``). Topic defaults (``log.*``) are checked as
topic keys.

Source: KafkaConfig.scala and ServerLogConfigs.java@3.9.
"""

import difflib
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeVar

from kafka_zk.base.integers import NATURAL_INT32, PORTS_TO_LISTEN_ON, decimal_integer
from kafka_zk.broker.config.authorizer_class import BadAuthorizer, check_authorizer
from kafka_zk.broker.config.broker_configs import ALL_KEYS, TOPIC_DEFAULTS, UNITS_MS, synonyms
from kafka_zk.broker.config.broker_key import BrokerKey, Use, items
from kafka_zk.broker.config.broker_keys import BrokerKeys
from kafka_zk.broker.config.inter_broker_protocol import follower_versions
from kafka_zk.broker.config.plugin_keys import BadRemoteStorage
from kafka_zk.broker.config.remote_storage import (
    RemoteStorageConfig,
    is_plugin_key,
    metadata_listener_warnings,
)
from kafka_zk.broker.config.unbuilt_security import is_of_unused_listener, key_of_listener, unbuilt_security
from kafka_zk.broker.config.values import BadValue
from kafka_zk.network.addresses import peer_address
from kafka_zk.registry.client import connect_string
from kafka_zk.registry.client import security_keys as zookeeper_security
from kafka_zk.registry.client.errors import InvalidConnectString, InvalidSecurity
from kafka_zk.registry.client.security import Security
from kafka_zk.security.client_security import PROTOCOLS
from kafka_zk.security.listener_keys import LISTENER_PREFIX, is_read_for_listener
from kafka_zk.security.listener_security import ignored_client_auth
from kafka_zk.storage.files.errors import InvalidConfig
from kafka_zk.storage.files.log_config import LogConfig

R = TypeVar("R")

_HOST = re.compile(r"\[?[0-9a-zA-Z\-%._:]*\]?")  # as in SocketServerConfigs.java@3.9

RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


class InvalidBrokerConfig(Exception):
    """The message names the key and the allowed values."""


class Listener(NamedTuple):
    """One listener, for example ``PLAINTEXT://127.0.0.1:9092``. An empty host means all interfaces."""

    name: str
    security_protocol: str
    host: str
    port: int


class KafkaConfig(BrokerKeys):
    """One broker's configuration: ``BrokerKeys`` as attributes, and values derived from several keys.

    Times are in ms, sizes in bytes; None means that another key applies, as in Kafka. Immutable.
    """

    zookeeper_security: Security
    topic_defaults: LogConfig
    properties: Mapping[str, str]
    """The configured keys and values as text, for DescribeConfigs."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        """Raises InvalidBrokerConfig for the first invalid value."""
        used = {row.name.replace(".", "_"): row for row in ALL_KEYS.values() if row.use is Use.READ}
        self.__dict__["properties"] = properties
        self.__dict__.update({attribute: self.read(row) for attribute, row in used.items()})
        self.__dict__["zookeeper_security"] = _security(properties)
        self.__dict__["topic_defaults"] = _topic_defaults(properties)
        _check_whole(self)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"{name}: a configuration does not change")

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, str], overrides: Mapping[str, str] | None = None
    ) -> "tuple[KafkaConfig, list[str]]":
        """Returns the configuration, and a warning per ignored key.

        Args:
            properties: the content of a ``server.properties`` file.
            overrides: ``--override key=value``; they take precedence.
        Raises InvalidBrokerConfig for the first invalid value.
        """
        merged = {**properties, **(overrides or {})}
        known = [name for name in merged if name in ALL_KEYS and ALL_KEYS[name].use is not Use.IGNORED]
        config = cls(merged)
        listeners = config.listener_names
        has_remote_storage = config.remote_log_storage_system_enable
        unknown = [
            key for key in merged
            if key not in known and not _is_of_listener(key, listeners)
            and not (has_remote_storage and is_plugin_key(key, config))
        ]  # fmt: skip
        of_listener = metadata_listener_warnings(config) if has_remote_storage else []
        return config, [*map(config._warning, unknown), *config._security_warnings(), *of_listener]

    def read(self, row: BrokerKey[R]) -> R:
        """The key's value in ``properties``, or its default. Raises InvalidBrokerConfig."""
        text = self.properties.get(row.name)
        value: R = row.default_value if text is None else _parse(row, text.strip())
        return value

    @property
    def log_directories(self) -> list[Path]:
        return [Path(directory) for directory in self.log_dirs or items(self.log_dir)]

    @property
    def connection_timeout_ms(self) -> int:
        return self.zookeeper_connection_timeout_ms or self.zookeeper_session_timeout_ms

    @property
    def listener_list(self) -> list[Listener]:
        return _parse_listeners("listeners", self.listeners, self._protocols())

    @property
    def advertised_listener_list(self) -> list[Listener]:
        """The addresses for clients; without an advertised address, the bound one."""
        explicit = _parse_listeners("advertised.listeners", self.advertised_listeners, self._protocols())
        named = {listener.name for listener in explicit}
        return explicit + [listener for listener in self.listener_list if listener.name not in named]

    @property
    def inter_broker_listener(self) -> str:
        """The listener named by ``inter.broker.listener.name`` or ``security.inter.broker.protocol``; otherwise the
        first listener."""
        if self.inter_broker_listener_name is None and "security.inter.broker.protocol" in self.properties:
            return self.security_inter_broker_protocol.upper()
        return (self.inter_broker_listener_name or self.listener_list[0].name).upper()

    @property
    def listener_names(self) -> frozenset[str]:
        return frozenset(listener.name for listener in self.listener_list)

    @property
    def listener_protocols(self) -> dict[str, str]:
        return {listener.name: listener.security_protocol for listener in self.listener_list}

    @property
    def control_plane_listener(self) -> str | None:
        """The listener named by ``control.plane.listener.name``, at which controllers connect."""
        return (self.control_plane_listener_name or "").upper() or None

    @property
    def broker_listeners(self) -> list[str]:
        """Listeners for brokers and controllers. If there is only one listener, clients use it too."""
        control_plane = self.control_plane_listener
        return [self.inter_broker_listener, *([control_plane] if control_plane else [])]

    @property
    def connections_per_ip_overrides(self) -> dict[str, int]:
        """Address -> ``max.connections.per.ip``."""
        return dict(map(parse_connections_override, self.max_connections_per_ip_overrides))

    @property
    def delegation_token_secret(self) -> str | None:
        """The secret for delegation tokens; None if they are disabled."""
        return self.delegation_token_secret_key or self.delegation_token_master_key or None

    @property
    def listener_max_connections(self) -> dict[str, int]:
        """Listener -> its own ``max.connections``, if set."""
        return self.of_listeners("max.connections")

    @property
    def listener_creation_rates(self) -> dict[str, int]:
        """Listener -> its own ``max.connection.creation.rate``, if set."""
        return self.of_listeners("max.connection.creation.rate")

    def of_listeners(self, key: str) -> dict[str, int]:
        """Listener -> its own value of a numeric key, if set. Raises InvalidBrokerConfig."""
        names = {f"{LISTENER_PREFIX}{name.lower()}.{key}": name for name in self.listener_names}
        return {names[each]: _positive(each, text) for each, text in self.properties.items() if each in names}

    def _protocols(self) -> dict[str, str]:
        protocols = {protocol: protocol for protocol in PROTOCOLS}
        for entry in self.listener_security_protocol_map:
            name, _, protocol = entry.rpartition(":")
            protocols[name.strip().upper()] = protocol.strip().upper()
        return protocols

    def _security_warnings(self) -> list[str]:
        warnings = [
            f"ssl.client.auth: without effect on {name}, which is SASL_SSL; its own key is "
            f"listener.name.{name.lower()}.ssl.client.auth"
            for name in ignored_client_auth(self.properties, self.listener_protocols)
        ]
        if "sasl.jaas.config" in self.properties:
            warnings.append("sasl.jaas.config: ignored; set listener.name.<listener>.<mechanism>.sasl.jaas.config")
        return warnings

    def _warning(self, key: str) -> str:
        if is_of_unused_listener(key, self.listener_names):
            return f"{key}: ignored, the broker has no such listener"
        under_listener = key_of_listener(key, self.listener_names)
        if under_listener is not None and _is_known(under_listener):
            return f"{key}: ignored, this broker does not read {under_listener} under the prefix of a listener"
        if key in ALL_KEYS:
            return f"{key}: ignored, this broker does not use it"
        return f"{key}: unknown configuration key, ignored{_hint(key)}"


def _is_of_listener(key: str, listeners: Collection[str]) -> bool:
    under_listener = key_of_listener(key, listeners)
    return under_listener is not None and is_read_for_listener(under_listener)


def _is_known(under_listener: str) -> bool:
    """True for a Kafka key, with or without a SASL mechanism as prefix."""
    _, _, of_mechanism = under_listener.partition(".")
    return under_listener in ALL_KEYS or (of_mechanism.startswith("sasl.") and of_mechanism in ALL_KEYS)


def _positive(key: str, text: str) -> int:
    number = decimal_integer(text.strip(), NATURAL_INT32)
    if not number:
        raise InvalidBrokerConfig(f"{key}={text}: must be a number of at least 1")
    return number


def parse_connections_override(entry: str) -> tuple[str, int]:
    """Parse an entry of ``max.connections.per.ip.overrides`` into (address, count). Raises InvalidBrokerConfig."""
    host, _, text = entry.rpartition(":")
    count = decimal_integer(text.strip(), NATURAL_INT32)
    if not host or count is None:
        raise InvalidBrokerConfig(f"max.connections.per.ip.overrides={entry}: must be address:count,...")
    return peer_address(host), count


def _parse_listeners(key: str, texts: tuple[str, ...], protocols: Mapping[str, str]) -> list[Listener]:
    listeners = []
    for text in texts:
        name, separator, address = text.partition("://")
        host, colon, port = address.rpartition(":")
        number = decimal_integer(port, PORTS_TO_LISTEN_ON)
        if not separator or not colon or number is None or not _HOST.fullmatch(host):
            raise InvalidBrokerConfig(f"{key}={text}: must be like NAME://host:port, for example PLAINTEXT://127.0.0.1:9092")
        protocol = protocols.get(name.upper())
        if protocol not in PROTOCOLS:
            raise InvalidBrokerConfig(
                f"{key}={text}: listener.security.protocol.map must give the listener {name} one of these protocols: "
                f"{', '.join(PROTOCOLS)}"
            )
        listeners.append(Listener(name.upper(), protocol, host.strip("[]"), number))
    names = [listener.name for listener in listeners]
    if len(set(names)) != len(names):
        raise InvalidBrokerConfig(f"{key}={','.join(texts)}: each listener name must occur once")
    return listeners


def _hint(key: str) -> str:
    """Suggest a known key that resembles an unknown one."""
    used = [name for name, row in ALL_KEYS.items() if row.use is not Use.IGNORED]
    near = difflib.get_close_matches(key, used, 1, cutoff=0.8) if key not in ALL_KEYS else []
    return f"; did you mean {near[0]}?" if near else ""


def _parse(row: BrokerKey[Any], text: str) -> Any:
    if not text and row.default_value is None:
        return None
    try:
        value = row.value(text)
    except BadValue:
        allowed = "true or false" if row.type == "BOOLEAN" else "a number"
        raise InvalidBrokerConfig(f"{row.name}={text}: must be {allowed}") from None
    if row.low is not None and value < row.low:
        raise InvalidBrokerConfig(f"{row.name}={text}: must be a number of at least {row.low}")
    return value


def _security(properties: Mapping[str, str]) -> Security:
    try:
        return zookeeper_security.zookeeper_security(properties)
    except InvalidSecurity as error:
        raise InvalidBrokerConfig(str(error)) from None


def _topic_defaults(properties: Mapping[str, str]) -> LogConfig:
    values: dict[str, tuple[str, str]] = {}  # topic key -> (configured key, value)
    for topic_key, broker_key in TOPIC_DEFAULTS.items():
        name = next((spelling for spelling in synonyms(broker_key) if spelling in properties), None)
        if name is not None:
            values[topic_key] = name, _scaled(name, properties[name], UNITS_MS.get(name, 1))
    try:
        config = LogConfig.from_properties({topic_key: value for topic_key, (_, value) in values.items()})
    except InvalidConfig as error:
        topic_key = str(error).partition("=")[0]
        configured = values[topic_key][0] if topic_key in values else topic_key
        raise InvalidBrokerConfig(str(error).replace(topic_key, configured, 1)) from None
    is_tiered = properties.get("remote.log.storage.system.enable", "").strip().lower() == "true"
    return replace(config, remote_log_storage_system_enable=is_tiered)


def _scaled(key: str, text: str, unit_ms: int) -> str:
    if unit_ms == 1:
        return "-1" if key == "log.retention.ms" and text.strip().startswith("-") else text
    try:
        number = int(text)
    except ValueError:
        raise InvalidBrokerConfig(f"{key}={text}: must be a number") from None
    return str(number * unit_ms if number >= 0 else -1)


def _check_no_kraft(config: KafkaConfig) -> None:
    """Reject the keys of KRaft: a broker that ignored them would block a migration."""
    if config.process_roles:
        roles = ",".join(config.process_roles)
        raise InvalidBrokerConfig(f"process.roles={roles}: must not be set, because this broker uses ZooKeeper")
    if config.zookeeper_metadata_migration_enable:
        raise InvalidBrokerConfig(
            "zookeeper.metadata.migration.enable=true: must be false, because this broker cannot migrate to KRaft; "
            "move its replicas to brokers of Apache Kafka first"
        )


def _check_remote_storage(config: KafkaConfig) -> None:
    try:
        if config.remote_log_storage_system_enable:
            RemoteStorageConfig.of(config)
    except BadRemoteStorage as error:
        raise InvalidBrokerConfig(str(error)) from None


def _check_whole(config: KafkaConfig) -> None:
    _check_no_kraft(config)
    if not config.zookeeper_connect:
        raise InvalidBrokerConfig("zookeeper.connect: missing; must be host:port[,host:port...][/chroot]")
    try:
        connect_string.parse(config.zookeeper_connect)
    except InvalidConnectString as error:
        problem = f"zookeeper.connect={config.zookeeper_connect}: not a valid connection string: {error}"
        raise InvalidBrokerConfig(problem) from None
    if config.broker_id < 0 and not config.broker_id_generation_enable:
        raise InvalidBrokerConfig(
            "broker.id: missing; must be a number of at least 0 while broker.id.generation.enable=false"
        )
    if config.broker_id > config.reserved_broker_max_id and config.broker_id_generation_enable:
        raise InvalidBrokerConfig(
            f"broker.id={config.broker_id}: must be at most reserved.broker.max.id "
            f"({config.reserved_broker_max_id}) while broker.id.generation.enable=true"
        )
    if 0 < config.queued_max_request_bytes < config.socket_request_max_bytes:
        raise InvalidBrokerConfig(
            f"queued.max.request.bytes={config.queued_max_request_bytes}: must be -1 or at least "
            f"socket.request.max.bytes ({config.socket_request_max_bytes})"
        )
    config.of_listeners("max.connections")
    config.of_listeners("max.connection.creation.rate")
    for entry in config.max_connections_per_ip_overrides:
        parse_connections_override(entry)
    if not config.log_directories:
        raise InvalidBrokerConfig("log.dirs: missing; must be a comma-separated list of folders")
    _check_listeners(config)
    for sentence in unbuilt_security(config.properties, config.listener_protocols):
        raise InvalidBrokerConfig(sentence)
    try:
        check_authorizer(config.properties)
    except BadAuthorizer as error:
        raise InvalidBrokerConfig(str(error)) from None
    try:
        follower_versions(config.inter_broker_protocol_version)
    except ValueError as error:
        raise InvalidBrokerConfig(f"inter.broker.protocol.version: {error}") from None
    _check_remote_storage(config)
    if config.replica_selector_class not in (None, RACK_AWARE_SELECTOR):
        raise InvalidBrokerConfig(
            f"replica.selector.class={config.replica_selector_class}: must be {RACK_AWARE_SELECTOR}"
        )
    dedupe_bytes = config.log_cleaner_dedupe_buffer_size
    if config.log_cleaner_enable and dedupe_bytes // max(1, config.log_cleaner_threads) <= 1024 * 1024:
        raise InvalidBrokerConfig(
            f"log.cleaner.dedupe.buffer.size={dedupe_bytes}: must be more than 1 MB for each of the "
            f"log.cleaner.threads ({config.log_cleaner_threads})"
        )


def _check_listeners(config: KafkaConfig) -> None:
    names = config.listener_names
    if not names:
        raise InvalidBrokerConfig("listeners: missing; must be a list like PLAINTEXT://127.0.0.1:9092")
    for listener in config.advertised_listener_list:
        if listener.name not in names:
            raise InvalidBrokerConfig(
                f"advertised.listeners: {listener.name} is not among listeners ({', '.join(sorted(names))})"
            )
    is_named_twice = config.inter_broker_listener_name and "security.inter.broker.protocol" in config.properties
    if is_named_twice:
        raise InvalidBrokerConfig(
            "inter.broker.listener.name and security.inter.broker.protocol: set only one of them"
        )
    if config.inter_broker_listener not in names:
        key = "inter.broker.listener.name" if config.inter_broker_listener_name else "security.inter.broker.protocol"
        raise InvalidBrokerConfig(f"{key}={config.inter_broker_listener}: must be one of {sorted(names)}")
    others = names - {config.inter_broker_listener}
    if config.control_plane_listener is not None and config.control_plane_listener not in others:
        raise InvalidBrokerConfig(
            f"control.plane.listener.name={config.control_plane_listener}: must be a listener other than the "
            f"inter-broker listener {config.inter_broker_listener} (one of {sorted(others)})"
        )

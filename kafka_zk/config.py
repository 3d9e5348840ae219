"""``server.properties``: every key that a broker understands, typed, with Kafka 3.9's defaults.

A field of ``KafkaConfig`` is a key with ``_`` for ``.``. Keys that Kafka knows and that have no meaning here (thread
counts of a JVM broker, say) are accepted silently; any other key is reported as a warning and ignored. The defaults of
topics (``log.*``) are read through storage's table of topic keys.

Source: KafkaConfig.scala and ServerLogConfigs.java@3.9.
"""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple

from kafka_zk import zookeeper_security
from registry import connect_string
from registry.errors import InvalidConnectString, InvalidSecurity
from registry.security import NO_SECURITY, Security
from storage.errors import InvalidConfig
from storage.log_config import TOPIC_CONFIGS, LogConfig

INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

SECURITY_PROTOCOLS = ("PLAINTEXT",)


class ConfigError(Exception):
    """A configuration key with a value that is not allowed; the message names the key and what is allowed."""


class Listener(NamedTuple):
    """``PLAINTEXT://127.0.0.1:9092``: an empty host means all interfaces."""

    name: str
    security_protocol: str
    host: str
    port: int


class _Type(NamedTuple):
    name: str
    parse: Callable[[str], Any]


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(text)
    return text.lower() == "true"


def _items(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(",") if item.strip())


_INT = _Type("a number", int)
_BOOLEAN = _Type("true or false", _boolean)
_TEXT = _Type("a text", str)
_LIST = _Type("a comma-separated list", _items)


def _key(kind: _Type, default: Any, low: int | None = None, high: int | None = None) -> Any:
    return field(default=default, metadata={"type": kind, "low": low, "high": high})


@dataclass(frozen=True, slots=True)
class KafkaConfig:
    """One broker's configuration. Times in ms, sizes in bytes; None where Kafka falls back to another key."""

    broker_id: int = _key(_INT, -1, -1)
    broker_id_generation_enable: bool = _key(_BOOLEAN, True)
    reserved_broker_max_id: int = _key(_INT, 1000, 0)
    broker_rack: str | None = _key(_TEXT, None)

    zookeeper_connect: str = _key(_TEXT, "")
    zookeeper_session_timeout_ms: int = _key(_INT, 18_000, 100)
    zookeeper_connection_timeout_ms: int | None = _key(_INT, None, 1)

    listeners: tuple[str, ...] = _key(_LIST, ("PLAINTEXT://:9092",))
    advertised_listeners: tuple[str, ...] = _key(_LIST, ())
    listener_security_protocol_map: tuple[str, ...] = _key(_LIST, ("PLAINTEXT:PLAINTEXT",))
    inter_broker_listener_name: str | None = _key(_TEXT, None)

    log_dir: str = _key(_TEXT, "/tmp/kafka-logs")  # Kafka's default
    log_dirs: tuple[str, ...] = _key(_LIST, ())
    num_recovery_threads_per_data_dir: int = _key(_INT, 1, 1)
    log_flush_scheduler_interval_ms: int = _key(_INT, LONG_MAX, 1)
    log_flush_offset_checkpoint_interval_ms: int = _key(_INT, 60_000, 1)
    log_retention_check_interval_ms: int = _key(_INT, 300_000, 1)

    num_partitions: int = _key(_INT, 1, 1)
    default_replication_factor: int = _key(_INT, 1, 1)
    auto_create_topics_enable: bool = _key(_BOOLEAN, True)
    delete_topic_enable: bool = _key(_BOOLEAN, True)

    socket_request_max_bytes: int = _key(_INT, 100 * 1024 * 1024, 1)
    socket_send_buffer_bytes: int = _key(_INT, -1, -1)  # -1: the system adapts it; Kafka says 102400
    socket_receive_buffer_bytes: int = _key(_INT, -1, -1)
    socket_listen_backlog_size: int = _key(_INT, 50, 1)
    max_connections: int = _key(_INT, INT_MAX, 0)
    max_connections_per_ip: int = _key(_INT, INT_MAX, 0)
    max_connections_per_ip_overrides: tuple[str, ...] = _key(_LIST, ())
    connections_max_idle_ms: int = _key(_INT, 600_000, 1)

    fetch_max_bytes: int = _key(_INT, 55 * 1024 * 1024, 1024)
    max_incremental_fetch_session_cache_slots: int = _key(_INT, 1000, 0)
    request_timeout_ms: int = _key(_INT, 30_000, 1)
    controller_socket_timeout_ms: int = _key(_INT, 30_000, 1)
    producer_id_expiration_ms: int = _key(_INT, 86_400_000, 1)
    offset_metadata_max_bytes: int = _key(_INT, 4096, 0)

    zookeeper_security: Security = NO_SECURITY
    topic_defaults: LogConfig = field(default_factory=LogConfig)
    properties: Mapping[str, str] = field(default_factory=dict)
    """What was configured, as text: DescribeConfigs shows it."""

    @classmethod
    def from_properties(
        cls, properties: Mapping[str, str], overrides: Mapping[str, str] | None = None
    ) -> "tuple[KafkaConfig, list[str]]":
        """The configuration, and one warning per key that nobody knows.

        Args:
            properties: the lines of a ``server.properties`` file.
            overrides: ``--override key=value``; they win.
        Raises: ConfigError for the first value that is not allowed.
        """
        merged = {**properties, **(overrides or {})}
        values = {f.name: _parse(key, f, merged[key]) for key, f in _FIELDS.items() if key in merged}
        values["zookeeper_security"] = _security(merged)
        values["topic_defaults"] = _topic_defaults(merged)
        config = cls(**values, properties=merged)
        _check_whole(config)
        known = {*_FIELDS, *zookeeper_security.KEYS, *_WITHOUT_MEANING_HERE, *_server_topic_keys()}
        return config, [f"{key}: unknown configuration key, ignored" for key in merged if key not in known]

    @property
    def log_directories(self) -> list[Path]:
        return [Path(directory) for directory in self.log_dirs or _items(self.log_dir)]

    @property
    def connection_timeout_ms(self) -> int:
        return self.zookeeper_connection_timeout_ms or self.zookeeper_session_timeout_ms

    @property
    def listener_list(self) -> list[Listener]:
        return _parse_listeners("listeners", self.listeners, self._protocols())

    @property
    def advertised_listener_list(self) -> list[Listener]:
        """As clients reach the broker; a listener that is not advertised explicitly is advertised as bound."""
        explicit = _parse_listeners("advertised.listeners", self.advertised_listeners, self._protocols())
        named = {listener.name for listener in explicit}
        return explicit + [listener for listener in self.listener_list if listener.name not in named]

    @property
    def inter_broker_listener(self) -> str:
        return self.inter_broker_listener_name or self.listener_list[0].name

    @property
    def connections_per_ip_overrides(self) -> dict[str, int]:
        return {
            host: int(count) for host, _, count in (e.rpartition(":") for e in self.max_connections_per_ip_overrides)
        }

    def _protocols(self) -> dict[str, str]:
        protocols = {protocol: protocol for protocol in SECURITY_PROTOCOLS}
        protocols.update(
            (name, value) for name, _, value in (e.partition(":") for e in self.listener_security_protocol_map)
        )
        return protocols


def _parse_listeners(key: str, texts: tuple[str, ...], protocols: Mapping[str, str]) -> list[Listener]:
    listeners = []
    for text in texts:
        name, separator, address = text.partition("://")
        host, colon, port = address.rpartition(":")
        if not (separator and colon and port.isdigit() and int(port) < 65536):
            raise ConfigError(f"{key}={text}: allowed is NAME://host:port, for example PLAINTEXT://127.0.0.1:9092")
        protocol = protocols.get(name.upper())
        if protocol not in SECURITY_PROTOCOLS:
            raise ConfigError(
                f"{key}={text}: no usable security protocol for {name}; allowed in listener.security.protocol.map: "
                f"{', '.join(SECURITY_PROTOCOLS)}"
            )
        listeners.append(Listener(name.upper(), protocol, host.strip("[]"), int(port)))
    names = [listener.name for listener in listeners]
    if len(set(names)) != len(names):
        raise ConfigError(f"{key}={','.join(texts)}: allowed is each listener name once")
    return listeners


def key_name(field_name: str) -> str:
    return field_name.replace("_", ".")


_FIELDS = {key_name(f.name): f for f in fields(KafkaConfig) if "type" in f.metadata}

_SYNONYMS: dict[str, tuple[tuple[str, int], ...]] = {
    "retention.ms": (("log.retention.ms", 1), ("log.retention.minutes", 60_000), ("log.retention.hours", 3_600_000)),
    "segment.ms": (("log.roll.ms", 1), ("log.roll.hours", 3_600_000)),
    "segment.jitter.ms": (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", 3_600_000)),
    "flush.ms": (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
}
"""Topic keys whose server-side default has several spellings; the first that is configured counts."""

_WITHOUT_MEANING_HERE = frozenset(
    (
        "background.threads", "controlled.shutdown.enable", "controlled.shutdown.max.retries",
        "controlled.shutdown.retry.backoff.ms", "group.initial.rebalance.delay.ms", "host.name",
        "inter.broker.protocol.version", "log.cleaner.enable", "num.io.threads", "num.network.threads",
        "num.replica.fetchers",
        "offsets.topic.num.partitions", "offsets.topic.replication.factor", "port", "queued.max.requests",
        "transaction.state.log.min.isr", "transaction.state.log.num.partitions",
        "transaction.state.log.replication.factor", "zookeeper.max.in.flight.requests",
    )
)  # fmt: skip


def _parse(key: str, definition: Any, text: str) -> Any:
    kind, low, high = (definition.metadata[name] for name in ("type", "low", "high"))
    text = text.strip()
    if not text and definition.default is not MISSING and definition.default is None:
        return None
    try:
        value = kind.parse(text)
    except ValueError:
        raise ConfigError(f"{key}={text}: allowed is {kind.name}") from None
    if low is not None and value < low:
        raise ConfigError(f"{key}={text}: allowed is a number of at least {low}")
    if high is not None and value > high:
        raise ConfigError(f"{key}={text}: allowed is a number up to {high}")
    return value


def _server_topic_keys() -> set[str]:
    keys = {definition.server_key for definition in TOPIC_CONFIGS.values() if definition.server_key}
    return keys | {name for spellings in _SYNONYMS.values() for name, _ in spellings}


def _security(properties: Mapping[str, str]) -> Security:
    try:
        return zookeeper_security.zookeeper_security(properties)
    except InvalidSecurity as error:
        raise ConfigError(str(error)) from None


def _topic_defaults(properties: Mapping[str, str]) -> LogConfig:
    values: dict[str, tuple[str, str]] = {}  # topic key -> the key that was configured, its value
    for topic_key, definition in TOPIC_CONFIGS.items():
        for name, unit in _SYNONYMS.get(topic_key, ((definition.server_key or "", 1),)):
            if name in properties:
                values[topic_key] = name, _scaled(name, properties[name], unit)
                break
    try:
        return LogConfig.from_properties({topic_key: value for topic_key, (_, value) in values.items()})
    except InvalidConfig as error:
        topic_key = str(error).partition("=")[0]
        configured = values[topic_key][0] if topic_key in values else topic_key
        raise ConfigError(str(error).replace(topic_key, configured, 1)) from None


def _scaled(key: str, text: str, unit_ms: int) -> str:
    if unit_ms == 1:
        return "-1" if key == "log.retention.ms" and text.strip().startswith("-") else text
    try:
        number = int(text)
    except ValueError:
        raise ConfigError(f"{key}={text}: allowed is a number") from None
    return str(number * unit_ms if number >= 0 else -1)


def _check_whole(config: KafkaConfig) -> None:
    if not config.zookeeper_connect:
        raise ConfigError("zookeeper.connect: missing; allowed is host:port[,host:port...][/chroot]")
    try:
        connect_string.parse(config.zookeeper_connect)
    except InvalidConnectString as error:
        raise ConfigError(f"zookeeper.connect={config.zookeeper_connect}: allowed is another form: {error}") from None
    if config.broker_id < 0 and not config.broker_id_generation_enable:
        raise ConfigError(
            "broker.id: missing; allowed is a number of at least 0 while broker.id.generation.enable=false"
        )
    if config.broker_id > config.reserved_broker_max_id and config.broker_id_generation_enable:
        raise ConfigError(
            f"broker.id={config.broker_id}: allowed is at most reserved.broker.max.id "
            f"({config.reserved_broker_max_id}) while broker.id.generation.enable=true"
        )
    if not config.log_directories:
        raise ConfigError("log.dirs: missing; allowed is a comma-separated list of folders")
    names = {listener.name for listener in config.listener_list}
    if not names:
        raise ConfigError("listeners: missing; allowed is a list like PLAINTEXT://127.0.0.1:9092")
    for listener in config.advertised_listener_list:
        if listener.name not in names:
            raise ConfigError(
                f"advertised.listeners: {listener.name} is not among listeners ({', '.join(sorted(names))})"
            )
    if config.inter_broker_listener not in names:
        raise ConfigError(
            f"inter.broker.listener.name={config.inter_broker_listener}: allowed is one of {sorted(names)}"
        )
    if config.default_replication_factor > 1:
        raise ConfigError("default.replication.factor: allowed is 1, replication is not built yet")
    if config.topic_defaults.is_compacted:
        raise ConfigError("log.cleanup.policy: allowed is delete, compaction is not built yet")

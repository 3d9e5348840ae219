"""Parses and formats configuration values as Kafka does, with its messages.

Source: ConfigDef.java, LogConfig.java@3.9.
"""

from collections.abc import Callable, Mapping

from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.storage.files.config_table import TOPIC_CONFIGS, TopicConfig, Value
from kafka_zk.storage.files.log_config import LogConfig

_BITS = {"SHORT": 16, "INT": 32, "LONG": 64}

_COMPLAINTS: dict[str, str] = {
    "cleanup.policy": "String must be one of: compact, delete",
    "compression.gzip.level": "Value must be between 1 and 9 or equal to -1",
    "message.format.version": "Version {value} is not a valid version",
}
_THROTTLED = (
    "{key} must be the literal '*' or a list of replicas in the following format: "
    "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
)

_TIERED = "remote.storage.enable"


class BadValue(Exception):
    """The message is that of Kafka's ConfigException."""

    def __init__(self, key: str, value: object, problem: str) -> None:
        super().__init__(f"Invalid value {value} for configuration {key}: {problem}")


def parse(key: str, kind: str, text: str) -> Value:
    """Parse ``text`` as Kafka's type ``kind``. Raises BadValue."""
    text = text.strip()
    if kind in _BITS:
        limit = 1 << (_BITS[kind] - 1)
        return _number(key, kind, text, lambda: _whole(text, limit))
    if kind == "DOUBLE":
        return _number(key, kind, text, lambda: float(text))
    if kind == "BOOLEAN":
        if text.lower() not in ("true", "false"):
            raise BadValue(key, text, "Expected value to be either true or false")
        return text.lower() == "true"
    if kind == "LIST":
        return tuple(item.strip() for item in text.split(",")) if text else ()
    return text


def _number(key: str, kind: str, text: str, convert: Callable[[], float]) -> float:
    try:
        if "_" in text:
            raise ValueError(text)
        return convert()
    except ValueError:
        raise BadValue(key, text, f"Not a number of type {kind}") from None


def _whole(text: str, limit: int) -> int:
    value = int(text)
    if not -limit <= value < limit:
        raise ValueError(text)
    return value


def to_text(value: Value) -> str:
    """Format a value as DescribeConfigs shows it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return ",".join(value) if isinstance(value, tuple) else str(value)


def check(key: str, definition: TopicConfig, text: str, topic_key: str | None = None) -> Value:
    """Parse ``text`` and check it against a topic key's definition.

    ``key``: the topic key, or the broker key that sets the default of ``topic_key``.

    Raises BadValue.
    """
    value = parse(key, definition.type, text)
    if not definition.check(value):
        raise _refused(key, topic_key or key, definition, value)
    return value


def _refused(key: str, topic_key: str, definition: TopicConfig, value: Value) -> BadValue:
    allowed = definition.allowed
    if topic_key in _COMPLAINTS:
        items = value if isinstance(value, tuple) else (value,)
        shown = next(item for item in items if item not in ("compact", "delete"))
        return BadValue(key, shown, _COMPLAINTS[topic_key].format(value=value))
    if isinstance(value, tuple):
        return BadValue(key, f"[{', '.join(value)}]", _THROTTLED.format(key=key))
    if allowed.startswith("between ") and isinstance(value, int | float):
        _, low, _, high = allowed.split(" ")
        problem = f"Value must be at least {low}" if value < float(low) else f"Value must be no more than {high}"
        return BadValue(key, value, problem)
    if allowed.startswith("one of "):
        return BadValue(key, value, f"String must be one of: {allowed.removeprefix('one of ')}")
    return BadValue(key, value, f"Value must be {allowed}")


def check_topic(properties: Mapping[str, str], defaults: LogConfig) -> LogConfig:
    """Check a topic's own properties as a ZooKeeper-mode broker does. Returns the topic's configuration.

    Raises BadValue; ApiError(INVALID_CONFIG) if Kafka's message is not about one value.
    """
    for key in properties:
        if key not in TOPIC_CONFIGS:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"Unknown topic config name: {key}")
    values = {key: check(key, TOPIC_CONFIGS[key], text) for key, text in properties.items()}
    low = values.get("min.compaction.lag.ms", defaults.min_compaction_lag_ms)
    high = values.get("max.compaction.lag.ms", defaults.max_compaction_lag_ms)
    if isinstance(low, int) and isinstance(high, int) and low > high:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"conflict topic config setting min.compaction.lag.ms ({low}) > max.compaction.lag.ms ({high})",
        )
    if values.get("remote.log.delete.on.disable") or values.get("remote.log.copy.disable"):
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            "It is invalid to set `remote.log.delete.on.disable` or `remote.log.copy.disable` under Zookeeper's mode.",
        )
    if values.get(_TIERED) and not defaults.remote_log_storage_system_enable:
        raise TieredStorageDisabled
    config = LogConfig.from_properties(properties, defaults)
    if config.remote_storage_enable:
        if config.is_compacted:
            raise CompactedAndTiered
        check_local_retention(config)
    return config


def check_local_retention(config: LogConfig) -> None:
    """Raise BadValue if a tiered topic's local retention exceeds its total retention."""
    for unit, total, local in (
        ("bytes", config.retention_bytes, config.local_retention_bytes),
        ("ms", config.retention_ms, config.local_retention_ms),
    ):
        if total == -1 or local == -2:
            continue
        if local == -1:
            raise BadValue(
                f"local.retention.{unit}", local, f"Value must not be -1 as retention.{unit} value is set as {total}."
            )
        if local > total:
            problem = f"Value must not be more than retention.{unit} property value: {total}"
            raise BadValue(f"local.retention.{unit}", local, problem)


def check_stays_tiered(topic: str, before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Raise ApiError(INVALID_CONFIG) if a change of a topic's properties turns tiered storage off.

    Apache Kafka in ZooKeeper mode accepts such a change, but its brokers then lose the remote segments: after a
    restart, the brokers no longer know the segments, and delete them if the topic is tiered again.
    """
    if _is_tiered(before) and not _is_tiered(after):
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"{_TIERED}=true of topic '{topic}' cannot be changed or removed in ZooKeeper mode: all records that are "
            "only in remote storage would be lost. Copy them to another topic, and then delete this one.",
        )


def _is_tiered(properties: Mapping[str, str]) -> bool:
    return properties.get(_TIERED, "").strip().lower() == "true"


class TieredStorageDisabled(BadValue):
    """A topic has ``remote.storage.enable=true``, but the broker has no remote storage."""

    def __init__(self) -> None:
        Exception.__init__(
            self,
            "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage.",
        )


class CompactedAndTiered(BadValue):
    """A compacted topic has ``remote.storage.enable=true``."""

    def __init__(self) -> None:
        Exception.__init__(self, "Remote log storage is unsupported for the compacted topics")

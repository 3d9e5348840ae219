"""Topic-level configuration keys: type, default, allowed values.

Names, types, defaults and bounds are Kafka 3.9's (LogConfig.java, ServerTopicConfigSynonyms.java); the descriptions are
our own.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from kafka_zk.storage.files.errors import InvalidConfig
from kafka_zk.storage.files.metadata_version import is_metadata_version

LONG_MAX = 2**63 - 1
INT_MAX = 2**31 - 1
_INT_MIN = -(2**31)
_LONG_MIN = -(2**63)
_DIGITS = re.compile("[0-9]+")

Value = int | float | bool | str | tuple[str, ...]


class TopicConfig(NamedTuple):
    """``type``: Kafka's word (INT, LONG, DOUBLE, BOOLEAN, STRING, LIST); ``allowed``: a description of the allowed
    values."""

    type: str
    default: Value
    allowed: str
    documentation: str
    check: Callable[[Value], bool]

    def parse(self, key: str, text: str) -> Value:
        """Raises InvalidConfig, which names the key and the allowed values."""
        try:
            value = _PARSERS[self.type](text.strip())
        except ValueError:
            raise InvalidConfig(f"{key}={text}: not a valid {self.type}; must be {self.allowed}") from None
        if not self.check(value):
            raise InvalidConfig(f"{key}={text}: must be {self.allowed}")
        return value

    def format(self, value: Value) -> str:
        """The value in the format of Kafka's DescribeConfigs."""
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, tuple):
            return ",".join(value)
        return str(value)


def _parse_bounded(low: int, high: int) -> Callable[[str], Value]:
    def parse(text: str) -> Value:
        if "_" in text:  # int() accepts underscores, Java does not
            raise ValueError(text)
        value = int(text)
        if not low <= value <= high:
            raise ValueError(text)
        return value

    return parse


def _parse_boolean(text: str) -> Value:
    lowered = text.lower()
    if lowered not in ("true", "false"):
        raise ValueError(text)
    return lowered == "true"


def _parse_list(text: str) -> Value:
    return tuple(item.strip() for item in text.split(",")) if text else ()


_PARSERS: dict[str, Callable[[str], Value]] = {
    "INT": _parse_bounded(_INT_MIN, INT_MAX),
    "LONG": _parse_bounded(_LONG_MIN, LONG_MAX),
    "DOUBLE": float,
    "BOOLEAN": _parse_boolean,
    "STRING": str,
    "LIST": _parse_list,
}


def _number(
    type_name: str,
    default: float,
    low: float | None,
    documentation: str,
    high: float | None = None,
) -> TopicConfig:
    if low is None:
        return TopicConfig(type_name, default, "any number", documentation, lambda value: True)
    if high is None:
        allowed = f"at least {low}"
        return TopicConfig(
            type_name,
            default,
            allowed,
            documentation,
            lambda value: isinstance(value, int) and value >= low,
        )
    return TopicConfig(
        type_name,
        default,
        f"between {low} and {high}",
        documentation,
        lambda value: isinstance(value, int | float) and low <= value <= high,
    )


def _choice(default: str, choices: tuple[str, ...], documentation: str) -> TopicConfig:
    allowed = "one of " + ", ".join(choices)
    return TopicConfig("STRING", default, allowed, documentation, lambda value: value in choices)


def _boolean(default: bool, documentation: str) -> TopicConfig:
    return TopicConfig("BOOLEAN", default, "true or false", documentation, lambda value: True)


def _gzip_level(value: Value) -> bool:
    return isinstance(value, int) and (value == -1 or 1 <= value <= 9)


def _is_policy_list(value: Value) -> bool:
    return isinstance(value, tuple) and all(item in ("delete", "compact") for item in value)


def _is_throttle_list(value: Value) -> bool:
    if not isinstance(value, tuple):
        return False
    if value in ((), ("*",)):
        return True
    pairs = [item.split(":") for item in value]
    return all(len(pair) == 2 and all(_DIGITS.fullmatch(part) for part in pair) for pair in pairs)


_DAY_MS = 24 * 60 * 60 * 1000
_WEEK_MS = 7 * _DAY_MS
_DEFAULT_INDEX_BYTES = 10 * 1024 * 1024
_CODECS = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")

TOPIC_CONFIGS: dict[str, TopicConfig] = {
    "cleanup.policy": TopicConfig(
        "LIST", ("delete",), "a list of delete, compact",
        "What happens to old segments: delete removes them, compact keeps the last record of each key.",
        _is_policy_list,
    ),
    "compression.gzip.level": TopicConfig(
        "INT", -1, "-1 or between 1 and 9",
        "Level used when compression.type is gzip.", _gzip_level,
    ),
    "compression.lz4.level": _number(
        "INT", 9, 1, "Level used when compression.type is lz4.", 17
    ),
    "compression.type": _choice(
        "producer", _CODECS, "Codec on disk; producer keeps what the producer chose."
    ),
    "compression.zstd.level": _number(
        "INT", 3, -131072, "Level used when compression.type is zstd.", 22
    ),
    "delete.retention.ms": _number(
        "LONG", _DAY_MS, 0, "How long compaction keeps a deletion marker."
    ),
    "file.delete.delay.ms": _number(
        "LONG", 60_000, 0, "Wait between renaming a file for deletion and removing it."
    ),
    "flush.messages": _number(
        "LONG", LONG_MAX, 1, "fsync after this many records."
    ),
    "flush.ms": _number("LONG", LONG_MAX, 0, "fsync when data are older than this."),
    "follower.replication.throttled.replicas": TopicConfig(
        "LIST", (), "* or a list of partition:broker",
        "Replicas whose fetching is throttled.", _is_throttle_list,
    ),
    "index.interval.bytes": _number(
        "INT", 4096, 0, "Bytes of log between two index entries."
    ),
    "leader.replication.throttled.replicas": TopicConfig(
        "LIST", (), "* or a list of partition:broker",
        "Leader replicas whose traffic to followers is throttled.", _is_throttle_list,
    ),
    "local.retention.bytes": _number(
        "LONG", -2, -2, "Local size limit with remote storage; -2: retention.bytes."
    ),
    "local.retention.ms": _number(
        "LONG", -2, -2, "Local age limit with remote storage; -2: retention.ms."
    ),
    "max.compaction.lag.ms": _number(
        "LONG", LONG_MAX, 1, "Maximum time before a record is compacted."
    ),
    "max.message.bytes": _number(
        "INT", 1024 * 1024 + 12, 0, "Maximum size of a record batch, after compression."
    ),
    "message.downconversion.enable": _boolean(
        True, "Whether old fetchers get batches in their own format."
    ),
    "message.format.version": TopicConfig(
        "STRING", "3.0-IV1", "a Kafka version such as 3.0-IV1",
        "Ignored since Kafka 3.0: magic 2 is stored.", lambda value: is_metadata_version(str(value)),
    ),
    "message.timestamp.after.max.ms": _number(
        "LONG", LONG_MAX, 0,
        "How far a record's timestamp may be ahead of the broker's clock.",
    ),
    "message.timestamp.before.max.ms": _number(
        "LONG", LONG_MAX, 0,
        "How far a record's timestamp may be behind the broker's clock.",
    ),
    "message.timestamp.difference.max.ms": _number(
        "LONG", LONG_MAX, 0,
        "Old key for both timestamp limits; used if the newer keys have their defaults.",
    ),
    "message.timestamp.type": _choice(
        "CreateTime", ("CreateTime", "LogAppendTime"),
        "Whether a record's timestamp is the producer's or the broker's.",
    ),
    "min.cleanable.dirty.ratio": _number(
        "DOUBLE", 0.5, 0, "Share of a log that must be dirty before the log is compacted.", 1
    ),
    "min.compaction.lag.ms": _number(
        "LONG", 0, 0, "Minimum time before a record is compacted."
    ),
    "min.insync.replicas": _number(
        "INT", 1, 1, "Minimum size of the ISR for writes with acks=all."
    ),
    "preallocate": _boolean(False, "Whether to reserve the disk space of a new segment."),
    "remote.log.copy.disable": _boolean(False, "Remote storage: stop copying."),
    "remote.log.delete.on.disable": _boolean(False, "Remote storage: delete when disabled."),
    "remote.storage.enable": _boolean(
        False, "Copy closed segments to remote storage; once true, it cannot be changed back."
    ),
    "retention.bytes": _number(
        "LONG", -1, None, "Partition size above which old segments are deleted; negative: no limit."
    ),
    "retention.ms": _number(
        "LONG", _WEEK_MS, -1, "Age above which segments are deleted; -1: no limit."
    ),
    "segment.bytes": _number("INT", 1 << 30, 14, "Size of a segment file."),
    "segment.index.bytes": _number(
        "INT", _DEFAULT_INDEX_BYTES, 4, "Maximum size of an index file."
    ),
    "segment.jitter.ms": _number(
        "LONG", 0, 0, "Maximum random time subtracted from segment.ms, so that rolls are spread."
    ),
    "segment.ms": _number("LONG", _WEEK_MS, 1, "Age after which a segment is closed even if it is not full."),
    "unclean.leader.election.enable": _boolean(
        False, "Whether a replica outside the ISR may become leader, which may lose records."
    ),
}  # fmt: skip

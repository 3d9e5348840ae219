"""The data source's options, with the names of Spark's own Kafka source, checked before any request.

Additional options: ``zookeeper.connect``, instead of ``kafka.bootstrap.servers``; ``startingOffsets=committed`` with
``group.id`` (the group's offsets in ZooKeeper); ``maxRecordsPerRun``; and ``isolation.level``, with or without the
prefix ``kafka.``, which is read_committed by default. Names are case-insensitive.
Source: "Structured Streaming + Kafka Integration Guide" of Spark 4.
"""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from kafka_zk.base.integers import INT32, INT64, decimal_integer
from kafka_zk.base.types import TopicPartition
from kafka_zk.security.client_security import KEYS_BY_FIELD, NO_SECURITY, ClientSecurity
from kafka_zk.security.errors import InvalidSecurity
from kafka_zk.spark_jobs.errors import OptionError
from kafka_zk.spark_jobs.source import offset_specs as specs
from kafka_zk.spark_jobs.source.offset_specs import AtOffsets, Committed, Earliest, Latest, OffsetSpec

_STRATEGIES = ("subscribe", "subscribePattern", "assign")
_KAFKA = "kafka."
_REFUSED_OF_KAFKA = {
    "auto.offset.reset": "startingOffsets says where to start",
    "key.deserializer": "keys are bytes; decode them with DataFrame operations",
    "value.deserializer": "values are bytes; decode them with DataFrame operations",
    "enable.auto.commit": "nothing is committed by reading",
    "interceptor.classes": "there are no interceptors",
}
_REFUSED = {
    "minOffsetsPerTrigger": "a stream reads whatever is there at each trigger",
    "maxTriggerDelay": "a stream reads whatever is there at each trigger",
}
_KNOWN = (
    *_STRATEGIES,
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "startingOffsetsByTimestamp",
    "endingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy",
    "zookeeper.connect",
    "group.id",
    "isolation.level",
    "groupIdPrefix",
    "minPartitions",
    "maxRecordsPerPartition",
    "recordsPerSharedPartition",
    "maxRecordsPerRun",
    "maxOffsetsPerTrigger",
    "includeHeaders",
    "failOnDataLoss",
    "onUnreadableBatch",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.retryIntervalMs",
    "fetchOffset.numRetries",  # limits retries in Spark's own source; here kafkaConsumer.pollTimeoutMs does
)
FAIL, SKIP = "fail", "skip"
_TRUE_FALSE = {"true": True, "false": False}
POLL_TIMEOUT_MS = 120_000
RETRY_INTERVAL_MS = 100
CLIENT_ID = "spark-kafka-zk"
_BATCH_ENDINGS = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")


@dataclass(frozen=True)
class SourceOptions:
    """Sizes in records or bytes, times in ms. ``columns``: those of ``.schema(...)``; None for all."""

    bootstrap_servers: str | None
    zookeeper: str | None
    topics: tuple[str, ...]
    pattern: str | None
    partitions: tuple[TopicPartition, ...]
    starting: OffsetSpec
    ending: OffsetSpec
    group_id: str | None
    strategy_latest: bool
    min_partitions: int | None
    max_records_per_partition: int | None
    records_per_shared_partition: int | None
    max_records_per_run: int | None
    max_offsets_per_trigger: int | None
    include_headers: bool
    fail_on_data_loss: bool
    skip_unreadable: bool
    kafka: Mapping[str, str] = field(repr=False)  # may contain secrets
    poll_timeout_ms: int
    retry_interval_ms: int
    client_id: str
    columns: tuple[str, ...] | None = None

    def wants(self, topic: str) -> bool:
        if self.pattern is not None:
            return _java_pattern(self.pattern).fullmatch(topic) is not None
        return topic in self.topics or any(tp.topic == topic for tp in self.partitions)


class _Options:
    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = {name.lower(): str(value) for name, value in given.items()}

    def text(self, name: str) -> str | None:
        return self._given.get(name.lower())

    def number(self, name: str, lowest: int = 1) -> int | None:
        text = self.text(name)
        if text is None:
            return None
        number = decimal_integer(text.strip(), range(lowest, INT64.stop))
        if number is None:
            raise OptionError(f"{name}: {text!r} is not a number of at least {lowest}")
        return number

    def flag(self, name: str, default: bool) -> bool:
        text = self.text(name)
        if text is None:
            return default
        if text.strip().lower() not in _TRUE_FALSE:
            raise OptionError(f"{name}: {text!r} is neither true nor false")
        return _TRUE_FALSE[text.strip().lower()]

    def one_of(self, name: str, default: str, other: str) -> str:
        text = (self.text(name) or default).strip().lower()
        if text not in (default, other):
            raise OptionError(f"{name}: {text!r} is neither {default} nor {other}")
        return text

    def kafka(self) -> dict[str, str]:
        found = {name.removeprefix(_KAFKA): value for name, value in self._given.items() if name.startswith(_KAFKA)}
        if (level := self.text("isolation.level")) is not None:
            found.setdefault("isolation.level", level)
        return found


def parse(given: Mapping[str, str], *, streaming: bool = False) -> SourceOptions:
    """Raises OptionError."""
    options = _Options(given)
    _check_names(given)
    kafka = options.kafka()
    check_kafka(kafka)
    bootstrap, zookeeper = kafka.get("bootstrap.servers"), options.text("zookeeper.connect")
    if not bootstrap and not zookeeper:
        raise OptionError("kafka.bootstrap.servers or zookeeper.connect is needed")
    group_id = options.text("group.id") or kafka.get("group.id")
    starting, ending = _bounds(options, streaming)
    if isinstance(starting, Committed) and not (group_id and zookeeper):
        raise OptionError("startingOffsets=committed needs group.id and zookeeper.connect")
    strategy = options.text("startingOffsetsByTimestampStrategy") or "error"
    if strategy.lower() not in ("error", "latest"):
        raise OptionError(f"startingOffsetsByTimestampStrategy: {strategy!r} is neither error nor latest")
    return SourceOptions(
        bootstrap_servers=bootstrap,
        zookeeper=zookeeper,
        **_subscription(options),
        starting=starting,
        ending=ending,
        group_id=group_id,
        strategy_latest=strategy.lower() == "latest",
        min_partitions=options.number("minPartitions"),
        max_records_per_partition=options.number("maxRecordsPerPartition"),
        records_per_shared_partition=options.number("recordsPerSharedPartition"),
        max_records_per_run=options.number("maxRecordsPerRun"),
        max_offsets_per_trigger=options.number("maxOffsetsPerTrigger"),
        include_headers=options.flag("includeHeaders", False),
        fail_on_data_loss=options.flag("failOnDataLoss", True),
        skip_unreadable=options.one_of("onUnreadableBatch", FAIL, SKIP) == SKIP,
        kafka=kafka,
        poll_timeout_ms=options.number("kafkaConsumer.pollTimeoutMs") or POLL_TIMEOUT_MS,
        retry_interval_ms=options.number("fetchOffset.retryIntervalMs", 0) or RETRY_INTERVAL_MS,
        client_id=kafka.get("client.id") or options.text("groupIdPrefix") or CLIENT_ID,
    )


def check_kafka(kafka: Mapping[str, str]) -> None:
    """Check options of Kafka's clients, without the prefix ``kafka.``. Raises OptionError for an unsupported one."""
    for name, why in _REFUSED_OF_KAFKA.items():
        if name in kafka:
            raise OptionError(f"{_KAFKA}{name} is not supported: {why}")
    security_of(kafka)


def security_of(kafka: Mapping[str, str]) -> ClientSecurity:
    """Reads the files that the keys name. Raises OptionError."""
    if not any(key.replace(".", "_") in KEYS_BY_FIELD for key in kafka):
        return NO_SECURITY
    from kafka_zk.security.client_keys import client_security

    try:
        return client_security(kafka)
    except InvalidSecurity as error:
        raise OptionError(f"{_KAFKA}{error}") from None


def _check_names(given: Mapping[str, str]) -> None:
    """Reject unknown options. Some options of Kafka's clients are accepted without effect."""
    known = {name.lower(): name for name in _KNOWN}
    refused = {name.lower(): (name, why) for name, why in _REFUSED.items()}
    for name in sorted(given):
        if name.lower() in refused:
            raise OptionError("{} is not supported: {}".format(*refused[name.lower()]))
        if name.lower() in known or name.lower().startswith(_KAFKA):
            continue
        nearest = difflib.get_close_matches(name.lower(), [*known, "kafka.bootstrap.servers"], 1)
        hint = f"; did you mean {known.get(nearest[0], nearest[0])}?" if nearest else ""
        raise OptionError(f"there is no option {name}{hint}")


def kafka_number(kafka: Mapping[str, str], key: str, default: int) -> int:
    """Raises OptionError."""
    text = kafka.get(key)
    if text is None:
        return default
    number = decimal_integer(text.strip(), INT32)
    if number is None:
        raise OptionError(f"kafka.{key}: {text!r} is not a number of 32 bits")
    return number


def _subscription(options: _Options) -> dict[str, Any]:
    given = [(name, options.text(name)) for name in _STRATEGIES if options.text(name) is not None]
    if len(given) != 1:
        told = "none is given" if not given else " and ".join(name for name, _ in given) + " are given"
        raise OptionError(f"exactly one of subscribe, subscribePattern and assign is needed; {told}")
    name, text = given[0]
    assert text is not None
    found: dict[str, Any] = {"topics": (), "pattern": None, "partitions": ()}
    if name == "assign":
        found["partitions"] = tuple(specs.parse_assign(text))
    elif name == "subscribe":
        found["topics"] = tuple(sorted({topic.strip() for topic in text.split(",") if topic.strip()}))
    else:
        _java_pattern(text.strip())
        found["pattern"] = text.strip()
    if not any(found.values()):
        raise OptionError(f"{name}: no topic is given")
    return found


@cache
def _java_pattern(text: str) -> re.Pattern[str]:
    from kafka_zk.rebalance.topic_filter import InvalidTopicFilter, java_pattern

    try:
        return java_pattern(text)
    except InvalidTopicFilter as error:
        raise OptionError(f"subscribePattern: {text!r}: {error}") from None


def _bounds(options: _Options, streaming: bool) -> tuple[OffsetSpec, OffsetSpec]:
    """A single timestamp overrides timestamps by partition, which override offsets."""
    starting = _bound(options, "starting", Latest() if streaming else Earliest())
    if streaming:
        for name in _BATCH_ENDINGS:
            if options.text(name) is not None:
                raise OptionError(f"{name} is for batch reads; a stream has no end")
        return starting, Latest()
    ending = _bound(options, "ending", Latest())
    if isinstance(starting, Latest) or _has(starting, specs.LATEST_OFFSET):
        raise OptionError("startingOffsets: a batch read cannot start at latest")
    if isinstance(ending, Earliest | Committed) or _has(ending, specs.EARLIEST_OFFSET):
        raise OptionError("endingOffsets: a read ends at latest or at offsets")
    return starting, ending


def _bound(options: _Options, side: str, default: OffsetSpec) -> OffsetSpec:
    if (text := options.text(f"{side}Timestamp")) is not None:
        return specs.parse_time(f"{side}Timestamp", text)
    if (text := options.text(f"{side}OffsetsByTimestamp")) is not None:
        return specs.parse_times(f"{side}OffsetsByTimestamp", text)
    if (text := options.text(f"{side}Offsets")) is not None:
        return specs.parse_word_or_json(f"{side}Offsets", text)
    return default


def _has(spec: OffsetSpec, offset: int) -> bool:
    return isinstance(spec, AtOffsets) and offset in spec.offsets.values()

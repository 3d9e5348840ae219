"""Options and columns of writes, with the names of Spark's own Kafka sink.

Additional options: ``zookeeper.connect``, instead of ``kafka.bootstrap.servers``, and ``transactionalIdPrefix``.
Source: "Structured Streaming + Kafka Integration Guide" of Spark 4, "Writing Data to Kafka".
"""

import difflib
from collections.abc import Mapping
from typing import Any, NamedTuple

from kafka_zk.spark_jobs.errors import OptionError

_KAFKA = "kafka."
_KNOWN = ("topic", "zookeeper.connect", "includeHeaders", "transactionalIdPrefix", "checkpointLocation", "path")
_REFUSED = {
    "key.serializer": "keys are strings or bytes",
    "value.serializer": "values are strings or bytes",
    "transactional.id": "transactionalIdPrefix makes one for each task",
    "interceptor.classes": "there are no interceptors",
}
_TRANSACTION_TIMEOUT_MS = 900_000  # default of the broker's transaction.max.timeout.ms
_BYTES = ("string", "binary")
_HEADERS = "array<struct<key:string,value:binary>>"
_TYPES = {"key": _BYTES, "value": _BYTES, "topic": ("string",), "partition": ("int",), "headers": (_HEADERS,)}
COLUMNS = tuple(_TYPES)


class WriteOptions(NamedTuple):
    """``producer``: keys of a ``ProducerConfig``. ``transactional_id_prefix``: None means at least once.
    ``checkpoint``: location of a stream's progress, if the stream has this option.
    """

    topic: str | None
    zookeeper: str | None
    transactional_id_prefix: str | None
    checkpoint: str | None
    producer: dict[str, Any]

    @property
    def protocol(self) -> str:
        security = self.producer.get("security")
        return "PLAINTEXT" if security is None else str(security.protocol)


def parse(given: Mapping[str, str]) -> WriteOptions:
    """Names are case-insensitive. Raises OptionError."""
    known = {name.lower(): name for name in _KNOWN}
    options: dict[str, str] = {}
    producer: dict[str, Any] = {}
    for name, value in given.items():
        lower = name.lower()
        if lower.startswith(_KAFKA):
            producer[lower.removeprefix(_KAFKA)] = value
        elif lower in known:
            options[known[lower]] = value
        else:
            near = difflib.get_close_matches(lower, known, 1)
            hint = f"; did you mean {known[near[0]]}?" if near else ""
            raise OptionError(f"there is no option {name} for writing{hint}")
    for name, reason in _REFUSED.items():
        if name in producer:
            raise OptionError(f"kafka.{name}: {reason}")
    if "bootstrap.servers" not in producer and "zookeeper.connect" not in options:
        raise OptionError("kafka.bootstrap.servers or zookeeper.connect is needed")
    prefix = options.get("transactionalIdPrefix")
    if prefix is not None:
        if not prefix:
            raise OptionError("transactionalIdPrefix must not be empty")
        producer.setdefault("transaction.timeout.ms", _TRANSACTION_TIMEOUT_MS)
    producer = _with_security(producer)
    _check_producer(producer if prefix is None else {**producer, "transactional.id": prefix})
    checkpoint = options.get("checkpointLocation")
    return WriteOptions(options.get("topic"), options.get("zookeeper.connect"), prefix, checkpoint, producer)


def _with_security(producer: dict[str, Any]) -> dict[str, Any]:
    """Replace the security keys by one value, whose repr shows no secret."""
    from kafka_zk.clients.connection.config import with_security
    from kafka_zk.clients.connection.errors import ConfigError

    try:
        return dict(with_security(producer))
    except ConfigError as error:
        raise OptionError(f"kafka.{error}") from error


def _check_producer(producer: Mapping[str, Any]) -> None:
    from kafka_zk.clients.connection.errors import ConfigError
    from kafka_zk.clients.producer.config import ProducerConfig

    try:
        ProducerConfig.from_properties(producer)
    except ConfigError as error:
        raise OptionError(f"kafka.{error}") from error


def check_columns(schema: Any, topic: str | None) -> None:
    """``schema``: a ``StructType``. Like Spark's sink, ignores unknown columns.

    Raises: OptionError.
    """
    types = {field.name: field.dataType.simpleString() for field in schema}
    if "value" not in types:
        raise OptionError(f"the column 'value' is missing; there are {', '.join(types)}")
    if topic is None and "topic" not in types:
        raise OptionError("set the option 'topic', or add a column 'topic'")
    for name, allowed in _TYPES.items():
        if name in types and types[name] not in allowed:
            raise OptionError(f"the column {name} is {types[name]}, not {' or '.join(allowed)}")

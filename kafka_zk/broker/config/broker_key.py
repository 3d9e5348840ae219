"""Defines a broker key: an attribute of ``KafkaConfig``, with a description for the configuration APIs.

Example: ``INT("1", "What it is for.", low=1, use=Use.READ)``. The attribute is named like the key, with ``_`` instead
of ``.``.
"""

import enum
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypedDict, TypeVar, Unpack, overload

from kafka_zk.broker.config import values
from kafka_zk.broker.config.values import BadValue
from kafka_zk.storage.files.config_table import TOPIC_CONFIGS, Value

T = TypeVar("T")
R = TypeVar("R", covariant=True)

UNUSED = "A key of Apache Kafka that is kept and shown; this broker does not use it."


class Update(enum.Enum):
    """Kafka's dynamic update modes."""

    READ_ONLY = "read-only"
    PER_BROKER = "per-broker"
    PER_LISTENER = "per-broker, under a listener's prefix only"
    CLUSTER_WIDE = "cluster-wide"


class Use(enum.Enum):
    """How this broker treats a key in ``server.properties``."""

    READ = "checked at the start"
    ACCEPTED = "not checked by its row: a topic's default, read by another module, or without a meaning here"
    IGNORED = "ignored with a warning"


class Facts(TypedDict, total=False):
    """The optional properties of a row."""

    low: int
    """Smallest allowed value. Rows have no largest value; code that uses the key can set one. The message about a
    smaller value is Kafka's in AlterConfigs; at the start of a broker it names the key and the value.
    """

    use: Use
    """Default: IGNORED. A key that the broker reads needs READ."""

    update: Update
    """Default: READ_ONLY."""

    is_built: bool
    """True if this broker can change the dynamic key at run time. Default: True for cluster-wide keys."""

    is_listed: bool
    """False if DescribeConfigs omits the key, because Kafka omits it too or does not have it."""

    in_units: tuple[str, int]
    """The key that this one sets, and its unit in ms: ``("log.retention.ms", 60_000)`` for minutes."""

    fallback: str
    """The key whose value applies if this one is not set."""

    needs: str
    """``SASL`` or ``SSL``: the key has no effect unless a listener's protocol includes it."""

    unbuilt: str
    """Why this broker supports only the default value, for example "cannot run Java classes" (``unbuilt_security``)."""


class _Reader(Protocol):
    def read(self, key: "BrokerKey[Any]") -> Any: ...


class BrokerKey(Generic[R]):
    """One broker key.

    Attributes:
        default: Kafka's default, as DescribeConfigs shows it; None for null.
        default_here: this broker's default.
        topic_key: the topic key whose default this key sets, if any.
        others: see ``Facts``.
    """

    def __init__(
        self,
        type_: str,
        convert: Callable[[Any], Any],
        default: str | None,
        default_here: str | None,
        documentation: str,
        facts: Facts,
        topic_key: str | None = None,
    ) -> None:
        self.name = ""
        self.type = type_
        self.default = default
        self.default_here = default_here
        self.documentation = documentation
        self.low = facts.get("low")
        self.use = facts.get("use", Use.IGNORED)
        self.update = facts.get("update", Update.READ_ONLY)
        self.is_built = facts.get("is_built", self.update is Update.CLUSTER_WIDE)
        self.is_listed = facts.get("is_listed", True)
        self.in_units = facts.get("in_units")
        self.fallback = facts.get("fallback")
        self.needs = facts.get("needs")
        self.unbuilt = facts.get("unbuilt")
        self.topic_key = topic_key
        self._convert = convert

    def __set_name__(self, owner: type, attribute: str) -> None:
        self.name = attribute.replace("_", ".")

    @overload
    def __get__(self, config: None, owner: type) -> "BrokerKey[R]": ...

    @overload
    def __get__(self, config: _Reader, owner: type) -> R: ...

    def __get__(self, config: _Reader | None, owner: type) -> Any:
        # For Use.READ, Python finds the configuration's own attribute first and does not call this descriptor.
        return self if config is None else config.read(self)

    @property
    def is_sensitive(self) -> bool:
        return self.type == "PASSWORD"

    @property
    def is_dynamic(self) -> bool:
        return self.update is not Update.READ_ONLY

    @property
    def is_changeable(self) -> bool:
        """True if this broker accepts a change of the key at run time."""
        return self.is_dynamic and self.is_built

    def value(self, text: str) -> Any:
        """Parse a string without checking its range. Raises BadValue."""
        return self._convert(values.parse(self.name, self.type, text))

    def check(self, text: str) -> Value:
        """Parse a string as Kafka's type and check its range. Raises BadValue with Kafka's message."""
        if self.topic_key and self.default is not None:  # without a default, the whole configuration is checked
            return values.check(self.name, TOPIC_CONFIGS[self.topic_key], text, self.topic_key)
        value = values.parse(self.name, self.type, text)
        if self.low is not None and isinstance(value, int) and value < self.low:
            raise BadValue(self.name, value, f"Value must be at least {self.low}")
        return value

    @property
    def default_value(self) -> Any:
        return None if self.default_here is None else self.value(self.default_here)


class Kind(Generic[T]):
    """Creates rows of one type."""

    def __init__(self, type_: str, convert: Callable[[Any], Any] = lambda value: value) -> None:
        self._type = type_
        self._convert = convert

    @overload
    def __call__(
        self, default: str, documentation: str = ..., /, *, here: str = ..., **facts: Unpack[Facts]
    ) -> BrokerKey[T]: ...

    @overload
    def __call__(
        self, default: None = None, documentation: str = ..., /, *, here: str, **facts: Unpack[Facts]
    ) -> BrokerKey[T]: ...

    @overload
    def __call__(
        self, default: None = None, documentation: str = ..., /, **facts: Unpack[Facts]
    ) -> BrokerKey[T | None]: ...

    def __call__(
        self,
        default: str | None = None,
        documentation: str = UNUSED,
        /,
        *,
        here: str | None = None,
        **facts: Unpack[Facts],
    ) -> BrokerKey[Any]:
        return BrokerKey(self._type, self._convert, default, default if here is None else here, documentation, facts)


def items(text: str) -> tuple[str, ...]:
    """The items of a comma-separated list, without empty ones."""
    return tuple(item.strip() for item in text.split(",") if item.strip())


BOOLEAN = Kind[bool]("BOOLEAN")
SHORT = Kind[int]("SHORT")
INT = Kind[int]("INT")
LONG = Kind[int]("LONG")
DOUBLE = Kind[float]("DOUBLE")
STRING = Kind[str]("STRING")
PASSWORD = Kind[str]("PASSWORD")
CLASS = Kind[str]("CLASS")
LIST = Kind[tuple[str, ...]]("LIST")
ITEMS = Kind[tuple[str, ...]]("STRING", items)
"""A list, of type STRING in Kafka."""


def unused_key(name: str, type_: str, default: str | None, facts: Facts) -> BrokerKey[Any]:
    """A row without an attribute in the configuration."""
    row: BrokerKey[Any] = BrokerKey(type_, lambda value: value, default, default, UNUSED, facts)
    row.name = name
    return row


def topic_default(
    topic_key: str, *, is_set: bool = True, update: Update = Update.CLUSTER_WIDE, fallback: str | None = None
) -> BrokerKey[Value | None]:
    """A row that sets a topic key's default, with the topic key's type and documentation.

    ``is_set=False``: Kafka shows null, because another broker key may set the default.
    """
    definition = TOPIC_CONFIGS[topic_key]
    default = definition.format(definition.default) if is_set else None
    text = f"Default of the topic key {topic_key}. {definition.documentation}"
    facts: Facts = {"use": Use.ACCEPTED, "update": update}
    if fallback:
        facts["fallback"] = fallback
    return BrokerKey(definition.type, lambda value: value, default, default, text, facts, topic_key)

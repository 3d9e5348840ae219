"""A broker's configuration: ``server.properties``, overridden by dynamic values.

``/config/brokers/<id>`` overrides ``/config/brokers/<default>``, and both override ``server.properties``. A dynamic
value hides other spellings of its key (``log.retention.ms`` hides ``log.retention.hours``). Pure: ``live_config``
applies a new configuration.

One broker's listeners (``dynamic_listeners``) and the keys of a listener's stores are also dynamic. A new listener can
set any key under its prefix. Passwords are encrypted in ZooKeeper, with ``password.encoder.secret``. Kafka's other
dynamic keys of TLS, SASL and plugins are rejected, and shown as read-only. Keys that only tune a JVM broker (thread
counts, but not the cleaner's) are stored and shown, but have no effect.
Source: DynamicBrokerConfig.scala, DynamicConfig.scala@3.9.
Tests: tests/kafka_zk/broker/config/test_dynamic_listeners.py, tests/kafka_zk/broker/handlers/configs/test_configs.py.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from twisted.logger import Logger

from kafka_zk.broker.config import values as config_values
from kafka_zk.broker.config.broker_configs import ALL_KEYS, BROKER_CONFIGS, store_key, synonyms
from kafka_zk.broker.config.broker_key import Update
from kafka_zk.broker.config.dynamic_listeners import (
    check_change,
    check_names,
    check_owners,
    holds_password,
    key_of_some_listener,
)
from kafka_zk.broker.config.kafka_config import InvalidBrokerConfig, KafkaConfig, parse_connections_override
from kafka_zk.broker.config.unbuilt_security import unbuilt_security
from kafka_zk.broker.config.values import BadValue
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.registry.faults import TOLD_COUNT
from kafka_zk.security.errors import InvalidSecurity
from kafka_zk.security.password import Password
from kafka_zk.storage.files.config_table import Value

if TYPE_CHECKING:
    from kafka_zk.security.password_encoder import PasswordEncoder

_log = Logger()

_REFUSED_PREFIXES = ("ssl.", "sasl.", "listener.name.", "rsm.config.", "rlmm.config.")

_WHERE_TO_LISTEN = [row.name for row in (KafkaConfig.listeners, KafkaConfig.listener_security_protocol_map)]

_OVERRIDES = "max.connections.per.ip.overrides"

MOST_KEYS = 1_000
"""Maximum number of keys of a broker or topic after a client's change. A change that adds no key is always allowed.
Kafka has about 400 keys and no limit."""


def parse(key: str, text: str) -> Value:
    """Parse a key's value; an unknown key's value stays a string. Raises BadValue."""
    row = ALL_KEYS.get(key)
    return row.check(text) if row else config_values.parse(key, "STRING", text)


class DynamicBrokerConfig:
    """The layers of one broker's configuration.

    Attributes:
        static: ``server.properties``, with overrides.
        default, own: usable dynamic values of all brokers and of this one, passwords decoded.
        check_listeners: called with a whole configuration before it is stored for this broker; raises ApiError if
            listeners cannot use it.
    """

    def __init__(self, static: Mapping[str, str]) -> None:
        """Raises InvalidBrokerConfig for an invalid ``password.encoder.*`` key."""
        self.static = dict(static)
        self.check_listeners: Callable[[KafkaConfig], object] = lambda config: None
        self._encoder = _encoder(static, "password.encoder.secret")
        self._old_encoder = _encoder(static, "password.encoder.old.secret")
        if "broker.id" in static:  # both names have the same meaning
            self.static.setdefault("node.id", static["broker.id"])
        self.default: dict[str, str] = {}
        self.own: dict[str, str] = {}

    def take(self, own: Mapping[str, str], default: Mapping[str, str]) -> KafkaConfig:
        """Apply ZooKeeper's values and return the new configuration, or the previous one if the values contradict each
        other. Disallowed values are logged and ignored."""
        usable_default, usable_own = self.usable(default, per_broker=False), self.usable(own, per_broker=True)
        try:
            config = self._build(usable_default, usable_own)
        except (InvalidBrokerConfig, ApiError) as error:
            _log.error("the dynamic configuration of the broker is ignored as a whole: {error}", error=error)
            return self._build(self.default, self.own)
        self.default, self.own = usable_default, usable_own
        return config

    def refuse_unbuilt_security(self, own: Mapping[str, str], default: Mapping[str, str]) -> None:
        """Check the dynamic values when the broker starts. Raises InvalidBrokerConfig if ZooKeeper contains security
        settings that this broker cannot use, or invalid listeners: the broker must not fall back to the listeners of
        ``server.properties``, which may be open."""
        for sentence in unbuilt_security({**default, **own}, self._protocols(own)):
            raise InvalidBrokerConfig(f"dynamic configuration in ZooKeeper: {sentence}")
        if "listeners" in own:
            try:
                self._build(self.usable(default, per_broker=False), self.usable(own, per_broker=True))
            except InvalidBrokerConfig as error:
                raise InvalidBrokerConfig(f"dynamic configuration in ZooKeeper: {error}") from None

    def usable(self, properties: Mapping[str, str], *, per_broker: bool) -> dict[str, str]:
        """The allowed properties, with decoded passwords. Others are logged, up to TOLD_COUNT one by one."""
        usable = {}
        problems: list[str] = []
        protocols = self._protocols(properties)
        for key, value in properties.items():
            if _is_custom(key):
                usable[key] = value
                continue
            problem = _problem(key, per_broker=per_broker)
            if problem is not None:  # not raised, because there may be tens of thousands
                problems.append(problem.sentence([key]))
                continue
            try:
                _check_keys({key: value}, per_broker=per_broker)
                _check_security({key: value}, protocols)
                value = self._decoded(key, value)
                parse(key, value)
            except (BadValue, ApiError) as error:
                problems.append(str(error))
            else:
                usable[key] = value
        whom = "the broker" if per_broker else "all brokers"
        for sentence in problems[:TOLD_COUNT]:
            _log.error("a dynamic configuration of {whom} is ignored: {error}", whom=whom, error=sentence)
        if len(problems) > TOLD_COUNT:
            _log.error(
                "{count} more dynamic configurations of {whom} are ignored", count=len(problems) - TOLD_COUNT, whom=whom
            )
        return usable

    def _protocols(self, properties: Mapping[str, str]) -> Mapping[str, str]:
        """Listener name -> security protocol; empty if the listeners cannot be parsed."""
        where = {key: properties[key] for key in _WHERE_TO_LISTEN if key in properties}
        try:
            return KafkaConfig({**self.static, **where}).listener_protocols
        except InvalidBrokerConfig:
            return {}

    def validate(self, properties: Mapping[str, str], *, per_broker: bool) -> None:
        """Check whether the properties may replace the stored ones. Raises ApiError with Kafka's message."""
        config = self.validate_texts(properties, per_broker=per_broker)
        if per_broker:
            check_owners(properties.keys() - self.own.keys(), config)
            check_change(self._build(self.default, self.own), config)
            self.check_listeners(config)

    def validate_texts(self, properties: Mapping[str, str], *, per_broker: bool) -> KafkaConfig:
        """Like ``validate``, but do not read the files that the properties name, and do not compare the keys of
        listeners, because a client may not be allowed to name files or to guess passwords. Returns the resulting
        configuration.
        """
        if len(properties) > len(self.own if per_broker else self.default):
            check_count(len(properties))
        _check_keys(properties, per_broker=per_broker)
        try:
            for key, value in properties.items():
                parse(key, value)
        except BadValue as error:
            raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from None
        default, own = (self.default, properties) if per_broker else (properties, self.own)
        present = self._build(self.default, self.own)
        try:
            merged = self._merge(default, own)
            _check_requirements(merged)
            _check_cleaner_threads(merged, self.effective())
            check_names(present, merged)
            config = self._build(default, own)
        except InvalidBrokerConfig as error:
            raise ApiError(ErrorCode.INVALID_REQUEST, str(error)) from None
        return config

    def stored(self, properties: Mapping[str, str]) -> dict[str, str]:
        """The properties with encoded passwords, as stored in ZooKeeper. Raises ApiError if they cannot be encoded."""
        stored = dict(properties)
        for key in filter(_is_password, properties):
            if self._encoder is None:
                problem = f"{key}: Password encoder secret not configured (password.encoder.secret)"
                raise ApiError(ErrorCode.INVALID_REQUEST, problem)
            try:
                stored[key] = self._encoder.encode(Password(properties[key]))
            except InvalidSecurity as error:
                raise ApiError(ErrorCode.INVALID_REQUEST, f"{key}: {error}") from None
        return stored

    def reencoded(self, stored: Mapping[str, str]) -> dict[str, str]:
        """Re-encode the passwords that were encoded with ``password.encoder.old.secret``. Raises ApiError."""
        changed = dict(stored)
        for key in filter(_is_password, stored if self._old_encoder is not None else ()):
            try:
                plain = self._old_encoder.decode(stored[key]) if self._old_encoder else None
            except InvalidSecurity:
                continue  # an earlier start has already re-encoded it
            if plain is not None:
                changed |= self.stored({key: plain.value})
        return changed

    def _decoded(self, key: str, value: str) -> str:
        if not _is_password(key):
            return value
        if self._encoder is None:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{key}: Password encoder secret not configured")
        try:
            return self._encoder.decode(value).value
        except InvalidSecurity as error:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"{key} could not be decoded: {error}") from None

    def effective(self) -> dict[str, str]:
        """The configured keys and their values in effect, as text."""
        return self._merge(self.default, self.own)

    def _merge(self, default: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
        merged = dict(self.static)
        for layer in (default, own):
            for key, value in layer.items():
                for spelling in synonyms(key):
                    merged.pop(spelling, None)
                merged[key] = value
        return merged

    def _build(self, default: Mapping[str, str], own: Mapping[str, str]) -> KafkaConfig:
        return KafkaConfig(self._merge(default, own))


def check_count(count: int) -> None:
    """Raise ApiError for more than MOST_KEYS keys."""
    if count > MOST_KEYS:
        problem = f"{count} configuration keys for one resource, at most {MOST_KEYS} are allowed"
        raise ApiError(ErrorCode.INVALID_REQUEST, problem)


def _is_custom(key: str) -> bool:
    """True if Kafka has no such key, so that any value is kept."""
    if key in BROKER_CONFIGS or key.startswith(_REFUSED_PREFIXES):
        return False
    return key not in ALL_KEYS and key.partition(".")[2] not in ALL_KEYS and store_key(key) is None


@dataclass(frozen=True, slots=True, eq=False)
class _Problem:
    """Why keys must not be set. Source of the messages: DynamicBrokerConfig.scala@3.9."""

    message: str
    collection: str = "Set"

    def sentence(self, keys: Sequence[str]) -> str:
        return f"{self.message}: {self.collection}({', '.join(keys)})"


_IS_STATIC = _Problem("Cannot update these configs dynamically")
_IS_OF_LISTENERS = _Problem(
    "These security configs can be dynamically updated only per-listener using the listener prefix", "HashSet"
)
_IS_NOT_BUILT = _Problem("Cannot update these configs dynamically")
_IS_OF_ONE_BROKER = _Problem("Cannot update these configs at default cluster level, broker id must be specified")


def _problem(key: str, *, per_broker: bool) -> _Problem | None:
    """The first problem of a key that is not custom; None if it has none."""
    row = BROKER_CONFIGS.get(key)
    if row and not row.is_dynamic:
        return _IS_STATIC
    if row and row.update is Update.PER_LISTENER:
        return _IS_OF_LISTENERS
    is_of_listener = bool(key_of_some_listener(key))
    is_changeable = row.is_changeable if row else not key.startswith(_REFUSED_PREFIXES)
    if not is_changeable and not is_of_listener:
        return _IS_NOT_BUILT
    is_of_one_broker = is_of_listener or (row is not None and row.update is Update.PER_BROKER)
    return _IS_OF_ONE_BROKER if is_of_one_broker and not per_broker else None


def _check_keys(properties: Mapping[str, str], *, per_broker: bool) -> None:
    """Refuse the keys with the first problem in Kafka's order. Raises ApiError."""
    properties = {key: value for key, value in properties.items() if not _is_custom(key)}
    found: dict[_Problem, list[str]] = {}
    for key in properties:
        problem = _problem(key, per_broker=per_broker)
        if problem is not None:
            found.setdefault(problem, []).append(key)
    for problem in (_IS_STATIC, _IS_OF_LISTENERS, _IS_NOT_BUILT, _IS_OF_ONE_BROKER):
        if problem is _IS_NOT_BUILT:
            _check_security(properties, {})
        if problem in found:
            raise ApiError(ErrorCode.INVALID_REQUEST, problem.sentence(found[problem]))


def _check_security(properties: Mapping[str, str], listeners: Mapping[str, str]) -> None:
    for sentence in unbuilt_security(properties, listeners):
        raise ApiError(ErrorCode.INVALID_REQUEST, sentence)


def _is_password(key: str) -> bool:
    name = store_key(key)
    return holds_password(key) or (name is not None and ALL_KEYS[name].is_sensitive)


def _encoder(properties: Mapping[str, str], secret_key: str) -> "PasswordEncoder | None":
    """The encoder of passwords; None if there is no secret."""
    if not properties.get(secret_key):
        return None
    from kafka_zk.security.password_encoder import PasswordEncoder  # imported late, because it loads hashlib

    try:
        return PasswordEncoder.of(properties, secret_key)
    except InvalidSecurity as error:
        raise InvalidBrokerConfig(str(error)) from None


def _check_cleaner_threads(wanted: Mapping[str, str], present: Mapping[str, str]) -> None:
    """Reject more than doubling or halving the number of threads. Source: LogCleaner.validateReconfiguration@3.9."""
    name = "log.cleaner.threads"
    default = BROKER_CONFIGS[name].default or "1"
    threads, before = int(wanted.get(name, default)), int(present.get(name, default))
    problem = None
    if threads < 1:
        problem = "Log cleaner threads should be at least 1"
    elif threads < before // 2:
        problem = f"Log cleaner threads cannot be reduced to less than half the current value {before}"
    elif threads > before * 2:
        problem = f"Log cleaner threads cannot be increased to more than double the current value {before}"
    if problem is not None and threads != before:
        raise ApiError(ErrorCode.INVALID_REQUEST, problem)


def _check_requirements(merged: Mapping[str, str]) -> None:
    """Apply Kafka's checks of a broker's whole configuration."""

    def require(holds: bool, problem: str) -> None:
        if not holds:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"requirement failed: {problem}")

    require(
        int(merged.get("log.retention.ms", 1)) != 0,
        "log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
    )
    require(int(merged.get("log.roll.ms", 1)) >= 1, "log.roll.ms must be greater than or equal to 1")
    require(int(merged.get("log.roll.jitter.ms", 0)) >= 0, "log.roll.jitter.ms must be greater than or equal to 0")
    overrides = [entry.strip() for entry in merged.get(_OVERRIDES, "").split(",") if entry.strip()]
    for entry in overrides:
        try:
            parse_connections_override(entry)
        except InvalidBrokerConfig:
            problem = f"Error parsing configuration property '{_OVERRIDES}': {entry}"
            raise ApiError(ErrorCode.INVALID_REQUEST, problem) from None
    require(
        bool(overrides) or int(merged.get("max.connections.per.ip", 1)) != 0,
        f"max.connections.per.ip can be set to zero only if {_OVERRIDES} property is set.",
    )

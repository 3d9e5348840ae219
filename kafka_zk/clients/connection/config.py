"""Configuration of the clients: Kafka's keys with ``_`` for ``.``, validated on creation.

Pure. Numbers and booleans may be strings, as from a command line or a properties file.
"""

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from kafka_zk.base.integers import INT64, PORTS, decimal_integer
from kafka_zk.clients.connection.errors import ConfigError
from kafka_zk.security.client_security import KEYS_BY_FIELD, NO_SECURITY, PROTOCOLS, ClientSecurity
from kafka_zk.security.errors import InvalidSecurity

_INT_MAX = 2**31 - 1
_ADDRESS = re.compile(
    r"(?:(?P<listener>[0-9a-zA-Z\-%._]*)://)?\[?(?P<host>[0-9a-zA-Z\-%._:]+)\]?:(?P<port>[0-9]+)", re.ASCII
)


def option(default: Any, minimum: int | None = None, maximum: int = _INT_MAX, choices: tuple[str, ...] = ()) -> Any:
    """A default of None with a minimum means an optional integer."""
    return field(default=default, metadata={"minimum": minimum, "maximum": maximum, "choices": choices})


def parse_bootstrap_servers(
    servers: str | Iterable[str], security_protocol: str = "PLAINTEXT"
) -> tuple[tuple[str, int], ...]:
    """(Host, port) pairs from ``"h1:9092, PLAINTEXT://h2:9092,[::1]:9092,"`` or from a list of such strings.

    A listener name before an address is ignored, as in Kafka's clients, unless it is a protocol that contradicts
    ``security_protocol``. Raises: ConfigError for an address without a port, a contradiction or an empty list.
    Source: Utils.HOST_PORT_PATTERN@3.9.
    """
    texts = [servers] if isinstance(servers, str) else servers
    parts = (part.strip() for text in texts for part in text.split(","))
    found = tuple(_address(part, security_protocol) for part in parts if part)
    if not found:
        raise ConfigError("bootstrap.servers: at least one host:port is needed")
    return found


def format_bootstrap_servers(addresses: Iterable[tuple[str, int]]) -> str:
    return ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in addresses)


def _address(text: str, security_protocol: str) -> tuple[str, int]:
    matched = _ADDRESS.fullmatch(text)
    number = None if matched is None else decimal_integer(matched["port"], PORTS)
    if matched is None or number is None:
        raise ConfigError(f"bootstrap.servers: {text!r} is not host:port")
    listener = (matched["listener"] or "").upper()
    if listener in PROTOCOLS and listener != security_protocol:
        raise ConfigError(
            f"bootstrap.servers: {text!r} contradicts security.protocol={security_protocol}: set security.protocol to "
            f"{listener}, or remove {listener}://"
        )
    return matched["host"], number


@dataclass(frozen=True, kw_only=True)
class CheckedConfig:
    def __post_init__(self) -> None:
        for each in fields(self):
            if each.metadata:
                value = _checked(each.name, getattr(self, each.name), each.default, each.metadata)
                object.__setattr__(self, each.name, value)

    @classmethod
    def given(cls, config: Self | None, options: Mapping[str, Any]) -> Self:
        """Accept a configuration object or its keys. Raises: TypeError if both are given; ConfigError."""
        if config is None:
            return cls.from_properties(options)
        if options:
            raise TypeError("give either a config or options, not both")
        return config

    @classmethod
    def from_properties(cls, properties: Mapping[str, Any]) -> Self:
        """Accept keys in either spelling (``linger.ms`` or ``linger_ms``).

        Raises: ConfigError for an unknown key, listing the known ones.
        """
        known = {each.name for each in fields(cls)}
        given = {key.replace(".", "_"): value for key, value in properties.items()}
        for key in given:
            if key not in known:
                names = sorted(name.replace("_", ".") for name in known)
                near = difflib.get_close_matches(key.replace("_", "."), [*names, *KEYS_BY_FIELD.values()], 1)
                hint = f"did you mean {near[0]}? There are" if near else "there are"
                raise ConfigError(f"{key.replace('_', '.')}: no such configuration; {hint} {', '.join(names)}")
        return cls(**{key: tuple(value) if isinstance(value, list) else value for key, value in given.items()})


def with_security(properties: Mapping[str, Any]) -> Mapping[str, Any]:
    """Replace all security keys by one key ``security``, a ``ClientSecurity``.

    Instead of the keys, ``security`` may be given, as an object or as a mapping of the keys (docs/how-to/security.md).
    Raises: ConfigError for unusable values, and if both are given.
    """
    single = {key: value for key, value in properties.items() if key.replace(".", "_") in KEYS_BY_FIELD}
    given = properties.get("security")
    if single and given is not None:
        raise ConfigError(f"security and {min(single)} cannot be combined: give security or the individual keys")
    if not single and not isinstance(given, Mapping):
        return {key: value for key, value in properties.items() if key != "security" or value is not None}
    others = {key: value for key, value in properties.items() if key not in single}
    from kafka_zk.security.client_keys import client_security  # most clients do not need it

    try:
        return {**others, "security": client_security(single or given or {})}
    except InvalidSecurity as error:
        raise ConfigError(str(error)) from None


@dataclass(frozen=True, kw_only=True)
class ClientConfig(CheckedConfig):
    """What every client needs to reach its brokers.

    ``security``: TLS and SASL; ``from_properties`` creates it from Kafka's keys (``security.protocol``,
    ``sasl.mechanism``, ``ssl.truststore.location``, ...), see docs/how-to/security.md.
    """

    bootstrap_servers: str | tuple[str, ...] = "127.0.0.1:9092"
    client_id: str = "kafka-zk"
    request_timeout_ms: int = option(30_000, 1)
    metadata_max_age_ms: int = option(300_000, 0)
    retry_backoff_ms: int = option(100, 0)
    retry_backoff_max_ms: int = option(1_000, 0)
    reconnect_backoff_ms: int = option(50, 0)
    reconnect_backoff_max_ms: int = option(1_000, 0)
    socket_connection_setup_timeout_ms: int = option(10_000, 1)
    default_api_timeout_ms: int = option(60_000, 1)
    security: ClientSecurity = NO_SECURITY

    def __post_init__(self) -> None:
        super().__post_init__()
        parse_bootstrap_servers(self.bootstrap_servers, self.security.protocol)

    @classmethod
    def from_properties(cls, properties: Mapping[str, Any]) -> Self:
        return super().from_properties(with_security(properties))

    @property
    def bootstrap_addresses(self) -> tuple[tuple[str, int], ...]:
        """(Host, port) pairs."""
        return parse_bootstrap_servers(self.bootstrap_servers, self.security.protocol)


def _checked(name: str, value: Any, default: Any, allowed: Mapping[str, Any]) -> Any:
    key = name.replace("_", ".")
    if isinstance(default, bool):
        return boolean(key, value)
    if default is None and value is None:
        return None
    if isinstance(default, int) or allowed["minimum"] is not None:
        return _integer(key, value, allowed["minimum"], allowed["maximum"])
    if allowed["choices"] and isinstance(value, str) and value not in allowed["choices"]:
        raise ConfigError(f"{key}: {value!r} is not one of {', '.join(allowed['choices'])}")
    return value


def boolean(key: str, value: Any) -> bool:
    """Raises: ConfigError naming the key."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise ConfigError(f"{key}: {value!r} is neither true nor false")


def _integer(key: str, value: Any, minimum: int | None, maximum: int) -> int:
    number = decimal_integer(value.strip(), INT64) if isinstance(value, str) else value
    if not isinstance(number, int) or isinstance(number, bool):
        raise ConfigError(f"{key}: {value!r} is not a whole number")
    if (minimum is not None and number < minimum) or number > maximum:
        raise ConfigError(f"{key}: {number} is not between {minimum} and {maximum}")
    return number

"""Finds configured keys that request security features that this broker lacks: rows with ``unbuilt``.

If the broker ignored such a key, the broker would be open while its administrator believes that it is protected. So the
broker refuses to start, and AlterConfigs rejects the key. Under ``listener.name.<name>.`` a key counts if that listener
is in use. A key with Kafka's default value is allowed, because it requests no security.

Source: BrokerSecurityConfigs.java, SaslConfigs.java, SslConfigs.java, ServerConfigs.java@3.9.
"""

from collections.abc import Collection, Mapping
from typing import Any

from kafka_zk.broker.config.broker_configs import ALL_KEYS
from kafka_zk.broker.config.broker_key import BrokerKey
from kafka_zk.security.listener_keys import LISTENER_PREFIX, is_read_for_listener


def unbuilt_security(properties: Mapping[str, str], listeners: Mapping[str, str]) -> list[str]:
    """A sentence for each key that requests security which this broker lacks, or which no listener in use has.

    ``listeners``: the listeners in use, name -> security protocol; case does not matter.
    """
    sentences = (_sentence(key, value.strip(), listeners) for key, value in properties.items())
    return [sentence for sentence in sentences if sentence]


def is_of_unused_listener(key: str, listeners: Collection[str]) -> bool:
    """True if the key has the prefix of a listener that is not in use."""
    return key.startswith(LISTENER_PREFIX) and key_of_listener(key, listeners) is None


def _sentence(key: str, value: str, listeners: Mapping[str, str]) -> str | None:
    if key not in ALL_KEYS and _without_mechanism(key) not in ALL_KEYS and not key.startswith(LISTENER_PREFIX):
        return None  # a plugin's key; there may be tens of thousands
    under_listener = key_of_listener(key, listeners)
    open_sentence = _without_effect(key, value, listeners)
    if open_sentence is not None:
        return open_sentence
    row = _row(key) if under_listener is None else _row_of_listener(under_listener)
    if row is None or not value or value.upper() == (row.default or "").upper():
        return None
    shown = key if row.is_sensitive else f"{key}={value}"
    return f"{shown}: this broker {row.unbuilt}, so it would accept everyone; remove the key if that is what you want"


def _without_effect(key: str, value: str, listeners: Mapping[str, str]) -> str | None:
    """A sentence for a key that requests authentication although no listener authenticates; Kafka ignores such a
    key."""
    under_listener = key_of_listener(key, listeners)
    name = key if under_listener is None else under_listener
    row = ALL_KEYS.get(name) or ALL_KEYS.get(_without_mechanism(name))
    if row is None or row.needs is None or not value or value.upper() == (row.default or "").upper():
        return None
    concerned = [
        protocol
        for listener, protocol in listeners.items()
        if under_listener is None or key.lower().startswith(f"{LISTENER_PREFIX}{listener.lower()}.")
    ]
    if any(row.needs in protocol.split("_") for protocol in concerned):
        return None
    shown = key if row.is_sensitive else f"{key}={value}"
    return (
        f"{shown}: none of the listeners that it applies to uses {row.needs}, so they would be open; remove the key if "
        "that is what you want"
    )


def key_of_listener(key: str, listeners: Collection[str]) -> str | None:
    """The key without the prefix of a listener in use; None if it has no such prefix."""
    if not key.startswith(LISTENER_PREFIX):
        return None
    prefixes = (f"{LISTENER_PREFIX}{name.lower()}." for name in listeners)
    return next((key[len(prefix) :] for prefix in prefixes if key.lower().startswith(prefix)), None)


def _without_mechanism(key: str) -> str:
    """The key without its SASL mechanism: ``sasl.jaas.config`` for ``scram-sha-256.sasl.jaas.config``."""
    return key.partition(".")[2]


def _row_of_listener(key: str) -> BrokerKey[Any] | None:
    return None if is_read_for_listener(key) else _row(key) or _row(_without_mechanism(key))


def _row(key: str) -> BrokerKey[Any] | None:
    row = ALL_KEYS.get(key)
    return row if row and row.unbuilt else None

"""Tables of the broker keys in ``broker_keys``, by name, by spelling and by topic key.

Tests: tests/kafka_zk/broker/config/test_broker_keys.py.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from kafka_zk.broker.config.broker_key import UNUSED, BrokerKey, Update
from kafka_zk.broker.config.broker_keys import ROWS

ALL_KEYS: Mapping[str, BrokerKey[Any]] = MappingProxyType(
    {row.name: row for row in sorted(ROWS, key=lambda row: row.name)}
)
BROKER_CONFIGS: Mapping[str, BrokerKey[Any]] = MappingProxyType(
    {name: row for name, row in ALL_KEYS.items() if row.is_listed}
)
"""The keys that DescribeConfigs shows for every broker."""

DYNAMIC_ONLY_CONFIGS: Mapping[str, BrokerKey[Any]] = MappingProxyType(
    {name: row for name, row in ALL_KEYS.items() if row.is_dynamic and not row.is_listed}
)
"""The keys that DescribeConfigs shows only where they are set."""


def documentation(key: str) -> str:
    """The key's documentation in one sentence, also for an unknown key."""
    name = store_key(key) or key
    return ALL_KEYS[name].documentation if name in ALL_KEYS else UNUSED


def store_key(key: str) -> str | None:
    """A store's key without its listener prefix: ``ssl.keystore.location`` for
    ``listener.name.<listener>.ssl.keystore.location``. None for any other key."""
    if not key.startswith("listener.name."):
        return None
    name = key.split(".", 3)[-1]
    return name if name in ALL_KEYS and ALL_KEYS[name].update is Update.PER_LISTENER else None


def _by_unit(key: str) -> dict[str, int]:
    """The key's spellings and their units in ms, finest unit first."""
    in_units = {row.name: row.in_units[1] for row in ALL_KEYS.values() if row.in_units and row.in_units[0] == key}
    return dict(sorted({key: 1, **in_units}.items(), key=lambda spelling: spelling[1]))


_SYNONYMS: dict[str, tuple[str, ...]] = {}
for _row in ALL_KEYS.values():
    _names = tuple(_by_unit(_row.in_units[0] if _row.in_units else _row.name))
    _SYNONYMS[_row.name] = (*_names, _row.fallback) if _row.fallback else _names


def synonyms(key: str) -> tuple[str, ...]:
    """All spellings of a broker key, in order of precedence."""
    return _SYNONYMS.get(key, (key,))


TOPIC_DEFAULTS: Mapping[str, str] = MappingProxyType(
    {row.topic_key: row.name for row in sorted(ALL_KEYS.values(), key=lambda row: row.topic_key or "") if row.topic_key}
)
"""Topic key -> the broker key that sets its default."""

UNITS_MS: Mapping[str, int] = MappingProxyType({row.name: row.in_units[1] for row in ALL_KEYS.values() if row.in_units})
"""Key with a unit other than ms, such as hours -> ms per unit."""

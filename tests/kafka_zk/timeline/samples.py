"""One event of every kind, with values of its own in each field."""

from dataclasses import fields
from typing import Any, get_type_hints

from kafka_zk.rebalance.events import GroupEvent
from kafka_zk.registry.client import EventType, SessionState
from kafka_zk.storage.types import TopicPartition
from kafka_zk.timeline.event_codec import EVENT_TYPES

_VALUES: dict[str, Any] = {
    "int": 7,
    "int | None": None,
    "bool": True,
    "str": "text",
    "TopicPartition": TopicPartition("a-b", 3),
    "tuple[TopicPartition, ...]": (TopicPartition("t", 0), TopicPartition("t", 1)),
    "tuple[str, ...]": ("g_a", "g_b"),
    "Mapping[TopicPartition, int]": {TopicPartition("t", 0): 5, TopicPartition("t", 1): -1},
    "EventType": EventType.CHILD,
    "SessionState": SessionState.SUSPENDED,
}


def _value(hint: Any) -> Any:
    text = hint.__name__ if isinstance(hint, type) and not hasattr(hint, "__args__") else str(hint)
    for prefix in ("collections.abc.", "kafka_zk.storage.types.", "kafka_zk.registry.client."):
        text = text.replace(prefix, "")
    return _VALUES[text]


def every_event() -> list[GroupEvent]:
    return [
        kind(**{each.name: _value(get_type_hints(kind)[each.name]) for each in fields(kind)})
        for kind in EVENT_TYPES.values()
    ]

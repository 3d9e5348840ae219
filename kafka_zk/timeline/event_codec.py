"""Events of groups as JSON and back: a line of a trace file.

``{"event":"Claimed","time_ms":…,"actor":…,"cause":…,"zxid":…,"offsets":{"t-0":5},"tokens":{"t-0":9}}``. A partition is
written ``topic-partition``. A key that the class does not have is ignored, so that newer traces can be read. Pure.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from enum import Enum
from typing import Any, get_args, get_origin, get_type_hints

from kafka_zk.rebalance import events as group_events
from kafka_zk.rebalance.events import GroupEvent, RebalanceEvent
from kafka_zk.registry import events as registry_events
from kafka_zk.registry.events import RegistryEvent
from kafka_zk.storage.types import TopicPartition
from kafka_zk.timeline import events as seen_events

_BASES = (RebalanceEvent, RegistryEvent)
EVENT_TYPES: dict[str, type[GroupEvent]] = {
    name: kind
    for module in (registry_events, group_events, seen_events)
    for name, kind in vars(module).items()
    if isinstance(kind, type) and issubclass(kind, _BASES) and kind not in _BASES
}
"""By the name that stands in a trace."""


class UnknownEvent(ValueError):
    """A line that is no event of ours."""


def encode(event: GroupEvent) -> dict[str, Any]:
    """The event as a JSON object."""
    document = {each.name: _plain(getattr(event, each.name)) for each in fields(event)}
    return {"event": type(event).__name__, **document}


def decode(document: Mapping[str, Any]) -> GroupEvent:
    """Raises: UnknownEvent."""
    kind = EVENT_TYPES.get(document.get("event", ""))
    if kind is None:
        raise UnknownEvent(f"no event is called {document.get('event')!r}")
    try:
        return kind(**{name: parse(document[name]) for name, parse in _PARSERS[kind.__name__].items()})
    except (KeyError, TypeError, ValueError) as error:
        raise UnknownEvent(f"{kind.__name__} with {document!r}: {error!r}") from error


def _plain(value: Any) -> Any:
    if isinstance(value, TopicPartition):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _parser(hint: Any) -> Callable[[Any], Any]:
    """How to read a value of that type from JSON."""
    if hint is TopicPartition:
        return _partition
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is tuple:
        item = _parser(arguments[0])
        return lambda value: tuple(item(each) for each in value)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        key, item = _parser(arguments[0]), _parser(arguments[1])
        return lambda value: {key(name): item(each) for name, each in value.items()}
    return lambda value: value


def _partition(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))


_PARSERS = {
    name: {each.name: _parser(get_type_hints(kind)[each.name]) for each in fields(kind)}
    for name, kind in EVENT_TYPES.items()
}

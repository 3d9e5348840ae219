"""Events as JSON and back: the lines of a trace file. Pure.

``{"event":"Claimed","time_ms":…,"actor":…,"cause":…,"zxid":…,"offsets":{"t-0":5},"tokens":{"t-0":9}}``. Partitions are
written as ``topic-partition``, and other values with named fields as objects. Unknown keys are ignored, so that newer
traces can be read.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from types import ModuleType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from kafka_zk.base.events import Event
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller import events as controller_events
from kafka_zk.broker.group import events as coordinator_events
from kafka_zk.broker.process import events as process_events
from kafka_zk.broker.replica import events as replica_events
from kafka_zk.broker.security import events as security_events
from kafka_zk.broker.transaction import events as transaction_events
from kafka_zk.rebalance import events as group_events
from kafka_zk.recorder.timeline import cluster_events, outage_events, record_events
from kafka_zk.recorder.timeline import events as seen_events
from kafka_zk.recorder.zookeeper_health import events as health_events
from kafka_zk.registry.client import events as registry_events

_MODULES = (
    registry_events, group_events, controller_events, replica_events, coordinator_events, transaction_events,
    seen_events, cluster_events, process_events, security_events,
    health_events, outage_events, record_events,
)  # fmt: skip


def _events_of(module: ModuleType) -> Iterator[type[Event]]:
    kinds = [each for each in vars(module).values() if isinstance(each, type) and issubclass(each, Event)]
    own = [each for each in kinds if each.__module__ == module.__name__ and each is not Event]
    return (each for each in own if not any(other is not each and issubclass(other, each) for other in own))


EVENT_TYPES: dict[str, type[Event]] = {kind.__name__: kind for module in _MODULES for kind in _events_of(module)}


class UnknownEvent(ValueError):
    """A line is not a known event."""


def encode(event: Event) -> dict[str, Any]:
    document = {each.name: _plain(getattr(event, each.name)) for each in fields(event)}
    return {"event": type(event).__name__, **document}


def decode(document: Mapping[str, Any]) -> Event:
    """Raises: UnknownEvent."""
    name = document.get("event")
    kind = EVENT_TYPES.get(name) if isinstance(name, str) else None
    if kind is None:
        raise UnknownEvent(f"unknown event {name!r}")
    try:
        return kind(**{name: parse(document[name]) for name, parse in _PARSERS[kind.__name__].items()})
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise UnknownEvent(f"{kind.__name__} with {document!r}: {error!r}") from error


def _plain(value: Any) -> Any:
    if isinstance(value, TopicPartition):
        return str(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {_plain(key): _plain(item) for key, item in value.items()}
    if is_dataclass(value):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: _plain(getattr(value, name)) for name in value._fields}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


def _parser(hint: Any) -> Callable[[Any], Any]:
    if hint in _PLAIN:
        return _PLAIN[hint]
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint
    origin, arguments = get_origin(hint), get_args(hint)
    if isinstance(hint, UnionType):
        [present] = [_parser(each) for each in arguments if each is not type(None)]
        return lambda value: None if value is None else present(value)
    if origin is tuple:
        return _tuple_parser(arguments)
    if is_dataclass(hint) or (isinstance(hint, type) and issubclass(hint, tuple) and origin is None):
        return _parts_parser(hint)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        key, item = _parser(arguments[0]), _parser(arguments[1])
        return lambda value: {key(name): item(each) for name, each in value.items()}
    return lambda value: value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a string")
    return value


def _integer(value: Any) -> int:
    if type(value) is not int or not -(1 << 63) <= value < 1 << 64:
        raise ValueError(f"{value!r} is not a 64-bit integer")
    return value


def _tuple_parser(arguments: tuple[Any, ...]) -> Callable[[Any], Any]:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        every = _parser(arguments[0])
        return lambda value: tuple(every(each) for each in value)
    items = [_parser(each) for each in arguments]
    return lambda value: tuple(item(each) for item, each in zip(items, value, strict=True))


def _parts_parser(kind: Any) -> Callable[[Any], Any]:
    parsers = {name: _parser(hint) for name, hint in get_type_hints(kind).items()}
    return lambda value: kind(**{name: parse(value[name]) for name, parse in parsers.items()})


def _partition(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))


_PLAIN: dict[Any, Callable[[Any], Any]] = {TopicPartition: _partition, str: _text, int: _integer}

_PARSERS = {
    name: {each.name: _parser(get_type_hints(kind)[each.name]) for each in fields(kind)}
    for name, kind in EVENT_TYPES.items()
}

"""One event of every existing kind, with a different value in each field."""

import enum
import importlib
import pkgutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import kafka_zk
from kafka_zk.base.events import Event
from kafka_zk.base.types import TopicPartition

_PLAIN: dict[Any, Any] = {int: 7, bool: True, str: "text", TopicPartition: TopicPartition("a-b", 3)}


def kinds() -> list[type[Event]]:
    """Every subclass of ``Event`` in every module called ``events``, except those with further subclasses."""
    for module in pkgutil.walk_packages(kafka_zk.__path__, "kafka_zk."):
        if module.name.endswith(".events"):
            importlib.import_module(module.name)
    return sorted(set(_leaves(Event)), key=lambda kind: kind.__name__)


def every_event() -> list[Event]:
    return [
        kind(**{each.name: value(get_type_hints(kind)[each.name]) for each in fields(kind)})
        for kind in kinds()
    ]


def value(hint: Any) -> Any:
    """A value of the type."""
    if hint in _PLAIN:
        return _PLAIN[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if isinstance(hint, UnionType):
        return value(arguments[0])
    if origin is tuple:
        return tuple(value(each) for each in arguments if each is not Ellipsis)
    if origin is not None and issubclass(origin, Mapping):
        return {value(arguments[0]): value(arguments[1])}
    if origin is list:
        return [value(arguments[0])]
    if issubclass(hint, enum.Enum):
        return list(hint)[1]
    return hint(**{name: value(each) for name, each in get_type_hints(hint).items()})


def _leaves(kind: type[Event]) -> Iterator[type[Event]]:
    """A dataclass with slots is created twice; the first class may still exist, but its module no longer refers to it.
    """
    below = [each for each in kind.__subclasses__() if getattr(sys.modules[each.__module__], each.__name__) is each]
    for each in below:
        yield from _leaves(each)
    if not below and kind.__module__.startswith("kafka_zk."):
        yield kind

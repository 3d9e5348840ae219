"""Detects Avro schemas for which few bytes may become large values: arrays of any length, records of any depth.

Also limits decimals: converting one of a megabyte to digits would take minutes.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

_VALUES_PER_BYTE = 4
TYPES_MAX = 10_000
_DECIMAL_BYTES_MAX = 1024


def bound_decimals() -> None:
    """Make fastavro refuse decimals of more than 1,024 bytes; 17 are enough for Spark's. Applies to this process."""
    from fastavro.read import LOGICAL_READERS

    for name in ("bytes-decimal", "fixed-decimal"):
        LOGICAL_READERS[name] = _bounded(LOGICAL_READERS[name])


def _bounded(read: Callable[..., Any]) -> Callable[..., Any]:
    if hasattr(read, _IS_BOUNDED):
        return read

    def read_decimal(data: bytes, *schemas: Any) -> Any:
        if len(data) > _DECIMAL_BYTES_MAX:
            raise ValueError(f"a decimal of {len(data):,} bytes")
        return read(data, *schemas)

    setattr(read_decimal, _IS_BOUNDED, True)
    return read_decimal


_IS_BOUNDED = "is_bounded"


def has_too_many_types(document: Any) -> bool:
    """True if a schema's JSON has more than 10,000 types, fields and branches."""
    count, waiting = 0, [document]
    while waiting and count <= TYPES_MAX:
        each = waiting.pop()
        count += 1
        waiting.extend(_parts(each))
    return count > TYPES_MAX


def amplifies(schema: Any, named: Mapping[str, Any]) -> bool:
    """True if a byte of an array, a map or a nested record may become more than 4 values, because fields of the type
    null need no bytes.
    """
    excess = _Excess(named)
    excess.of(schema, ())
    return excess.is_found


class _Excess:
    """Computes by how much the values of a type may exceed 4 per byte."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named
        self._done: dict[str, int] = {}
        self._recursive: set[str] = set()
        self.is_found = False

    def of(self, schema: Any, inside: tuple[str, ...]) -> int:
        definition = _definition(schema, self._named)
        if isinstance(definition, list):
            return max((self.of(each, inside) for each in definition), default=0) - _VALUES_PER_BYTE
        kind = definition if isinstance(definition, str) else definition["type"]
        if isinstance(kind, list | dict):
            return self.of(kind, inside)
        if kind in ("record", "error"):
            return self._of_record(definition, inside)
        if kind in ("array", "map"):
            items = self.of(definition["items" if kind == "array" else "values"], inside)
            self.is_found |= items > (0 if kind == "array" else _VALUES_PER_BYTE)
        size = definition["size"] if kind == "fixed" else int(kind != "null")
        return 1 - _VALUES_PER_BYTE * int(size)

    def _of_record(self, definition: Any, inside: tuple[str, ...]) -> int:
        name = definition["name"]
        if name in inside:
            self._recursive.add(name)
            return 0
        if name not in self._done:
            excess = 1 + sum(self.of(part, (*inside, name)) for part in _parts(definition))
            self.is_found |= name in self._recursive and excess > 0
            self._done[name] = excess
        return self._done[name]


def contains_itself(schema: Any, named: Mapping[str, Any]) -> bool:
    """True if the schema contains itself, so that its values may be nested without limit."""
    return _has_circle(schema, named, (), set())


def _has_circle(schema: Any, named: Mapping[str, Any], inside: tuple[str, ...], done: set[str]) -> bool:
    definition = _definition(schema, named)
    name = definition.get("name") if isinstance(definition, dict) else None
    if name in inside:
        return True
    if name in done:
        return False
    within = inside if name is None else (*inside, name)
    found = any(_has_circle(part, named, within, done) for part in _parts(definition))
    if name is not None:
        done.add(name)
    return found


def needs_no_bytes_in_array(schema: Any, named: Mapping[str, Any]) -> bool:
    """True if items of an array may need no bytes, so that a value may have any number of them."""
    return _has_empty_items(schema, named, set(), {})


def _has_empty_items(schema: Any, named: Mapping[str, Any], done: set[str], empty: dict[str, bool]) -> bool:
    definition = _definition(schema, named)
    if isinstance(definition, dict):
        if "items" in definition and _needs_no_bytes(definition["items"], named, (), empty):
            return True
        if (name := definition.get("name")) in done:
            return False
        if name is not None:
            done.add(name)
    return any(_has_empty_items(part, named, done, empty) for part in _parts(definition))


def _needs_no_bytes(schema: Any, named: Mapping[str, Any], inside: tuple[str, ...], empty: dict[str, bool]) -> bool:
    """``empty``: the results known so far, by record."""
    definition = _definition(schema, named)
    kind = definition if isinstance(definition, str) else definition.get("type") if isinstance(definition, dict) else ""
    if isinstance(kind, dict):
        return _needs_no_bytes(kind, named, inside, empty)
    if kind == "fixed":
        return bool(definition["size"] == 0)
    if kind in ("record", "error") and (name := definition["name"]) not in inside:
        if name not in empty:
            empty[name] = all(_needs_no_bytes(part, named, (*inside, name), empty) for part in _parts(definition))
        return empty[name]
    return bool(kind == "null")


def _definition(schema: Any, named: Mapping[str, Any]) -> Any:
    return named.get(schema, schema) if isinstance(schema, str) else schema


def _parts(definition: Any) -> Iterator[Any]:
    if isinstance(definition, list):
        yield from definition
    elif isinstance(definition, dict):
        yield from (field["type"] for field in definition.get("fields", ()))
        yield from (definition[part] for part in ("items", "values") if part in definition)
        if isinstance(definition.get("type"), dict | list):
            yield definition["type"]

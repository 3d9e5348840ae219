"""Avro schemas for which few bytes may become large values: arrays of any length, records of any depth."""

from collections.abc import Iterator, Mapping
from typing import Any


def contains_itself(schema: Any, named: Mapping[str, Any]) -> bool:
    """Values of such a schema may be nested without limit."""
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
    """A value of such a schema may have any number of zero-byte items."""
    return _has_empty_items(schema, named, set())


def _has_empty_items(schema: Any, named: Mapping[str, Any], done: set[str]) -> bool:
    definition = _definition(schema, named)
    if isinstance(definition, dict):
        if "items" in definition and _needs_no_bytes(definition["items"], named, ()):
            return True
        if (name := definition.get("name")) in done:
            return False
        if name is not None:
            done.add(name)
    return any(_has_empty_items(part, named, done) for part in _parts(definition))


def _needs_no_bytes(schema: Any, named: Mapping[str, Any], inside: tuple[str, ...]) -> bool:
    definition = _definition(schema, named)
    kind = definition if isinstance(definition, str) else definition.get("type") if isinstance(definition, dict) else ""
    if isinstance(kind, dict):
        return _needs_no_bytes(kind, named, inside)
    if kind == "fixed":
        return bool(definition["size"] == 0)
    if kind in ("record", "error") and (name := definition["name"]) not in inside:
        return all(_needs_no_bytes(part, named, (*inside, name)) for part in _parts(definition))
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

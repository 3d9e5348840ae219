"""Converts values whose logical type differs between two versions of an Avro schema.

A value is resolved by its physical types first, and then gets the reader's logical type. If only one schema has a
logical type, the physical value is used unchanged. If both have one, the value keeps its meaning: an instant, a local
time, a time of day or a number is converted to the other unit or scale. A value that cannot be converted, or is of
another kind (a date as a timestamp), is undecodable. The same applies to an integer that a float or double may not
represent exactly. Pure.
"""

from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import Any, NamedTuple

from kafka_zk.base.integers import INT64
from kafka_zk.spark_jobs.values.avro_types import DECIMAL_DIGITS, LOGICAL_KINDS
from kafka_zk.spark_jobs.values.framing import ValueUndecodable

_NANOS = 1
_MICROS = 1000
_MILLIS = 1_000_000
_UNITS = {
    "timestamp-millis": ("timestamp", _MILLIS),
    "timestamp-micros": ("timestamp", _MICROS),
    "timestamp-nanos": ("timestamp", _NANOS),
    "local-timestamp-millis": ("local-timestamp", _MILLIS),
    "local-timestamp-micros": ("local-timestamp", _MICROS),
    "local-timestamp-nanos": ("local-timestamp", _NANOS),
    "time-millis": ("time", _MILLIS),
    "time-micros": ("time", _MICROS),
}
"""The quantity that each type counts, and its unit in nanoseconds."""
_DECIMAL, _DATE, _UUID = "decimal", "date", "uuid"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EXACT_BITS = {"float": 24, "double": 53}
"""Integers of at most this many bits are exact."""
_PROMOTIONS = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
_BITS_MAX = 8192
"""Maximum bits of a decimal's unscaled value, and maximum change of its scale. More fits no column, and would take
long."""
_EXACT = Context(prec=DECIMAL_DIGITS)


class Logical(NamedTuple):
    """``precision`` and ``scale`` are for decimals."""

    name: str
    precision: int = 0
    scale: int = 0


class Leaf(NamedTuple):
    """A value that is not nested: its types for writer and reader."""

    written: str
    read: str
    was: Logical | None
    becomes: Logical | None


class RefusedValue(NamedTuple):
    """The conversion of a value that has no meaning for the reader: always a failure."""

    reason: str


class Fields(NamedTuple):
    by_name: dict[str, Any]


class Items(NamedTuple):
    each: Any


class Values(NamedTuple):
    each: Any


def conversion(writer: Any, reader: Any, named: Mapping[str, Any]) -> Any:
    """The argument ``how`` of ``converted``; None if values stay unchanged. Equal conversions compare equal.

    ``reader``: with all names replaced by their schemas. ``named``: the writer's named schemas.
    """
    writer, reader = _single(writer, named), _single(reader, {})
    if isinstance(writer, list):
        return _of_union(writer, reader, named)
    written, read = _kind(writer), _kind(reader)
    if written != read and read not in _PROMOTIONS.get(written, ()):
        return None  # the schema resolution will fail
    if read == "record":
        return _of_record(writer, reader, named)
    if read in ("array", "map"):
        part, make = ("items", Items) if read == "array" else ("values", Values)
        inner = conversion(writer[part], reader[part], named)
        return None if inner is None else make(inner)
    was, becomes = _logical(writer), _logical(reader)
    if was is not None and becomes is not None and _family(was) != _family(becomes):
        return RefusedValue(f"it was written as {was.name}, and is {becomes.name} in the reader's schema")
    is_float = read in _EXACT_BITS and written in ("int", "long")
    return Leaf(written, read, was, becomes) if is_float or was is not None or becomes is not None else None


def _of_union(writer: list[Any], reader: Any, named: Mapping[str, Any]) -> Any:
    """The resolution hides a value's branch, so all branches must be converted equally."""
    kind = _kind(reader)
    branches = [each for each in writer if kind == _kind(each) or kind in _PROMOTIONS.get(_kind(each), ())]
    found = [conversion(each, reader, named) for each in branches]
    if any(each != found[0] for each in found):
        return RefusedValue("it was written as a union in which several logical types match the reader's type")
    return found[0] if found else None


def _of_record(writer: Any, reader: Any, named: Mapping[str, Any]) -> Any:
    written = {each["name"]: each["type"] for each in writer["fields"]}
    by_name = {}
    for field in reader["fields"]:
        names = [name for name in (field["name"], *field.get("aliases", ())) if name in written]
        # An unwritten field gets its default, as if written with the reader's schema.
        kind, names_of = (written[names[0]], named) if names else (field["type"], {})
        inner = conversion(kind, field["type"], names_of)
        if inner is not None:
            by_name[field["name"]] = inner
    return Fields(by_name) if by_name else None


def _single(schema: Any, named: Mapping[str, Any]) -> Any:
    if isinstance(schema, str):
        return named.get(schema, schema)
    if isinstance(schema, list):
        kinds = [_single(each, named) for each in schema if each != "null"]
        return kinds[0] if len(kinds) == 1 else kinds
    return schema if isinstance(schema["type"], str) else _single(schema["type"], named)


def _kind(schema: Any) -> str:
    kind = schema if isinstance(schema, str) else schema["type"]
    assert isinstance(kind, str), "_single has looked behind it"
    return kind


def _logical(schema: Any) -> Logical | None:
    """The schema's logical type; None also if the schema's type cannot have it: Avro requires readers to ignore it."""
    name = schema.get("logicalType") if isinstance(schema, dict) else None
    if not isinstance(name, str) or schema["type"] not in LOGICAL_KINDS.get(name, ()):
        return None
    if name == _DECIMAL:
        return Logical(name, schema["precision"], schema.get("scale", 0))
    return Logical(name)


def _family(logical: Logical) -> str:
    return _UNITS[logical.name][0] if logical.name in _UNITS else logical.name


def converted(value: Any, how: Any) -> Any:
    """Convert a physical value to the reader's logical type. Raises ValueUndecodable, OverflowError."""
    match how:
        case _ if value is None or how is None:
            return value
        case Fields(by_name):
            return {**value, **{name: converted(value[name], each) for name, each in by_name.items()}}
        case Items(each):
            return [converted(item, each) for item in value]
        case Values(each):
            return {name: converted(item, each) for name, item in value.items()}
        case RefusedValue(reason):
            raise ValueUndecodable(reason)
    return _leaf(value, how)


def _leaf(value: Any, how: Leaf) -> Any:
    if how.becomes is None or how.becomes.name == _UUID:
        bits = _EXACT_BITS.get(how.read)
        if bits is not None and how.written in ("int", "long") and abs(value) >= 1 << bits:
            raise ValueUndecodable(f"an integer of more than {bits} bits is not exact as a {how.read}")
        return value
    was = how.was or how.becomes
    if how.becomes.name == _DECIMAL:
        return _decimal(int.from_bytes(value, signed=True), was.scale, how.becomes)
    if how.becomes.name == _DATE:
        return date(1970, 1, 1) + timedelta(days=value)
    return _counted(value * _UNITS[was.name][1], how.becomes)


def _decimal(unscaled: int, scale: int, becomes: Logical) -> Decimal:
    digits = min(becomes.precision, DECIMAL_DIGITS)
    if unscaled.bit_length() > _BITS_MAX or (unscaled and abs(becomes.scale - scale) > _BITS_MAX):
        raise ValueUndecodable("a decimal has more digits than the reader's schema allows")
    if not unscaled:
        scale = becomes.scale
    if becomes.scale >= scale:
        unscaled *= 10 ** (becomes.scale - scale)
    else:
        unscaled, lost = divmod(unscaled, 10 ** (scale - becomes.scale))
        if lost:
            raise ValueUndecodable(f"a decimal has more than {becomes.scale} decimal places")
    if abs(unscaled) >= 10**digits:
        raise ValueUndecodable("a decimal has more digits than the reader's schema allows")
    return Decimal(unscaled).scaleb(-becomes.scale, _EXACT)


def _counted(nanos: int, becomes: Logical) -> Any:
    family, unit = _UNITS[becomes.name]
    has_type = family != "time" and unit != _NANOS  # Spark has a type for microseconds; other columns contain the count
    count, lost = divmod(nanos, _MICROS if has_type else unit)
    if lost:
        raise ValueUndecodable(f"a {family} is finer than the reader's {becomes.name}")
    if not has_type:
        if count not in INT64:
            raise ValueUndecodable(f"a {family} is out of the range of {becomes.name}")
        return count
    at = _EPOCH + timedelta(microseconds=count)
    return at if family == "timestamp" else at.replace(tzinfo=None)

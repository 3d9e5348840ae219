"""Large messages encoded in steps, from the same field tables and into the same bytes as by kafka-python's encoder.

Its encoder writes a message in one go, a microsecond or more for each element. Here an array of structs can be
interrupted after every few of them.

Tests: tests/kafka_zk/protocol/test_schema_writer.py.
"""

from collections.abc import Generator
from typing import Any

from kafka_zk.protocol.primitives import length

_ELEMENTS_AT_ONCE = 64
_BYTES_AT_ONCE = 8 * 1024
"""Elements may have arrays of their own."""

_LARGE = 500
"""So many elements take about a millisecond: an element with fewer is encoded in one go."""

Steps = Generator[int, None, None]
"""Yields how many bytes were written since the last time."""

Field = Any  # a field object of kafka-python
Output = Any  # its EncodeBuffer


Arrays = tuple[tuple[str, Any], ...]
"""The names of a struct's arrays of structs, each with those of its elements."""


def arrays_of(table: Field, version: int) -> Arrays:
    """The arrays of structs that a table has."""
    return tuple(
        (field.name, arrays_of(field.array_of, version))
        for field in table.untagged_fields(version)
        if field.is_struct_array()
    )


def is_large(arrays: Arrays, item: Any) -> bool:
    """Whether ``item`` has so many elements, in its arrays and in theirs, that it should be encoded in steps."""
    return _room_left(arrays, item, _LARGE) < 0


def _room_left(arrays: Arrays, item: Any, room: int) -> int:
    """What is left of ``room`` elements; how far below zero it is does not matter."""
    for name, inner in arrays:
        elements = getattr(item, name) or ()
        room -= len(elements)
        if inner:
            for element in elements:
                if room < 0:
                    return room
                room = _room_left(inner, element, room)
    return room


def write_in_steps(table: Field, item: Any, version: int, flexible: bool, out: Output) -> Steps:
    """Write the struct ``item`` to ``out``. It must not change meanwhile."""
    for field in table.untagged_fields(version):
        value = getattr(item, field.name)
        if value and field.is_struct_array() and len(field.array_of.untagged_fields(version)) > 1:
            yield from _write_array(field, value, version, flexible, out)
        else:
            field.encode_into(value, out, version=version, compact=flexible, tagged=flexible)
    if flexible:
        table.tagged_fields(version).encode_into(item, out, version=version)


def _write_array(field: Field, items: list[Any], version: int, flexible: bool, out: Output) -> Steps:
    count = length(len(items), flexible)
    out.ensure(len(count))
    out.buf[out.pos : out.pos + len(count)] = count
    out.pos += len(count)
    table = field.array_of
    encode = table.compiled_encode_into(version, compact=flexible, tagged=flexible)
    arrays = arrays_of(table, version)
    told = out.pos
    for number, item in enumerate(items, 1):
        if arrays and is_large(arrays, item):
            yield from write_in_steps(table, item, version, flexible, out)
            told = out.pos
        else:
            encode(item, out)
        if number % _ELEMENTS_AT_ONCE == 0 or out.pos - told >= _BYTES_AT_ONCE:
            yield out.pos - told
            told = out.pos

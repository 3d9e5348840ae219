"""Large messages encoded in steps, from the same field tables and into the same bytes as by kafka-python's encoder.

Its encoder writes a message in one go, a microsecond or more for each element. Here an array of structs can be
interrupted after every few of them. Elements of numbers and arrays of numbers alone, as what is said of a partition
mostly is, are packed by one ``struct`` each, in a quarter of the time (``row_packer``).

Tests: tests/kafka_zk/protocol/test_schema_writer.py.
"""

from collections.abc import Callable, Generator, Sequence
from operator import attrgetter
from struct import Struct
from typing import Any

from kafka_zk.protocol.primitives import length
from kafka_zk.protocol.schema_reader import FIXED_FORMATS

_ELEMENTS_AT_ONCE = 64
_BYTES_AT_ONCE = 8 * 1024
"""Elements may have arrays of their own."""

_LARGE = 500
"""So many elements take about a millisecond: an element with fewer is encoded in one go."""

_LARGE_MESSAGE = 16
"""A message with more elements is encoded in steps: each may be of 32 KB."""

_WORTH_PACKING = 16
"""An element with so many rows is not encoded in one go, either: they are packed."""

Steps = Generator[int, None, None]
"""Yields how many bytes were written since the last time."""

Field = Any  # a field object of kafka-python
Output = Any  # its EncodeBuffer


Arrays = tuple[tuple[str, Any], ...]
"""The names of a struct's arrays of structs, each with those of its elements."""


Packer = Callable[[Any], bytes]
"""Encodes an element, of which it reads the attributes only: it need not be of kafka-python's class."""


def arrays_of(table: Field, version: int) -> Arrays:
    """The arrays of structs that a table has."""
    return tuple(
        (field.name, arrays_of(field.array_of, version))
        for field in table.untagged_fields(version)
        if field.is_struct_array()
    )


def is_large(arrays: Arrays, item: Any, most: int = _LARGE_MESSAGE) -> bool:
    """Whether ``item`` has so many elements, in its arrays and in theirs, that it should be encoded in steps."""
    return _room_left(arrays, item, most) < 0


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


def write_around(
    table: Field, item: Any, version: int, flexible: bool, array: tuple[str, int], before: Output, after: Output
) -> None:
    """Write what stands before and after the elements of an array in a struct. ``array``: the field, and how many
    elements it has; in ``item`` it is empty."""
    name, count = array
    out = before
    for field in table.untagged_fields(version):
        if field.name == name:
            _write(length(count, flexible), out)
            out = after
        else:
            field.encode_into(getattr(item, field.name), out, version=version, compact=flexible, tagged=flexible)
    if flexible:
        table.tagged_fields(version).encode_into(item, out, version=version)


def _write_array(field: Field, items: list[Any], version: int, flexible: bool, out: Output) -> Steps:
    _write(length(len(items), flexible), out)
    table = field.array_of
    pack = row_packer(table, version, flexible)
    if pack is not None:
        yield from _write_rows(pack, items, out)
        return
    encode = table.compiled_encode_into(version, compact=flexible, tagged=flexible)
    arrays = arrays_of(table, version)
    told = out.pos
    for number, item in enumerate(items, 1):
        if arrays and (is_large(arrays, item, _LARGE) or len(getattr(item, arrays[0][0]) or ()) >= _WORTH_PACKING):
            yield from write_in_steps(table, item, version, flexible, out)
            told = out.pos
        else:
            encode(item, out)
        if number % _ELEMENTS_AT_ONCE == 0 or out.pos - told >= _BYTES_AT_ONCE:
            yield out.pos - told
            told = out.pos


def _write_rows(pack: Packer, items: list[Any], out: Output) -> Steps:
    rows: list[bytes] = []
    size_bytes = 0
    for item in items:
        row = pack(item)
        rows.append(row)
        size_bytes += len(row)
        if len(rows) == _ELEMENTS_AT_ONCE or size_bytes >= _BYTES_AT_ONCE:
            yield _write(b"".join(rows), out)
            rows.clear()
            size_bytes = 0
    _write(b"".join(rows), out)


def _write(data: bytes, out: Output) -> int:
    size_bytes = len(data)
    out.ensure(size_bytes)
    out.buf[out.pos : out.pos + size_bytes] = data
    out.pos += size_bytes
    return size_bytes


# -- rows -------------------------------------------------------------------------------------------------------------


def row_packer(table: Field, version: int, flexible: bool) -> Packer | None:
    """Encodes an element of numbers and arrays of numbers; None if that is not all it has, or if there is one only."""
    key = (id(table), version, flexible)  # tables live as long as the process, and cannot be hashed
    if key not in _PACKERS:
        _PACKERS[key] = _row_packer(table, version, flexible)
    return _PACKERS[key]


_PACKERS: dict[tuple[int, int, bool], Packer | None] = {}


def _row_packer(table: Field, version: int, flexible: bool) -> Packer | None:
    fields = table.untagged_fields(version)
    if len(fields) < 2 or not all(_is_of_numbers(field, version) for field in fields):
        return None
    if any(field.tagged_field_q(version) for field in table._fields if field.for_version_q(version)):
        return None
    get: Callable[[Any], tuple[Any, ...]] = attrgetter(*(field.name for field in fields))
    end = "x" if flexible else ""  # no tags
    arrays_at = [at for at, field in enumerate(fields) if field.is_array()]
    if not arrays_at:
        layout = Struct(">" + "".join(FIXED_FORMATS[field.type_str] for field in fields) + end)
        return lambda item: layout.pack(*get(item))
    layouts: dict[tuple[int, ...], tuple[Struct, list[bytes]]] = {}

    def pack(item: Any) -> bytes:
        values = get(item)
        counts = tuple([len(values[at]) for at in arrays_at])
        known = layouts.get(counts)
        if known is None:
            known = layouts[counts] = _row_layout(fields, counts, flexible, end)
        layout, lengths = known
        flat: list[Any] = []
        done = 0
        for at, size in zip(arrays_at, lengths, strict=True):
            flat += values[done:at]
            flat.append(size)
            flat += values[at]
            done = at + 1
        flat += values[done:]
        return layout.pack(*flat)

    return pack


def _is_of_numbers(field: Field, version: int) -> bool:
    if field.is_struct() or field.is_struct_array():
        return False
    if field.is_array():
        return field.array_of.type_str in FIXED_FORMATS and not field.nullable_for_version_q(version)
    return field.type_str in FIXED_FORMATS


def _row_layout(
    fields: Sequence[Field], counts: Sequence[int], flexible: bool, end: str
) -> tuple[Struct, list[bytes]]:
    """For arrays of so many numbers, with how their lengths are written."""
    lengths = [length(count, flexible) for count in counts]
    arrays = iter(zip(counts, lengths, strict=True))
    formats = []
    for field in fields:
        if field.is_array():
            count, size = next(arrays)
            formats.append(f"{len(size)}s{count}{FIXED_FORMATS[field.array_of.type_str]}")
        else:
            formats.append(FIXED_FORMATS[field.type_str])
    return Struct(">" + "".join(formats) + end), lengths

"""Encodes large messages in steps, to the same bytes as ``schema_writer``.

``schema_writer`` encodes a message without a pause, at a microsecond or more per element; this module pauses after
every few elements of an array of structs. Elements that contain only numbers and arrays of numbers, such as most
partitions, are packed by one ``struct``, in a quarter of the time (``row_packer``).
"""

from collections.abc import Callable, Generator, Sequence
from functools import cache
from operator import attrgetter
from struct import Struct
from typing import Any

from kafka_zk.protocol.field_table import Field, Table
from kafka_zk.protocol.primitives import length
from kafka_zk.protocol.schema_writer import field_writer, struct_writer, tagged_fields_writer
from kafka_zk.protocol.struct_formats import FIXED_FORMATS

_ELEMENTS_AT_ONCE = 64
_BYTES_AT_ONCE = 8 * 1024
"""Bytes written between two pauses. (Elements may contain arrays.)"""

_LARGE = 500
"""An element with fewer nested elements is encoded without a pause: 500 nested elements take about a millisecond."""

_LARGE_MESSAGE = 16
"""Messages with more elements are encoded in steps, because an element may take 32 KB."""

_WORTH_PACKING = 16
"""An element with at least this many rows is packed in steps, too."""

Steps = Generator[int, None, None]
"""Yields the bytes written since the last step."""

Arrays = tuple[tuple[str, Any], ...]
"""For each array of structs in a struct: its field name, and the same for the structs that it contains."""


Packer = Callable[[Any], bytes]
"""Encodes an element of any class that has the fields as attributes."""


def arrays_of(table: Table, version: int) -> Arrays:
    return tuple(
        (field.name, arrays_of(field.struct, version))
        for field in table.untagged(version)
        if field.is_array and field.struct is not None
    )


def is_large(arrays: Arrays, item: Any, most: int = _LARGE_MESSAGE) -> bool:
    return _room_left(arrays, item, most) < 0


def _room_left(arrays: Arrays, item: Any, room: int) -> int:
    """``room`` minus the number of elements in ``item``; a negative result is not exact."""
    for name, inner in arrays:
        elements = getattr(item, name) or ()
        room -= len(elements)
        if inner:
            for element in elements:
                if room < 0:
                    return room
                room = _room_left(inner, element, room)
    return room


def write_in_steps(table: Table, item: Any, version: int, flexible: bool, out: bytearray) -> Steps:
    """``item`` must not change before the last step."""
    for field in table.untagged(version):
        value = getattr(item, field.name)
        if value and field.is_array and field.struct is not None and len(field.struct.untagged(version)) > 1:
            yield from _write_array(field.struct, value, version, flexible, out)
        else:
            field_writer(field, version, flexible)(value, out)
    if flexible:
        tagged_fields_writer(table, version)(item, out)


def write_around(
    table: Table, item: Any, version: int, flexible: bool, array: tuple[str, int], before: bytearray, after: bytearray
) -> None:
    """Append the bytes before and after an array's elements to ``before`` and ``after``. ``array``: the field, which is
    empty in ``item``, and its number of elements.
    """
    name, count = array
    out = before
    for field in table.untagged(version):
        if field.name == name:
            out += length(count, flexible)
            out = after
        else:
            field_writer(field, version, flexible)(getattr(item, field.name), out)
    if flexible:
        tagged_fields_writer(table, version)(item, out)


def _write_array(table: Table, items: list[Any], version: int, flexible: bool, out: bytearray) -> Steps:
    out += length(len(items), flexible)
    pack = row_packer(table, version, flexible)
    if pack is not None:
        yield from _write_rows(pack, items, out)
        return
    write = struct_writer(table, version, flexible)
    arrays = arrays_of(table, version)
    told = len(out)
    for number, item in enumerate(items, 1):
        if arrays and (is_large(arrays, item, _LARGE) or len(getattr(item, arrays[0][0]) or ()) >= _WORTH_PACKING):
            yield from write_in_steps(table, item, version, flexible, out)
            told = len(out)
        else:
            write(item, out)
        if number % _ELEMENTS_AT_ONCE == 0 or len(out) - told >= _BYTES_AT_ONCE:
            yield len(out) - told
            told = len(out)


def _write_rows(pack: Packer, items: list[Any], out: bytearray) -> Steps:
    rows: list[bytes] = []
    size_bytes = 0
    for item in items:
        row = pack(item)
        rows.append(row)
        size_bytes += len(row)
        if len(rows) == _ELEMENTS_AT_ONCE or size_bytes >= _BYTES_AT_ONCE:
            out += b"".join(rows)
            yield size_bytes
            rows.clear()
            size_bytes = 0
    out += b"".join(rows)


# -- rows -------------------------------------------------------------------------------------------------------------


@cache
def row_packer(table: Table, version: int, flexible: bool) -> Packer | None:
    """A packer for elements of numbers and arrays of numbers; None if there are other fields, or only one field."""
    fields = table.untagged(version)
    if len(fields) < 2 or table.tagged(version) or not all(_is_of_numbers(field, version) for field in fields):
        return None
    get: Callable[[Any], tuple[Any, ...]] = attrgetter(*(field.name for field in fields))
    end = "x" if flexible else ""  # no tagged fields
    arrays_at = [at for at, field in enumerate(fields) if field.is_array]
    if not arrays_at:
        layout = Struct(">" + "".join(FIXED_FORMATS[field.type_name] for field in fields) + end)
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
    return field.is_fixed or (field.has_fixed_elements and not field.nullable_versions.include(version))


def _row_layout(fields: Sequence[Field], counts: Sequence[int], flexible: bool, end: str) -> tuple[Struct, list[bytes]]:
    lengths = [length(count, flexible) for count in counts]
    arrays = iter(zip(counts, lengths, strict=True))
    formats = []
    for field in fields:
        if field.is_array:
            count, size = next(arrays)
            formats.append(f"{len(size)}s{count}{FIXED_FORMATS[field.type_name]}")
        else:
            formats.append(FIXED_FORMATS[field.type_name])
    return Struct(">" + "".join(formats) + end), lengths

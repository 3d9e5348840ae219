"""Encodes messages by their field tables; the counterpart of ``schema_reader``.

Once per version, a table is compiled to nested functions ``write(value, out)``, which append to ``out``. Adjacent
fixed-size fields are packed by one ``struct``. An invalid value raises a Python exception, because it is a bug.
"""

import uuid
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from operator import attrgetter
from struct import Struct, pack
from typing import Any

from kafka_zk.protocol.field_table import Field, Table
from kafka_zk.protocol.primitives import length, string, unsigned_varint
from kafka_zk.protocol.struct_formats import FIXED_FORMATS

Writer = Callable[[Any, bytearray], None]
Step = tuple[Callable[[Any], Any], Writer]
"""Gets a value from a struct, and writes it."""

_NO_TAGS = b"\0"
_NO_UUID = bytes(16)
_NULL_STRUCT, _STRUCT = b"\xff", b"\x01"
"""The byte before a nullable struct (KIP-893)."""


@cache
def struct_writer(table: Table, version: int, flexible: bool) -> Writer:
    """Appends a struct, or a message's body."""
    steps = tuple(_steps(table.untagged(version), version, flexible))
    write_tags = tagged_fields_writer(table, version) if flexible else None

    def write(item: Any, out: bytearray) -> None:
        for get, write_value in steps:
            write_value(get(item), out)
        if write_tags is not None:
            write_tags(item, out)

    return write


@cache
def field_writer(field: Field, version: int, flexible: bool) -> Writer:
    """Appends one field's value."""
    nullable = field.nullable_versions.include(version)
    if field.is_array:
        return _array_writer(field, nullable, version, flexible)
    if field.struct is not None:
        write_struct = struct_writer(field.struct, version, flexible)
        return _nullable_struct_writer(write_struct) if nullable else write_struct
    return _simple_writer(field, nullable, flexible)


@cache
def tagged_fields_writer(table: Table, version: int) -> Writer:
    """Appends a struct's tagged fields that differ from their defaults."""
    fields = [(field, field_writer(field, version, True)) for field in table.tagged(version)]
    if not fields:
        return _write_no_tags

    def write(item: Any, out: bytearray) -> None:
        chosen = [
            (field, write_value, value)
            for field, write_value in fields
            if not _is_default(value := getattr(item, field.name), field)
        ]
        out += unsigned_varint(len(chosen))
        for field, write_value, value in chosen:
            assert field.tag is not None
            written = bytearray()
            write_value(value, written)
            out += unsigned_varint(field.tag) + unsigned_varint(len(written)) + written

    return write


def _is_default(value: Any, field: Field) -> bool:
    if field.is_array and value is not None and field.default is not None:
        return not value
    return bool(value == field.default)


def _write_no_tags(_item: Any, out: bytearray) -> None:
    out += _NO_TAGS


def _steps(fields: Sequence[Field], version: int, flexible: bool) -> Iterator[Step]:
    run: list[Field] = []
    for field in fields:
        if field.is_fixed:
            run.append(field)
            continue
        if run:
            yield _run_step(run)
            run = []
        yield attrgetter(field.name), field_writer(field, version, flexible)
    if run:
        yield _run_step(run)


def _run_step(fields: Sequence[Field]) -> Step:
    layout = Struct(">" + "".join(FIXED_FORMATS[field.type_name] for field in fields))
    return attrgetter(*(field.name for field in fields)), _fixed_writer(layout, one=len(fields) == 1)


def _fixed_writer(layout: Struct, *, one: bool) -> Writer:
    def write_one(value: Any, out: bytearray) -> None:
        out += layout.pack(value)

    def write_all(values: Any, out: bytearray) -> None:
        out += layout.pack(*values)

    return write_one if one else write_all


def _array_writer(field: Field, nullable: bool, version: int, flexible: bool) -> Writer:
    write_elements = _elements_writer(field, version, flexible)

    def write(elements: Any, out: bytearray) -> None:
        if elements is None and nullable:
            out += length(-1, flexible)
        else:
            out += length(len(elements), flexible)
            write_elements(elements, out)

    return write


def _elements_writer(field: Field, version: int, flexible: bool) -> Writer:
    if field.has_fixed_elements:
        format_ = FIXED_FORMATS[field.type_name]

        def write_numbers(elements: Any, out: bytearray) -> None:
            out += pack(f">{len(elements)}{format_}", *elements)

        return write_numbers
    write_element = (
        _simple_writer(field, False, flexible)
        if field.struct is None
        else struct_writer(field.struct, version, flexible)
    )

    def write(elements: Any, out: bytearray) -> None:
        for element in elements:
            write_element(element, out)

    return write


def _nullable_struct_writer(write_struct: Writer) -> Writer:
    def write(item: Any, out: bytearray) -> None:
        if item is None:
            out += _NULL_STRUCT
        else:
            out += _STRUCT
            write_struct(item, out)

    return write


def _simple_writer(field: Field, nullable: bool, flexible: bool) -> Writer:
    if field.type_name in FIXED_FORMATS:
        return _fixed_writer(Struct(">" + FIXED_FORMATS[field.type_name]), one=True)
    if field.type_name == "uuid":
        return _write_uuid
    make: Callable[[Any, bool], bytes] = string if field.type_name == "string" else _bytes

    def write(value: Any, out: bytearray) -> None:
        if value is None and not nullable:
            raise ValueError(f"null in {field.name}")
        out += make(value, flexible)

    return write


def _bytes(value: bytes | None, flexible: bool) -> bytes:
    return length(-1, flexible) if value is None else length(len(value), flexible) + value


def _write_uuid(value: uuid.UUID | None, out: bytearray) -> None:
    out += _NO_UUID if value is None else value.bytes

"""Decodes untrusted messages by their field tables.

The readers reject what Kafka rejects: a varint of more than five bytes, a length or count that exceeds the frame, an
invalid null. Time and memory are linear in the frame's size. The caller limits the number of elements in all arrays,
which are counted before they are created.

Once per version, a table is compiled to nested functions ``read(buffer, position, allowance) -> (value, position)``, or
to generators that do the same in steps, for large messages.
"""

import struct
import sys
import uuid
from collections.abc import Callable, Generator, Sequence
from typing import Any

from kafka_zk.protocol.errors import ProtocolError
from kafka_zk.protocol.field_table import Field, Table
from kafka_zk.protocol.memory import OBJECT_BYTES, VALUE_BYTES
from kafka_zk.protocol.primitives import (
    Buffer,
    read_length,
    read_name,
    read_string,
    tagged_field_spans,
)
from kafka_zk.protocol.struct_formats import FIXED_FORMATS


class Allowance:
    """The elements that the rest of a message may have. ``small_bytes``: memory of small arrays of numbers that has not
    been reported yet.
    """

    __slots__ = ("count", "small_bytes")

    def __init__(self, count: int) -> None:
        self.count = count
        self.small_bytes = 0

    def take(self, count: int) -> None:
        """Raises ProtocolError above the limit."""
        self.count -= count
        if self.count < 0:
            raise ProtocolError(f"{-self.count} elements more than allowed for this message")

    def take_small_bytes(self) -> int:
        told, self.small_bytes = self.small_bytes, 0
        return told


class _ManyNumbers(Exception):
    """An array has more numbers than are read in one step."""


Reader = Callable[[Buffer, int, Allowance], tuple[Any, int]]
Steps = Generator[int, None, tuple[Any, int]]
"""Yields how many bytes of memory the next elements need, or 0."""

StepReader = Callable[[Buffer, int, Allowance], Steps]
Step = tuple[tuple[str, ...], "struct.Struct | None", Reader | None]

_ELEMENTS_AT_ONCE = 64
_NUMBERS_AT_ONCE = 128
"""Limit for an array within an element. A partition has few replicas, which are read faster in one step than by a
generator."""

_NUMBERS_OF_MOST = 8
"""Arrays with fewer numbers are read with a prepared ``struct``."""

_NO_UUID = bytes(16)


def struct_reader(table: Table, version: int, flexible: bool, most_numbers: int = sys.maxsize) -> Reader:
    """Reads a struct, or a message's body, into a new instance of the table's class.

    It raises ProtocolError, or one of ``primitives.MALFORMED`` for a truncated body. ``most_numbers``: limit per array
    of numbers; a longer array raises _ManyNumbers.
    """
    message_class = table.message_class
    steps = _steps(table.untagged(version), version, flexible, most_numbers)
    tagged = _tagged_readers(table, version, flexible)

    def read(buffer: Buffer, position: int, allowance: Allowance) -> tuple[Any, int]:
        value = object.__new__(message_class)
        for names, fixed, read_one in steps:
            if fixed is not None:
                for name, number in zip(names, fixed.unpack_from(buffer, position), strict=True):
                    setattr(value, name, number)
                position += fixed.size
            elif read_one is not None:
                item, position = read_one(buffer, position, allowance)
                setattr(value, names[0], item)
        if not flexible:
            return value, position
        if buffer[position] == 0:
            return value, position + 1
        return value, _read_tagged(value, tagged, buffer, position, allowance)

    return read


def struct_step_reader(table: Table, version: int, flexible: bool) -> StepReader:
    """Pauses after every few elements of the struct's arrays."""
    message_class = table.message_class
    fields = [
        (field.name, (_array_step_reader if field.is_array else _field_reader)(field, version, flexible))
        for field in table.untagged(version)
    ]
    tagged = _tagged_readers(table, version, flexible)

    def read(buffer: Buffer, position: int, allowance: Allowance) -> Steps:
        value = object.__new__(message_class)
        for name, read_field in fields:
            result = read_field(buffer, position, allowance)
            item, position = result if isinstance(result, tuple) else (yield from result)
            setattr(value, name, item)
        if flexible:
            position = _read_tagged(value, tagged, buffer, position, allowance)
        return value, position

    return read


def _array_step_reader(field: Field, version: int, flexible: bool) -> StepReader:
    name, nullable = field.name, field.nullable_versions.include(version)
    element: Reader | StepReader
    if field.struct is None:
        element, element_bytes = _simple_reader(field, False, flexible), VALUE_BYTES
    elif any(inner.is_array for inner in field.struct.untagged(version)):
        element = struct_step_reader(field.struct, version, flexible)
        if _has_only_arrays_of_numbers(field.struct, version):
            at_once = struct_reader(field.struct, version, flexible, _NUMBERS_AT_ONCE)
            element = _at_once_or_in_steps(at_once, element)
        element_bytes = OBJECT_BYTES
    else:
        element, element_bytes = struct_reader(field.struct, version, flexible), OBJECT_BYTES

    def read(buffer: Buffer, position: int, allowance: Allowance) -> Steps:
        count, position = _read_array_length(name, nullable, flexible, buffer, position, allowance)
        if count < 0:
            return None, position
        yield count * element_bytes
        items = []
        for number in range(count):
            result = element(buffer, position, allowance)
            item, position = result if isinstance(result, tuple) else (yield from result)
            items.append(item)
            if number % _ELEMENTS_AT_ONCE == 0:
                yield allowance.take_small_bytes()
        if allowance.small_bytes:
            yield allowance.take_small_bytes()
        return items, position

    return read


def _has_only_arrays_of_numbers(table: Table, version: int) -> bool:
    fields = table.untagged(version)
    return all(field.struct is None and (not field.is_array or field.has_fixed_elements) for field in fields)


def _at_once_or_in_steps(at_once: Reader, in_steps: StepReader) -> Callable[[Buffer, int, Allowance], Any]:
    """The reader returns its result, or the steps to it if an array is long."""

    def read(buffer: Buffer, position: int, allowance: Allowance) -> tuple[Any, int] | Steps:
        count, small_bytes = allowance.count, allowance.small_bytes
        try:
            return at_once(buffer, position, allowance)
        except _ManyNumbers:
            allowance.count, allowance.small_bytes = count, small_bytes
            return in_steps(buffer, position, allowance)

    return read


def _tagged_readers(table: Table, version: int, flexible: bool) -> dict[int, tuple[str, Reader]]:
    return {
        field.tag: (field.name, _field_reader(field, version, flexible))
        for field in table.tagged(version)
        if field.tag is not None
    }


def _steps(fields: Sequence[Field], version: int, flexible: bool, most_numbers: int) -> list[Step]:
    """Adjacent fixed-size fields are read by one ``struct``, every other field by its own function."""
    steps: list[Step] = []
    run: list[Field] = []

    def end_run() -> None:
        if run:
            layout = struct.Struct(">" + "".join(FIXED_FORMATS[field.type_name] for field in run))
            steps.append((tuple(field.name for field in run), layout, None))
            run.clear()

    for field in fields:
        if field.is_fixed:
            run.append(field)
        else:
            end_run()
            steps.append(((field.name,), None, _field_reader(field, version, flexible, most_numbers)))
    end_run()
    return steps


def _field_reader(field: Field, version: int, flexible: bool, most_numbers: int = sys.maxsize) -> Reader:
    nullable = field.nullable_versions.include(version)
    if field.has_fixed_elements:
        return _numbers_reader(field.name, FIXED_FORMATS[field.type_name], nullable, flexible, most_numbers)
    reader = (
        _simple_reader(field, nullable and not field.is_array, flexible)
        if field.struct is None
        else struct_reader(field.struct, version, flexible)
    )
    if field.is_array:
        return _array_reader(field.name, reader, nullable, flexible)
    return _nullable_struct_reader(reader) if field.struct is not None and nullable else reader


def _array_reader(name: str, element: Reader, nullable: bool, flexible: bool) -> Reader:
    def read(buffer: Buffer, position: int, allowance: Allowance) -> tuple[list[Any] | None, int]:
        count, position = _read_array_length(name, nullable, flexible, buffer, position, allowance)
        if count < 0:
            return None, position
        items = []
        for _ in range(count):
            item, position = element(buffer, position, allowance)
            items.append(item)
        return items, position

    return read


def _numbers_reader(name: str, format_: str, nullable: bool, flexible: bool, most: int) -> Reader:
    """One ``struct`` reads all numbers of an array."""
    few = [struct.Struct(f">{count}{format_}") for count in range(_NUMBERS_OF_MOST)]

    def read(buffer: Buffer, position: int, allowance: Allowance) -> tuple[list[Any] | None, int]:
        if flexible and 0 < buffer[position] <= _NUMBERS_OF_MOST:  # like ``read_length``, but faster
            count = buffer[position] - 1
            position += 1
            allowance.take(count)
        else:
            count, position = _read_array_length(name, nullable, flexible, buffer, position, allowance)
            if count < 0:
                return None, position
            if count > most:
                raise _ManyNumbers
        allowance.small_bytes += count * VALUE_BYTES
        layout = few[count] if count < _NUMBERS_OF_MOST else struct.Struct(f">{count}{format_}")
        return list(layout.unpack_from(buffer, position)), position + layout.size

    return read


def _read_array_length(
    name: str, nullable: bool, flexible: bool, buffer: Buffer, position: int, allowance: Allowance
) -> tuple[int, int]:
    """Rejects counts above the number of remaining bytes, because each element takes at least one."""
    count, position = read_length(buffer, position, flexible)
    if count > 0:
        allowance.take(count)
    elif count < 0 and not nullable:
        raise ProtocolError(f"null in {name}")
    return count, position


def _nullable_struct_reader(reader: Reader) -> Reader:
    """One byte precedes the struct: negative for null (KIP-893)."""

    def read(buffer: Buffer, position: int, allowance: Allowance) -> tuple[Any, int]:
        if buffer[position] > 127:
            return None, position + 1
        return reader(buffer, position + 1, allowance)

    return read


def _simple_reader(field: Field, nullable: bool, flexible: bool) -> Reader:
    type_name = field.type_name
    if type_name in FIXED_FORMATS:
        return _fixed_reader(struct.Struct(">" + FIXED_FORMATS[type_name]))
    if type_name == "string":
        if nullable:
            return lambda buffer, position, _: read_string(buffer, position, flexible)
        return lambda buffer, position, _: read_name(buffer, position, flexible)
    if type_name in ("bytes", "records"):
        return _bytes_reader(field.name, nullable, flexible)
    assert type_name == "uuid", type_name
    return _read_uuid


def _fixed_reader(layout: struct.Struct) -> Reader:
    def read(buffer: Buffer, position: int, _allowance: Allowance) -> tuple[Any, int]:
        return layout.unpack_from(buffer, position)[0], position + layout.size

    return read


def _bytes_reader(name: str, nullable: bool, flexible: bool) -> Reader:
    def read(buffer: Buffer, position: int, _allowance: Allowance) -> tuple[bytes | None, int]:
        size_bytes, position = read_length(buffer, position, flexible)
        if size_bytes < 0:
            if not nullable:
                raise ProtocolError(f"null in {name}")
            return None, position
        end = position + size_bytes
        return bytes(buffer[position:end]), end

    return read


def _read_uuid(buffer: Buffer, position: int, _allowance: Allowance) -> tuple[uuid.UUID | None, int]:
    end = position + 16
    data = bytes(buffer[position:end])
    if len(data) < 16:
        raise ProtocolError("a truncated uuid")
    return (None if data == _NO_UUID else uuid.UUID(bytes=data)), end


def _read_tagged(
    value: Any, tagged: dict[int, tuple[str, Reader]], buffer: Buffer, position: int, allowance: Allowance
) -> int:
    """Unknown fields are skipped."""
    spans = tagged_field_spans(buffer, position)
    allowance.take(len(spans) - 1)
    for tag, start, end in spans:
        position = end
        if tag in tagged:
            name, reader = tagged[tag]
            item, _ = reader(buffer[:end], start, allowance)
            setattr(value, name, item)
    return position

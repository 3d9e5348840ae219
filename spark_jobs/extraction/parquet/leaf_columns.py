"""Maps the fields of an Arrow schema to the columns of a Parquet file. Pure.

Source: pyarrow's names of list elements and map entries, which are those of Parquet's LogicalTypes.md.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa

FIELD_ID = b"PARQUET:field_id"
"""The key of a Parquet field's id in the metadata of its Arrow field."""


class Column(NamedTuple):
    """``path``: the path, with dots, of a Parquet column if ``is_leaf``, else of a field that contains others."""

    path: str
    field: pa.Field

    @property
    def is_leaf(self) -> bool:
        return not _inner(self.field.type)


def columns(schema: Iterable[pa.Field]) -> Iterator[Column]:
    """All fields in the order of a Parquet file, each before those inside it."""
    for each in schema:
        yield from _columns(each.name, each)


def leaf_columns(schema: Iterable[pa.Field]) -> Iterator[Column]:
    return (each for each in columns(schema) if each.is_leaf)


def _columns(path: str, field: pa.Field) -> Iterator[Column]:
    yield Column(path, field)
    for name, each in _inner(field.type):
        yield from _columns(f"{path}.{name}", each)


def _inner(kind: pa.DataType) -> list[tuple[str, pa.Field]]:
    """The fields inside a field of this type, with their paths."""
    if pa.types.is_struct(kind):
        return [(each.name, each) for each in kind]
    if pa.types.is_map(kind):
        return [("key_value.key", kind.key_field), ("key_value.value", kind.item_field)]
    return [("list.element", kind.value_field)] if pa.types.is_list(kind) else []

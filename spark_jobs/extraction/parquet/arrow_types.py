"""The Arrow types whose Parquet columns equal those that Spark writes for its own types. Pure."""

from typing import Any

import pyarrow as pa

_PLAIN = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
"""Arrow types by Spark's ``typeName``."""


def arrow_type(kind: Any) -> pa.DataType | None:
    """None for a type that this module does not know. ``kind``: a ``DataType`` of Spark."""
    name = kind.typeName()
    if name == "decimal":
        return pa.decimal128(kind.precision, kind.scale)
    if name == "array":
        item = arrow_type(kind.elementType)
        return item and pa.list_(pa.field("element", item))
    if name == "map":
        key, value = arrow_type(kind.keyType), arrow_type(kind.valueType)
        return key and value and pa.map_(key, value)
    if name == "struct":
        fields = [(each.name, arrow_type(each.dataType)) for each in kind]
        return pa.struct(fields) if fields and all(each for _, each in fields) else None
    return _PLAIN.get(name)


def arrow_schema(columns: Any) -> pa.Schema | None:
    """The schema of a ``StructType``; every column may be null. None if a type is unknown."""
    kinds = {each.name: arrow_type(each.dataType) for each in columns}
    return None if None in kinds.values() else pa.schema(list(kinds.items()))

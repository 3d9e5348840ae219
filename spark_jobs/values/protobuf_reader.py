"""Reads Protobuf messages into the fields of the first message in a reader's schema, by Protobuf's rules of evolution.

Unknown fields are ignored. Unwritten fields have their default (null, if Protobuf can tell that a field is not set).
Schemas are .proto texts, or file descriptors in Base64, as Confluent's Python client registers them.
"""

import base64
import binascii
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any

from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

from kafka_zk.spark_jobs.errors import WronglyAsked
from kafka_zk.spark_jobs.values.framing import ValueUndecodable, read_message_path
from kafka_zk.spark_jobs.values.protobuf_imports import CONFLUENT, built_in, folders
from kafka_zk.spark_jobs.values.schema_registry import Schema

_OWN_NAME = "schema.proto"
_TIMESTAMP = "google.protobuf.Timestamp"
_WRAPPERS = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_VALUES_MIN, _VALUES_PER_BYTE, _VALUES_PER_ROW = 100_000, 4, 8
"""A message's rows may have this many values, or this many per byte, if that is more. A row counts as this many values
in addition to its fields."""
_FIELDS_MAX = 10_000


class ProtobufReader:
    """Raises WronglyAsked if the reader's schema is invalid, or has no message or no Spark columns."""

    def __init__(self, schema: Schema) -> None:
        try:
            found = _file(schema).message_types_by_name
        except (TypeError, ValueError, KeyError, OSError) as error:
            raise WronglyAsked(f"invalid Protobuf schema: {error}") from error
        if not found:
            raise WronglyAsked("the Protobuf schema has no message")
        self._message = next(iter(found.values()))
        if not _fields(self._message):
            raise WronglyAsked(f"the Protobuf message {self._message.full_name} has no fields, so it has no columns")
        self._class = message_factory.GetMessageClass(self._message)
        self.columns = _struct(self._message, (), iter(range(_FIELDS_MAX)))

    def prepared(self, writer: Schema) -> Any:
        """Raises ValueUndecodable."""
        try:
            return _file(writer)
        except (TypeError, ValueError, KeyError, OSError) as error:
            raise ValueUndecodable(f"its schema is not a valid Protobuf schema: {error}") from error

    def read(self, writer: Any, payload: bytes) -> Any:
        """Raises ValueUndecodable."""
        path, body = read_message_path(payload)
        name = _named(writer, path)
        if name != self._message.full_name:
            raise ValueUndecodable(f"it is a message {name}, not {self._message.full_name}")
        message = self._class()
        try:
            message.ParseFromString(body)
            return _Rows(len(body)).row(message)
        except (DecodeError, OverflowError) as error:
            raise ValueUndecodable(f"not a Protobuf message {name}: {error}") from error


def _named(file: Any, path: tuple[int, ...]) -> str:
    scope = list(file.message_types_by_name.values())
    found = None
    for step in path:
        if not 0 <= step < len(scope):
            raise ValueUndecodable(f"its schema has no message with the indexes {list(path)}")
        found = scope[step]
        scope = list(found.nested_types)
    assert found is not None, "a path has at least one step"
    return str(found.full_name)


# --- schemas ---------------------------------------------------------------------------------------------------------


def _file(schema: Schema) -> Any:
    """The schema's file, in a separate pool, because versions of a schema contain messages of the same names."""
    pool = descriptor_pool.DescriptorPool()
    for each in _in_order(schema):
        pool.Add(each)
    return pool.FindFileByName(_OWN_NAME)


def _in_order(schema: Schema) -> Iterator[FileDescriptorProto]:
    """Yield each file after its imports."""
    own = _descriptor(_OWN_NAME, schema)
    referenced = schema.referenced()
    done: set[str] = set()

    def visit(file: FileDescriptorProto) -> Iterator[FileDescriptorProto]:
        done.add(file.name)
        for name in file.dependency:
            if name in done:
                continue
            if name in referenced:
                yield from visit(_descriptor(name, referenced[name]))
            elif name in CONFLUENT:
                yield from visit(_descriptor(name, Schema(schema.kind, CONFLUENT[name])))
            elif (known := built_in(name)) is not None:
                yield from visit(known)
            else:
                raise KeyError(f"it imports {name}, which is not among its references")
        yield file

    return visit(own)


def _descriptor(name: str, schema: Schema) -> FileDescriptorProto:
    try:
        file = FileDescriptorProto.FromString(base64.b64decode(schema.text, validate=True))
    except (binascii.Error, ValueError, DecodeError):
        file = _compiled(name, schema)
    file.name = name
    return file


def _compiled(name: str, schema: Schema) -> FileDescriptorProto:
    """Use protoc of the wheel grpcio-tools."""
    from grpc_tools import protoc

    with tempfile.TemporaryDirectory(prefix="kafka-zk-proto-") as folder:
        for path, text in ((name, schema.text), *_imported(schema)):
            pure = PurePosixPath(path)
            if pure.is_absolute() or ".." in pure.parts:
                raise ValueError(f"{path} is not a valid name for a file of the schema")
            file = Path(folder) / pure
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        out = Path(folder) / "descriptors"
        places = [f"-I{place}" for place in (folder, *folders())]
        if protoc.main(["protoc", *places, f"--descriptor_set_out={out}", name]):
            raise ValueError("protoc cannot compile it")
        return FileDescriptorSet.FromString(out.read_bytes()).file[0]


def _imported(schema: Schema) -> Iterator[tuple[str, str]]:
    yield from CONFLUENT.items()
    for path, each in schema.referenced().items():
        yield path, each.text


# --- rows ------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=1000)
def _fields(message: Any) -> tuple[Any, ...]:
    """The fields that have a column: all except for messages without fields, as in Spark's ``from_protobuf``."""
    known: dict[str, bool] = {}
    return tuple(field for field in message.fields if _has_column(field, known))


def _has_column(field: Any, known: dict[str, bool]) -> bool:
    """``known``: which messages have columns."""
    message = field.message_type
    if message is None:
        return True
    if _is_map(field):
        return _has_column(message.fields_by_name["value"], known)
    if message.full_name not in known:
        known[message.full_name] = True  # one that contains itself is refused later
        known[message.full_name] = any(_has_column(each, known) for each in message.fields)
    return known[message.full_name]


def _struct(message: Any, within: tuple[str, ...], left: Iterator[int]) -> Any:
    """``left`` has an item for each field that may still be visited."""
    from pyspark.sql.types import StructField, StructType

    if message.full_name in within:
        raise WronglyAsked(f"the Protobuf message {message.full_name} contains itself, so it has no Spark type")
    inside = (*within, message.full_name)
    return StructType([StructField(field.name, _field_type(field, inside, left)) for field in _fields(message)])


def _field_type(field: Any, within: tuple[str, ...], left: Iterator[int]) -> Any:
    from pyspark.sql.types import ArrayType, MapType

    if _is_map(field):
        key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
        return MapType(_single_type(key, within, left), _single_type(value, within, left))
    kind = _single_type(field, within, left)
    return ArrayType(kind) if field.is_repeated else kind


def _single_type(field: Any, within: tuple[str, ...], left: Iterator[int]) -> Any:
    from pyspark.sql import types

    if next(left, None) is None:
        raise WronglyAsked(f"the Protobuf schema has more than {_FIELDS_MAX:,} fields")
    if field.message_type is not None:
        if field.message_type.full_name == _TIMESTAMP:
            return types.TimestampType()
        if field.message_type.full_name in _WRAPPERS:
            return _single_type(field.message_type.fields_by_name["value"], within, left)
        return _struct(field.message_type, within, left)
    if field.type == field.TYPE_BYTES:
        return types.BinaryType()
    return {
        field.CPPTYPE_INT32: types.IntegerType(),
        field.CPPTYPE_INT64: types.LongType(),
        field.CPPTYPE_UINT32: types.LongType(),
        field.CPPTYPE_UINT64: types.DecimalType(20, 0),
        field.CPPTYPE_DOUBLE: types.DoubleType(),
        field.CPPTYPE_FLOAT: types.FloatType(),
        field.CPPTYPE_BOOL: types.BooleanType(),
        field.CPPTYPE_ENUM: types.StringType(),
        field.CPPTYPE_STRING: types.StringType(),
    }[field.cpp_type]


def _is_map(field: Any) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


class _Rows:
    """Converts one message. Raises ValueUndecodable if it would become too large: an empty message needs two bytes."""

    def __init__(self, body_bytes: int) -> None:
        self._left = max(_VALUES_MIN, _VALUES_PER_BYTE * body_bytes)

    def row(self, message: Any) -> dict[str, Any]:
        fields = _fields(message.DESCRIPTOR)
        self._left -= _VALUES_PER_ROW + len(fields)
        if self._left < 0:
            raise ValueUndecodable(f"its messages would become more than {_VALUES_PER_BYTE} values for each byte")
        row: dict[str, Any] = {}
        for field in fields:
            value = getattr(message, field.name)
            if _is_map(field):
                key, inner = (field.message_type.fields_by_name[name] for name in ("key", "value"))
                row[field.name] = {self._value(key, name): self._value(inner, value[name]) for name in value}
            elif field.is_repeated:
                row[field.name] = [self._value(field, each) for each in value]
            elif field.has_presence and not message.HasField(field.name):
                row[field.name] = None
            else:
                row[field.name] = self._value(field, value)
        return row

    def _value(self, field: Any, value: Any) -> Any:
        if field.message_type is not None:
            if field.message_type.full_name == _TIMESTAMP:
                return _EPOCH + timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
            if field.message_type.full_name in _WRAPPERS:
                return self._value(field.message_type.fields_by_name["value"], value.value)
            return self.row(value)
        if field.enum_type is not None:
            known = field.enum_type.values_by_number.get(value)
            return known.name if known is not None else str(value)
        if field.type == field.TYPE_STRING and isinstance(value, bytes):  # proto2 does not check text
            raise ValueUndecodable(f"not a Protobuf message: {field.full_name} is not UTF-8")
        return Decimal(value) if field.cpp_type == field.CPPTYPE_UINT64 else value

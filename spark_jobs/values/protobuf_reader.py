"""Reads Protobuf messages into the fields of a reader's schema, whose first message is used. Protobuf's rules handle
evolution.

Unknown fields are ignored. Unwritten fields have their default (null, if Protobuf can tell that a field is not set).
Schemas are .proto texts, or file descriptors in Base64, as Confluent's Python client registers them.
"""

import base64
import binascii
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Any

from google.protobuf import (  # noqa: F401 - registers them in the default pool, for schemas that import them
    any_pb2,
    descriptor_pool,
    duration_pb2,
    empty_pb2,
    message_factory,
    struct_pb2,
    timestamp_pb2,
    wrappers_pb2,
)
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

from kafka_zk.spark_jobs.errors import WronglyAsked
from kafka_zk.spark_jobs.values.framing import ValueUndecodable, read_message_path
from kafka_zk.spark_jobs.values.schema_registry import Schema

_OWN_NAME = "schema.proto"
_WELL_KNOWN = "google/protobuf/"
_TIMESTAMP = "google.protobuf.Timestamp"
_WRAPPERS = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


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
        self._class = message_factory.GetMessageClass(self._message)
        self.columns = _struct(self._message, ())

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
            return _as_row(message)
        except (DecodeError, OverflowError) as error:
            raise ValueUndecodable(f"no Protobuf message {name}: {error}") from error


def _named(file: Any, path: tuple[int, ...]) -> str:
    scope = list(file.message_types_by_name.values())
    found = None
    for step in path:
        if not 0 <= step < len(scope):
            raise ValueUndecodable(f"its schema has no message {list(path)}")
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
            elif name.startswith(_WELL_KNOWN):
                known = FileDescriptorProto()
                descriptor_pool.Default().FindFileByName(name).CopyToProto(known)
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
    """Use protoc from the wheel grpcio-tools."""
    import grpc_tools
    from grpc_tools import protoc

    referenced = schema.referenced()
    with tempfile.TemporaryDirectory(prefix="kafka-zk-proto-") as folder:
        for path, text in ((name, schema.text), *((path, each.text) for path, each in referenced.items())):
            pure = PurePosixPath(path)
            if pure.is_absolute() or ".." in pure.parts:
                raise ValueError(f"{path} is not a valid name for a file of the schema")
            file = Path(folder) / pure
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        out = Path(folder) / "descriptors"
        own = Path(str(grpc_tools.__file__)).parent / "_proto"
        if protoc.main(["protoc", f"-I{folder}", f"-I{own}", f"--descriptor_set_out={out}", name]):
            raise ValueError("protoc cannot compile it")
        return FileDescriptorSet.FromString(out.read_bytes()).file[0]


# --- rows ------------------------------------------------------------------------------------------------------------


def _struct(message: Any, within: tuple[str, ...]) -> Any:
    from pyspark.sql.types import StructField, StructType

    if message.full_name in within:
        raise WronglyAsked(f"the Protobuf message {message.full_name} contains itself, so it has no Spark type")
    inside = (*within, message.full_name)
    return StructType([StructField(field.name, _field_type(field, inside)) for field in message.fields])


def _field_type(field: Any, within: tuple[str, ...]) -> Any:
    from pyspark.sql.types import ArrayType, MapType

    if _is_map(field):
        key, value = field.message_type.fields_by_name["key"], field.message_type.fields_by_name["value"]
        return MapType(_single_type(key, within), _single_type(value, within))
    kind = _single_type(field, within)
    return ArrayType(kind) if field.is_repeated else kind


def _single_type(field: Any, within: tuple[str, ...]) -> Any:
    from pyspark.sql import types

    if field.message_type is not None:
        if field.message_type.full_name == _TIMESTAMP:
            return types.TimestampType()
        if field.message_type.full_name in _WRAPPERS:
            return _single_type(field.message_type.fields_by_name["value"], within)
        return _struct(field.message_type, within)
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


def _as_row(message: Any) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        if _is_map(field):
            inner = field.message_type.fields_by_name["value"]
            row[field.name] = {key: _as_value(inner, value[key]) for key in value}
        elif field.is_repeated:
            row[field.name] = [_as_value(field, each) for each in value]
        elif field.has_presence and not message.HasField(field.name):
            row[field.name] = None
        else:
            row[field.name] = _as_value(field, value)
    return row


def _as_value(field: Any, value: Any) -> Any:
    if field.message_type is not None:
        if field.message_type.full_name == _TIMESTAMP:
            return _EPOCH + timedelta(seconds=value.seconds, microseconds=value.nanos // 1000)
        if field.message_type.full_name in _WRAPPERS:
            return _as_value(field.message_type.fields_by_name["value"], value.value)
        return _as_row(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return known.name if known is not None else str(value)
    if field.type == field.TYPE_STRING and isinstance(value, bytes):  # proto2 does not check text
        raise ValueUndecodable(f"no Protobuf message: {field.full_name} is not UTF-8")
    return Decimal(value) if field.cpp_type == field.CPPTYPE_UINT64 else value

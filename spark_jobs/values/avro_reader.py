"""Reads Avro records: into a reader's schema, by Avro's schema resolution, or into the schemas that wrote them."""

import io
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import fastavro
from fastavro import _read_py
from fastavro.schema import SchemaParseException, expand_schema

from kafka_zk.spark_jobs.errors import WronglyAsked
from kafka_zk.spark_jobs.values.avro_defaults import set_defaults
from kafka_zk.spark_jobs.values.avro_limits import (
    amplifies,
    bound_decimals,
    contains_itself,
    has_too_many_types,
    needs_no_bytes_in_array,
)
from kafka_zk.spark_jobs.values.avro_logical_types import conversion, converted
from kafka_zk.spark_jobs.values.avro_types import MALFORMED, avro_type, decimals_fit, physical, plain
from kafka_zk.spark_jobs.values.framing import ValueUndecodable
from kafka_zk.spark_jobs.values.schema_registry import Schema

_NO_SCHEMA = (ValueError, KeyError, TypeError, AttributeError, RecursionError, SchemaParseException)
_SAFE_BYTES = 1024
"""A value that is not longer cannot be nested too deeply, or become too large."""


class _Writer(NamedTuple):
    """``how``: converts values of ``schema``, whose logical types are removed. None if the writer's logical types equal
    the reader's, so that fastavro reads them in C.
    """

    schema: Any
    how: Any
    is_recursive: bool
    amplifies: bool


class AvroReader:
    """Raises WronglyAsked if the reader's schema has no Spark type."""

    def __init__(self, schema: Schema) -> None:
        bound_decimals()
        try:
            self._schema, named = _parsed(schema, plain)
            self.columns = avro_type(self._schema, named)
            expanded = expand_schema(self._schema)
            set_defaults(self._schema, named)
            self._physical, named = _parsed(schema, physical)
            set_defaults(self._physical, named)
            self._logical = expand_schema(_parsed(schema)[0])
        except _NO_SCHEMA as error:
            raise WronglyAsked(f"invalid Avro schema: {error}") from error
        self._expanded = expanded if "decimal" in json.dumps(expanded, default=str) else None
        self._unchanged = conversion(self._logical, self._logical, {})

    def prepared(self, writer: Schema) -> _Writer:
        """Raises ValueUndecodable if the schema is invalid."""
        found = _prepared(writer)
        try:
            how = conversion(*self._with_logical_types(writer))
            if how != self._unchanged:
                return found._replace(schema=_parsed(writer, physical)[0], how=how)
        except _NO_SCHEMA as error:
            raise _invalid(error) from error
        return found

    def _with_logical_types(self, writer: Schema) -> tuple[Any, Any, dict[str, Any]]:
        parsed, named = _parsed(writer)
        return parsed, self._logical, named

    def read(self, writer: _Writer, payload: bytes) -> Any:
        """Raises ValueUndecodable."""
        record = _record(writer, payload, self._schema if writer.how is None else self._physical)
        if self._expanded is not None and not decimals_fit(record, self._expanded):
            raise ValueUndecodable("a decimal has more digits than the reader's schema allows")
        return record


class AvroAsWritten:
    """Reads each record into the fields of its own schema, so it can also read versions that do not resolve into each
    other.

    Values have the logical types that Spark has too; decimals may be longer than Spark's.
    """

    columns = None

    def __init__(self) -> None:
        bound_decimals()

    def prepared(self, writer: Schema) -> _Writer:
        """Raises ValueUndecodable if the schema is invalid."""
        return _prepared(writer)

    def read(self, writer: _Writer, payload: bytes) -> Any:
        """Raises ValueUndecodable."""
        return _record(writer, payload, None)


def _prepared(writer: Schema) -> _Writer:
    try:
        parsed, named = _parsed(writer, plain)
        is_endless, is_recursive = needs_no_bytes_in_array(parsed, named), contains_itself(parsed, named)
        may_grow = amplifies(parsed, named)
    except _NO_SCHEMA as error:
        raise _invalid(error) from error
    if is_endless:
        raise ValueUndecodable("its schema has an array whose items need no bytes")
    return _Writer(parsed, None, is_recursive, may_grow)


def _invalid(error: Exception) -> ValueUndecodable:
    return ValueUndecodable(f"its schema is not a valid Avro schema: {error}")


def _record(writer: _Writer, payload: bytes, reader: Any) -> Any:
    if writer.amplifies and len(payload) > _SAFE_BYTES:
        raise ValueUndecodable(
            f"its schema has fields that take no bytes, and the value has more than {_SAFE_BYTES:,} bytes"
        )
    stream = io.BytesIO(payload)
    # In C, only the stack limits the depth of a value, and an overflow ends the process.
    may_be_deep = writer.is_recursive and len(payload) > _SAFE_BYTES
    read = _read_py.schemaless_reader if may_be_deep else fastavro.schemaless_reader
    try:
        record = converted(read(stream, writer.schema, reader), writer.how)
    except RecursionError as error:
        raise ValueUndecodable("not a valid Avro record of its schema: nested too deeply") from error
    except fastavro.read.SchemaResolutionError as error:
        raise ValueUndecodable(f"its schema is incompatible with the reader's: {error}".strip()) from error
    except MALFORMED as error:
        raise ValueUndecodable(
            f"not a valid Avro record of its schema: {type(error).__name__} {error}".strip()
        ) from error
    if stream.tell() != len(payload):
        raise ValueUndecodable(
            f"not a valid Avro record of its schema: {len(payload) - stream.tell()} bytes follow it"
        )
    return record


def _parsed(schema: Schema, wanted: Callable[[Any], Any] = lambda each: each) -> tuple[Any, dict[str, Any]]:
    named: dict[str, Any] = {}
    for name, referenced in schema.referenced().items():
        if name not in named:
            fastavro.parse_schema(wanted(_document(referenced)), named_schemas=named)
    return fastavro.parse_schema(wanted(_document(schema)), named_schemas=named), named


def _document(schema: Schema) -> Any:
    document = json.loads(schema.text)
    if has_too_many_types(document):
        raise ValueError("it has too many types")
    return document

"""Avro records in the fields of a reader's schema, whatever version of it they were written with (Avro's resolution).

Tests: tests/spark_jobs/wire/test_value_decoder.py.
"""

import io
import json
import struct
from typing import Any

import fastavro
from fastavro.schema import SchemaParseException, expand_schema

from kafka_zk.spark_jobs.extraction.avro_types import avro_type, plain
from kafka_zk.spark_jobs.extraction.errors import WronglyAsked
from kafka_zk.spark_jobs.wire.avro_defaults import set_defaults
from kafka_zk.spark_jobs.wire.framing import ValueUndecodable
from kafka_zk.spark_jobs.wire.schema_registry import Schema

_MALFORMED = (EOFError, ValueError, LookupError, TypeError, ArithmeticError, struct.error)


class AvroReader:
    """Raises: WronglyAsked for a schema that is no record, or that Spark has no columns for."""

    def __init__(self, schema: Schema) -> None:
        from pyspark.sql.types import StructType

        try:
            self._schema, named = _parsed(schema)
            columns = avro_type(expand_schema(self._schema))
            set_defaults(self._schema, named)
        except (ValueError, KeyError, TypeError, AttributeError, SchemaParseException) as error:
            raise WronglyAsked(f"no Avro schema: {error}") from error
        if not isinstance(columns, StructType):
            raise WronglyAsked("an Avro record is needed as the reader's schema")
        self.columns = columns

    def prepared(self, writer: Schema) -> Any:
        """What ``read`` needs to know of a writer's schema. Raises: ValueUndecodable."""
        try:
            return _parsed(writer)[0]
        except (ValueError, KeyError, TypeError, AttributeError, SchemaParseException) as error:
            raise ValueUndecodable(f"its schema is no Avro schema: {error}") from error

    def read(self, writer: Any, payload: bytes) -> Any:
        """Raises: ValueUndecodable."""
        stream = io.BytesIO(payload)
        try:
            record = fastavro.schemaless_reader(stream, writer, self._schema)
        except fastavro.read.SchemaResolutionError as error:
            raise ValueUndecodable(f"its schema does not go with the reader's: {error}".strip()) from error
        except _MALFORMED as error:
            raise ValueUndecodable(f"no Avro record of its schema: {type(error).__name__} {error}".strip()) from error
        if stream.tell() != len(payload):
            raise ValueUndecodable(f"no Avro record of its schema: {len(payload) - stream.tell()} bytes follow it")
        return record


def _parsed(schema: Schema) -> tuple[Any, dict[str, Any]]:
    """The schema, and those that have names."""
    named: dict[str, Any] = {}
    _name_references(schema, named)
    return fastavro.parse_schema(plain(json.loads(schema.text)), named_schemas=named), named


def _name_references(schema: Schema, named: dict[str, Any]) -> None:
    for name, referenced in schema.references:
        _name_references(referenced, named)
        if name not in named:
            fastavro.parse_schema(plain(json.loads(referenced.text)), named_schemas=named)

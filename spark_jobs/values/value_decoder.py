"""Decodes values in Confluent's framing, each with the schema of its id, to the columns of one reader's schema.

The driver creates the decoder with all versions of the topics' subjects and sends it to the executors. They request
other ids (of another subject, or new ones) from the registry, once per task. If the registry does not have an id, the
value is undecodable; if the registry does not respond, the task fails.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from kafka_zk.spark_jobs.errors import WronglyAsked
from kafka_zk.spark_jobs.values.framing import ValueUndecodable, read_frame
from kafka_zk.spark_jobs.values.schema_registry import Schema, SchemaRegistry

AVRO, PROTOBUF, JSON_SCHEMA = "avro", "protobuf", "json-schema"
VALUE_FORMATS = (AVRO, PROTOBUF, JSON_SCHEMA)
_KINDS = {AVRO: "AVRO", PROTOBUF: "PROTOBUF", JSON_SCHEMA: "JSON"}
"""The registry's names."""
_RECORDS = {AVRO: "an Avro record", JSON_SCHEMA: "a JSON Schema with properties"}
_WRITERS_MAX = 10_000
"""Schemas, including absent ids, that a task remembers."""


class Part(NamedTuple):
    """The key or value of a record: the suffix of its subject, and the names of its options."""

    subject: str
    format: str
    schema: str


VALUE = Part("value", "--value-format", "--schema")
KEY = Part("key", "--key-format", "--key-schema")


class _UnusableSchema(NamedTuple):
    reason: str


class _Reader(Protocol):
    columns: Any

    def prepared(self, writer: Schema) -> Any: ...

    def read(self, writer: Any, payload: bytes) -> Any: ...


class ValueDecoder:
    """``reader``: defines the columns; None for Avro records in the fields of their own schemas. Pickled with the
    registry's known schemas. Raises WronglyAsked.
    """

    def __init__(self, value_format: str, reader: Schema | None, registry: SchemaRegistry) -> None:
        self._format = value_format
        self._schema = reader
        self._registry = registry
        self._reader = _reader(value_format, reader)
        self._writers: dict[int, Any] = {}

    @property
    def columns(self) -> Any:
        return self._reader.columns

    def decode(self, value: bytes) -> Any:
        """The record in the form that Spark's Python workers return. Raises ValueUndecodable, RegistryFailed."""
        frame = read_frame(value)
        return self._reader.read(self._writer(frame.schema_id), frame.payload)

    def _writer(self, schema_id: int) -> Any:
        if schema_id not in self._writers:
            if len(self._writers) >= _WRITERS_MAX:
                self._writers.clear()
            self._writers[schema_id] = self._prepared(schema_id)
        found = self._writers[schema_id]
        if isinstance(found, _UnusableSchema):
            raise ValueUndecodable(found.reason)  # a new exception: the traceback of a shared one would keep all values
        return found

    def _prepared(self, schema_id: int) -> Any:
        schema = self._registry.by_id(schema_id)
        if schema is None:
            return _UnusableSchema(f"the schema registry has no schema {schema_id}")
        if schema.kind != _KINDS[self._format]:
            return _UnusableSchema(f"schema {schema_id} is of type {schema.kind}, not {_KINDS[self._format]}")
        try:
            return self._reader.prepared(schema)
        except ValueUndecodable as error:
            return _UnusableSchema(f"schema {schema_id}: {error}")

    def __reduce__(self) -> Any:
        return ValueDecoder, (self._format, self._schema, self._registry)


def value_decoder(
    value_format: str, registry: SchemaRegistry, topics: Sequence[str], given: str | None, part: Part = VALUE
) -> ValueDecoder:
    """Create the decoder for these topics (subjects TOPIC-value). ``given``: a reader's schema instead of the newest
    one.

    Raises: WronglyAsked, RegistryFailed.
    """
    newest: dict[str, Schema] = {}
    for topic in topics:
        versions = registry.learn(f"{topic}-{part.subject}")
        if versions:
            newest[topic] = versions[-1]
    if given is not None:
        return _decoder(value_format, Schema(_KINDS[value_format], given), registry, part)
    if missing := sorted(set(topics) - newest.keys()):
        raise WronglyAsked(
            f"the schema registry has no subject {missing[0]}-{part.subject}: give the reader's schema with "
            f"{part.schema}"
        )
    first, *others = newest.values()
    if any(each != first for each in others):
        raise WronglyAsked(
            f"the topics have different schemas in the registry: give the reader's schema with {part.schema}"
        )
    if first.kind != _KINDS[value_format]:
        raise WronglyAsked(f"{part.format} {value_format}: the registry's schema of {topics[0]} is {first.kind}")
    return _decoder(value_format, first, registry, part)


def avro_as_written(registry: SchemaRegistry, topic: str) -> ValueDecoder:
    """Create the decoder for a topic's keys and values. Raises RegistryFailed."""
    for part in (KEY, VALUE):
        registry.learn(f"{topic}-{part.subject}")
    return ValueDecoder(AVRO, None, registry)


def _decoder(value_format: str, reader: Schema, registry: SchemaRegistry, part: Part) -> ValueDecoder:
    """Create the decoder. A value must be a record, whose fields become columns; a key is one column of any type."""
    from pyspark.sql.types import StructType

    made = ValueDecoder(value_format, reader, registry)
    if part is VALUE and not isinstance(made.columns, StructType):
        raise WronglyAsked(f"the reader's schema must be {_RECORDS[value_format]}")
    return made


def _reader(value_format: str, schema: Schema | None) -> _Reader:
    if schema is None:
        from kafka_zk.spark_jobs.values.avro_reader import AvroAsWritten

        return AvroAsWritten()
    if value_format == AVRO:
        from kafka_zk.spark_jobs.values.avro_reader import AvroReader

        return AvroReader(schema)
    if value_format == PROTOBUF:
        from kafka_zk.spark_jobs.values.protobuf_reader import ProtobufReader

        return ProtobufReader(schema)
    from kafka_zk.spark_jobs.values.json_schema_reader import JsonSchemaReader

    return JsonSchemaReader(schema)

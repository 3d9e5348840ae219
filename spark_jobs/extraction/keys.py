"""``--key-format``: how the bytes of a key become the column ``key``.

By default, keys are bytes without ``--decode`` and ``--value-format``, and text with either. A key that does not have
the format is undecodable, like a value.
"""

from typing import Any, NamedTuple

from kafka_zk.spark_jobs.errors import WronglyAsked
from kafka_zk.spark_jobs.values.avro_types import parse_avro_schema
from kafka_zk.spark_jobs.values.numbers import NUMBERS, NumberDecoder
from kafka_zk.spark_jobs.values.value_decoder import AVRO, JSON_SCHEMA, PROTOBUF

BYTES, STRING, JSON = "bytes", "string", "json"
KEY_FORMATS = (BYTES, STRING, *NUMBERS, JSON, AVRO, PROTOBUF, JSON_SCHEMA)
_OF_REGISTRY = (AVRO, PROTOBUF, JSON_SCHEMA)


def meaning(key_format: str) -> str:
    """Describe keys that can be decoded, for messages."""
    if key_format == STRING:
        return "UTF-8 text"
    return f"of type {key_format}" if key_format in NUMBERS else key_format


class Keys(NamedTuple):
    """``decode``, ``schema``: as for ``decoding.decoded``; with ``decode`` None, keys stay bytes. ``meaning``:
    describes the keys that can be decoded."""

    decode: Any
    schema: str | None
    meaning: str

    @property
    def misfit(self) -> str:
        """Why a key is undecodable, without the decoder's message."""
        return f"the key is not {self.meaning}"


TEXT_KEYS = Keys(STRING, None, meaning(STRING))


def check(key_format: str | None, key_schema: str | None, schema_registry: str | None) -> None:
    """Raises WronglyAsked for impossible combinations."""
    if key_format is not None and key_format not in KEY_FORMATS:
        raise WronglyAsked(f"--key-format: {key_format!r} is not one of {', '.join(KEY_FORMATS)}")
    if key_schema and key_format not in (JSON, *_OF_REGISTRY):
        raise WronglyAsked(f"--key-schema is for --key-format {', '.join((JSON, *_OF_REGISTRY))}")
    if key_format == JSON and not key_schema:
        raise WronglyAsked("--key-format json needs --key-schema, such as 'id BIGINT'")
    if key_format == AVRO and not (key_schema or schema_registry):
        raise WronglyAsked("--key-format avro needs --schema-registry, or --key-schema")
    if key_format in (PROTOBUF, JSON_SCHEMA) and not schema_registry:
        raise WronglyAsked(f"--key-format {key_format} needs --schema-registry")


def uses_registry(key_format: str | None, schema_registry: str | None) -> bool:
    return schema_registry is not None and key_format in _OF_REGISTRY


def keys(key_format: str, key_schema: str | None, decoder: Any) -> Keys:
    """``decoder``: the registry's, if there is one."""
    if key_format in NUMBERS:
        decoder = NumberDecoder(key_format)
    return Keys(None if key_format == BYTES else decoder or key_format, key_schema, meaning(key_format))


def known_type(key_format: str, key_schema: str | None, schema_registry: str | None) -> Any:
    """The Spark type of the column; None if it depends on the registry or on Spark's own parser. Raises
    WronglyAsked.
    """
    from pyspark.sql.types import BinaryType, StringType

    if key_format == BYTES:
        return BinaryType()
    if key_format == STRING:
        return StringType()
    if key_format in NUMBERS:
        return NumberDecoder(key_format).columns
    if key_format == AVRO and schema_registry is None and key_schema is not None:
        return parse_avro_schema(key_schema, is_key=True)[1]
    return None

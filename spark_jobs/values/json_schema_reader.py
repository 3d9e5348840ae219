"""JSON values are validated against the writer's JSON Schema, then converted to the reader's columns.

Objects become structs, or maps if the schema describes only ``additionalProperties``; integers become longs, and
numbers doubles. A union of one type and null becomes that type. A schema with a part that has no Spark type is refused.
"""

import json
import math
import re
import sys
from collections.abc import Iterator
from typing import Any

import jsonschema
from referencing import Registry, Resource
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT7

from kafka_zk.base.integers import INT64
from kafka_zk.spark_jobs.errors import WronglyAsked
from kafka_zk.spark_jobs.values.framing import ValueUndecodable
from kafka_zk.spark_jobs.values.json_round_trip import same_float
from kafka_zk.spark_jobs.values.schema_registry import Schema
from kafka_zk.spark_jobs.values.time_limit import TimeLimitReached, time_limit

_DEPTH_MAX = 32
_COLUMNS_MAX = 10_000
_SECONDS, _SECONDS_PER_BYTE = 1.0, 1e-5
"""Processor time for the validation of a value; an ordinary value needs less than a tenth of it."""


class JsonSchemaReader:
    """Raises WronglyAsked if the reader's schema has no Spark type."""

    def __init__(self, schema: Schema) -> None:
        try:
            document = json.loads(schema.text)
            resolver = _registry(schema).resolver_with_root(_resource(document))
            self.columns = _Columns(resolver, iter(range(_COLUMNS_MAX))).kind(document, "the schema")
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError, Unresolvable) as error:
            raise WronglyAsked(f"not a JSON Schema: {error}") from error

    def prepared(self, writer: Schema) -> Any:
        """Raises ValueUndecodable if the schema is invalid."""
        try:
            document = json.loads(writer.text)
            kind = jsonschema.validators.validator_for(document, jsonschema.Draft7Validator)
            kind.check_schema(document)
            return kind(document, registry=_registry(writer))
        except (ValueError, TypeError, AttributeError, RecursionError, jsonschema.SchemaError) as error:
            raise ValueUndecodable("its schema is not a valid JSON Schema") from error

    def read(self, writer: Any, payload: bytes) -> Any:
        """Raises ValueUndecodable."""
        try:
            value = json.loads(payload, parse_float=_float, object_pairs_hook=_object)
        except (ValueError, RecursionError) as error:
            raise ValueUndecodable(f"not JSON: {error}") from error
        try:
            with time_limit(_SECONDS + _SECONDS_PER_BYTE * len(payload)):
                writer.validate(value)
        except TimeLimitReached as error:
            raise ValueUndecodable("validating it against its schema takes too long") from error
        except jsonschema.ValidationError as error:
            where = error.json_path
            raise ValueUndecodable(f"does not fit its schema: {where}: {error.message[:200]}") from error
        except (Unresolvable, RecursionError) as error:
            raise ValueUndecodable(f"its schema cannot be resolved: {error}") from error
        except (ArithmeticError, re.error) as error:  # a number that no float can hold, or an unsupported pattern
            raise ValueUndecodable(f"its schema cannot validate it: {error}") from error
        return _fitted(value, self.columns, "$")


def _resource(document: Any) -> Any:
    return Resource.from_contents(document, default_specification=DRAFT7)


def _registry(schema: Schema) -> Any:
    registry: Any = Registry()
    for name, referenced in schema.referenced().items():
        registry = registry.with_resource(name, _resource(json.loads(referenced.text)))
    return registry


class _Columns:
    def __init__(self, resolver: Any, left: Iterator[int]) -> None:
        """``left`` has an item for each schema that may still be visited."""
        self._resolver = resolver
        self._left = left

    def kind(self, schema: Any, where: str, depth: int = 0) -> Any:
        from pyspark.sql import types

        if next(self._left, None) is None:
            raise WronglyAsked(f"JSON Schema: it has more than {_COLUMNS_MAX:,} columns and types")
        if depth > _DEPTH_MAX:
            raise WronglyAsked(f"JSON Schema: {where} contains itself, so it has no Spark type")
        if not isinstance(schema, dict):
            raise WronglyAsked(f"JSON Schema: {where} may have any type, so it has no Spark type")
        if "$ref" in schema:
            found = self._resolver.lookup(schema["$ref"])
            return _Columns(found.resolver, self._left).kind(found.contents, where, depth + 1)
        for word in ("anyOf", "oneOf"):
            if word in schema:
                return self._alternative(schema[word], where, depth)
        declared = schema.get("type")
        if isinstance(declared, list):
            return self._alternative([{**schema, "type": each} for each in declared], where, depth)
        if declared == "object" or (declared is None and "properties" in schema):
            return self._object(schema, where, depth)
        if declared == "array":
            return types.ArrayType(self.kind(schema.get("items"), f"{where}[]", depth + 1))
        if declared is None and "enum" in schema and all(isinstance(each, str | None) for each in schema["enum"]):
            return types.StringType()
        plain = {
            "string": types.StringType(),
            "integer": types.LongType(),
            "number": types.DoubleType(),
            "boolean": types.BooleanType(),
        }
        if declared not in plain:
            raise WronglyAsked(f"JSON Schema: {where} may have any type, so it has no Spark type")
        return plain[declared]

    def _alternative(self, choices: Any, where: str, depth: int) -> Any:
        kinds = [each for each in choices if not (isinstance(each, dict) and each.get("type") == "null")]
        if len(kinds) != 1:
            raise WronglyAsked(f"JSON Schema: {where} is of more than one type besides null, so it has no Spark type")
        return self.kind(kinds[0], where, depth + 1)

    def _object(self, schema: Any, where: str, depth: int) -> Any:
        from pyspark.sql.types import MapType, StringType, StructField, StructType

        if schema.get("properties"):
            fields = schema["properties"].items()
            return StructType([StructField(name, self.kind(each, f"{where}.{name}", depth + 1))
                               for name, each in fields])  # fmt: skip
        values = self.kind(schema.get("additionalProperties"), f"{where}.*", depth + 1)
        return MapType(StringType(), values)


class _Inexact(float):
    """A number that a double cannot represent exactly. The validator treats it as an ordinary number."""


def _float(text: str) -> float:
    number = float(text)
    is_exact = math.isinf(number) or same_float(text, repr(number))  # _fitted rejects infinity
    return number if is_exact else _Inexact(number)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name occurs twice in an object")
    return found


def _fitted(value: Any, kind: Any, where: str) -> Any:
    """Convert a JSON value to what a Python worker returns for this Spark type. Raises ValueUndecodable."""
    from pyspark.sql import types

    match kind:
        case _ if value is None:
            return None
        case types.StructType() if isinstance(value, dict):
            return {each.name: _fitted(value.get(each.name), each.dataType, f"{where}.{each.name}") for each in kind}
        case types.MapType() if isinstance(value, dict):
            return {_text(name, where): _fitted(each, kind.valueType, f"{where}.*") for name, each in value.items()}
        case types.ArrayType() if isinstance(value, list):
            return [_fitted(each, kind.elementType, f"{where}[]") for each in value]
        case types.StringType() if isinstance(value, str):
            return _text(value, where)
        case types.BooleanType() if isinstance(value, bool):
            return value
        case types.DoubleType() | types.LongType() if isinstance(value, _Inexact):
            raise ValueUndecodable(f"{where} has more digits than a double can represent")
        case types.DoubleType() if _is_number(value) and abs(value) <= sys.float_info.max:
            if (number := float(value)) != value:
                raise ValueUndecodable(f"{where} has more digits than a double can represent")
            return number
        case types.LongType() if _is_integer(value) and int(value) in INT64:
            return int(value)
    raise ValueUndecodable(f"{where} does not fit the reader's schema, where it is {kind.simpleString()}")


def _text(value: str, where: str) -> str:
    """Refuse half a surrogate pair, which JSON may contain."""
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueUndecodable(f"{where} is not valid text: {error.reason}") from error
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_integer(value: Any) -> bool:
    """JSON Schema considers 1.0 an integer."""
    return _is_number(value) and (isinstance(value, int) or value.is_integer())

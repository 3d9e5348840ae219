"""Converts types of Kafka Connect and Debezium to Spark's, and JSON values to Python's.

    Connect or Debezium                     Spark            value in JSON
    int8 to int64, float, double            the same         number; "NaN", "Infinity", "-Infinity"
    boolean, string                         the same
    bytes                                   BINARY           Base64
    Decimal                                 DECIMAL(p, s)    Base64, two's complement; STRING beyond 38 digits
    VariableScaleDecimal                    STRING           {"scale", "value"}
    Date                                    DATE             days
    Timestamp, Micro-, NanoTimestamp        TIMESTAMP_NTZ    ms, µs, ns
    ZonedTimestamp                          TIMESTAMP        text with a zone
    Time, MicroTime, NanoTime               STRING           ms, µs, ns; Spark has no type for 24:00 and -838:59:59
    Bits                                    BINARY           Base64, little-endian; becomes big-endian, padded
    Enum                                    STRING           text, in which MariaDB escapes commas when it streams
    array, map, struct                      the same

Other logical types keep the physical type: ``MicroDuration`` is a BIGINT, ``Json`` and ``Uuid`` are STRING. Avro values
are already Python's, except for dates and times, which are numbers. Sources: Debezium's documentation of data types,
Kafka's ``JsonConverter``.
"""

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from itertools import combinations
from typing import Any

from kafka_zk.spark_jobs.errors import ChangeRefused

MAX_DIGITS = 38
_EPOCH_DAY = date(1970, 1, 1)
_EPOCH = datetime(1970, 1, 1)
_EXACT = Context(prec=2_000)
_NEGATIVE_SCALES, _SCALE_MODULUS = 1_024, 2_048
"""PostgreSQL's ``numeric(5,-2)`` has the scale 2046: eleven bits of a negative number."""
_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_WIDER = {*combinations(_INTEGERS, 2), ("FLOAT", "DOUBLE")}
_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")


@dataclass(frozen=True, slots=True)
class ColumnType:
    """``spark``: as in Spark's DDL. ``convert``: a value of the record, never null, to Python's; raises ValueError or
    TypeError. ``is_derived``: the type comes from another record's schema, so a record is read with its own schema.
    """

    spark: str
    convert: Callable[[Any], Any]
    is_derived: bool = False

    def read(self, column: str, value: Any) -> Any:
        """``column``: for the error. Raises ChangeRefused."""
        if value is None:
            return None
        try:
            return self.convert(value)
        except (ValueError, TypeError, KeyError, ArithmeticError, binascii.Error) as error:
            raise ChangeRefused(f"column {column} is {self.spark}, which cannot hold {str(value)[:80]!r}") from error


def holds_all_of(kind: str, other: str) -> bool:
    """True if each value of the Spark type ``other`` is also a value of ``kind``."""
    if kind == other or (other, kind) in _WIDER:
        return True
    digits, others = _DECIMAL.fullmatch(kind), _DECIMAL.fullmatch(other)
    if digits is None or others is None:
        return False
    precision, scale = map(int, digits.groups())
    other_precision, other_scale = map(int, others.groups())
    return scale >= other_scale and precision - scale >= other_precision - other_scale


def columns_of(schema: Mapping[str, Any]) -> dict[str, ColumnType]:
    """``schema``: a Connect struct, as in ``{"schema": …}``."""
    return {each["field"]: type_of(each) for each in schema.get("fields", ())}


def type_of(schema: Mapping[str, Any]) -> ColumnType:
    """Raises ChangeRefused for a type that Connect does not have."""
    name, parameters = schema.get("name"), schema.get("parameters") or {}
    if name == "org.apache.kafka.connect.data.Decimal":
        digits = parameters.get("connect.decimal.precision")
        return decimal_type(None if digits is None else int(digits), int(parameters["scale"]))
    if name == "io.debezium.data.Bits":
        return bits_type(int(parameters.get("length", 0)))
    if isinstance(name, str) and (named := _NAMED.get(name)) is not None:
        return named
    return _plain(schema)


def _plain(schema: Mapping[str, Any]) -> ColumnType:
    kind = str(schema.get("type"))
    if kind == "array":
        items = type_of(schema["items"])
        return ColumnType(f"ARRAY<{items.spark}>", lambda value: [_item(items, each) for each in value])
    if kind == "map":
        keys, values = type_of(schema["keys"]), type_of(schema["values"])
        return ColumnType(f"MAP<{keys.spark}, {values.spark}>", lambda value: _map(value, keys, values))
    if kind == "struct":
        fields = columns_of(schema)
        told = ", ".join(f"`{name}`: {each.spark}" for name, each in fields.items())
        return ColumnType(
            f"STRUCT<{told}>", lambda value: {name: _item(each, value[name]) for name, each in fields.items()}
        )
    if kind not in PLAIN:
        raise ChangeRefused(f"Kafka Connect has no type {kind}")
    return PLAIN[kind]


def _item(kind: ColumnType, value: Any) -> Any:
    return None if value is None else kind.convert(value)


def _map(value: Any, keys: ColumnType, values: ColumnType) -> dict[Any, Any]:
    """If keys are not text, JSON has a list of pairs."""
    pairs = value.items() if isinstance(value, dict) else value
    return {keys.convert(key): _item(values, each) for key, each in pairs}


def decimal_type(digits: int | None, scale: int) -> ColumnType:
    """``digits``: None if the schema does not say."""
    if scale >= _NEGATIVE_SCALES:
        scale -= _SCALE_MODULUS
    if scale < 0 and digits is not None:
        digits -= scale
    spark_scale = max(scale, 0)
    if (digits or MAX_DIGITS) > MAX_DIGITS or spark_scale > MAX_DIGITS:
        return ColumnType("STRING", lambda value: f"{_decimal(value, scale):f}")
    precision = digits or MAX_DIGITS
    return ColumnType(
        f"DECIMAL({precision},{spark_scale})", lambda value: _fitting(_decimal(value, scale), precision - spark_scale)
    )


def _fitting(value: Decimal, digits: int) -> Decimal:
    """``digits``: number of digits before the decimal point."""
    if value.adjusted() >= digits:
        raise ValueError("too many digits")
    return value


def _decimal(value: Any, scale: int) -> Decimal:
    if isinstance(value, Decimal):  # from Avro, whose schema has its own scale
        found = value.quantize(Decimal(1).scaleb(-max(scale, 0)), context=_EXACT)
        if found != value:
            raise ValueError("more decimal places")
        return found
    if isinstance(value, (int, float)):
        raise TypeError("a number is not Base64")
    unscaled = Decimal(int.from_bytes(_bytes(value), "big", signed=True))
    found = unscaled.scaleb(-scale, _EXACT)
    return found if scale >= 0 else found.quantize(Decimal(1), context=_EXACT)


def _variable_decimal(value: Any) -> str:
    return f"{_decimal(value['value'], int(value['scale'])):f}"


def bits_type(length: int) -> ColumnType:
    """``length``: in bits, 0 if unknown. PostgreSQL leaves out zero bytes at the end, which are the highest bytes."""
    return ColumnType("BINARY", lambda value: _bytes(value).ljust(-(-length // 8), b"\0")[::-1])


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else base64.b64decode(value, validate=True)


def _date(value: Any) -> date:
    return value if isinstance(value, date) else _EPOCH_DAY + timedelta(days=value)


def timestamp_type(units_per_second: int) -> ColumnType:
    """Nanoseconds are truncated to microseconds."""
    return ColumnType("TIMESTAMP_NTZ", lambda value: _timestamp(value, units_per_second))


def _timestamp(value: Any, units_per_second: int) -> datetime:
    if isinstance(value, datetime):
        return value.replace(tzinfo=None)
    return _EPOCH + timedelta(microseconds=value * 1_000_000 // units_per_second)


def _zoned_timestamp(value: Any) -> datetime:
    found = datetime.fromisoformat(value)
    if found.tzinfo is None:
        raise ValueError("the text has no zone")
    return found.astimezone(UTC)


def time_type(units_per_second: int) -> ColumnType:
    return ColumnType("STRING", lambda value: _time(value * 1_000_000 // units_per_second))


def _time(micros: int) -> str:
    """The time as a string, such as 23:59:59.5 or -838:59:59."""
    seconds, fraction = divmod(abs(micros), 1_000_000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    told = f"{'-' if micros < 0 else ''}{hours:02}:{minutes:02}:{seconds:02}"
    return f"{told}.{fraction:06}".rstrip("0") if fraction else told


def _unsigned(value: Any) -> Decimal:
    """Debezium's int64 is negative from 2^63."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise TypeError("not a whole number")
    if not -(2**63) <= value < 2**64 or value != int(value):
        raise ValueError("not in the range")
    return Decimal(int(value) % 2**64)


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError("not a boolean")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a string")
    return value


def _integer(bits: int) -> Callable[[Any], int]:
    def convert(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not -(2 ** (bits - 1)) <= value < 2 ** (bits - 1):
            raise ValueError("not in the range")
        return value

    return convert


PLAIN = {
    "int8": ColumnType("TINYINT", _integer(8)),
    "int16": ColumnType("SMALLINT", _integer(16)),
    "int32": ColumnType("INT", _integer(32)),
    "int64": ColumnType("BIGINT", _integer(64)),
    "float": ColumnType("FLOAT", float),
    "double": ColumnType("DOUBLE", float),
    "boolean": ColumnType("BOOLEAN", _boolean),
    "string": ColumnType("STRING", _text),
    "bytes": ColumnType("BINARY", _bytes),
}
DATE = ColumnType("DATE", _date)
ZONED_TIMESTAMP = ColumnType("TIMESTAMP", _zoned_timestamp)
UNSIGNED_BIGINT = ColumnType("DECIMAL(20,0)", _unsigned)
_MILLIS, _MICROS, _NANOS = 1_000, 1_000_000, 1_000_000_000
_NAMED = {
    "io.debezium.data.VariableScaleDecimal": ColumnType("STRING", _variable_decimal),
    "io.debezium.data.Enum": ColumnType("STRING", lambda value: _text(value).replace("\\,", ",")),
    "io.debezium.time.Date": DATE,
    "org.apache.kafka.connect.data.Date": DATE,
    "io.debezium.time.Timestamp": timestamp_type(_MILLIS),
    "org.apache.kafka.connect.data.Timestamp": timestamp_type(_MILLIS),
    "io.debezium.time.MicroTimestamp": timestamp_type(_MICROS),
    "io.debezium.time.NanoTimestamp": timestamp_type(_NANOS),
    "io.debezium.time.Time": time_type(_MILLIS),
    "org.apache.kafka.connect.data.Time": time_type(_MILLIS),
    "io.debezium.time.MicroTime": time_type(_MICROS),
    "io.debezium.time.NanoTime": time_type(_NANOS),
    "io.debezium.time.ZonedTimestamp": ZONED_TIMESTAMP,
}

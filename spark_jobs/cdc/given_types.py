"""The columns of a table: as the user gives them, ``id INT, amount DECIMAL(10,2), placed DATE``, or as a struct of
Kafka Connect in JSON (``row_schemas.py``). The struct may also have ``ends``: the offsets up to which the topic was
read to find the struct.

Type names are Spark's where the value in JSON is unambiguous. If a time is a number, the type must name its unit,
because a wrong unit would silently change the value:

    TIMESTAMP_MILLIS, TIMESTAMP_MICROS, TIMESTAMP_NANOS    number, without a zone: TIMESTAMP_NTZ
    TIMESTAMP                                              text with a zone
    TIME_MILLIS, TIME_MICROS, TIME_NANOS                   number: STRING
    DECIMAL(p,s)                                           Base64, two's complement; STRING beyond 38 digits
    BIGINT UNSIGNED                                        number, negative from 2^63: DECIMAL(20,0)
    BITS(n)                                                Base64, little-endian: BINARY
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import replace

from kafka_zk.spark_jobs.cdc import connect_types
from kafka_zk.spark_jobs.cdc.connect_types import PLAIN, ColumnType
from kafka_zk.spark_jobs.errors import ChangeRefused, WronglyAsked

_COLUMN = re.compile(
    r"\s*(?:`(?P<quoted>[^`]+)`|(?P<name>\w+))\s+(?P<type>[A-Za-z][\w ]*?(?:\(\s*[\d\s,]+\))?)\s*(?:,|$)"
)
_WITH_NUMBERS = re.compile(r"(?P<name>DECIMAL|BITS)\s*\((?P<numbers>[\d\s,]+)\)")
_UNITS = {"MILLIS": 1_000, "MICROS": 1_000_000, "NANOS": 1_000_000_000}
_PLAIN = {kind.spark: kind for kind in PLAIN.values()}
_OTHERS = {
    "DATE": connect_types.DATE,
    "TIMESTAMP": connect_types.ZONED_TIMESTAMP,
    "BIGINT UNSIGNED": connect_types.UNSIGNED_BIGINT,
    **{f"TIMESTAMP_{unit}": connect_types.timestamp_type(per_second) for unit, per_second in _UNITS.items()},
    **{f"TIME_{unit}": connect_types.time_type(per_second) for unit, per_second in _UNITS.items()},
}
NAMES = {**_PLAIN, **_OTHERS}
_MADE: dict[tuple[str, int], Callable[..., ColumnType]] = {
    ("DECIMAL", 2): connect_types.decimal_type,
    ("BITS", 1): connect_types.bits_type,
}


def given_types(text: str) -> dict[str, ColumnType]:
    """Raises WronglyAsked."""
    if text.lstrip().startswith("{"):
        return _of_connect(text)
    found: dict[str, ColumnType] = {}
    end = 0
    while end < len(text):
        column = _COLUMN.match(text, end)
        if column is None:
            raise WronglyAsked(f"--schema: {text[end:].strip()!r} is not a name and a type, such as id INT")
        name = column["quoted"] or column["name"]
        if name in found:
            raise WronglyAsked(f"--schema has the column {name} twice")
        found[name] = _type(column["type"])
        end = column.end()
    if not found:
        raise WronglyAsked("--schema has no columns")
    return found


def with_ends(text: str, ends: Mapping[int, int]) -> str:
    """``text``: a struct. ``ends``: for each partition, the offset from which records may have columns that the struct
    lacks."""
    found = {**json.loads(text), "ends": {str(number): end for number, end in ends.items()}}
    return json.dumps(found, separators=(",", ":"))


def ends_of(text: str) -> dict[int, int] | None:
    """The struct's ``ends``; None if it has none, or if a user gave the columns."""
    found = json.loads(text).get("ends") if text.lstrip().startswith("{") else None
    return None if found is None else {int(number): end for number, end in found.items()}


def _of_connect(text: str) -> dict[str, ColumnType]:
    try:
        found = connect_types.columns_of(json.loads(text))
    except (ValueError, TypeError, KeyError, AttributeError, ChangeRefused) as error:
        raise WronglyAsked(f"--schema is not a struct of Kafka Connect in JSON: {error}") from error
    if not found:
        raise WronglyAsked("--schema has no columns")
    return {name: replace(kind, is_derived=True) for name, kind in found.items()}


def _type(text: str) -> ColumnType:
    wanted = " ".join(text.upper().split())
    if wanted in NAMES:
        return NAMES[wanted]
    given = _WITH_NUMBERS.fullmatch(wanted)
    numbers = [int(each) for each in given["numbers"].split(",")] if given else []
    make = _MADE.get((given["name"], len(numbers))) if given else None
    if make is None:
        raise WronglyAsked(
            f"--schema: the type {text} is not one of {', '.join(sorted(NAMES))}, DECIMAL(p,s) and BITS(n)"
        )
    return make(*numbers)

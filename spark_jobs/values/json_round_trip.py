"""Finds the fields of a JSON value that Spark's ``from_json`` changed: ``to_json`` does not write them back unchanged.

``from_json`` reads 200 in a TINYINT as -56, the text "1,5" in a DECIMAL as 15.00, milliseconds in a TIMESTAMP as the
year 55840, half a surrogate pair as "?", and reports none of them as corrupt. Numbers are compared as numbers, so 1.5
in a DECIMAL(9,2) comes back as 1.50. A date or timestamp must keep its time of day and all decimal places. FLOAT and
DOUBLE must preserve the written digits, up to 9 and 17. Pure.
"""

import json
import operator
import re
import struct
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, time, timedelta, timezone, tzinfo
from decimal import Context, Decimal
from functools import partial
from typing import Any
from zoneinfo import ZoneInfo

TO_JSON = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}
"""The options of the compared ``to_json``; the zone is the session's, as for ``from_json``."""
_Same = Callable[[Any, Any], bool]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNEQUAL = (ValueError, ArithmeticError, KeyError)
"""Raised if a text is not a value of the type, or a time is outside of Python's years 1 to 9999."""
_SPACE = " \t\r\n"
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_DATE = re.compile(r"\s*(\d{4})(?:-(\d{1,2})(?:-(\d{1,2}))?)?\s*", re.ASCII)
_TIMESTAMP = re.compile(
    r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[T ](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?)?\s*(.*?))?)?)?", re.ASCII
)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2})(?::?(\d{2}))?)?", re.ASCII)
_MICROS_DIGITS = 6
_FLOAT_DIGITS, _DOUBLE_DIGITS = 9, 17
"""Significant digits that distinguish all values."""
_NOT_FINITE = {
    **dict.fromkeys(("NaN",), "NaN"),
    **dict.fromkeys(("Infinity", "+Infinity", "INF", "+INF"), "Infinity"),
    **dict.fromkeys(("-Infinity", "-INF"), "-Infinity"),
}


class _Number(str):
    """A number in its written form."""


class _Object(list[tuple[str, Any]]):
    """Names and values in order, including repeated names."""


_DECODER = json.JSONDecoder(parse_float=_Number, parse_int=_Number, parse_constant=_Number, object_pairs_hook=_Object)


class ChangedFields:
    """Called with a value's bytes and what ``to_json`` wrote for the result of ``from_json``. ``fields``: a
    ``StructType``. Returns the names of changed fields, or of all if the bytes are not JSON.
    """

    def __init__(self, fields: Any) -> None:
        self._fields = fields
        self._same = {each.name: _comparison(each.dataType) for each in fields}

    def __call__(self, value: bytes | None, came_back: str | None) -> list[str]:
        if value is None or came_back is None:
            return []
        if value == came_back.encode():
            return []
        try:
            written = _DECODER.raw_decode(bytes(value).decode().lstrip(_SPACE))[0]
            found = dict(_DECODER.decode(came_back))
        except (ValueError, RecursionError):
            return list(self._same)
        if not isinstance(written, _Object):
            return []  # from_json reports that the value is not an object
        return _changed(written, found, self._same)

    def __reduce__(self) -> Any:
        return ChangedFields, (self._fields,)


def _changed(written: _Object, found: dict[str, Any], same: dict[str, _Same]) -> list[str]:
    given = dict(written)
    repeated = set()
    if len(given) < len(written):
        repeated = {name for name, count in Counter(name for name, _ in written).items() if count > 1}
    return [
        name
        for name, is_same in same.items()
        if name in repeated or not _is_same(is_same, given.get(name), found.get(name))
    ]


def _is_same(compare: _Same, written: Any, found: Any) -> bool:
    if written is None or found is None:
        return written is found
    try:
        return compare(written, found)
    except _UNEQUAL:
        return False


def _comparison(kind: Any) -> _Same:
    from pyspark.sql import types

    match kind:
        case types.StructType():
            fields = {each.name: _comparison(each.dataType) for each in kind}
            return lambda written, found: isinstance(written, _Object) and not _changed(written, dict(found), fields)
        case types.ArrayType():
            items = _comparison(kind.elementType)
            return lambda written, found: _same_items(written, found, items)
        case types.MapType():
            values = _comparison(kind.valueType)
            return lambda written, found: _same_entries(written, found, values)
    return _ATOMIC.get(type(kind).__name__, _trusted)


def _same_items(written: Any, found: Any, same: _Same) -> bool:
    if not isinstance(written, list) or len(written) != len(found):
        return False
    return all(_is_same(same, *pair) for pair in zip(written, found, strict=True))


def _same_entries(written: Any, found: Any, same: _Same) -> bool:
    if not isinstance(written, _Object):
        return False
    given = dict(written)
    if len(given) < len(written) or len(given) != len(found):
        return False
    return all(name in given and _is_same(same, given[name], value) for name, value in found)


def _number(text: Any) -> Decimal:
    if not isinstance(text, str) or not _NUMBER.fullmatch(text):
        raise ValueError(f"{text!r} is not a number")
    return Decimal(text)


def _same_number(written: Any, found: Any) -> bool:
    return bool(written == found and isinstance(written, _Number)) or _number(written) == _number(found)


def same_float(written: Any, found: Any, digits: int = _DOUBLE_DIGITS) -> bool:
    """True if the float ``found`` has the same digits as the written number. Raises ValueError, ArithmeticError."""
    if found in _NOT_FINITE:
        return bool(_NOT_FINITE.get(written) == found)
    if written == found:
        return True
    given = _number(written)
    value = float(found)
    if digits == _FLOAT_DIGITS:
        (value,) = struct.unpack("f", struct.pack("f", value))
    context = Context(prec=min(max(1, len(given.as_tuple().digits)), digits))
    return context.plus(given) == context.plus(Decimal(value))


def _same_text(written: Any, found: Any) -> bool:
    if isinstance(written, bool):
        return bool(found == str(written).lower())
    if isinstance(written, str):
        return bool(written == found)
    return _same_json(written, _DECODER.decode(found))


def _same_json(written: Any, found: Any) -> bool:
    if isinstance(written, _Object):
        return isinstance(found, _Object) and _same_entries(written, found, _same_json)
    if isinstance(written, list):
        return isinstance(found, list) and _same_items(written, found, _same_json)
    if isinstance(written, _Number):
        return isinstance(found, _Number) and _same_number(written, found)
    return type(written) is type(found) and bool(written == found)


def _same_bytes(written: Any, found: Any) -> bool:
    return bool("".join(written.split()) == found)


def _same_date(written: Any, found: Any) -> bool:
    given, made = _DATE.fullmatch(written), _DATE.fullmatch(found)
    if given is None or made is None:
        return False
    return all(int(part or 1) == int(other) for part, other in zip(given.groups(), made.groups(), strict=True))


def _same_instant(written: Any, found: Any) -> bool:
    at = datetime.fromisoformat(found)
    if isinstance(written, _Number):  # seconds since the epoch
        return bool(at == _EPOCH + timedelta(seconds=int(written)))
    local, zone = _local_time(written)
    there = at if zone is None else at.astimezone(zone)
    return there.replace(tzinfo=None) == local  # unequal in the hour skipped by a change to summer time


def _same_local_time(written: Any, found: Any) -> bool:
    return _local_time(written) == (datetime.fromisoformat(found), None)


def _same_time(written: Any, found: Any) -> bool:
    return bool(written == found) or time.fromisoformat(written) == time.fromisoformat(found)


def _trusted(written: Any, found: Any) -> bool:
    return True


_ATOMIC: dict[str, _Same] = {
    **dict.fromkeys(("ByteType", "ShortType", "IntegerType", "LongType", "DecimalType"), _same_number),
    "FloatType": partial(same_float, digits=_FLOAT_DIGITS),
    "DoubleType": same_float,
    "BooleanType": operator.is_,
    "BinaryType": _same_bytes,
    "StringType": _same_text,
    "VariantType": _same_json,
    "DateType": _same_date,
    "TimestampType": _same_instant,
    "TimestampNTZType": _same_local_time,
    "TimeType": _same_time,
}
"""Keyed by the names of Spark's types, because older versions lack some of the types."""


def _local_time(text: str) -> tuple[datetime, tzinfo | None]:
    match = _TIMESTAMP.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a timestamp")
    *parts, fraction, zone = match.groups()
    year, month, day, hour, minute, second = (int(part) if part else None for part in parts)
    digits = (fraction or "").rstrip("0")
    if len(digits) > _MICROS_DIGITS:
        raise ValueError(f"{text!r} is finer than microseconds")
    assert year is not None, "the pattern has it"
    micros = int(digits.ljust(_MICROS_DIGITS, "0"))
    local = datetime(year, month or 1, day or 1, hour or 0, minute or 0, second or 0, micros)
    return local, _zone(zone) if zone else None


def _zone(text: str) -> tzinfo:
    if text in ("Z", "UTC", "GMT", "UT"):
        return UTC
    if (offset := _OFFSET.fullmatch(text)) is None:
        return ZoneInfo(text)
    sign, hours, minutes, seconds = offset.groups()
    ahead = timedelta(hours=int(hours), minutes=int(minutes or 0), seconds=int(seconds or 0))
    return timezone(-ahead if sign == "-" else ahead)

"""The data sets that every producer client writes and every consumer client must read back, byte for byte.

API clients can write anything. Line-based tools cannot write a line break or choose a timestamp, and kcat puts the
same headers on all records of one run; each gets the most difficult data that it supports.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import NamedTuple

Header = tuple[str, bytes | None]

_SEED = 20260101
_FIRST_TIMESTAMP_MS = 1_700_000_000_000


class Record(NamedTuple):
    """One record as a client sees it. `offset` -1 and `timestamp_ms` None: the producer does not choose them."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    timestamp_ms: int | None = None
    offset: int = -1


#: Headers that kcat can give on its command line.
COMMON_HEADERS: tuple[Header, ...] = (("source", b"kcat"), ("empty", b""), ("unicode", "größer ✓".encode()))


def anything() -> list[Record]:
    """Binary keys, values and headers; null, empty and big ones; timestamps that jump backwards."""
    chooser = random.Random(_SEED)
    special = [
        Record(None, b"null key"),
        Record(b"", b"empty key"),
        Record(b"tombstone", None),
        Record(b"empty value", b""),
        Record(None, None),
        Record(bytes(range(256)), bytes(range(256))),
        Record(b"headers", b"null and empty", (("null", None), ("empty", b""), ("", b"empty name"))),
        Record(b"headers", b"same name twice", (("same", b"1"), ("same", b"2"), ("größe", bytes(range(256))))),
        Record(b"big", chooser.randbytes(200_000)),
        Record(b"repetitive", b"kafka-zk " * 10_000),
        Record(b"old", b"1970", timestamp_ms=1),
    ]
    plain = [
        Record(
            b"key-%d" % (number % 17),
            chooser.randbytes(chooser.randrange(300)),
            (("number", b"%d" % number),) if number % 3 == 0 else (),
        )
        for number in range(250)
    ]
    return [
        record if record.timestamp_ms else record._replace(timestamp_ms=_FIRST_TIMESTAMP_MS + chooser.randrange(10**6))
        for record in [*special, *plain]
    ]


def anything_for_python() -> list[Record]:
    """`anything` without the records that pure Python clients refuse: without key and value, or with a null header
    value.
    """
    return [
        record._replace(headers=tuple((name, value) for name, value in record.headers if value is not None))
        for record in anything()
        if record.key is not None or record.value is not None
    ]


def without_headers(records: Iterable[Record]) -> list[Record]:
    """The same records for clients from before 0.11."""
    return [record._replace(headers=()) for record in records]


def without_timestamps(records: Iterable[Record]) -> list[Record]:
    """The same records for clients that set timestamps themselves."""
    return [record._replace(timestamp_ms=None) for record in records]


def lines() -> list[Record]:
    """Records that fit on a line of kafka-console-producer with parse.key, parse.headers and null.marker."""
    special = [
        Record(None, b"null key"),
        Record(b"", b"empty key"),
        Record(b"tombstone", None),
        Record(b"empty value", b""),
        Record("schlüssel".encode(), "größer ✓ 日本語".encode()),
        Record(b"headers", b"null and empty", (("null", None), ("empty", b""))),
        Record(b"headers", b"same name twice", (("same", b"1"), ("same", b"2"))),
        Record(b"long", b"x" * 100_000),
    ]
    return special + [Record(b"k%d" % (n % 5), b"line %d" % n, (("n", b"%d" % n),)) for n in range(100)]


def common_headers_lines() -> list[Record]:
    """Records that fit on a line of kcat: all have the same headers, and an empty field is null."""
    special = [
        Record(None, b"null key"),
        Record(b"tombstone", None),
        Record("schlüssel".encode(), "größer ✓ 日本語".encode()),
        Record(b"long", b"x" * 100_000),
    ]
    plain = [Record(b"k%d" % (n % 5), b"line %d" % n) for n in range(100)]
    return [record._replace(headers=COMMON_HEADERS) for record in [*special, *plain]]


def differences(expected: Iterable[object], found: Iterable[object]) -> str:
    """Empty if both sequences are equal, else the first difference, shortened for readers."""
    left, right = list(expected), list(found)
    for number, (one, other) in enumerate(zip(left, right, strict=False)):
        if one != other:
            return f"record {number}: expected {_short(one)}, found {_short(other)}"
    return "" if len(left) == len(right) else f"expected {len(left)} records, found {len(right)}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 300 else f"{text[:200]} ... {text[-80:]}"

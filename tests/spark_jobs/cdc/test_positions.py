"""Positions of both databases."""

import pytest

from kafka_zk.spark_jobs.cdc import positions
from kafka_zk.spark_jobs.errors import ChangeRefused
from tests.spark_jobs.cdc import recordings


def test_incremental_snapshots_of_postgresql_have_theirs_in_the_sequence() -> None:
    read = [record for record in recordings.records("postgres", "plain", "customers") if record.value]
    incremental = [record for record in read if record.value["source"]["snapshot"] == "incremental"]
    assert incremental
    for record in incremental:
        source = record.value["source"]
        assert source["lsn"] is None
        assert positions.of_source(source) > (0,)


def test_a_later_binlog_file_is_newer_whatever_its_position() -> None:
    source = {"connector": "mariadb", "file": "binlog.000009", "pos": 900, "row": 1}
    assert positions.of_source(source) < positions.of_source({**source, "file": "binlog.000010", "pos": 4})


@pytest.mark.parametrize(
    ("row", "position"),
    [
        ({"__lsn": 5}, (5,)),
        ({"__source_lsn": None, "__source_sequence": '["4","6"]'}, (6,)),
        ({"__source_file": "binlog.000002", "__source_pos": 4, "__source_row": 1}, (2, 4, 1)),
        ({"__op": "c", "lsn": 5}, ()),
    ],
)
def test_unwrapped_rows_have_theirs_in_added_fields(row: dict[str, object], position: tuple[int, ...]) -> None:
    assert positions.of_unwrapped(row) == position


@pytest.mark.parametrize("sequence", [None, "[null,null]", "[]", "x"])
def test_a_change_of_postgresql_without_a_position_is_refused(sequence: str | None) -> None:
    with pytest.raises(ChangeRefused, match="neither an lsn nor a sequence"):
        positions.of_source({"connector": "postgresql", "lsn": None, "sequence": sequence})


@pytest.mark.parametrize("bad", [{"file": "binlog"}, {"pos": None}, {"pos": True}, {"row": -1}])
def test_a_change_of_mariadb_without_a_position_is_refused(bad: dict[str, object]) -> None:
    with pytest.raises(ChangeRefused, match="no position in a binlog"):
        positions.of_source({"connector": "mariadb", "file": "binlog.000001", "pos": 4, "row": 0, **bad})

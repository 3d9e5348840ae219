"""Every recorded topic results in its table, however its changes are divided into rounds."""

from random import Random

import pytest

from kafka_zk.spark_jobs.cdc.changes import Change, Op, Position, Rank
from kafka_zk.spark_jobs.cdc.folding import Delete, Fold, Upsert
from kafka_zk.spark_jobs.cdc.given_types import given_types
from kafka_zk.spark_jobs.errors import ChangeRefused
from tests.spark_jobs.cdc import recordings
from tests.spark_jobs.cdc.tables import MemoryTable, merged_in_rounds

_KEYS = {"orders": ("customer_id", "order_no")}
_TABLES = ("orders", "customers", "cleared", "documents", "shifted", "evolving", "types")
_WITH_POSITIONS = [
    *(
        (database, variant, table)
        for database in ("postgres", "mariadb")
        for variant in ("plain", "avro")
        for table in _TABLES
    ),
    *(("postgres", "flat", table) for table in _TABLES),
    *(
        (database, "schema", table)
        for database in ("postgres", "mariadb")
        for table in ("orders", "cleared", "evolving")
    ),
    ("mariadb", "schema", "types"),
    ("mariadb", "modes", "types"),
]
_BY_OFFSET = [
    *(("mariadb", "flat", table) for table in ("customers", "cleared", "documents", "shifted", "evolving", "types")),
    *(
        (database, "bare", table)
        for database in ("postgres", "mariadb")
        for table in ("customers", "cleared", "documents")
    ),
]
_OLD_ROWS = [("2",), ("3",), ("4",), ("5",), ("6",)]
"""Rows that stay in ``cleared``, because the transforms that unwrap events drop truncates."""


def _expected_keys(database: str, variant: str, table: str) -> list[tuple[str, ...]]:
    rows = recordings.expected(database, table)
    keys = [tuple(str(row[name]) for name in _KEYS.get(table, ("id",))) for row in rows]
    if (database, table) == ("postgres", "shifted"):  # a deferred key: only the row's old values distinguish c and d
        keys.remove(("2",))
    if table == "cleared" and variant in ("flat", "bare"):
        keys += _OLD_ROWS
    return sorted(keys)


@pytest.mark.parametrize(("database", "variant", "table"), [*_WITH_POSITIONS, *_BY_OFFSET])
def test_a_topic_leads_to_the_same_table_in_any_rounds(database: str, variant: str, table: str) -> None:
    changes = recordings.changes(database, variant, table)
    whole = MemoryTable()
    whole.merge(changes)
    assert whole.keys() == _expected_keys(database, variant, table)
    for seed in range(8):
        in_rounds = merged_in_rounds(changes, Random(seed))
        assert in_rounds.rows == whole.rows
        assert {
            key: row for key, state in in_rounds.states.items() if (row := state.row(in_rounds.truncated_at))
        } == whole.rows


@pytest.mark.parametrize("variant", ["plain", "avro", "flat", "bare"])
def test_placeholders_keep_the_values_of_the_row_or_of_its_old_key(variant: str) -> None:
    table = merged_in_rounds(recordings.changes("postgres", variant, "documents"), Random(1))
    expected = {row["id"]: row for row in recordings.expected("postgres", "documents")}
    assert table.rows['{"id":10}']["body"] == expected["10"]["body"]
    assert table.rows['{"id":10}']["title"] == "one, with full identity"
    assert table.rows['{"id":30}']["body"] == expected["30"]["body"]
    assert table.rows['{"id":2}']["body"] == "short", "a real value that equals the placeholder looks like one"


@pytest.mark.parametrize(("database", "variant"), [("postgres", "plain"), ("mariadb", "plain"), ("postgres", "flat")])
def test_text_columns_are_those_of_the_database(database: str, variant: str) -> None:
    table = merged_in_rounds(recordings.changes(database, variant, "customers"), Random(2))
    for row in recordings.expected(database, "customers"):
        found = table.rows[f'{{"id":{row["id"]}}}']
        assert (found["name"], found["note"]) == (row["name"], row["note"])


_ORDERS = "customer_id INT, order_no INT, amount DECIMAL(10,2), placed DATE, gift STRING"
_DOCUMENTS = "id INT, title STRING, body STRING, blob BINARY"
_NUMBERS = "id INT, n_fix DECIMAL(20,6), d DATE, dt3 TIMESTAMP_MILLIS, t6 TIME_MICROS, u8 BIGINT UNSIGNED, b64 BITS(64)"


@pytest.mark.parametrize(
    ("database", "table", "schema"),
    [
        ("postgres", "orders", _ORDERS),
        ("mariadb", "orders", _ORDERS),
        ("postgres", "documents", _DOCUMENTS),
        ("mariadb", "types", f"{_NUMBERS}, n_wide DECIMAL(65,30)"),
    ],
)
def test_avro_leads_to_the_same_rows_as_json(database: str, table: str, schema: str) -> None:
    types = given_types(schema)
    found = [
        merged_in_rounds(recordings.changes(database, variant, table, types), Random(3)).rows
        for variant in ("avro", "plain")
    ]
    avro, plain = ({key: {name: row[name] for name in types} for key, row in rows.items()} for rows in found)
    assert avro == plain != {}


@pytest.mark.parametrize(("database", "variant"), [("mariadb", "flat"), ("postgres", "bare"), ("mariadb", "bare")])
def test_a_key_in_two_partitions_needs_positions(database: str, variant: str) -> None:
    changes = recordings.changes(database, variant, "orders")
    with pytest.raises(ChangeRefused, match="because partitions were added"):
        MemoryTable().merge(changes)


def _change(op: Op, position: Position, offset: int, **columns: object) -> Change:
    return Change(op, Rank(position, offset), 0, "k", columns=columns)


def test_repeats_of_a_create_do_not_revive_the_row() -> None:
    table = MemoryTable()
    table.merge([_change(Op.UPSERT, (5,), 0, a=1), _change(Op.DELETE, (6,), 1)])
    assert table.merge([_change(Op.UPSERT, (5,), 2, a=1)]) == []
    assert table.rows == {}


def test_a_column_that_a_later_create_lacks_does_not_return() -> None:
    table = MemoryTable()
    table.merge(
        [_change(Op.UPSERT, (5,), 0, a=1, gone=1), _change(Op.DELETE, (6,), 1), _change(Op.UPSERT, (7,), 2, a=2)]
    )
    assert table.rows == {"k": {"a": 2}}


def test_a_late_truncate_deletes_only_older_rows() -> None:
    table = MemoryTable()
    table.merge([_change(Op.UPSERT, (9,), 0, a=1)])
    table.merge([Change(Op.TRUNCATE, Rank((7,), 0), 1)])
    assert table.rows == {"k": {"a": 1}}
    table.merge([Change(Op.TRUNCATE, Rank((9,), 1), 1)])
    assert table.rows == {}


def test_results_name_what_differs_from_the_table() -> None:
    table = MemoryTable()
    table.merge([_change(Op.UPSERT, (5,), 0, a=1, b=1)])
    assert table.merge([_change(Op.UPSERT, (6,), 1, a=1, b=2)]) == [Upsert("k", {"a": 1, "b": 2}, frozenset("b"), (6,))]
    assert table.merge([_change(Op.DELETE, (7,), 2)]) == [Delete("k", (7,))]


def test_values_pass_through_a_chain_of_key_changes_that_come_backwards() -> None:
    wide = frozenset({"body"})
    moves = [
        Change(Op.UPSERT, Rank((7,), 0), 2, "c", {"id": 3}, wide, moved_from="b"),
        Change(Op.UPSERT, Rank((6,), 0), 1, "b", {"id": 2}, wide, moved_from="a"),
        Change(Op.UPSERT, Rank((5,), 0), 0, "a", {"id": 1, "body": "text"}),
    ]
    table = MemoryTable()
    for move in moves:
        table.merge([move])
    assert table.rows["c"] == {"id": 3, "body": "text"}


def test_the_estate_outlives_the_return_of_the_old_key() -> None:
    table = MemoryTable()
    table.merge([Change(Op.UPSERT, Rank((5,), 0), 0, "a", {"body": "old"})])
    table.merge([Change(Op.DELETE, Rank((6,), 1), 0, "a", moved_to="b")])
    table.merge([Change(Op.UPSERT, Rank((7,), 2), 0, "a", {"body": "new"})])
    table.merge([Change(Op.UPSERT, Rank((6,), 0), 1, "b", {}, frozenset({"body"}), moved_from="a")])
    assert table.rows == {"a": {"body": "new"}, "b": {"body": "old"}}


def test_changes_of_two_kinds_of_connectors_have_no_common_order() -> None:
    fold = Fold({})
    fold.apply(_change(Op.UPSERT, (5,), 0, a=1))
    with pytest.raises(ChangeRefused, match="two kinds of connectors"):
        fold.apply(_change(Op.UPSERT, (1, 4, 0), 1, a=1))


def test_a_truncate_without_a_position_is_refused() -> None:
    with pytest.raises(ChangeRefused, match="no position"):
        Fold({}).apply(Change(Op.TRUNCATE, Rank((), 0), 0))

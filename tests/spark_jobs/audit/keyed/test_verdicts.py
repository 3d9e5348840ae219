"""The last event of each key, compared with the row, on recorded topics and their tables."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from kafka_zk.spark_jobs.audit.keyed.events import ReadEvents
from kafka_zk.spark_jobs.audit.keyed.verdicts import LastEvent, Outcome, Row, Truncate, Verdict, judge
from kafka_zk.spark_jobs.cdc.changes import DEBEZIUM, KEYED
from tests.spark_jobs.audit.keyed import events_of
from tests.spark_jobs.cdc import recordings
from tests.spark_jobs.cdc.tables import MemoryTable

_KEYS = {"orders": ("customer_id", "order_no")}
_COMPARED = ("id", "name", "note", "title", "body", "v", "a", "b", "gift", "placed", "state")
_TOPICS = [
    *(
        (database, "plain", table)
        for database in ("postgres", "mariadb")
        for table in ("orders", "customers", "cleared", "documents", "evolving", "shifted")
    ),
    ("postgres", "flat", "documents"),
    ("postgres", "schema", "orders"),
    ("mariadb", "schema", "types"),
    ("mariadb", "flat", "customers"),
    ("postgres", "bare", "documents"),
    ("mariadb", "bare", "cleared"),
    ("postgres", "avro", "orders"),
    ("postgres", "avro", "documents"),
    ("mariadb", "avro", "types"),
]


def _judged(
    database: str, variant: str, table: str, rows: Mapping[tuple[str, ...], Row]
) -> dict[tuple[str, ...], Verdict]:
    avro = recordings.avro() if variant == "avro" else None
    read = ReadEvents(KEYED if variant == "bare" else DEBEZIUM, None, _KEYS.get(table, ("id",)), _COMPARED, avro)
    found = events_of.events(read, events_of.records(database, variant, table))
    last, truncate = events_of.last_events(found)
    assert rows.keys() <= last.keys()
    return {key: judge(event, rows.get(key), truncate) for key, event in last.items()}


def _merged(database: str, variant: str, table: str, *, has_ranks: bool) -> dict[tuple[str, ...], Row]:
    """The rows that extract merges, with or without the column of positions."""
    merged = MemoryTable()
    merged.merge(recordings.changes(database, variant, table))
    names = _KEYS.get(table, ("id",))
    found = {}
    for key, row in merged.rows.items():
        newest = merged.states[key].newest
        assert newest is not None
        rank = newest.position or (newest.offset,)
        key_columns = json.loads(key)
        columns = {name: row.get(name) for name in _COMPARED}
        found[tuple(str(key_columns[name]) for name in names)] = Row(columns, rank if has_ranks else None)
    return found


@pytest.mark.parametrize("has_ranks", [True, False])
@pytest.mark.parametrize(("database", "variant", "table"), _TOPICS)
def test_merged_tables_agree_with_their_topics(database: str, variant: str, table: str, has_ranks: bool) -> None:
    rows = _merged(database, variant, table, has_ranks=has_ranks)
    found = _judged(database, variant, table, rows)
    shifted = {("2",)} if (database, table) == ("postgres", "shifted") else set()
    assert {key for key, verdict in found.items() if verdict.outcome is not Outcome.AGREES} == shifted
    assert all(found[key].outcome is Outcome.SHIFTED for key in shifted)
    assert any(each.evidence is not None for each in found.values())


@pytest.mark.parametrize("has_ranks", [True, False])
def test_a_lost_row_is_missing_and_a_deleted_one_remains(has_ranks: bool) -> None:
    rows = _merged("postgres", "plain", "customers", has_ranks=has_ranks)
    lost = min(rows)
    row = rows.pop(lost)
    deleted = next(
        key for key, each in _judged("postgres", "plain", "customers", rows).items()
        if key not in rows and key != lost
    )  # fmt: skip
    rows[deleted] = Row(row.columns, (0,) if has_ranks else None)
    found = _judged("postgres", "plain", "customers", rows)
    wrong = {key: each.outcome for key, each in found.items() if each.outcome is not Outcome.AGREES}
    assert wrong == {lost: Outcome.MISSING, deleted: Outcome.REMAINS}


def test_a_row_that_a_truncate_should_have_deleted_remains() -> None:
    rows = _merged("mariadb", "plain", "cleared", has_ranks=False)
    found = _judged("mariadb", "plain", "cleared", {**rows, ("4",): Row({"v": "x"}, None)})
    outcomes = {each.outcome for each in found.values()}
    assert (found[("4",)].outcome, outcomes) == (Outcome.REMAINS, {Outcome.REMAINS, Outcome.AGREES})


_UPSERT = '{{"columns":{},"from":null,"key":"","op":"upsert","partition":0,"placeholders":{},"rank":[[],0],"to":null}}'


def _event(columns: str = '{"v":"new"}', placeholders: str = "[]", **other: Any) -> LastEvent:
    given: dict[str, Any] = {"content": _UPSERT.format(columns, placeholders), "is_delete": False, "first_offset": 7}
    return LastEvent(**{"partition": 2, "offset": 9, "rank": (5,), **given, **other})


@pytest.mark.parametrize(
    ("row", "verdict"),
    [
        (Row({"v": "new"}, (5,)), Verdict(Outcome.AGREES, 2, 9, 7)),
        (Row({"v": "new"}, None), Verdict(Outcome.AGREES, 2, 9, 7)),
        (Row({"v": "new"}, (4,)), Verdict(Outcome.AGREES, 2, 9, None)),
        (Row({"v": "old"}, (5,)), Verdict(Outcome.ALTERED, 2, 9, 7, "it differs in v")),
        (
            Row({"v": "old"}, (4,)),
            Verdict(Outcome.OUTDATED, 2, 9, said="it differs in v; the row comes from position 4"),
        ),
        (Row({"v": "old"}, None), Verdict(Outcome.OUTDATED, 2, 9, said="it differs in v")),
        (Row({"v": "new"}, (6,)), Verdict(Outcome.AHEAD, 2, 9, said="the row comes from position 6")),
        (None, Verdict(Outcome.MISSING, 2, 9)),
    ],
)
def test_positions_say_whether_a_row_is_old_or_altered(row: Row | None, verdict: Verdict) -> None:
    assert judge(_event(), row, None)._replace(compared=None) == verdict


def test_placeholders_and_absent_columns_are_not_compared_and_are_no_evidence_by_values() -> None:
    event = _event('{"v":"new"}', '["body"]')
    row = Row({"v": "new", "body": "kept", "later": 1}, None)
    assert judge(event, row, None) == Verdict(Outcome.AGREES, 2, 9, None, compared=("v",))


@pytest.mark.parametrize("value", ["__debezium_unavailable_value", b"__debezium_unavailable_value"])
def test_a_row_that_has_the_placeholder_itself_differs(value: Any) -> None:
    found = judge(_event('{"v":"new"}', '["body"]'), Row({"v": "new", "body": value}, None), None)
    assert (found.outcome, found.said) == (Outcome.OUTDATED, "it differs in body")


def test_values_of_other_kinds_are_not_compared() -> None:
    found = judge(_event('{"v":5}'), Row({"v": "five"}, None), None)
    assert (found.outcome, found.evidence) == (Outcome.AGREES, None)
    assert found.unlike == ("v is a number in the events and text in the table",)


def test_a_truncate_is_the_last_event_of_older_keys_only() -> None:
    row = Row({"v": "new"}, None)
    assert judge(_event(), row, Truncate((5,), 0, 3)) == Verdict(Outcome.REMAINS, 0, 3)
    assert judge(_event(), None, Truncate((5,), 0, 3)).outcome is Outcome.AGREES
    assert judge(_event(), row, Truncate((4,), 0, 3)).outcome is Outcome.AGREES


def test_events_without_an_order_are_not_judged() -> None:
    assert judge(_event(is_ordered=False), None, None).outcome is Outcome.UNORDERED


@pytest.mark.parametrize(
    ("left", "taken", "outcome"),
    [
        ({"id": 2, "v": "two"}, {"id": 2, "v": "one"}, Outcome.SHIFTED),
        ({"id": 2, "v": "one"}, {"id": 2, "v": "one"}, Outcome.AGREES),
        ({"id": 2, "v": None}, {"id": 2, "v": "one"}, Outcome.AGREES),
    ],
)
def test_a_delete_of_another_row_than_the_upsert_made_is_a_shift(
    left: dict[str, Any], taken: dict[str, Any], outcome: Outcome
) -> None:
    moved, made = (json.dumps({"transaction": 1, "row": row}) for row in (left, taken))
    assert judge(_event(is_delete=True, moved=moved, taken=made), None, None).outcome is outcome
    later = json.dumps({"transaction": 2, "row": left})
    assert judge(_event(is_delete=True, moved=later, taken=made), None, None).outcome is Outcome.AGREES

"""Records as events: keys in the table's terms, and what is refused."""

import json
from datetime import date
from decimal import Decimal
from typing import Any
from unittest.mock import Mock

import pytest

from kafka_zk.spark_jobs.audit.keyed.events import KEY, REFUSED, TRUNCATE, ReadEvents
from kafka_zk.spark_jobs.cdc.changes import DEBEZIUM, KEYED
from tests.spark_jobs.audit.keyed import events_of
from tests.spark_jobs.cdc import recordings


def _record(key: Any, value: Any, offset: int = 4) -> dict[str, Any]:
    texts = {"key": key, "value": value}
    coded = {name: None if each is None else json.dumps(each).encode() for name, each in texts.items()}
    return {"topic": "t", "partition": 1, "offset": offset, **coded, "headers": []}


def test_keys_have_the_texts_that_spark_casts_to_the_tables_types() -> None:
    schema = "id INT, day DATE, price DECIMAL(5,2), raw BINARY, yes BOOLEAN, name STRING"
    key = {"id": 7, "day": 19_000, "price": "AfA=", "raw": "AP8=", "yes": True, "name": "it's"}
    (event,) = events_of.events(ReadEvents(KEYED, schema, tuple(key), ()), [_record(key, {"id": 7})])
    assert event["keys"] == ["7", "2022-01-08", "4.96", "00ff", "true", "it's"]
    assert json.loads(event["key"])["price"] == "4.96"


def test_the_offset_is_the_rank_of_events_without_a_position() -> None:
    (event,) = events_of.events(ReadEvents(KEYED, None, ("id",), ()), [_record({"id": 7}, None, offset=9)])
    assert (event["kind"], event["rank"], event["has_position"], event["is_delete"]) == (KEY, [9], False, True)


def test_equal_contents_of_other_offsets_are_equal() -> None:
    read = ReadEvents(KEYED, None, ("id",), ("v",))
    found = events_of.events(read, [_record({"id": 7}, {"v": 1, "w": each}, offset=each) for each in (1, 2)])
    assert found[0]["content"] == found[1]["content"], "w is not compared"


@pytest.mark.parametrize(
    ("record", "reason"),
    [
        (_record({"id": 7}, "text"), "offset 4 of t-1: the value is not a Debezium event but of type str"),
        (_record(None, {"op": "d", "source": {"connector": "postgresql", "lsn": 1}}), "has no key with columns"),
        (
            _record({"number": 7}, {"op": "d", "source": {"connector": "postgresql", "lsn": 1}}),
            "offset 4 of t-1: the key has number, and no id, which --key names",
        ),
    ],
)
def test_records_that_are_no_events_are_refused_one_by_one(record: dict[str, Any], reason: str) -> None:
    truncate = _record(None, {"op": "t", "source": {"connector": "postgresql", "lsn": 5}})
    refused, other = events_of.events(ReadEvents(DEBEZIUM, None, ("id",), ()), [record, truncate])
    assert refused["kind"] == REFUSED and reason in refused["content"]
    assert (other["kind"], other["rank"]) == (TRUNCATE, [5])


def test_tombstones_and_messages_leave_nothing() -> None:
    records = [_record({"id": 1}, None), _record(None, {"op": "m", "source": {}})]
    assert events_of.events(ReadEvents(DEBEZIUM, None, ("id",), ()), records) == []


def test_keys_in_avro_have_their_own_types() -> None:
    """The text of a decimal in ``Change.key`` is not parsed again."""
    key = {"price": Decimal("1.50"), "day": date(2022, 1, 8), "raw": b"\x00\xff"}
    coded = json.dumps({"op": "d", "source": {"connector": "postgresql", "lsn": 5}}).encode()
    avro = Mock(decode=lambda payload: key if payload == b"key" else json.loads(payload))
    record = {"topic": "t", "partition": 1, "offset": 4, "key": b"key", "value": coded, "headers": []}
    for schema in (None, "price DECIMAL(5,2), day DATE, raw BINARY"):
        (event,) = events_of.events(ReadEvents(DEBEZIUM, schema, tuple(key), (), avro), [record])
        assert (event["kind"], event["keys"]) == (KEY, ["1.50", "2022-01-08", "00ff"])


def test_what_is_not_avro_of_the_registry_is_refused() -> None:
    read = ReadEvents(DEBEZIUM, None, ("id",), (), recordings.avro())
    (refused,) = events_of.events(read, [_record({"id": 7}, {"op": "d"})])
    assert refused["kind"] == REFUSED and "cannot be decoded with a schema of the registry" in refused["content"]

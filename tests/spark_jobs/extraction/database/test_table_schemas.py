"""Columns from files, from JSON and from a registry, without any of their servers."""

import json
from pathlib import Path
from typing import Any, cast

import pytest

from kafka_zk.spark_jobs.cdc.given_types import ends_of, given_types
from kafka_zk.spark_jobs.errors import ChangeRefused, WronglyAsked
from kafka_zk.spark_jobs.extraction.database import table_schemas
from kafka_zk.spark_jobs.extraction.database.name_templates import NameTemplate
from kafka_zk.spark_jobs.extraction.database.newest_value import Found
from kafka_zk.spark_jobs.extraction.database.table_schemas import NoColumns, TableSchemas
from kafka_zk.spark_jobs.values.schema_registry import Schema

TOPIC = "shop.public.orders"
NO_FILES = "give the tables' columns in files, with --schema '@FOLDER/{table}.sql'"


def schemas(files: Path | None = None, registry: str | None = None) -> TableSchemas:
    template = None if files is None else NameTemplate(f"@{files}/{{table}}.sql", "--schema")
    return TableSchemas(cast("Any", None), template, registry)


@pytest.fixture
def newest(monkeypatch: pytest.MonkeyPatch) -> Any:
    """``newest(found)``: the newest value in the topic."""

    def replace(found: Found) -> None:
        monkeypatch.setattr(table_schemas, "newest_value", lambda topic, brokers: found)

    return replace


def test_a_file_of_the_table_comes_first(tmp_path: Path, newest: Any) -> None:
    newest(Found(b"no JSON", {0: 1}, True))
    (tmp_path / "orders.sql").write_text("id INT")
    assert schemas(tmp_path).of_events(TOPIC) == schemas(tmp_path).required(TOPIC) == "id INT"


def test_a_missing_file_is_named_only_if_it_is_needed(tmp_path: Path, newest: Any) -> None:
    assert schemas(tmp_path).given(TOPIC) is None
    with pytest.raises(WronglyAsked, match=f"of topic {TOPIC}: give the table's columns in {tmp_path}/orders.sql"):
        schemas(tmp_path).required(TOPIC)
    row = {"schema": {"type": "struct", "fields": [{"field": "id", "type": "int64"}]}, "payload": {"id": 1}}
    newest(Found(json.dumps(row).encode(), {0: 1}, True))
    assert list(given_types(schemas(tmp_path).of_events(TOPIC) or "")) == ["id"]


@pytest.mark.parametrize(
    ("found", "error", "told"),
    [
        (Found(b'{"id": 1}', {0: 1}, True), WronglyAsked, f"the JSON in topic {TOPIC} has no schemas: {NO_FILES}"),
        (Found(None, {0: 1}, True), NoColumns, f"no record of topic {TOPIC} has a value that says its columns: "
         f"{NO_FILES}"),
        (Found(b"\0\0\0\0\1", {0: 1}, True), ChangeRefused, "the newest value is not JSON: Avro needs "
         f"--value-format avro --schema-registry; {NO_FILES}"),
    ],
)  # fmt: skip
def test_what_does_not_say_its_columns_is_one_sentence_with_the_way_out(
    newest: Any, found: Found, error: type[Exception], told: str
) -> None:
    newest(found)
    with pytest.raises(error) as raised:
        schemas().of_events(TOPIC)
    assert str(raised.value) == told


def test_avro_has_the_versions_of_its_subject(newest: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    newest(Found(b"\0\0\0\0\7...", {0: 5}, True))
    versions = [Schema("AVRO", '{"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}')]

    class Registry:
        def learn(self, subject: str) -> list[Schema]:
            asked.append(subject)
            return versions

        def by_id(self, schema_id: int) -> Schema | None:
            return versions[0] if schema_id == 7 else None

    monkeypatch.setattr(table_schemas, "registry_at", lambda url: Registry())
    assert given_types(schemas(registry="http://r").of_events(TOPIC) or "")["id"].spark == "BIGINT"
    assert asked == [f"{TOPIC}-value"]
    versions.append(Schema("AVRO", '{"type": "record", "name": "R", "fields": [{"name": "other", "type": "long"}]}'))
    text = schemas(registry="http://r").of_events(TOPIC) or ""
    assert list(given_types(text)) == ["id"] and ends_of(text) == {0: 5}, "the newest record has an older version"
    for value in (None, b"\0\0\0\0\1", b"\1\0\0\0\7", b"\0"):
        newest(Found(value, {0: 5}, True))
        assert list(given_types(schemas(registry="http://r").of_events(TOPIC) or "")) == ["other"]
    versions.clear()
    newest(Found(None, {0: 0}, False))
    assert schemas(registry="http://r").of_events(TOPIC) is None
    newest(Found(b"x", {0: 1}, True))
    with pytest.raises(WronglyAsked, match=f"the schema registry has no subject {TOPIC}-value"):
        schemas(registry="http://r").of_events(TOPIC)


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "orders.sql").write_bytes(b"\xff\xfe")
    with pytest.raises(WronglyAsked, match=f"{tmp_path}/orders.sql is not text in UTF-8"):
        schemas(tmp_path).of_events(TOPIC)

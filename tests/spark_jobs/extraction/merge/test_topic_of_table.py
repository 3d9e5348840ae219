"""A table of --cdc has the rows of one topic, whose name is a property of the table."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import MagicMock

import pytest

from kafka_zk.spark_jobs.errors import ExtractionFailed
from kafka_zk.spark_jobs.extraction.manifest import Manifest, State
from kafka_zk.spark_jobs.extraction.merge import statements
from kafka_zk.spark_jobs.extraction.merge.delta_merge import MergedDeltaTables
from kafka_zk.spark_jobs.extraction.merge.iceberg_merge import MergedIcebergTables
from kafka_zk.spark_jobs.extraction.planning import Extraction
from kafka_zk.spark_jobs.extraction.table_lake import FENCE, RECORDS
from tests.spark_jobs.extraction.schemas.test_type_changes import struct

TOPIC, OTHER = "shop.public.orders", "shop.archive.orders"
FIELDS = struct(id="integer", _kafka_zk=struct(key="string"))["fields"]
TARGETS = {"delta": "/lake/orders", "iceberg": "lake.shop.orders"}
IN_SQL = {"delta": "delta.`/lake/orders`", "iceberg": "lake.shop.orders"}
NAMES_TOPIC = "ALTER TABLE {} SET TBLPROPERTIES ('kafka-zk.topic' = 'shop.public.orders')"
MERGED: dict[str, Any] = {"delta": MergedDeltaTables, "iceberg": MergedIcebergTables}


def spark_with(properties: dict[str, str], statements: list[str]) -> Any:
    """A session whose tables have these properties. It notes statements."""
    spark = MagicMock(sql=statements.append)
    metadata = spark._jvm.org.apache.spark.sql.delta.DeltaLog.forTableWithSnapshot.return_value._2().metadata()
    metadata.json.return_value = json.dumps({"metaData": {"configuration": properties}})
    spark._jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable.return_value.properties.return_value = properties
    return spark


class Prepared:
    """An existing table, of the topic in ``properties``, that a run of TOPIC merges into."""

    def __init__(self, format: str, properties: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.extraction = Extraction(
            zookeeper="z", group="g", topics=(TOPIC,), target=TARGETS[format], format=format, cdc="keyed",
            schema="id INT",
        )  # fmt: skip
        self.statements: list[str] = []
        self.spark = spark_with(properties, self.statements)
        self.tables = MERGED[format](self.spark, self.extraction)
        monkeypatch.setattr(f"{MERGED[format].__module__}._fields", lambda _: FIELDS)
        monkeypatch.setattr(self.tables, "_is_table", lambda _: True, raising=False)
        monkeypatch.setattr(self.tables, "location", lambda _: "/lake/orders")

    def prepare(self) -> None:
        self.tables.prepare(self.extraction.target, MagicMock(), ())

    def merge(self) -> None:
        self.tables.append(MagicMock(), self.plan(self.extraction.target), RECORDS, self.extraction)

    def plan(self, target: str) -> Manifest:
        return Manifest(
            State.PLANNED, (), target, "range=…", "staging/range=…-ab12", self.extraction.format, 0, "cd34", 7
        )


@pytest.mark.parametrize("format", TARGETS)
def test_a_table_without_a_topic_gets_that_of_the_run(format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = Prepared(format, {}, monkeypatch)
    prepared.prepare()
    assert prepared.statements == [NAMES_TOPIC.format(IN_SQL[format])]


@pytest.mark.parametrize("format", TARGETS)
def test_a_table_of_the_topic_stays_as_it_is(format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    prepared = Prepared(format, {"kafka-zk.topic": TOPIC}, monkeypatch)
    prepared.prepare()
    assert prepared.statements == []


@pytest.mark.parametrize("format", TARGETS)
@pytest.mark.parametrize("step", [Prepared.prepare, Prepared.merge])
def test_a_table_of_another_topic_is_refused_unchanged(step: Any, format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its columns may differ, too, but an error about them would mislead. The merge also refuses the table, because two
    runs may find it without a topic at the same time."""
    prepared = Prepared(format, {"kafka-zk.topic": OTHER}, monkeypatch)
    other_columns = MagicMock(side_effect=ExtractionFailed("give the table's columns"))
    monkeypatch.setattr(statements, "widenings", other_columns)
    with pytest.raises(ExtractionFailed, match=f"is the table of topic {OTHER}; .*give topic {TOPIC} another table"):
        step(prepared)
    assert prepared.statements == []


def test_a_delta_table_that_is_created_for_a_fence_has_no_topic_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """The group's plan may be that of a run for another topic and another table."""
    prepared = Prepared("delta", {}, monkeypatch)
    created: list[str] = []
    monkeypatch.setattr(prepared.tables, "_is_table", created.__contains__)
    monkeypatch.setattr(prepared.tables, "_make_table", lambda target, _: created.append(target))
    prepared.tables.append(None, prepared.plan("/lake/archive"), FENCE, prepared.extraction)
    assert created == ["/lake/archive/_kafka_zk_deleted", "/lake/archive"]
    assert prepared.statements == []


def test_a_new_iceberg_table_is_created_with_its_topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """One commit does both, so that no other topic can get the table first."""
    prepared = Prepared("iceberg", {"kafka-zk.topic": TOPIC}, monkeypatch)
    created: dict[str, list[Any]] = {}

    def write_to(target: str) -> Any:
        writer = MagicMock()
        writer.using.return_value = writer.tableProperty.return_value = writer
        writer.create.side_effect = lambda: created.setdefault(target, writer.tableProperty.call_args_list)
        return writer

    prepared.spark.createDataFrame.return_value.writeTo = write_to
    monkeypatch.setattr(prepared.tables, "location", lambda target: "/lake" if target in created else None)
    prepared.prepare()
    topics = {target: [call.args[1] for call in calls if call.args[0] == "kafka-zk.topic"]
              for target, calls in created.items()}  # fmt: skip
    assert topics == {"lake.shop.orders": [TOPIC], "lake.shop.orders_kafka_zk_deleted": []}

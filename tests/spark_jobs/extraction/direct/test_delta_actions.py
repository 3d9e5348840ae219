"""Which Delta tables get files of executors, and the actions that add them."""

import io
import json
from datetime import UTC, date, datetime
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql.types import ArrayType, LongType, StringType, StructField, StructType

from kafka_zk.spark_jobs.extraction.direct import delta_actions
from kafka_zk.spark_jobs.extraction.direct.delta_actions import add_file, nullable, sparks_writer_because, statistics
from kafka_zk.spark_jobs.extraction.direct.delta_commit import Columns

WRITTEN = StructType(
    [StructField("value", StringType(), False), StructField("tags", ArrayType(LongType(), False), False)]
)
COLUMNS = Columns(WRITTEN, ["timestamp_day"]).as_table()
PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}
TIME = datetime(2026, 1, 1, 0, 0, 0, 1, UTC)


def because(protocol: Any = None, columns: Any = None, partitions: Any = None, **settings: str) -> str | None:
    configuration = {f"delta.{name.replace('_', '.')}": value for name, value in settings.items()}
    metadata = {
        "schemaString": json.dumps(COLUMNS if columns is None else columns),
        "partitionColumns": ["timestamp_day"] if partitions is None else partitions,
        "configuration": configuration,
    }
    return sparks_writer_because(protocol or PROTOCOL, metadata, COLUMNS, ["timestamp_day"])


def with_first(**changed: Any) -> dict[str, Any]:
    first, *rest = COLUMNS["fields"]
    return {"fields": [{**first, **changed}, *rest]}


def test_a_table_that_spark_made_of_the_columns_gets_files() -> None:
    assert because() is None
    assert because(columns={"fields": COLUMNS["fields"][::-1]}) is None
    assert because(columns=with_first(metadata={"comment": "a text"})) is None
    assert because(logRetentionDuration="interval 1 day", enableDeletionVectors="true") is None
    features = {"minReaderVersion": 3, "minWriterVersion": 7, "writerFeatures": ["appendOnly", "deletionVectors"]}
    assert because(features) is None


@pytest.mark.parametrize(
    "feature",
    ["columnMapping", "checkConstraints", "generatedColumns", "rowTracking", "typeWidening", "identityColumns",
     "clustering", "icebergCompatV2", "catalogManaged", "allowColumnDefaults", "oneThatComesLater"],
)  # fmt: skip
def test_a_table_with_another_feature_takes_sparks_writer(feature: str) -> None:
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "writerFeatures": ["appendOnly", feature]}
    assert because(protocol) == f"the table's feature {feature}"


def test_what_may_be_in_a_table_of_an_old_protocol_takes_sparks_writer() -> None:
    assert because({"minWriterVersion": 5}) == "the table's feature of writer version 5"
    assert because(constraints_c="value <> ''") == "the table's setting delta.constraints.c"
    assert because(columnMapping_mode="name") == "the table's setting delta.columnMapping.mode"
    for rule in ("delta.generationExpression", "delta.typeChanges"):
        assert because(columns=with_first(metadata={rule: "1"})) == "the rules of the table's column value"
    assert because(enableTypeWidening="true") == "the table's setting delta.enableTypeWidening"


@pytest.mark.parametrize("changed", [{"name": "VALUE"}, {"type": "binary"}, {"nullable": False}])
def test_other_columns_take_sparks_writer(changed: dict[str, Any]) -> None:
    assert because(columns=with_first(**changed)) == "the table's columns"
    assert because(columns={"fields": COLUMNS["fields"][1:]}) == "the table's columns"


def test_other_partitions_take_sparks_writer() -> None:
    assert because(partitions=[]) == "the table's partitions"


def test_every_part_of_a_type_may_be_null() -> None:
    kind = {"type": "map", "keyType": "string", "valueType": json.loads(WRITTEN.json()), "valueContainsNull": False}
    assert "alse" not in str(nullable(kind))


def statistics_of(group_rows: int = 1, **columns: pa.Array) -> dict[str, Any]:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file, row_group_size=group_rows, store_schema=False)
    return statistics(pq.read_metadata(file))


def test_bounds_and_nulls_are_those_of_all_row_groups() -> None:
    found = statistics_of(number=pa.array([3, None, 1]), text=pa.array(["b", "a", None]), none=pa.nulls(3, pa.string()))
    assert found["numRecords"] == 3
    assert (found["minValues"], found["maxValues"]) == ({"number": 1, "text": "a"}, {"number": 3, "text": "b"})
    assert found["nullCount"] == {"number": 1, "text": 1, "none": 3}


def test_bounds_of_times_include_the_microseconds() -> None:
    local = pa.array([datetime(2026, 1, 1, 0, 0, 0, 999)])
    found = statistics_of(time=pa.array([TIME], pa.timestamp("us", "UTC")), local=local, day=pa.array([date(1, 2, 3)]))
    assert found["minValues"]["time"] == "2026-01-01T00:00:00.000Z"
    assert found["maxValues"]["time"] == "2026-01-01T00:00:00.001Z"
    assert (found["minValues"]["local"], found["maxValues"]["local"]) == (
        "2026-01-01T00:00:00.000",
        "2026-01-01T00:00:00.001",
    )
    assert found["minValues"]["day"] == "0001-02-03"


@pytest.mark.parametrize(
    "values",
    [
        pa.array([1.0, float("nan")]),
        pa.array(["x" * 33]),
        pa.array([b"x"]),
        pa.array([2**62], pa.timestamp("us", "UTC")),
        pa.array([[1]]),
        pa.array([{"a": 1}]),
    ],
    ids=str,
)
def test_what_has_no_certain_bound_has_none(values: pa.Array) -> None:
    found = statistics_of(2, column=values)
    assert (found["minValues"], found["maxValues"]) == ({}, {})


def test_a_file_is_added_with_the_values_of_its_folder() -> None:
    folder = "a b=x%2Fy%25/day=__HIVE_DEFAULT_PARTITION__"
    added = json.loads(add_file("part-0.parquet", folder, 7, 99, {"numRecords": 1}))["add"]
    assert (added["path"], added["size"], added["modificationTime"]) == ("part-0.parquet", 7, 99)
    assert added["partitionValues"] == {"a b": "x/y%", "day": None}
    assert json.loads(added["stats"]) == {"numRecords": 1}
    assert delta_actions.partition_values("") == {}


def test_the_first_column_that_differs_is_told() -> None:
    fields = COLUMNS["fields"]
    assert delta_actions.other_columns(fields, [{**each, "nullable": False} for each in fields]) is None
    assert delta_actions.other_columns(fields, fields[:-1]) == (
        'timestamp_day is "string" in the table, absent in the extraction'
    )
    more = [*fields, {**fields[-1], "name": "added", "type": "long"}]
    assert delta_actions.other_columns(fields, more) == 'added is absent in the table, "long" in the extraction'

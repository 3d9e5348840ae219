"""Which Iceberg tables executors write files to directly, the field ids in these files, and the partition values."""

import io
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafka_zk.spark_jobs.extraction.direct import iceberg_fields
from kafka_zk.spark_jobs.extraction.direct.iceberg_fields import (
    partition_values,
    setting_of_writer,
    sparks_writer_because,
)
from kafka_zk.spark_jobs.extraction.parquet.partition_folders import NO_VALUE, time_texts

OPTIONAL_LIST = {"type": "list", "element-id": 5, "element": "decimal(9, 2)", "element-required": False}
OPTIONAL_MAP = {
    "type": "map", "key-id": 6, "key": "string", "value-id": 7, "value": "long", "value-required": False,
}  # fmt: skip
STRUCT = {"type": "struct", "fields": [{"id": 8, "name": "x", "type": "binary", "required": False}]}
TYPES = {"time": "timestamptz", "list": OPTIONAL_LIST, "map": OPTIONAL_MAP, "struct": STRUCT}
SCHEMA = {
    "fields": [
        {"id": number, "name": name, "type": kind, "required": False}
        for number, (name, kind) in enumerate(TYPES.items(), 1)
    ]
}
WRITTEN = pa.schema(
    [
        ("time", pa.timestamp("us", tz="UTC")),
        ("list", pa.list_(pa.field("element", pa.decimal128(9, 2)))),
        ("map", pa.map_(pa.string(), pa.int64())),
        ("struct", pa.struct([("x", pa.binary())])),
    ]
)
HOURS = {"name": "time_hour", "transform": "hour", "source-id": 1, "field-id": 1000}


def because(terms: Any = (), fields: Any = (), schema: Any = SCHEMA, **settings: str) -> str | None:
    properties = {name.replace("_", "."): value for name, value in settings.items()}
    return sparks_writer_because(properties, schema, fields, terms, WRITTEN)


def test_a_table_of_the_columns_gets_files() -> None:
    assert because() is None
    assert because(("hours(time)",), [HOURS]) is None
    assert because(write_wap_enabled="true", commit_retry="9", write_metadata_metrics_default="none") is None


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"write_format_default": "orc"}, "the table's file format"),
        ({"write_data_path": "/x"}, "the table's setting write.data.path"),
        ({"encryption_key": "k"}, "the table's setting encryption.key"),
        ({"fields": [HOURS]}, "the table's partitions"),
        ({"terms": ("days(time)",), "fields": [HOURS]}, "the table's partitions"),
        ({"terms": ("hours(time)",), "fields": [{**HOURS, "name": "h"}]}, "the table's partitions"),
        ({"terms": ("bucket(4, time)",), "fields": [{**HOURS, "transform": "bucket[4]"}]}, "the table's partitions"),
        ({"schema": {"fields": SCHEMA["fields"][1:]}}, "the table's columns"),
        ({"schema": {"fields": [{**SCHEMA["fields"][0], "required": True}, *SCHEMA["fields"][1:]]}},
         "the table's columns"),
        ({"schema": {"fields": [{**SCHEMA["fields"][0], "type": "uuid"}, *SCHEMA["fields"][1:]]}},
         "the table's columns"),
    ],
)  # fmt: skip
def test_other_tables_take_sparks_writer(more: dict[str, Any], reason: str) -> None:
    assert because(**more) == reason


def test_a_session_may_give_its_writer_other_settings_than_the_table() -> None:
    codec = "spark.sql.iceberg.compression-codec"
    assert setting_of_writer([codec, "spark.app.name"]) == codec
    assert setting_of_writer(["spark.wap.branch"]) == "spark.wap.branch"
    assert setting_of_writer(["spark.sql.iceberg.vectorization.enabled", "spark.sql.catalog.lake.type"]) is None


def test_every_field_has_its_id() -> None:
    found = iceberg_fields.arrow_schema(SCHEMA)
    assert found is not None
    list_, map_, struct = (found.field(name).type for name in ("list", "map", "struct"))
    nested = [list_.value_field, map_.key_field, map_.item_field, struct.field("x")]
    assert [int(each.metadata[b"PARQUET:field_id"]) for each in (*found, *nested)] == list(range(1, 9))


def test_the_ids_of_a_file_are_those_it_was_written_with() -> None:
    """A column that has since been dropped and added again has the same type, but a different id."""
    found = iceberg_fields.arrow_schema(SCHEMA)
    assert found is not None
    file = io.BytesIO()
    pq.write_table(found.empty_table(), file, store_schema=False)
    assert iceberg_fields.ids(pq.read_schema(file)) == iceberg_fields.ids(found)
    again = iceberg_fields.arrow_schema({"fields": [{**SCHEMA["fields"][0], "id": 20}, *SCHEMA["fields"][1:]]})
    assert again is not None
    assert again.equals(found)
    assert iceberg_fields.ids(again) != iceberg_fields.ids(found)


@pytest.mark.parametrize("unit", ["years", "months", "days", "hours"])
@pytest.mark.parametrize("time", ["1969-12-31T23:59", "2026-11-23T17:30", "-0400-02-29T01:00", "12000-02-29T05:00"])
def test_values_of_times_are_counts_since_1970(unit: str, time: str) -> None:
    moment = np.datetime64(time, "us")
    kind = {"years": "Y", "months": "M", "days": "D", "hours": "h"}[unit]
    text = time_texts(pa.array([int(moment.astype(int))], pa.timestamp("us")), unit)[0].as_py()
    expected = int(moment.astype(f"datetime64[{kind}]").astype(int))
    assert partition_values(f"time_x={text}", [f"{unit}(time)"]) == [expected]


def test_a_record_without_time_has_a_partition_of_its_own() -> None:
    assert partition_values(f"a={NO_VALUE}/b=1970", ["days(a)", "years(b)"]) == [None, 0]
    assert partition_values("", []) == []

"""Which extractions the executors' own writer writes, and why Spark's writer writes the others."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql.types import BinaryType, DoubleType, StructField, StructType, TimestampType, VariantType

from kafka_zk.spark_jobs.extraction.planning import Extraction
from kafka_zk.spark_jobs.extraction.writers import CODEC, codec, sparks_writer_because

ASKED = Extraction(zookeeper="z", group="g", topics=("t",), target="/lake")
COLUMNS = {"key": BinaryType(), "price": DoubleType(), "timestamp": TimestampType()}


def because(
    asked: Extraction = ASKED, target: str = "file:/lake", settings: Mapping[str, str] | None = None,
    parquet: tuple[str, ...] = (), **columns: Any,
) -> str | None:  # fmt: skip
    written = StructType([StructField(name, kind) for name, kind in {**COLUMNS, **columns}.items()])
    return sparks_writer_because(asked, target, list(COLUMNS), written, settings or {}, parquet)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"decode": "string"},
        {"decode": "avro", "schema": "{}", "on_undecodable": "keep"},
        {"select": "`key`, PRICE"},
        {"partition_by": ("days(timestamp)",)},
        {"include": ("headers",)},
        {"key_format": "bytes"},
        {"decode": "string", "key_format": "string"},
        {"format": "delta"},
        {"format": "iceberg"},
    ],
)
def test_executors_write_plain_extractions(more: dict[str, Any]) -> None:
    assert because(replace(ASKED, **more)) is None


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"format": "json"}, "--format json"),
        ({"decode": "json", "schema": "a INT"}, "--decode json"),
        ({"key_format": "string"}, "--key-format string"),
        ({"decode": "string", "key_format": "bytes"}, "--key-format bytes"),
        ({"decode": "string", "key_format": "long"}, "--key-format long"),
        ({"metadata_prefix": "_kafka_"}, "--metadata-prefix"),
        ({"where": "price > 0"}, "--where"),
        ({"select": "price * 2 AS p"}, "an expression in --select"),
        ({"select": "current_date"}, "an expression in --select"),
        ({"target_file_bytes": 1}, "--target-file-size"),
        ({"partition_by": ("price",)}, "the type of a column in --partition-by"),
    ],
)
def test_spark_writes_what_needs_spark(more: dict[str, Any], reason: str) -> None:
    assert because(replace(ASKED, **more)) == reason


def test_spark_writes_to_other_file_systems_and_unknown_types() -> None:
    assert because(target="hdfs://h/lake") == "the file system hdfs"
    assert because(v=VariantType()) == "the type of a column"


def test_settings_of_spark_s_writer_are_obeyed() -> None:
    """An executor that ignored an encryption key would write plain text."""
    assert because(parquet=("parquet.encryption.footer.key",)) == "parquet.encryption.footer.key"
    key = "parquet.encryption.column.keys"
    assert because(settings={key: "k1: value"}) == key
    legacy = "spark.sql.parquet.writeLegacyFormat"
    assert because(settings={legacy: "true"}) == legacy
    assert because(settings={"spark.sql.parquet.fieldId.write.enabled": "true"}) is None
    assert because(settings={CODEC: "brotli"}) == "the codec brotli"
    assert because(settings={CODEC: "ZSTD", "spark.app.name": "x"}) is None
    assert (codec({}), codec({CODEC: "ZSTD"})) == ("snappy", "zstd")

"""Which columns are recognized as topic, partition and offset."""

import pytest

from kafka_zk.spark_jobs.audit.column_names import columns_of
from kafka_zk.spark_jobs.audit.data_files import Columns
from kafka_zk.spark_jobs.errors import AuditFailed


@pytest.mark.parametrize(
    ("paths", "found"),
    [
        (["key", "topic", "partition", "offset", "timestamp"], ("topic", "partition", "offset")),
        (["_kafka_topic", "_kafka_partition", "_kafka_offset", "offset"],
         ("_kafka_topic", "_kafka_partition", "_kafka_offset")),
        (["_kafka_metadata.topic", "_kafka_metadata.partition", "_kafka_metadata.offset"],
         ("_kafka_metadata.topic", "_kafka_metadata.partition", "_kafka_metadata.offset")),
        (["redpanda.partition", "redpanda.offset", "value"], (None, "redpanda.partition", "redpanda.offset")),
        (["$$topic", "$$partition", "$$offset"], ("$$topic", "$$partition", "$$offset")),
    ],
)  # fmt: skip
def test_common_names_are_recognized(paths: list[str], found: tuple[str | None, str, str]) -> None:
    assert columns_of(paths, None, None, None) == Columns(*found)


def test_named_columns_count_before_recognized_ones() -> None:
    paths = ["topic", "partition", "offset", "source", "p"]
    assert columns_of(paths, "source", "p", None) == Columns("source", "p", "offset")


def test_unknown_columns_are_listed() -> None:
    with pytest.raises(AuditFailed, match="name them with --partition-column and --offset-column; the table has a, b"):
        columns_of(["b", "a"], None, None, None)
    with pytest.raises(AuditFailed, match="--topic-column: the table has no column c, only a, b"):
        columns_of(["b", "a"], "c", None, None)

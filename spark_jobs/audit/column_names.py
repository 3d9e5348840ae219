"""Finds the columns of a table that hold topic, partition and offset. Pure."""

from collections.abc import Collection

from kafka_zk.spark_jobs.audit.data_files import Columns
from kafka_zk.spark_jobs.errors import AuditFailed

_PATTERNS = (
    "{}",  # kafka-zk extract, Spark's Kafka source
    "_kafka_metadata.{}",  # Iceberg's Kafka Connect sink with KafkaMetadataTransform
    "_kafka_metadata_{}",
    "_kafka_{}",
    "_kafka.{}",
    "kafka_{}",
    "kafka.{}",
    "__kafka_{}",
    "_{}",
    "__{}",
    "meta.kafka.{}",
    "redpanda.{}",  # Redpanda's Iceberg topics, without a column for the topic
    "$${}",  # Confluent's Tableflow
)


def columns_of(paths: Collection[str], topic: str | None, partition: str | None, offset: str | None) -> Columns:
    """``paths``: all columns of the table. The other arguments are the names that the user gave. Raises AuditFailed."""
    for option, name in (("topic", topic), ("partition", partition), ("offset", offset)):
        if name is not None and name not in paths:
            raise AuditFailed(f"--{option}-column: the table has no column {name}, only {_some(paths)}")
    for pattern in _PATTERNS:
        found = Columns(
            topic or _present(pattern.format("topic"), paths),
            partition or pattern.format("partition"),
            offset or pattern.format("offset"),
        )
        if found.partition in paths and found.offset in paths:
            return found
    raise AuditFailed(
        f"no columns are known to hold partition and offset: name them with --partition-column and --offset-column; "
        f"the table has {_some(paths)}"
    )


def _present(path: str, paths: Collection[str]) -> str | None:
    return path if path in paths else None


def _some(paths: Collection[str]) -> str:
    shown = sorted(paths)
    return ", ".join(shown[:20]) + (", …" if len(shown) > 20 else "")

"""Chooses who writes a staging folder's files: the executors' Python (``parquet/``), or Spark's own writer. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kafka_zk.spark_jobs.extraction import columns, keys, partitioning
from kafka_zk.spark_jobs.extraction.parquet import arrow_types, partition_folders, task
from kafka_zk.spark_jobs.extraction.planning import Extraction
from kafka_zk.spark_jobs.extraction.stores import scheme_of
from kafka_zk.spark_jobs.extraction.table_formats import TABLE_FORMATS

_FORMATS = ("parquet", *TABLE_FORMATS)
"""For tables, ``table_lake.py`` has further reasons."""
_FILE_SYSTEM = "file"
CODEC = "spark.sql.parquet.compression.codec"
_DEFAULT_CODEC = "snappy"
_WRITERS_SETTINGS = ("spark.sql.parquet.", "spark.sql.files.maxRecordsPerFile", "parquet.")
"""Spark passes all of the session's settings to its Parquet writer."""
_NOT_THE_WRITERS = (CODEC, "spark.sql.parquet.fieldId.")
"""Settings that do not affect the choice of the writer. Delta sets ``fieldId`` in the session, but the columns of an
extraction have no field ids."""


def codec(settings: Mapping[str, str]) -> str:
    return settings.get(CODEC, _DEFAULT_CODEC).lower()


def sparks_writer_because(
    asked: Extraction, target: str, available: Sequence[str], written: Any, settings: Mapping[str, str],
    parquet_settings: Iterable[str],
) -> str | None:  # fmt: skip
    """The first reason why Spark's writer is needed; None if the executors can write the files.

    Args:
        target: the URI of the staging folder's parent.
        available: the columns before --select.
        written: the columns after it, a ``StructType``.
        settings: those that were set in the session.
        parquet_settings: the names of Hadoop's settings for Parquet, such as those of encryption.
    """
    reasons = {
        f"--format {asked.format}": asked.format not in _FORMATS,
        f"the file system {scheme_of(target)}": scheme_of(target) != _FILE_SYSTEM,
        "--decode json": asked.decode == "json",
        f"--key-format {asked.key_format}": asked.keys_as != _keys_of_executors(asked),
        "--metadata-prefix": asked.metadata_prefix != "",
        "--mask": bool(asked.mask),
        "--where": asked.where is not None,
        "an expression in --select": columns.plain_columns(asked.select, available) is None,
        "--target-file-size": asked.target_file_bytes is not None,
        "the type of a column": arrow_types.arrow_schema(written) is None,
        "the type of a column in --partition-by": not _can_name_folders(asked.partition_by, written),
        f"the codec {codec(settings)}": codec(settings) not in task.CODECS,
        **{name: _is_the_writers(name) for name in sorted(settings)},
        **dict.fromkeys(sorted(parquet_settings), True),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def _is_the_writers(setting: str) -> bool:
    return setting.startswith(_WRITERS_SETTINGS) and not setting.startswith(_NOT_THE_WRITERS)


def _keys_of_executors(asked: Extraction) -> str:
    return keys.BYTES if asked.decoding is None else keys.STRING


def _can_name_folders(partition_by: Sequence[str], written: Any) -> bool:
    kinds = {field.name: arrow_types.arrow_type(field.dataType) for field in written}
    return all(
        (kind := kinds.get(term)) is not None and partition_folders.can_name(kind)
        for term in partitioning.plain(partition_by)
    )

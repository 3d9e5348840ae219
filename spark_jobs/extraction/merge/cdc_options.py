"""Checks the options that ``--cdc`` needs and refuses, and derives what it stages. Pure."""

from dataclasses import replace

from kafka_zk.spark_jobs.cdc.changes import MODES
from kafka_zk.spark_jobs.cdc.connect_types import ColumnType
from kafka_zk.spark_jobs.cdc.given_types import given_types
from kafka_zk.spark_jobs.errors import WronglyAsked
from kafka_zk.spark_jobs.extraction.columns import HEADERS
from kafka_zk.spark_jobs.extraction.planning import Extraction
from kafka_zk.spark_jobs.extraction.table_formats import TABLE_FORMATS, is_table
from kafka_zk.spark_jobs.extraction.undecodable import FAIL
from kafka_zk.spark_jobs.values.packages import absent_value_packages
from kafka_zk.spark_jobs.values.value_decoder import AVRO

OWN_COLUMN = "_kafka_zk"
"""The table's column with key, position and state of each row."""


def check(asked: Extraction) -> None:
    """Raises WronglyAsked."""
    if asked.cdc not in MODES:
        raise WronglyAsked(f"--cdc: {asked.cdc!r} is not {' or '.join(MODES)}")
    if not is_table(asked.format):
        raise WronglyAsked(f"--cdc merges into --format {' or '.join(TABLE_FORMATS)} only")
    if len(asked.topics) != 1:
        raise WronglyAsked("--cdc merges one topic into a table: give one --topic")
    if asked.schema is None:
        raise WronglyAsked("--cdc needs --schema with the table's columns, such as 'id INT, amount DECIMAL(10,2)'")
    refused = {
        "--decode": asked.decode,
        "--value-format other than avro": asked.value_format not in (None, AVRO),
        "--key-format": asked.key_format,
        "--key-schema": asked.key_schema,
        "--metadata-prefix": asked.metadata_prefix,
        "--dead-letter-topic": asked.dead_letter_topic,
        "--include": asked.include,
        "--select": asked.select,
        "--where": asked.where,
        "--partition-by": asked.partition_by,
        "--merge-schema": asked.merge_schema,
        "--from": asked.is_backfill,
        "--target-file-size": asked.target_file_bytes,
        "--on-undecodable": asked.on_undecodable != FAIL,
    }
    if (option := next((name for name, given in refused.items() if given), None)) is not None:
        raise WronglyAsked(f"--cdc cannot be combined with {option}")
    if told := absent_value_packages(asked.value_format):
        raise WronglyAsked(told)
    if any(name.lower() == OWN_COLUMN for name in types(asked)):
        raise WronglyAsked(f"--schema: the column {OWN_COLUMN} is --cdc's own")


def types(asked: Extraction) -> dict[str, ColumnType]:
    return given_types(asked.schema or "")


def staged_as(asked: Extraction) -> Extraction:
    """The extraction of the unchanged records, whose files are staged for the merge."""
    if asked.cdc is None:
        return asked
    return replace(asked, cdc=None, schema=None, value_format=None, schema_registry=None, include=(HEADERS,))

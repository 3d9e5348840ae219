"""Checks an extraction's options, as far as possible without contacting another system."""

from typing import Any

from kafka_zk.spark_jobs.errors import WronglyAsked
from kafka_zk.spark_jobs.extraction import decoding, file_sizes, keys, partitioning
from kafka_zk.spark_jobs.extraction.in_table import target_offsets
from kafka_zk.spark_jobs.extraction.merge import cdc_options
from kafka_zk.spark_jobs.extraction.planning import Extraction
from kafka_zk.spark_jobs.extraction.schemas import type_changes
from kafka_zk.spark_jobs.extraction.stores import check_store
from kafka_zk.spark_jobs.extraction.table_formats import check_table
from kafka_zk.spark_jobs.values.packages import absent_value_packages


def check(extraction: Extraction) -> None:
    """Raises WronglyAsked."""
    if extraction.bootstrap_servers is not None:
        target_offsets.check(extraction)
    if extraction.cdc is not None:
        cdc_options.check(extraction)
        extraction = cdc_options.staged_as(extraction)
    check_table(extraction.format, extraction.target, extraction.merge_schema)
    type_changes.check(extraction.format, widen=extraction.widen)
    file_sizes.check(extraction.target_file_bytes, extraction.format)
    check_store(extraction.target)
    partitioning.check(extraction.partition_by, extraction.format)
    decoding.check(
        extraction.decode, extraction.schema, extraction.format, extraction.on_undecodable, extraction.value_format,
        extraction.key_format,
    )  # fmt: skip
    for value_format in (extraction.value_format, extraction.key_format):
        if told := absent_value_packages(value_format):
            raise WronglyAsked(told)
    columns = _known_columns(extraction)
    if columns is not None:
        decoding.check_columns(columns, extraction.format, partitioning.plain(extraction.partition_by))
        partitioning.check_columns(extraction.partition_by, columns)


def _known_columns(extraction: Extraction) -> Any:
    changing = (extraction.value_format, extraction.include, extraction.select, extraction.where, extraction.mask)
    if any(changing):
        return None
    key_type = keys.known_type(extraction.keys_as, extraction.key_schema, extraction.schema_registry)
    if key_type is None:
        return None
    return decoding.known_columns(
        extraction.decode, extraction.schema, extraction.on_undecodable, key_type, extraction.metadata_prefix
    )

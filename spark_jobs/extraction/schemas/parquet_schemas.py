"""Reads the schemas of a folder's Parquet files with Spark, and writes ``_common_metadata`` with pyarrow."""

import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql.types import StructType

from kafka_zk.spark_jobs.extraction.hadoop_files import HadoopFiles
from kafka_zk.spark_jobs.extraction.parquet import arrow_types, task
from kafka_zk.spark_jobs.extraction.range_folders import RangeFolders
from kafka_zk.spark_jobs.extraction.schemas.folder_schemas import FolderSchemas, Schema


def schemas_of_folders(spark: Any, folders: RangeFolders) -> FolderSchemas:
    files = HadoopFiles(spark)

    def schema_of(path: str) -> Schema:
        found: Schema = spark.read.parquet(path).schema.jsonValue()
        return found

    def write_common_metadata(uri: str, schema: Schema) -> None:
        """A schema with a type that pyarrow does not write gets no file, so Spark takes the first file's schema."""
        if (data := common_metadata(schema)) is not None:
            files.replace(uri, data)

    return FolderSchemas(folders, schema_of, write_common_metadata)


def common_metadata(schema: Schema) -> bytes | None:
    """A Parquet file without rows, as Spark and pyarrow write it; None if a type is not known to ``arrow_types.py``."""
    columns = StructType.fromJson(dict(schema))
    found = arrow_types.arrow_schema(columns)
    if found is None:
        return None
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, found, store_schema=False, store_decimal_as_integer=True) as writer:
        writer.add_key_value_metadata({task.SPARK_SCHEMA: json.dumps(schema)})
    data: bytes = sink.getvalue().to_pybytes()
    return data

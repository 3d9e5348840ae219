"""A folder of Parquet files, read as Spark reads it."""

from collections.abc import Mapping, Sequence
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_zk.spark_jobs.audit.column_names import columns_of
from kafka_zk.spark_jobs.audit.data_files import PARTITION, Columns, DataFile
from kafka_zk.spark_jobs.audit.stored_files import StoredFiles
from kafka_zk.spark_jobs.audit.table import ColumnChoice, History
from kafka_zk.spark_jobs.errors import AuditFailed
from kafka_zk.spark_jobs.extraction.inventory import is_data
from kafka_zk.spark_jobs.extraction.parquet.partition_folders import NO_VALUE


class ParquetFolder:
    """A table without metadata: only the files' footers say what the files contain. Raises AuditFailed, OSError."""

    format, name = "parquet", ""
    not_checked: Sequence[str] = ()
    field_ids: Mapping[str, int] = {}

    def __init__(self, files: StoredFiles, choice: ColumnChoice) -> None:
        found = sorted(
            (each for each in files.listed(files.root, recursive=True) if is_data(each.path[len(files.root) + 1 :])),
            key=lambda each: str(each.path),
        )
        found = [each for each in found if each.path.endswith((".parquet", ".parq"))]
        if not found:
            raise AuditFailed(f"{files.root} has no table: no Iceberg metadata, no Delta log, no Parquet files")
        path, columns = _first_readable(files, [each.path for each in found])
        self.columns = self.file_columns = columns_of({*columns, *_folder_values(path[len(files.root) + 1 :])}, *choice)
        self.files: Sequence[DataFile] = [
            DataFile(each.path, fixed=_fixed(each.path, files.root, self.columns), size_bytes=each.size)
            for each in found
        ]

    def history(self) -> History:
        return History()


def _first_readable(files: StoredFiles, paths: Sequence[str]) -> tuple[str, list[str]]:
    """The file and its columns. Raises AuditFailed."""
    for path in paths:
        try:
            with files.opened(path) as source:
                schema = pq.read_metadata(source).schema
            return path, [schema.column(index).path for index in range(len(schema))]
        except pa.ArrowInvalid as error:
            reason = str(error)
    raise AuditFailed(f"none of {len(paths):,} files of {files.root} can be read: {reason}")


def _folder_values(path: str) -> dict[str, str]:
    parts = [part.partition("=") for part in path.split("/")[:-1]]
    return {unquote(name): unquote(value) for name, joint, value in parts if joint and value != NO_VALUE}


def _fixed(path: str, root: str, columns: Columns) -> dict[str, str | int]:
    values = _folder_values(path[len(root) + 1 :])
    return fixed_values(path, {name: values[of] for name, of in columns.named().items() if of in values})


def fixed_values(path: str, texts: dict[str, str]) -> dict[str, str | int]:
    """``texts``: by TOPIC and PARTITION. Raises AuditFailed."""
    try:
        return {name: int(text) if name == PARTITION else text for name, text in texts.items()}
    except ValueError as error:
        raise AuditFailed(f"{path}: the partition {texts[PARTITION]!r} is not a number") from error

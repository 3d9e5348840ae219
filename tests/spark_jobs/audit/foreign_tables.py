"""Tables written by other libraries: deltalake, pyiceberg and pyarrow."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.noop import NoopCatalog
from pyiceberg.io import load_file_io
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import assign_fresh_schema_ids
from pyiceberg.serializers import ToOutputFile
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.metadata import new_table_metadata
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER
from pyiceberg.table.update import update_table_metadata


def rows(offsets: Sequence[int], partition: int = 0, topic: str = "t") -> pa.Table:
    count = len(offsets)
    return pa.table(
        {
            "topic": pa.array([topic] * count, pa.string()),
            "partition": pa.array([partition] * count, pa.int32()),
            "offset": pa.array(offsets, pa.int64()),
            "value": pa.array([b"v"] * count, pa.binary()),
        }
    )


class DeltaFolder:
    """Each append is one file and one version."""

    format = "delta"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def append(self, found: pa.Table) -> None:
        deltalake.write_deltalake(str(self.folder), found, mode="append")

    def delete(self, first: int, last: int) -> None:
        deltalake.DeltaTable(str(self.folder)).delete(f"offset between {first} and {last}")

    def list_twice(self, number: int) -> None:
        """Add the file of a version again, by another spelling of its name, as several tools did."""
        log = self.folder / "_delta_log"
        (line,) = (each for each in (log / f"{number:020d}.json").read_text().splitlines() if '"add"' in each)
        version = len(list(log.glob("*.json")))
        (log / f"{version:020d}.json").write_text(line.replace('"path":"', f'"path":"file://{self.folder}/') + "\n")

    def data_files(self) -> list[Path]:
        paths = [Path(each) for each in deltalake.DeltaTable(str(self.folder)).file_uris()]
        return sorted(paths, key=lambda path: int(pq.read_table(path)["offset"][0].as_py()))


class _OneTable(NoopCatalog):
    """A catalog that commits each version as another metadata file in the folder, like Iceberg's catalog for file
    systems."""

    def commit_table(self, table: Table, requirements: Any, updates: Any) -> CommitTableResponse:
        number = int(table.metadata_location.rpartition("/v")[2].split(".")[0]) + 1
        location = f"{table.metadata.location}/metadata/v{number}.metadata.json"
        metadata = update_table_metadata(table.metadata, updates)
        ToOutputFile.table_metadata(metadata, table.io.new_output(location))
        return CommitTableResponse.model_validate({"metadata": metadata, "metadata-location": location})


class IcebergFolder:
    """Each append is one file and one snapshot."""

    format = "iceberg"

    def __init__(self, folder: Path, spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC) -> None:
        self.folder = folder
        catalog = _OneTable("lake")
        schema = assign_fresh_schema_ids(catalog._convert_schema_if_needed(rows([]).schema))
        metadata = new_table_metadata(schema, spec, UNSORTED_SORT_ORDER, f"file://{folder}")
        location = f"file://{folder}/metadata/v1.metadata.json"
        io = load_file_io({}, location)
        ToOutputFile.table_metadata(metadata, io.new_output(location))
        self._table = Table(("db", "t"), metadata, location, io, catalog)

    def append(self, found: pa.Table) -> None:
        self._table.append(found)

    def delete(self, first: int, last: int) -> None:
        self._table.delete(f"offset >= {first} and offset <= {last}")

    def rename(self, **names: str) -> None:
        with self._table.update_schema() as change:
            for name, other in names.items():
                change.rename_column(name, other)

    def list_twice(self, number: int) -> None:
        path = f"file://{self.data_files()[number]}"
        with self._table.transaction() as change, change.update_snapshot().fast_append() as append:
            (file,) = (each.file for each in self._table.scan().plan_files() if each.file.file_path == path)
            append.append_data_file(file)

    def data_files(self) -> list[Path]:
        paths = {Path(each.file.file_path.removeprefix("file://")) for each in self._table.scan().plan_files()}
        return sorted(paths, key=lambda path: int(pq.read_table(path)["offset"][0].as_py()))


class PlainFolder:
    """Each append is one file."""

    format = "parquet"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def append(self, found: pa.Table) -> None:
        pq.write_table(found, self.folder / f"part-{len(self.data_files()):05d}.parquet")

    def data_files(self) -> list[Path]:
        return sorted(self.folder.glob("*.parquet"))

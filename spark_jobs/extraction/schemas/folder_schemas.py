"""The versions of the schema of a folder of Parquet files.

    <target>/_kafka_zk_schemas/<number>.json    a ``StructType`` of Spark, as JSON
    <target>/_common_metadata                   from version 2 on: the newest one, as Parquet files have it

A version has all columns of all earlier versions, and no type of it is narrower. So the newest version reads every file
of the folder. The description of a range folder names the version with which its files were written
(``inventory.py``). Published files are never rewritten. Spark takes the schema of a folder from ``_common_metadata``;
otherwise from the first file, whose types may be too narrow for later ones.

A version is written before the files that need it are visible. A run that is killed in between leaves a version that no
file needs, which does no harm. ``_common_metadata`` is written before its version, so that the next run repeats it.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from kafka_zk.spark_jobs.errors import ExtractionFailed
from kafka_zk.spark_jobs.extraction.range_folders import RangeFolders
from kafka_zk.spark_jobs.extraction.schemas.type_changes import TypeChange, joined, type_changes

FOLDER = "_kafka_zk_schemas"
COMMON_METADATA = "_common_metadata"
UNKNOWN = 0
"""The version of folders that earlier versions of this project have written."""

Schema = Mapping[str, Any]


class Version(NamedTuple):
    """``number``: UNKNOWN if the schema was found in a file, and not among the versions."""

    number: int
    schema: Schema


class FolderSchemas:
    """``schema_of``: reads the schema of a Parquet file. ``write_common_metadata``: writes a Parquet file of a schema,
    without rows, and replaces an older one."""

    def __init__(
        self,
        folders: RangeFolders,
        schema_of: Callable[[str], Schema],
        write_common_metadata: Callable[[str, Schema], None],
    ) -> None:
        self._folders = folders
        self._files = folders.files
        self._schema_of = schema_of
        self._write_common_metadata = write_common_metadata

    def newest(self, target: str) -> Version | None:
        """The newest version, or the schema of a file of the last folder; None without files.

        Raises ExtractionFailed if the versions are gone that folders name: new ones would get their numbers.
        """
        numbers = [
            int(path.removesuffix(".json"))
            for path, _ in self._files.walk(f"{target}/{FOLDER}")
            if path.removesuffix(".json").isdecimal()
        ]
        if numbers:
            return Version(max(numbers), self.version(target, max(numbers)))
        for name, described in reversed(self._folders.found(target).items()):
            if described is None or described.format != "parquet" or not described.files:
                continue
            if described.schema_version != UNKNOWN:
                raise ExtractionFailed(
                    f"{target}/{FOLDER} is empty, but {name} names version {described.schema_version}: restore its "
                    "files, or give another --to"
                )
            return Version(UNKNOWN, self._schema_of(f"{target}/{name}/{min(described.files)}"))
        return None

    def version(self, target: str, number: int) -> Schema:
        """Raises ExtractionFailed if it is missing or damaged."""
        where = f"{target}/{FOLDER}/{number}.json"
        data = self._files.read(where)
        try:
            found: Schema = json.loads(data or b"")
            joined(found, found)
        except (ValueError, KeyError, TypeError) as error:
            raise ExtractionFailed(f"{where} does not have a schema of the folder: {error}") from error
        return found

    def changes(self, target: str, written: Schema) -> list[TypeChange]:
        """The changed types of the columns that the folder has.

        Raises ExtractionFailed if a new column differs from one of the folder only in case: Spark, which ignores case,
        would refuse the folder.
        """
        newest = self.newest(target)
        if newest is None:
            return []
        names = [each["name"] for each in newest.schema["fields"]]
        known = {name.lower(): name for name in names}
        for name in [each["name"] for each in written["fields"] if each["name"] not in names]:
            if found := known.get(name.lower()):
                raise ExtractionFailed(f"{target} has a column {found}: name the column {name} like it")
        return type_changes(newest.schema["fields"], written["fields"])

    def record(self, target: str, written: Schema, partitioned_by: Sequence[str] = ()) -> int:
        """The number of the version that has the columns of ``written``; a new one if needed. The changes of types must
        be allowed.

        ``partitioned_by``: the columns that are in the names of folders, not in files. Raises ExtractionFailed if
        another run has made another version at the same time.
        """
        newest = self.newest(target)
        wanted = joined(written if newest is None else newest.schema, written)
        if newest is not None and newest.number != UNKNOWN and wanted == newest.schema:
            return newest.number
        number = 1 if newest is None else newest.number + 1
        if newest is not None and wanted != joined(newest.schema, newest.schema):
            in_files = [each for each in wanted["fields"] if each["name"] not in partitioned_by]
            self._write_common_metadata(f"{target}/{COMMON_METADATA}", {**wanted, "fields": in_files})
        self._files.write(f"{target}/{FOLDER}/{number}.json", wanted)
        if self.version(target, number) != wanted:
            raise ExtractionFailed(f"another run has changed the schema of {target} meanwhile: run it again")
        return number

    def schema_of_folders(self, target: str, versions: Mapping[str, int], files: Mapping[str, str]) -> Schema | None:
        """The schema that has the columns of these folders; None if none of them names its version.

        ``versions``: by the folder's name. ``files``: one file of each folder that has files.
        """
        known = max((versions[name] for name in files), default=UNKNOWN)
        if known == UNKNOWN:
            return None
        schema = self.version(target, known)
        for name, path in sorted(files.items()):
            if versions[name] == UNKNOWN:
                schema = joined(schema, self._schema_of(f"{target}/{name}/{path}"))
        return schema

"""Reads an Iceberg table from its metadata file, manifest list and manifests.

Source: the Iceberg table specification (Table Metadata, Snapshots, Manifests, Appendix D: Single-value serialization).
"""

import gzip
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import fastavro

from kafka_zk.spark_jobs.audit.column_names import columns_of
from kafka_zk.spark_jobs.audit.data_files import PARTITION, TOPIC, Bounds, DataFile
from kafka_zk.spark_jobs.audit.parquet_folder import fixed_values
from kafka_zk.spark_jobs.audit.stored_files import StoredFiles
from kafka_zk.spark_jobs.audit.table import ColumnChoice, History, Removed
from kafka_zk.spark_jobs.errors import AuditFailed

METADATA = "metadata"
_FILE = re.compile(r"v?(\d+)(?:-[^/]*)?(?:\.gz)?\.metadata\.json(?:\.gz)?")
_DELETED = 2
"""Status of a deleted entry in a manifest; entries with any other status are live."""
_DATA = 0
"""``content`` of manifests and files with rows; any other value means deletions."""
_CUT_AT = 16
"""By default, writers truncate the bounds of strings to this length."""


class IcebergTable:
    """An Iceberg table's current snapshot. Raises AuditFailed, OSError."""

    format = "iceberg"

    def __init__(self, files: StoredFiles, metadata_path: str, choice: ColumnChoice) -> None:
        self._stored = files
        self._metadata = _metadata(files.read(metadata_path), metadata_path)
        self.name = f"CATALOG.NAMESPACE.{_table_name(self._metadata)}"
        self._snapshots = {each["snapshot-id"]: each for each in self._metadata.get("snapshots", ())}
        self._ids = _field_ids(_schema(self._metadata))
        self.columns = self.file_columns = columns_of(self._ids, *choice)
        self._own = {name: self._ids[path] for name, path in self.columns.named().items()}
        self.field_ids: Mapping[str, int] = {name: number for name, (number, _) in self._own.items()}
        self._specs = {each["spec-id"]: each["fields"] for each in self._metadata.get("partition-specs", ())}
        self.files: Sequence[DataFile] = []
        self.not_checked: Sequence[str] = []
        self._read()

    def history(self) -> History:
        removed = []
        for snapshot in self._snapshots.values():
            for manifest in self._manifests(snapshot):
                if manifest.get("added_snapshot_id") == snapshot["snapshot-id"] and _content(manifest) == _DATA:
                    removed += [
                        Removed(self._file(entry, manifest), self._commit(snapshot["snapshot-id"]))
                        for entry in self._entries(manifest)
                        if entry["status"] == _DELETED and snapshot["summary"].get("operation") != "replace"
                    ]
        return History({}, removed)

    def _read(self) -> None:
        current = self._metadata.get("current-snapshot-id", -1)
        if current is None or current == -1:
            return
        deletions, files = 0, []
        for manifest in self._manifests(self._snapshots[current]):
            for entry in self._entries(manifest):
                if entry["status"] == _DELETED:
                    continue
                if _content(manifest) != _DATA:
                    deletions += 1
                elif str(entry["data_file"]["file_format"]).lower() != "parquet":
                    raise AuditFailed(f"{entry['data_file']['file_path']} is not a Parquet file")
                else:
                    files.append(self._file(entry, manifest))
        self.files = files
        if deletions:
            self.not_checked = [
                f"{deletions:,} files delete rows: rows are counted as if none were deleted "
                "(the procedure rewrite_data_files applies them)"
            ]

    def _manifests(self, snapshot: Mapping[str, Any]) -> list[Mapping[str, Any]]:
        if "manifest-list" not in snapshot:
            return [{"manifest_path": path} for path in snapshot.get("manifests", ())]
        return list(self._records(snapshot["manifest-list"]))

    def _entries(self, manifest: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        return self._records(manifest["manifest_path"])

    def _records(self, address: str) -> Iterator[Mapping[str, Any]]:
        data = self._stored.read(self._stored.path_of(address, self._stored.root))
        try:
            yield from fastavro.reader(io.BytesIO(data))  # type: ignore[misc]
        except (ValueError, EOFError, KeyError, IndexError) as error:
            raise AuditFailed(f"{address} is not an Iceberg manifest: {error}") from error

    def _file(self, entry: Mapping[str, Any], manifest: Mapping[str, Any]) -> DataFile:
        found = entry["data_file"]
        nulls, lows, highs = (
            _map(found.get(name)) for name in ("null_value_counts", "lower_bounds", "upper_bounds")
        )
        bounds = {}
        for name, (number, kind) in self._own.items():
            low, high = _value(kind, lows.get(number)), _value(kind, highs.get(number))
            if low is not None and high is not None:
                bounds[name] = Bounds(low, high, nulls.get(number))
        added_by = entry.get("snapshot_id") or manifest.get("added_snapshot_id")
        path = self._stored.path_of(found["file_path"], self._stored.root)
        size = found.get("file_size_in_bytes")
        fixed = fixed_values(path, self._partition_values(found, manifest))
        return DataFile(path, found["record_count"], bounds, fixed, self._commit(added_by), size)

    def _partition_values(self, found: Mapping[str, Any], manifest: Mapping[str, Any]) -> dict[str, str]:
        """Values by TOPIC and PARTITION, if the table is partitioned by them. Files imported by add_files lack these
        columns."""
        values = found.get("partition") or {}
        return {
            name: str(values[each["name"]])
            for each in self._specs.get(manifest.get("partition_spec_id"), ())
            for name in (TOPIC, PARTITION)
            if each["transform"] == "identity" and values.get(each["name"]) is not None
            and name in self._own and self._own[name][0] == each["source-id"]
        }  # fmt: skip

    def _commit(self, snapshot_id: int | None) -> str:
        if (snapshot := self._snapshots.get(snapshot_id)) is None:
            return "" if snapshot_id is None else f"snapshot {snapshot_id} (expired)"
        summary = snapshot.get("summary") or {}
        at = datetime.fromtimestamp(snapshot["timestamp-ms"] / 1000, UTC).isoformat(timespec="seconds")
        parts = [text for name in ("operation", "engine-name", "app-id") if (text := summary.get(name))]
        return f"snapshot {snapshot_id} ({', '.join([*parts, at])})"


def metadata_file(files: StoredFiles) -> str | None:
    """The newest metadata file in the table's folder; None if there is no such file. Raises AuditFailed if several
    files have the newest version."""
    if _FILE.fullmatch(files.root.rpartition("/")[2]):
        return str(files.root)
    found: dict[int, list[str]] = {}
    for each in files.listed(f"{files.root}/{METADATA}"):
        if match := _FILE.fullmatch(each.base_name):
            found.setdefault(int(match[1]), []).append(each.path)
    if not found:
        return None
    newest = found[max(found)]
    if len(newest) > 1:
        raise AuditFailed(f"only the catalog knows which of {', '.join(sorted(newest))} is current: give its path")
    return newest[0]


def _metadata(data: bytes, path: str) -> Mapping[str, Any]:
    try:
        found = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
        if found["format-version"] > 3:
            raise AuditFailed(f"{path}: version {found['format-version']} of the Iceberg format is not supported")
    except (ValueError, KeyError, OSError, EOFError, TypeError) as error:
        raise AuditFailed(f"{path} is not an Iceberg metadata file: {error}") from error
    return dict(found)


def _schema(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    for each in metadata.get("schemas", ()):
        if each["schema-id"] == metadata["current-schema-id"]:
            return dict(each)
    return dict(metadata["schema"])


def _field_ids(struct: Mapping[str, Any], above: str = "") -> dict[str, tuple[int, str]]:
    """The (field id, type) of each column, by its dotted path."""
    found: dict[str, tuple[int, str]] = {}
    for each in struct["fields"]:
        path = f"{above}{each['name']}"
        if isinstance(each["type"], Mapping):
            if each["type"]["type"] == "struct":
                found |= _field_ids(each["type"], f"{path}.")
        else:
            found[path] = (each["id"], each["type"])
    return found


def _content(manifest: Mapping[str, Any]) -> int:
    return int(manifest.get("content") or _DATA)


def _map(pairs: Any) -> dict[int, Any]:
    """Converts a list of pairs to a dict, because Avro has no maps with numbers as keys."""
    return {each["key"]: each["value"] for each in pairs or ()}


def _value(kind: str, data: bytes | None) -> Any:
    """The value of a bound; None for other types, and for strings that may be truncated."""
    if data is None:
        return None
    if kind in ("int", "long"):
        return int.from_bytes(data, "little", signed=True)
    text = data.decode("utf-8", "replace") if kind == "string" else ""
    return text if text and len(text) < _CUT_AT else None


def _table_name(metadata: Mapping[str, Any]) -> str:
    return f"`{str(metadata.get('location', 'TABLE')).rstrip('/').rpartition('/')[2]}`"

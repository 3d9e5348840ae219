"""Reads a Delta table from its log.

Source: PROTOCOL.md of Delta Lake (Delta Log Entries, Checkpoints, Per-file Statistics, Column Mapping).
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_zk.spark_jobs.audit.column_names import columns_of
from kafka_zk.spark_jobs.audit.data_files import Bounds, DataFile
from kafka_zk.spark_jobs.audit.parquet_folder import fixed_values
from kafka_zk.spark_jobs.audit.stored_files import StoredFiles
from kafka_zk.spark_jobs.audit.table import ColumnChoice, History, Removed
from kafka_zk.spark_jobs.errors import AuditFailed

LOG = "_delta_log"
_COMMIT = re.compile(r"(\d{20})\.json")
_CHECKPOINT = re.compile(r"(\d{20})\.checkpoint(?:\.(\d{10})\.(\d{10})|\.[0-9a-f-]{36})?\.(parquet|json)")
_UNDERSTOOD = frozenset(
    ("columnMapping", "deletionVectors", "timestampNtz", "typeWidening", "typeWidening-preview", "v2Checkpoint",
     "vacuumProtocolCheck")
)  # fmt: skip
"""The reader features that this module supports."""
_ACTIONS = ("add", "metaData", "protocol", "sidecar")
_CUT_AT = 32
"""Writers truncate the bounds of strings to this length."""


class DeltaTable:
    """A Delta table's newest version. Raises AuditFailed, OSError."""

    format = "delta"
    field_ids: Mapping[str, int] = {}

    def __init__(self, files: StoredFiles, choice: ColumnChoice, name: str) -> None:
        self.name = f"delta.`{name}`"
        self._stored = files
        self._log = _Log(files)
        self._adds: dict[str, tuple[Mapping[str, Any], str]] = {}
        self._metadata: Mapping[str, Any] = {}
        self._protocol: Mapping[str, Any] = {}
        self._replay()
        if not self._metadata:
            raise AuditFailed(f"{files.root}/{LOG} has no metadata: it is incomplete")
        physical = _physical_paths(json.loads(self._metadata["schemaString"]))
        self.columns = columns_of(physical, *choice)
        self._own = {key: physical[path] for key, path in self.columns.named().items()}
        self.file_columns = self.columns._replace(**self._own)
        not_checked = [
            f"the table's feature {each} is not understood"
            for each in sorted({*(self._protocol.get("readerFeatures") or ())} - _UNDERSTOOD)
        ]
        masked = sum(bool(add.get("deletionVector")) for add, _ in self._adds.values())
        if masked:
            not_checked.append(
                f"{masked:,} files have deletion vectors: their rows are counted as if none were deleted "
                f"(REORG TABLE {self.name} APPLY (PURGE) rewrites them)"
            )
        self.not_checked: Sequence[str] = not_checked
        self.files: Sequence[DataFile] = [self._file(add, commit) for add, commit in self._adds.values()]

    def history(self) -> History:
        added: dict[str, str] = {}
        adds: dict[str, Mapping[str, Any]] = {}
        removed = []
        for version in sorted(self._log.commits):
            actions = list(self._log.actions(version))
            commit = _described(version, actions)
            for action in actions:
                if add := action.get("add"):
                    path = self._path(add)
                    added[path], adds[path] = commit, add
                if (remove := action.get("remove")) and remove.get("dataChange", True):
                    known = adds.get(self._path(remove), remove)
                    removed.append(Removed(self._file(known, ""), commit))
        return History(added, removed)

    def _replay(self) -> None:
        for action in self._log.checkpoint():
            self._apply(action, "")
        for version in self._log.newer():
            actions = list(self._log.actions(version))
            commit = _described(version, actions)
            for action in actions:
                self._apply(action, commit)

    def _apply(self, action: Mapping[str, Any], commit: str) -> None:
        if add := action.get("add"):
            self._adds[_key(add)] = add, commit
        if remove := action.get("remove"):
            self._adds.pop(_key(remove), None)
        self._metadata = action.get("metaData") or self._metadata
        self._protocol = action.get("protocol") or self._protocol

    def _path(self, action: Mapping[str, Any]) -> str:
        return self._stored.path_of(unquote(action["path"]), self._stored.root)

    def _file(self, add: Mapping[str, Any], commit: str) -> DataFile:
        path = self._path(add)
        values = dict(add.get("partitionValues") or {})
        texts = {name: values[of] for name, of in self._own.items() if values.get(of) is not None}
        statistics = _statistics(add)
        bounds = {}
        for name, of in self._own.items():
            low, high, nulls = (_at(statistics.get(part), of) for part in ("minValues", "maxValues", "nullCount"))
            if low is not None and high is not None and not _is_cut(low):
                bounds[name] = Bounds(low, high, nulls)
        return DataFile(
            path, statistics.get("numRecords"), bounds, fixed_values(path, texts), commit, add.get("size")
        )


class _Log:
    """The files of the log: ``commits`` by version, and the newest complete checkpoint."""

    def __init__(self, files: StoredFiles) -> None:
        self._files = files
        self._folder = f"{files.root}/{LOG}"
        self.commits: dict[int, str] = {}
        checkpoints: dict[tuple[int, int], list[str]] = {}
        for each in files.listed(self._folder):
            if found := _COMMIT.fullmatch(each.base_name):
                self.commits[int(found[1])] = each.path
            elif found := _CHECKPOINT.fullmatch(each.base_name):
                checkpoints.setdefault((int(found[1]), int(found[3] or 1)), []).append(each.path)
        complete = {version: parts for (version, count), parts in sorted(checkpoints.items()) if len(parts) >= count}
        self._version = max(complete, default=-1)
        self._parts = complete.get(self._version, [])
        if len(self._parts) > 1 and not any(_CHECKPOINT.fullmatch(part.rpartition("/")[2])[3] for part in self._parts):  # type: ignore[index]
            self._parts = self._parts[:1]  # if a version has several checkpoints, they are equal

    def newer(self) -> list[int]:
        """The versions after the checkpoint. Raises AuditFailed if one is missing."""
        found = sorted(version for version in self.commits if version > self._version)
        if not found and self._version < 0:
            raise AuditFailed(f"{self._folder} has neither commits nor checkpoints")
        for expected, version in enumerate(found, self._version + 1):
            if version != expected:
                raise AuditFailed(f"{self._folder} lacks version {expected}: the table cannot be read")
        return found

    def actions(self, version: int) -> Iterator[Mapping[str, Any]]:
        return self._lines(self.commits[version])

    def checkpoint(self) -> Iterator[Mapping[str, Any]]:
        for part in self._parts:
            for action in self._lines(part) if part.endswith(".json") else self._rows(part):
                if sidecar := action.get("sidecar"):
                    yield from self._rows(self._files.path_of(sidecar["path"], f"{self._folder}/_sidecars"))
                yield action

    def _lines(self, path: str) -> Iterator[Mapping[str, Any]]:
        try:
            for line in self._files.read(path).splitlines():
                if line.strip():
                    yield json.loads(line)
        except ValueError as error:
            raise AuditFailed(f"{path} is not a Delta commit: {error}") from error

    def _rows(self, path: str) -> Iterator[Mapping[str, Any]]:
        try:
            with self._files.opened(path) as source, pq.ParquetFile(source) as parquet:
                columns = [name for name in _ACTIONS if name in parquet.schema_arrow.names]
                for batch in parquet.iter_batches(columns=columns):
                    yield from batch.to_pylist()
        except pa.ArrowInvalid as error:
            raise AuditFailed(f"{path} is not a Delta checkpoint: {error}") from error


def _key(action: Mapping[str, Any]) -> str:
    vector = action.get("deletionVector") or {}
    return f"{action['path']} {vector.get('pathOrInlineDv', '')} {vector.get('offset', '')}"


def _statistics(add: Mapping[str, Any]) -> Mapping[str, Any]:
    if add.get("deletionVector"):
        return {}
    try:
        found = json.loads(add["stats"]) if add.get("stats") else add.get("stats_parsed")
    except ValueError:
        return {}
    return found or {}


def _at(values: Any, path: str) -> Any:
    for part in path.split("."):
        values = values.get(part) if isinstance(values, Mapping) else None
    return values


def _is_cut(value: Any) -> bool:
    return isinstance(value, str) and len(value) >= _CUT_AT


def _physical_paths(struct: Mapping[str, Any], above: str = "", own_above: str = "") -> dict[str, str]:
    """Maps each column's name in the table to its name in the files. Both names are dotted paths."""
    found: dict[str, str] = {}
    for each in struct["fields"]:
        own = each.get("metadata", {}).get("delta.columnMapping.physicalName", each["name"])
        path, own_path = f"{above}{each['name']}", f"{own_above}{own}"
        if isinstance(each["type"], Mapping) and each["type"]["type"] == "struct":
            found |= _physical_paths(each["type"], f"{path}.", f"{own_path}.")
        else:
            found[path] = own_path
    return found


def _described(version: int, actions: list[Mapping[str, Any]]) -> str:
    info: Mapping[str, Any] = next((each["commitInfo"] for each in actions if each.get("commitInfo")), {})
    parts = [str(info[name]) for name in ("operation", "engineInfo") if info.get(name)]
    if isinstance(info.get("timestamp"), int):
        parts.append(datetime.fromtimestamp(info["timestamp"] / 1000, UTC).isoformat(timespec="seconds"))
    return f"version {version}" + (f" ({', '.join(parts)})" if parts else "")

"""The actions that add finished Parquet files to a Delta table, and a check of which tables may get them. Pure.

Source: PROTOCOL.md of Delta Lake (Add File, Per-file Statistics, Table Features).
"""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq

from kafka_zk.spark_jobs.extraction.parquet.partition_folders import NO_VALUE

_HARMLESS = frozenset(
    ("appendOnly", "invariants", "changeDataFeed", "deletionVectors", "inCommitTimestamp", "timestampNtz",
     "v2Checkpoint", "vacuumProtocolCheck")
)  # fmt: skip
"""Table features that do not affect a file of new rows, if no column has a constraint."""
_MOST_WRITER_VERSION = 4
"""Up to this version, features are checked one by one, as settings of the table or of a column (constraints, generated
columns)."""
_FEATURES_WRITER_VERSION = 7
_HARMLESS_SETTINGS = (
    "delta.appendOnly", "delta.enableChangeDataFeed", "delta.enableDeletionVectors", "delta.enableInCommitTimestamps",
    "delta.inCommitTimestampEnablement", "delta.logRetentionDuration", "delta.deletedFileRetentionDuration",
    "delta.checkpoint", "delta.setTransactionRetentionDuration", "delta.isolationLevel", "delta.minReaderVersion",
    "delta.minWriterVersion", "delta.feature.",
)  # fmt: skip
_COMMENTS = frozenset(("comment",))
"""The metadata that a column may have."""
_MOST_TEXT = 32
_MILLISECOND_US = 1_000


def sparks_writer_because(
    protocol: Mapping[str, Any], metadata: Mapping[str, Any], columns: Mapping[str, Any], partitioned_by: Sequence[str]
) -> str | None:
    """Why only Delta's own writer may add rows; None if files can be added.

    Args:
        protocol, metadata: the table's actions.
        columns: the files' columns and those of their folders, a ``StructType`` as Spark's JSON value.
        partitioned_by: the columns of the folders.
    """
    fields = json.loads(metadata["schemaString"])["fields"]
    reasons = {
        **{f"the table's feature {each}": True for each in _unknown_features(protocol)},
        **{
            f"the table's setting {each}": not each.startswith(_HARMLESS_SETTINGS)
            for each in sorted(metadata.get("configuration", {}))
            if each.startswith("delta.")
        },
        **{
            f"the rules of the table's column {field['name']}": bool(field["metadata"].keys() - _COMMENTS)
            for field in fields
        },
        "the table's columns": _described(fields) != _described(columns["fields"]),
        "the table's partitions": list(metadata["partitionColumns"]) != list(partitioned_by),
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def _described(fields: Sequence[Mapping[str, Any]]) -> dict[str, tuple[Any, bool]]:
    """By column name, the type and whether a value may be null. The columns' order does not matter."""
    return {field["name"]: (field["type"], field["nullable"]) for field in fields}


def other_columns(table: Sequence[Mapping[str, Any]], written: Sequence[Mapping[str, Any]]) -> str | None:
    """Describes the first column, by name, that only the table or only the rows have, or whose types differ; None if
    the columns agree."""
    kinds = [{field["name"]: json.dumps(field["type"]) for field in fields} for fields in (table, written)]
    for name in sorted({**kinds[0], **kinds[1]}):
        of_table, of_rows = (each.get(name, "absent") for each in kinds)
        if of_table != of_rows:
            return f"{name} is {of_table} in the table, {of_rows} in the extraction"
    return None


def nullable(kind: Any) -> Any:
    """A type as Spark's JSON value, with null allowed everywhere, as in every table that Spark creates."""
    if not isinstance(kind, dict):
        return kind
    if kind["type"] == "struct":
        return {
            **kind,
            "fields": [{**each, "type": nullable(each["type"]), "nullable": True} for each in kind["fields"]],
        }
    if kind["type"] == "array":
        return {**kind, "elementType": nullable(kind["elementType"]), "containsNull": True}
    return {
        **kind,
        "valueType": nullable(kind["valueType"]),
        "keyType": nullable(kind["keyType"]),
        "valueContainsNull": True,
    }


def _unknown_features(protocol: Mapping[str, Any]) -> list[str]:
    version = protocol["minWriterVersion"]
    if version <= _MOST_WRITER_VERSION:
        return []
    if version != _FEATURES_WRITER_VERSION:
        return [f"of writer version {version}"]
    features = {*protocol.get("writerFeatures", ()), *protocol.get("readerFeatures", ())}
    return sorted(features - _HARMLESS)


def partition_values(folder: str) -> dict[str, str | None]:
    """The values in the name of a file's folder, as ``partition_folders.py`` writes them. ``folder``: "" without a
    folder."""
    parts = [part.partition("=") for part in folder.split("/")] if folder else []
    return {unquote(name): None if value == NO_VALUE else unquote(value) for name, _, value in parts}


def add_file(name: str, folder: str, size: int, now_ms: int, statistics: Mapping[str, Any]) -> str:
    """The action that adds the file ``name``, of ``size`` bytes, in the table's folder. ``name`` must not need
    escapes."""
    action = {
        "path": name,
        "partitionValues": partition_values(folder),
        "size": size,
        "modificationTime": now_ms,
        "dataChange": True,
        "stats": json.dumps(statistics),
    }
    return json.dumps({"add": action})


def transaction(application: str, version: int, now_ms: int) -> str:
    return json.dumps({"txn": {"appId": application, "version": version, "lastUpdated": now_ms}})


def statistics(file: pq.FileMetaData) -> dict[str, Any]:
    """Counts of rows and nulls, and the bounds of plain columns whose order is the same in every reader.

    Floating-point columns have no bounds, because Parquet's bounds leave out NaN, which is Spark's greatest number.
    """
    groups = [file.row_group(number) for number in range(file.num_row_groups)]
    least: dict[str, Any] = {}
    most: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for index in range(file.num_columns):
        name = file.schema.column(index).path
        found = [group.column(index).statistics for group in groups]
        if not _is_plain(file.schema.column(index)) or not all(each and each.has_null_count for each in found):
            continue
        nulls[name] = sum(each.null_count for each in found)
        if any(not each.has_min_max and each.num_values for each in found):
            continue
        low, high = _bounds([each for each in found if each.has_min_max])
        if low is not None and high is not None:
            least[name], most[name] = low, high
    return {"numRecords": file.num_rows, "minValues": least, "maxValues": most, "nullCount": nulls}


def _is_plain(column: Any) -> bool:
    return bool(column.max_repetition_level == 0 and column.max_definition_level == 1)


def _bounds(found: Sequence[Any]) -> tuple[Any, Any]:
    """The least and greatest value. Times are rounded to milliseconds, the least down and the greatest up. None for
    times that Python cannot represent."""
    try:
        low, high = min(each.min for each in found), max(each.max for each in found)
        if isinstance(high, datetime):
            high += timedelta(microseconds=_MILLISECOND_US - 1)
    except (OverflowError, ValueError):
        return None, None
    return _shown(low), _shown(high)


def _shown(value: Any) -> Any:
    """The value in JSON; None if this module does not use it as a bound."""
    if isinstance(value, str):
        return value if len(value) <= _MOST_TEXT else None
    if isinstance(value, datetime):
        time = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
        return time.isoformat(timespec="milliseconds") + ("Z" if value.tzinfo else "")
    if isinstance(value, date):
        return value.isoformat()
    return value if isinstance(value, int) and not isinstance(value, bool) else None

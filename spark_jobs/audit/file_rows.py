"""Reads the offsets in a Parquet file from its footer, and from its rows where the footer is not enough."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafka_zk.base.types import TopicPartition
from kafka_zk.spark_jobs.audit import offset_runs
from kafka_zk.spark_jobs.audit.data_files import OFFSET, PARTITION, TOPIC, Bounds, Columns, DataFile, dense_run
from kafka_zk.spark_jobs.audit.offset_runs import Offsets
from kafka_zk.spark_jobs.audit.stored_files import StoredFiles
from kafka_zk.spark_jobs.errors import AuditFailed

_ROWS_AT_ONCE = 1_000_000


class FileRuns(NamedTuple):
    """Runs of offsets of one partition in one file. ``is_read``: all of these rows were read, not only the footer."""

    tp: TopicPartition
    firsts: Offsets
    lasts: Offsets
    is_read: bool


class FileRows(NamedTuple):
    """``without_place``: rows whose topic, partition or offset is null."""

    pieces: list[FileRuns]
    row_count: int
    without_place: int


def of_run(tp: TopicPartition, first: int, last: int) -> FileRuns:
    return FileRuns(tp, np.array([first], np.int64), np.array([last], np.int64), False)


class FileUnreadable(AuditFailed):
    """The file is not a Parquet file, or is damaged."""


def read(
    files: StoredFiles, file: DataFile, columns: Columns, ids: Mapping[str, int], topic: str | None, read_all: bool
) -> FileRows:
    """``ids``: field ids, which take precedence over names. ``topic``: the topic of a table that has no column for it,
    else None. ``read_all``: do not trust the footer.

    Raises FileUnreadable; AuditFailed if the file lacks a column, or the store fails.
    """
    try:
        with files.opened(file.path) as source, pq.ParquetFile(source) as parquet:
            return _read(parquet, file, columns, ids, topic, read_all)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise FileUnreadable(str(error)) from error
    except OSError as error:  # also raised for a damaged page, which looks the same as a failing store
        raise AuditFailed(f"{file.path} cannot be read: {error}") from error


def _read(
    parquet: Any, file: DataFile, columns: Columns, ids: Mapping[str, int], topic: str | None, read_all: bool
) -> FileRows:
    footer = parquet.metadata
    leaves = {footer.schema.column(index).path: index for index in range(footer.num_columns)}
    by_id = _paths_by_id(parquet.schema_arrow) if ids else {}
    named = {name: by_id.get(ids.get(name, -1), path) for name, path in columns.named().items()}
    wanted = {name: path for name, path in named.items() if name not in file.fixed}
    for path in wanted.values():
        if path not in leaves:
            raise AuditFailed(f"{file.path} has no column {path}")
    pieces, unread = [], []
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        bounds = {name: found for name, path in wanted.items() if (found := _bounds(group.column(leaves[path])))}
        run = None if read_all else dense_run(group.num_rows, bounds, file.fixed, topic)
        if run is not None:
            pieces.append(of_run(*run))
        elif group.num_rows:
            unread.append(number)
    without_place = 0
    for batch in parquet.iter_batches(_ROWS_AT_ONCE, row_groups=unread, columns=list(wanted.values())):
        try:
            read_pieces, nulls = _of_batch(batch, wanted, file.fixed, topic)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            names = ", ".join(wanted.values())
            raise AuditFailed(f"{file.path}: {names} are not positions in a topic: {error}") from error
        pieces += read_pieces
        without_place += nulls
    return FileRows(_whole(pieces), footer.num_rows, without_place)


def _whole(pieces: list[FileRuns]) -> list[FileRuns]:
    """One FileRuns for each partition, with its runs joined. The batches of a file have many short runs if its rows are
    not in the order of offsets."""
    by_tp: dict[TopicPartition, list[FileRuns]] = {}
    for each in pieces:
        by_tp.setdefault(each.tp, []).append(each)
    return [
        FileRuns(tp, *offset_runs.united([each[1:3] for each in found]), all(each.is_read for each in found))
        for tp, found in by_tp.items()
    ]


def _paths_by_id(fields: Iterable[Any], above: str = "") -> dict[int, str]:
    """Field id -> path with dots. Fields in lists and maps are left out."""
    found: dict[int, str] = {}
    for each in fields:
        path = f"{above}{each.name}"
        if pa.types.is_struct(each.type):
            found |= _paths_by_id(each.type, f"{path}.")
        elif number := (each.metadata or {}).get(b"PARQUET:field_id"):
            found[int(number)] = path
    return found


def _bounds(column: Any) -> Bounds | None:
    found = column.statistics
    if found is None or not found.has_min_max:
        return None
    return Bounds(found.min, found.max, found.null_count if found.has_null_count else None)


def _of_batch(
    batch: pa.RecordBatch, wanted: Mapping[str, str], fixed: Mapping[str, Any], topic: str | None
) -> tuple[list[FileRuns], int]:
    values = {name: _column(batch, path) for name, path in wanted.items()}
    offsets = values[OFFSET].cast(pa.int64())
    partitions = values[PARTITION].cast(pa.int64()) if PARTITION in values else None
    known = offsets.is_valid() if partitions is None else pc.and_(offsets.is_valid(), partitions.is_valid())
    numbers = np.zeros(len(offsets), np.int64) if partitions is None else partitions.fill_null(-1).to_numpy(False)
    names, topics = [fixed.get(TOPIC, topic)], np.zeros(len(offsets), np.int64)
    if TOPIC in values:
        known = pc.and_(known, values[TOPIC].is_valid())
        encoded = values[TOPIC].cast(pa.string()).fill_null("").dictionary_encode()
        names, topics = encoded.dictionary.to_pylist(), encoded.indices.to_numpy(False).astype(np.int64)
    rows, is_known = offsets.fill_null(0).to_numpy(False), known.to_numpy(False)
    pieces = []
    for index, number in _pairs(topics[is_known], numbers[is_known]):
        mask = is_known & (topics == index) & (numbers == number)
        tp = TopicPartition(str(names[index]), int(fixed.get(PARTITION, number)))
        pieces.append(FileRuns(tp, *offset_runs.split(rows[mask]), True))
    return pieces, int(len(offsets) - is_known.sum())


def _pairs(topics: Offsets, numbers: Offsets) -> Iterator[tuple[int, int]]:
    for index in _distinct(topics):
        for number in _distinct(numbers[topics == index]):
            yield int(index), int(number)


def _distinct(values: Offsets) -> Offsets:
    """Faster than ``unique`` for a batch with one topic and one partition, as most batches are."""
    is_one = values.size and values.min() == values.max()
    return values[:1] if is_one else np.unique(values)


def _column(batch: pa.RecordBatch, path: str) -> Any:
    """The column at a dotted path. If a struct is null, its fields are null."""
    name, *fields = path.split(".")
    if path in batch.schema.names:
        return batch.column(path)
    return pc.struct_field(batch.column(name), fields)

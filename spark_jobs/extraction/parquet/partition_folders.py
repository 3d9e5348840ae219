"""Divides a batch among the folders of ``--partition-by``, with the folder names that Spark uses. Pure.

Source: ExternalCatalogUtils.scala of Spark 4 (``escapePathName``, ``getPartitionPathString``).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""The folder of null and of the empty string."""
_ESCAPED = frozenset((*map(chr, range(1, 32)), *"\"#%'*/:=?\\\x7f{[]^"))
_UNITS = {"years": "Y", "months": "M", "days": "D", "hours": "h"}
_LAST_PLAIN_YEAR = 9999


def can_name(kind: pa.DataType) -> bool:
    """True if this module can name values of this type. Spark writes other values in its own notation."""
    return bool(pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_date32(kind))


def escaped(text: str) -> str:
    return "".join(f"%{ord(each):02X}" if each in _ESCAPED else each for each in text)


def time_texts(times: pa.Array, transform: str) -> pa.Array:
    """UTC times as strings, such as 2026-11-23-17 for hours. ``times``: timestamps or dates."""
    kind = f"datetime64[{_UNITS[transform]}]"
    micros = times.cast(pa.timestamp("us")).to_numpy(zero_copy_only=False)
    units, rows = np.unique(micros.astype(kind), return_inverse=True)
    texts = pa.array([_time_text(each) for each in units], pa.string())
    return texts.take(pa.array(rows))


def _time_text(time: Any) -> str | None:
    if np.isnat(time):
        return None
    text = str(time).replace("T", "-")
    is_late = time.astype("datetime64[Y]").astype(int) + 1970 > _LAST_PLAIN_YEAR
    return f"+{text}" if is_late else text


def divided(batch: pa.RecordBatch, columns: Sequence[str]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Each folder with its rows in the batch's order, without ``columns``. The folder is "" if there are no
    ``columns``."""
    if not columns:
        yield "", batch
        return
    rest = batch.drop_columns(list(columns))
    folders = np.zeros(batch.num_rows, np.int64)
    names = [""]
    for column in columns:
        values = batch.column(column).dictionary_encode(null_encoding="encode")
        parts = [f"{escaped(column)}={_name(each)}" for each in values.dictionary.to_pylist()]
        both, folders = np.unique(folders * len(parts) + values.indices.to_numpy(), return_inverse=True)
        names = [f"{names[each // len(parts)]}/{parts[each % len(parts)]}" for each in both.tolist()]
    order = np.argsort(folders, kind="stable")
    ends = np.cumsum(np.bincount(folders, minlength=len(names))).tolist()
    for name, start, end in zip(names, [0, *ends], ends, strict=False):
        yield name[1:], rest.take(pa.array(order[start:end]))  # copied: a slice would keep the whole batch


def _name(value: Any) -> str:
    return NO_VALUE if value is None or value == "" else escaped(str(value))


def with_times(batch: pa.RecordBatch, derived: Mapping[str, tuple[str, str]]) -> pa.RecordBatch:
    """Add the text columns of transforms. ``derived``: name of the new column -> (source column, transform)."""
    for name, (column, transform) in derived.items():
        batch = batch.append_column(name, time_texts(batch.column(column), transform))
    return batch

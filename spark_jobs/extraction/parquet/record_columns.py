"""Converts the source's columns to the columns that an extraction writes. Pure, except for requests to a registry.

``decoding.py`` and ``columns.py`` make the same columns with Spark; tests compare both.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from kafka_zk.spark_jobs.extraction.columns import HEADERS, TIMESTAMP_TYPE
from kafka_zk.spark_jobs.extraction.keys import TEXT_KEYS
from kafka_zk.spark_jobs.extraction.undecodable import RAW_KEY, RAW_VALUE
from kafka_zk.spark_jobs.values.avro_types import decode_avro
from kafka_zk.spark_jobs.values.framing import ValueUndecodable

Decode = Callable[[bytes], Any]
"""Returns a value's record as a dictionary. Raises ValueUndecodable."""
_TIMESTAMP_TYPES = pa.array(["CreateTime", "LogAppendTime"])
"""Indexed by the numbers in ``timestampType``; -1 is null."""


class Shape(NamedTuple):
    """How records are written.

    ``columns``: the name of each written column and the name of the column that it comes from. ``text``: values are
    UTF-8 text. ``decode``, ``record``: values are decoded to this Arrow type. In both cases, keys are UTF-8 text;
    otherwise keys and values are bytes. ``leaves_out``: undecodable records are not written.
    """

    columns: tuple[tuple[str, str], ...]
    text: bool = False
    decode: Decode | None = None
    record: pa.StructType | None = None
    leaves_out: bool = False


class Misfit(NamedTuple):
    """A record whose key or value is undecodable. Misfits sort by topic, partition and offset."""

    topic: str
    partition: int
    offset: int
    reason: str


class Counts(NamedTuple):
    """``values``, ``undecodable``, ``keys``: as in ``Staged``."""

    written: int = 0
    values: int = 0
    undecodable: int = 0
    first: Misfit | None = None
    keys: int = 0

    def plus(self, other: "Counts") -> "Counts":
        misfits = [each for each in (self.first, other.first) if each is not None]
        return Counts(
            self.written + other.written,
            self.values + other.values,
            self.undecodable + other.undecodable,
            min(misfits, default=None),
            self.keys + other.keys,
        )


def avro_record(schema: Any, has_decimals: bool, value: bytes) -> Any:
    """``decode_avro`` as a ``Decode``."""
    record = decode_avro(schema, value, has_decimals=has_decimals)
    if record is None:
        raise ValueUndecodable("")
    return record


def written(source: pa.RecordBatch, shape: Shape) -> tuple[pa.RecordBatch, Counts]:
    """The columns to write of a batch of the source."""
    available = {name: source.column(name) for name in source.schema.names}
    wanted = {name for _, name in shape.columns}
    if TIMESTAMP_TYPE in wanted:
        available[TIMESTAMP_TYPE] = _timestamp_types(source.column("timestampType"))
    if HEADERS in wanted and HEADERS in available:
        available[HEADERS] = _last_headers(source.column(HEADERS))
    if not shape.text and shape.decode is None:
        return _selected(available, shape.columns), Counts(source.num_rows)
    keys, values = source.column("key"), source.column("value")
    text_keys, bad_keys = _texts(keys, TEXT_KEYS.misfit)
    decoded, bad_values = _values(values, shape)
    available |= {"key": text_keys, RAW_KEY: _only(keys, bad_keys), RAW_VALUE: _only(values, bad_values)}
    available |= decoded  # a field may have the name of a column that is not written
    batch, misfits = _selected(available, shape.columns), bad_values | bad_keys
    if shape.leaves_out and misfits:
        batch = batch.filter(pa.array([row not in misfits for row in range(source.num_rows)]))
    without_value = [row for row in bad_keys if not values[row].is_valid]
    judged = len(values) - values.null_count + len(without_value)
    return batch, Counts(batch.num_rows, judged, len(misfits), _first(source, misfits), len(bad_keys))


def _selected(available: Mapping[str, pa.Array], columns: Sequence[tuple[str, str]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([available[source] for _, source in columns], [name for name, _ in columns])


def _first(source: pa.RecordBatch, misfits: Mapping[int, str]) -> Misfit | None:
    """The first misfit of a batch, in which offsets always rise; None if there is none."""
    if not misfits:
        return None
    row = min(misfits)
    topic, partition, offset = (source.column(name)[row].as_py() for name in ("topic", "partition", "offset"))
    return Misfit(topic, partition, offset, misfits[row])


def _values(values: pa.Array, shape: Shape) -> tuple[dict[str, pa.Array], dict[int, str]]:
    """The columns into which values are decoded, and the reason for each row that could not be decoded."""
    if not shape.text:
        return _records(values, shape)
    texts, bad = _texts(values, "")
    return {"value": texts}, bad


def _texts(parts: pa.Array, reason: str) -> tuple[pa.Array, dict[int, str]]:
    """Keys or values as strings, and the rows in which they are not UTF-8, each with ``reason``."""
    try:
        return parts.cast(pa.string()), {}
    except pa.ArrowInvalid:
        texts = [_text(part) for part in parts.to_pylist()]
    bad = {row: reason for row, text in enumerate(texts) if text is None and parts[row].is_valid}
    return pa.array(texts, pa.string()), bad


def _text(part: bytes | None) -> str | None:
    try:
        return None if part is None else part.decode()
    except UnicodeDecodeError:
        return None


def _records(values: pa.Array, shape: Shape) -> tuple[dict[str, pa.Array], dict[int, str]]:
    """A column for each field, and the reason for each row that could not be decoded."""
    assert shape.decode is not None and shape.record is not None, "the caller has looked"
    records: list[Any] = []
    reasons: dict[int, str] = {}
    for row, value in enumerate(values.to_pylist()):
        record = None
        if value is not None:
            try:
                record = shape.decode(value)
            except ValueUndecodable as error:
                reasons[row] = str(error)
        records.append(record)
    fields = _structs(records, shape.record, reasons).flatten()
    return dict(zip((field.name for field in shape.record), fields, strict=True)), reasons


def _structs(records: list[Any], kind: pa.StructType, reasons: dict[int, str]) -> pa.StructArray:
    """The records as a struct array. A record that does not fit its columns, such as an int of more than 32 bits, is
    undecodable."""
    try:
        return pa.array(records, kind)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        fitting = list(records)
    for row, record in enumerate(fitting):
        try:
            pa.array([record], kind)
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            fitting[row], reasons[row] = None, str(error)
    return pa.array(fitting, kind)


def _only(values: pa.Array, rows: Mapping[int, str]) -> pa.Array:
    """The values of these rows; null in all other rows."""
    if not rows:
        return pa.nulls(len(values), values.type)
    return pc.if_else(pa.array([row in rows for row in range(len(values))]), values, pa.scalar(None, values.type))


def _timestamp_types(numbers: pa.Array) -> pa.Array:
    unknown = pa.scalar(None, numbers.type)
    return _TIMESTAMP_TYPES.take(pc.if_else(pc.less(numbers, 0), unknown, numbers))


def _last_headers(headers: pa.Array) -> pa.Array:
    """The headers as maps. If several headers have the same key, the last value counts, at the place of the first."""
    maps = [None if each is None else {h["key"]: h["value"] for h in each} for each in headers.to_pylist()]
    return pa.array(maps, pa.map_(pa.string(), pa.binary()))

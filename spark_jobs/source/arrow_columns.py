"""The arrays that ``record_kernel`` fills, and their conversion to an Arrow record batch without a copy."""

from typing import Any

import numpy as np
import pyarrow as pa

from kafka_zk.spark_jobs.source import record_kernel as kernel
from kafka_zk.spark_jobs.source.schema import arrow_schema

_ROWS = 16_384
_BYTES = 2 * 1024 * 1024
_NOT_ASCII = 0x80


class ArrowColumns:
    """The rows of one Arrow record batch of one partition.

    Args:
        rows, size_bytes: a record batch is complete after this many rows, or bytes of keys or of values. A record
            larger than ``size_bytes`` gets its own batch.
    """

    def __init__(
        self, topic: str, partition: int, with_headers: bool, *, rows: int = _ROWS, size_bytes: int = _BYTES
    ) -> None:
        self._topic = topic.encode()
        self._partition = partition
        self._with_headers = with_headers
        self._rows = rows
        self._schema = arrow_schema(with_headers)
        self._sizes = [rows, size_bytes, size_bytes, rows, size_bytes, size_bytes]  # in the order of ``fill``
        if not with_headers:
            self._sizes[kernel.HEADERS :] = [1, 1, 1]
        self._timestamp_type = 0
        self._allocate(self._sizes)

    @property
    def row_count(self) -> int:
        return int(self._fill[kernel.ROWS])

    def decode(
        self,
        data: Any,
        batches: Any,
        cursor: Any,
        first_offset: int,
        until_offset: int,
    ) -> int:
        status: int = kernel.decode(
            data, batches, cursor, first_offset, until_offset, self._with_headers, self._fill,
            self._offsets, self._timestamps, self._key_ends, self._keys, self._key_valid,
            self._value_ends, self._values, self._value_valid,
            self._header_ends, self._name_ends, self._names, self._content_ends, self._contents, self._content_valid,
        )  # fmt: skip
        return status

    def drop_partial_row(self) -> None:
        """Discard what ``decode`` has written of a malformed record."""
        fill, row = self._fill, self.row_count
        fill[kernel.KEY_BYTES], fill[kernel.VALUE_BYTES] = self._key_ends[row], self._value_ends[row]
        if self._with_headers:
            headers = fill[kernel.HEADERS] = self._header_ends[row]
            fill[kernel.NAME_BYTES], fill[kernel.CONTENT_BYTES] = self._name_ends[headers], self._content_ends[headers]

    def start_timestamp_type(self, timestamp_type: int) -> bool:
        if self.row_count and timestamp_type != self._timestamp_type:
            return False
        self._timestamp_type = timestamp_type
        return True

    def grow(self, record_bytes: int) -> None:
        """Make room for a record of this size until the next ``take``; only while there are no rows."""
        assert not self.row_count
        headers = record_bytes // 2 + 1  # a header has at least two length bytes
        for_headers = (headers, record_bytes, record_bytes) if self._with_headers else (1, 1, 1)
        least = [1, record_bytes, record_bytes, *for_headers]
        self._allocate([max(sizes) for sizes in zip(self._sizes, least, strict=True)])

    def take(self) -> pa.RecordBatch:
        """Return the collected rows; the columns are then empty."""
        count = self.row_count
        fill = self._fill
        arrays = [
            _binary(pa.binary(), count, self._key_valid, self._key_ends, self._keys, int(fill[kernel.KEY_BYTES])),
            _binary(
                pa.binary(), count, self._value_valid, self._value_ends, self._values, int(fill[kernel.VALUE_BYTES])
            ),
            self._topics(count),
            pa.array(np.full(count, self._partition, np.int32)),
            _fixed(pa.int64(), count, self._offsets),
            _fixed(pa.timestamp("us", tz="UTC"), count, self._timestamps),
            pa.array(np.full(count, self._timestamp_type, np.int32)),
        ]
        if self._with_headers:
            arrays.append(self._headers(count))
        batch = pa.RecordBatch.from_arrays(arrays, schema=self._schema)
        self._allocate(self._sizes)
        return batch

    def _allocate(self, sizes: list[int]) -> None:
        rows, key_bytes, value_bytes, headers, name_bytes, content_bytes = sizes
        self._fill = np.zeros(kernel.FILL_FIELDS, np.int64)
        self._offsets, self._timestamps = _room(rows, np.int64), _room(rows, np.int64)
        self._key_ends, self._keys, self._key_valid = _ends(rows), _room(key_bytes, np.uint8), _room(rows, np.uint8)
        self._value_ends, self._values = _ends(rows), _room(value_bytes, np.uint8)
        self._value_valid = _room(rows, np.uint8)
        self._header_ends = _ends(rows if self._with_headers else 0)
        self._name_ends, self._names = _ends(headers), _room(name_bytes, np.uint8)
        self._content_ends, self._contents = _ends(headers), _room(content_bytes, np.uint8)
        self._content_valid = _room(headers, np.uint8)

    def _topics(self, count: int) -> pa.Array:
        size = len(self._topic)
        ends = np.arange(0, (count + 1) * size, size, dtype=np.int32) if size else np.zeros(count + 1, np.int32)
        return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(ends), pa.py_buffer(self._topic * count)])

    def _headers(self, count: int) -> pa.Array:
        """The value is null for a record without headers, as in Spark's own source."""
        header_count = int(self._fill[kernel.HEADERS])
        every = np.ones(header_count, np.uint8)
        names = _text(header_count, every, self._name_ends, self._names, int(self._fill[kernel.NAME_BYTES]))
        contents = _binary(
            pa.binary(), header_count, self._content_valid, self._content_ends, self._contents,
            int(self._fill[kernel.CONTENT_BYTES]),
        )  # fmt: skip
        column_type = self._schema.field("headers").type
        structs = pa.StructArray.from_arrays([names, contents], fields=list(column_type.value_type))
        ends = self._header_ends[: count + 1]
        validity = _bitmap((np.diff(ends) > 0).astype(np.uint8))
        return pa.Array.from_buffers(column_type, count, [validity, pa.py_buffer(ends)], children=[structs])


def _room(size: int, kind: type) -> Any:
    return np.empty(size, kind)


def _ends(count: int) -> Any:
    ends = np.empty(count + 1, np.int32)
    ends[0] = 0
    return ends


def _bitmap(valid: Any) -> Any:
    if valid.all():
        return None
    return pa.py_buffer(np.packbits(valid, bitorder="little"))


def _binary(kind: pa.DataType, count: int, valid: Any, ends: Any, data: Any, size_bytes: int) -> pa.Array:
    buffers = [_bitmap(valid[:count]), pa.py_buffer(ends[: count + 1]), pa.py_buffer(data[:size_bytes])]
    return pa.Array.from_buffers(kind, count, buffers)


def _text(count: int, valid: Any, ends: Any, data: Any, size_bytes: int) -> pa.Array:
    """Invalid UTF-8 is replaced, as in Java's clients, because brokers do not check header names."""
    if (data[:size_bytes] < _NOT_ASCII).all():
        return _binary(pa.string(), count, valid, ends, data, size_bytes)
    raw = _binary(pa.binary(), count, valid, ends, data, size_bytes)
    return pa.array([name.decode(errors="replace") for name in raw.to_pylist()], pa.string())


def _fixed(kind: pa.DataType, count: int, data: Any) -> pa.Array:
    return pa.Array.from_buffers(kind, count, [None, pa.py_buffer(data[:count])])

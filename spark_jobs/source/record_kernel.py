"""Converts records to Arrow's column layout; compiled, without Python objects for each record.

``decode`` reads the uncompressed records of the batches in a table (``batch_kernel``; the layout of magic 2 is in
``storage/records/record_batch.py``) and appends key, value, offset, timestamp and headers to preallocated arrays. It
stops when an array is full and continues there on the next call, so the arrays bound the memory. The input is not
trusted: every varint, length and count is checked against the end of its record.

numba caches the compiled code beside this file, or in the user's cache folder if that is not writable.
"""

import numpy as np
from numba import njit, types

from kafka_zk.spark_jobs.source.batch_kernel import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    END,
    MAX_TIMESTAMP,
    RECORD_COUNT,
    START,
    TIMESTAMP_TYPE_FLAG,
)

DONE = 0
FULL = 1
"""Take the rows, empty the arrays, and call again."""
MALFORMED = 2
TIME_OUT_OF_RANGE = 3
"""A timestamp in ms that does not fit into Spark's microseconds."""

_LAST_MS = (2**63 - 1) // 1000

# ``cursor``: the batch, the position in it, and its remaining records; all zero before the first call.
AT_BATCH, AT_POSITION, RECORDS_LEFT, CURSOR_FIELDS = range(4)
# ``fill``: the used sizes of the arrays.
ROWS, KEY_BYTES, VALUE_BYTES, HEADERS, NAME_BYTES, CONTENT_BYTES, FILL_FIELDS = range(7)

_input = types.Array(types.uint8, 1, "C", readonly=True)
_bytes = types.uint8[::1]
_int32 = types.int32[::1]
_int64 = types.int64[::1]
_two = types.Tuple((types.int64, types.int64))
_three = types.Tuple((types.int64, types.int64, types.int64))
_NO_ROOM = -2
_BROKEN = -1


@njit(_two(_input, types.int64, types.int64), cache=True, nogil=True)
def _varint(data, position, end):  # type: ignore[no-untyped-def]
    """Read a zigzag varint. The next position is -1 if the varint is incomplete or too long."""
    result = np.uint64(0)
    shift = np.uint64(0)
    while position < end and shift < np.uint64(70):
        byte = np.uint64(data[types.uintp(position)])
        position += 1
        result |= (byte & np.uint64(0x7F)) << shift
        if byte < np.uint64(0x80):
            return np.int64(result >> np.uint64(1)) ^ -np.int64(result & np.uint64(1)), position
        shift += np.uint64(7)
    return np.int64(0), np.int64(-1)


@njit(types.void(_input, types.int64, types.int64, _bytes, types.int64), cache=True, nogil=True)
def _copy(source, start, size, target, at):  # type: ignore[no-untyped-def]
    """Copy with unsigned indices: for signed ones numba checks the sign at every byte, which is 30 times slower
    (measured).
    """
    to, origin = types.uintp(at), types.uintp(start)
    for index in range(types.uintp(max(size, 0))):
        target[to + index] = source[origin + index]


@njit(_three(_input, types.int64, types.int64), cache=True, nogil=True)
def _field(data, position, end):  # type: ignore[no-untyped-def]
    """Read a key, value, header name or content; returns start, size and next position.

    The size is negative for null; the position is _BROKEN if the field exceeds its record.
    """
    size, start = _varint(data, position, end)
    if start < 0 or size > end - start:
        return np.int64(0), np.int64(0), np.int64(_BROKEN)
    return start, size, start + max(size, 0)


@njit(
    types.int64(_input, types.int64, types.int64, types.boolean, _int64, _int32, _bytes, _int32, _bytes, _bytes),
    cache=True, nogil=True,
)  # fmt: skip
def _headers(data, position, end, wanted, fill, name_ends, names, content_ends, contents, content_valid):  # type: ignore[no-untyped-def]
    """Return the next position, or _BROKEN, or _NO_ROOM."""
    count, position = _varint(data, position, end)
    if position < 0 or count < 0 or count > end - position:
        return np.int64(_BROKEN)
    at, name_bytes, content_bytes = fill[HEADERS], fill[NAME_BYTES], fill[CONTENT_BYTES]
    if wanted and at + count > content_valid.size:
        return np.int64(_NO_ROOM)
    for _ in range(count):
        name_at, name_size, position = _field(data, position, end)
        if position < 0 or name_size < 0:
            return np.int64(_BROKEN)
        content_at, content_size, position = _field(data, position, end)
        if position < 0:
            return np.int64(_BROKEN)
        if not wanted:
            continue
        if name_size > names.size - name_bytes or content_size > contents.size - content_bytes:
            return np.int64(_NO_ROOM)
        _copy(data, name_at, name_size, names, name_bytes)
        _copy(data, content_at, content_size, contents, content_bytes)
        content_valid[at] = content_size >= 0
        name_bytes += name_size
        content_bytes += max(content_size, 0)
        at += 1
        name_ends[at] = name_bytes
        content_ends[at] = content_bytes
    fill[HEADERS], fill[NAME_BYTES], fill[CONTENT_BYTES] = at, name_bytes, content_bytes
    return position


@njit(inline="always")  # passing this many arrays costs three times as much as the function
def _append(  # type: ignore[no-untyped-def]
    data, position, end, with_headers, fill,
    key_ends, keys, key_valid, value_ends, values, value_valid,
    header_ends, name_ends, names, content_ends, contents, content_valid,
):  # fmt: skip
    """Append the record that ends at ``end``. Returns like ``_headers``."""
    row = fill[ROWS]
    key_at, key_size, position = _field(data, position, end)
    if position < 0:
        return np.int64(_BROKEN)
    value_at, value_size, position = _field(data, position, end)
    if position < 0:
        return np.int64(_BROKEN)
    key_bytes = fill[KEY_BYTES] + max(key_size, 0)
    value_bytes = fill[VALUE_BYTES] + max(value_size, 0)
    if key_bytes > keys.size or value_bytes > values.size:
        return np.int64(_NO_ROOM)
    if position < end and data[types.uintp(position)] == 0:
        position += 1
    else:
        position = _headers(
            data, position, end, with_headers, fill, name_ends, names, content_ends, contents, content_valid
        )
        if position < 0:
            return position
    if with_headers:
        header_ends[row + 1] = fill[HEADERS]
    _copy(data, key_at, key_size, keys, fill[KEY_BYTES])
    _copy(data, value_at, value_size, values, fill[VALUE_BYTES])
    key_ends[row + 1] = key_bytes
    value_ends[row + 1] = value_bytes
    key_valid[row] = key_size >= 0
    value_valid[row] = value_size >= 0
    fill[KEY_BYTES] = key_bytes
    fill[VALUE_BYTES] = value_bytes
    return position


_decode_signature = types.int64(
    _input, types.int64[:, ::1], _int64, types.int64, types.int64, types.boolean, _int64,
    _int64, _int64, _int32, _bytes, _bytes, _int32, _bytes, _bytes,
    _int32, _int32, _bytes, _int32, _bytes, _bytes,
)  # fmt: skip


@njit(_decode_signature, cache=True, nogil=True)
def decode(  # type: ignore[no-untyped-def]
    data, batches, cursor, first_offset, until_offset, with_headers, fill,
    offsets, timestamps_us, key_ends, keys, key_valid, value_ends, values, value_valid,
    header_ends, name_ends, names, content_ends, contents, content_valid,
):  # fmt: skip
    """Append the records in the range. Returns DONE, or why it stopped.

    The arrays ``*_ends`` are Arrow's offsets (the first is 0, not written here); ``*_valid`` have one byte per item.
    """
    while cursor[AT_BATCH] < batches.shape[0]:
        batch = batches[cursor[AT_BATCH]]
        if cursor[AT_POSITION] == 0:
            cursor[AT_POSITION] = batch[START]
            cursor[RECORDS_LEFT] = batch[RECORD_COUNT]
        while cursor[RECORDS_LEFT] > 0:
            start, length, end = _field(data, cursor[AT_POSITION], batch[END])
            if end < 0 or length < 1:
                return MALFORMED
            timestamp_delta, position = _varint(data, start + 1, end)  # one byte of attributes, unused
            if position < 0:
                return MALFORMED
            offset_delta, position = _varint(data, position, end)
            if position < 0:
                return MALFORMED
            offset = batch[BASE_OFFSET] + offset_delta
            if first_offset <= offset < until_offset:
                row = fill[ROWS]
                if row >= offsets.size:
                    return FULL
                position = _append(
                    data, position, end, with_headers, fill, key_ends, keys, key_valid, value_ends, values, value_valid,
                    header_ends, name_ends, names, content_ends, contents, content_valid,
                )  # fmt: skip
                if position == _NO_ROOM:
                    return FULL
                if position != end:
                    return MALFORMED
                offsets[row] = offset
                timestamp_ms = batch[BASE_TIMESTAMP] + timestamp_delta
                if batch[ATTRIBUTES] & TIMESTAMP_TYPE_FLAG:
                    timestamp_ms = batch[MAX_TIMESTAMP]
                if timestamp_ms > _LAST_MS or timestamp_ms < -_LAST_MS:
                    return TIME_OUT_OF_RANGE
                timestamps_us[row] = timestamp_ms * 1000
                fill[ROWS] = row + 1
            cursor[AT_POSITION] = end
            cursor[RECORDS_LEFT] -= 1
        if cursor[AT_POSITION] != batch[END]:
            return MALFORMED
        cursor[AT_BATCH] += 1
        cursor[AT_POSITION] = 0
    return DONE

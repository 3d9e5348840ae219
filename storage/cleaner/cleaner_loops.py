"""The two record loops of a cleaning, for numba: adding keys to the offset map, and choosing records to keep.

They do the same as ``cleaner`` and ``record_filter.choose``, on the same table (see ``offset_map``). They only use
addresses, allocate nothing and raise nothing, so that ``machine_code`` can store the compiled code. Importing this
module compiles them, which takes seconds; ``cleaner_kernel`` calls them.
Tests: tests/storage/cleaner/test_cleaner_kernel.py.
"""

from typing import Any

import numpy as np
from numba import cfunc, njit, types

_OK, _FULL, _BROKEN = range(3)

# MD5 (RFC 1321): the sines of 1 to 64, and the word of the block used in each of the 64 steps.
_SINES = np.floor(np.abs(np.sin(np.arange(1, 65, dtype=np.float64))) * 2.0**32).astype(np.uint32)
_STEPS = np.arange(16, dtype=np.uint32)
_ORDER = np.concatenate([_STEPS, (5 * _STEPS + 1) % 16, (3 * _STEPS + 5) % 16, (7 * _STEPS) % 16]).astype(np.uint32)

_OPTIONS: Any = {"error_model": "numpy", "_nrt": False}  # no error for a division by zero, no reference counts
_bytes = types.CPointer(types.uint8)
_words = types.CPointer(types.uint32)
_table = types.CPointer(types.uint64)  # three words per entry
_numbers = types.CPointer(types.int64)
_halves = types.UniTuple(types.uint64, 2)
_varint_result = types.UniTuple(types.int64, 2)
_place = types.UniTuple(types.int64, 6)


@njit(types.uint32(_bytes, types.int64, types.int64, types.int64), **_OPTIONS)
def _padded_byte(data, start, size, index):  # type: ignore[no-untyped-def]
    """A byte of a message with MD5's padding, except for the length at its end."""
    if index < size:
        return np.uint32(data[start + index])
    return np.uint32(0x80 if index == size else 0)


@njit(types.void(_bytes, types.int64, types.int64, types.int64, _words), **_OPTIONS)
def _load_block(data, start, size, block, words):  # type: ignore[no-untyped-def]
    """The 16 words of a block of the padded message."""
    first = block * 64
    for word in range(16):
        at = first + word * 4
        if at + 4 <= size:
            place = start + at
            words[word] = (
                np.uint32(data[place])
                | np.uint32(data[place + 1]) << np.uint32(8)
                | np.uint32(data[place + 2]) << np.uint32(16)
                | np.uint32(data[place + 3]) << np.uint32(24)
            )
        else:
            value = np.uint32(0)
            for index in range(4):
                value |= _padded_byte(data, start, size, at + index) << np.uint32(8 * index)
            words[word] = value
    if block == (size + 8) // 64:
        bits = np.uint64(size) << np.uint64(3)
        words[14] = np.uint32(bits & np.uint64(0xFFFFFFFF))
        words[15] = np.uint32(bits >> np.uint64(32))


@njit(types.uint32(types.uint64, _words, types.uintp, types.uint32, types.uint32), **_OPTIONS)
def _turn(mixed, words, step, rotation, onto):  # type: ignore[no-untyped-def]
    """Add the step's constant and its word, rotate to the left, add."""
    total = np.uint32(mixed + _SINES[step] + words[_ORDER[step]])
    return np.uint32(onto + np.uint32((total << rotation) | (total >> np.uint32(np.uint32(32) - rotation))))


@njit(_halves(_bytes, types.int64, types.int64, _words), **_OPTIONS)
def md5(data, start, size, words):  # type: ignore[no-untyped-def]
    """The digest of a part of ``data`` as two little-endian numbers; ``words`` has room for 16.

    Unrolled so that every rotation is by a constant; otherwise it takes several times as long (measured).
    """
    a0, b0, c0, d0 = np.uint32(0x67452301), np.uint32(0xEFCDAB89), np.uint32(0x98BADCFE), np.uint32(0x10325476)
    for block in range((size + 8) // 64 + 1):
        _load_block(data, start, size, block, words)
        a, b, c, d = a0, b0, c0, d0
        for step in range(types.uintp(0), types.uintp(16), types.uintp(4)):
            a = _turn(a + ((b & c) | (~b & d)), words, step + types.uintp(0), 7, b)
            d = _turn(d + ((a & b) | (~a & c)), words, step + types.uintp(1), 12, a)
            c = _turn(c + ((d & a) | (~d & b)), words, step + types.uintp(2), 17, d)
            b = _turn(b + ((c & d) | (~c & a)), words, step + types.uintp(3), 22, c)
        for step in range(types.uintp(16), types.uintp(32), types.uintp(4)):
            a = _turn(a + ((d & b) | (~d & c)), words, step + types.uintp(0), 5, b)
            d = _turn(d + ((c & a) | (~c & b)), words, step + types.uintp(1), 9, a)
            c = _turn(c + ((b & d) | (~b & a)), words, step + types.uintp(2), 14, d)
            b = _turn(b + ((a & c) | (~a & d)), words, step + types.uintp(3), 20, c)
        for step in range(types.uintp(32), types.uintp(48), types.uintp(4)):
            a = _turn(a + (b ^ c ^ d), words, step + types.uintp(0), 4, b)
            d = _turn(d + (a ^ b ^ c), words, step + types.uintp(1), 11, a)
            c = _turn(c + (d ^ a ^ b), words, step + types.uintp(2), 16, d)
            b = _turn(b + (c ^ d ^ a), words, step + types.uintp(3), 23, c)
        for step in range(types.uintp(48), types.uintp(64), types.uintp(4)):
            a = _turn(a + (c ^ (b | ~d)), words, step + types.uintp(0), 6, b)
            d = _turn(d + (b ^ (a | ~c)), words, step + types.uintp(1), 10, a)
            c = _turn(c + (a ^ (d | ~b)), words, step + types.uintp(2), 15, d)
            b = _turn(b + (d ^ (c | ~a)), words, step + types.uintp(3), 21, c)
        a0, b0, c0, d0 = np.uint32(a0 + a), np.uint32(b0 + b), np.uint32(c0 + c), np.uint32(d0 + d)
    return (
        np.uint64(a0) | np.uint64(b0) << np.uint64(32),
        np.uint64(c0) | np.uint64(d0) << np.uint64(32),
    )


@njit(types.int64(_table, types.uint64, types.uint64, types.uint64), **_OPTIONS)
def _find(table, slots, low, high):  # type: ignore[no-untyped-def]
    """Where a digest's entry begins, or the free entry for it, probed as in ``OffsetMap``."""
    slot = low % slots
    step = np.uint64(0)
    while True:
        entry = types.int64(slot) * 3
        if table[entry + 2] == 0 or (table[entry] == low and table[entry + 1] == high):
            return entry
        if step == 0:
            step = np.uint64(1) + high % (slots - np.uint64(1))
        slot = (slot + step) % slots


@njit(_varint_result(_bytes, types.int64, types.int64), **_OPTIONS)
def _varint(data, position, end):  # type: ignore[no-untyped-def]
    """(Value, position after it); the position is -1 if the varint does not end before ``end``."""
    result = np.uint64(0)
    shift = np.uint64(0)
    while position < end and shift < np.uint64(70):
        byte = np.uint64(data[position])
        position += 1
        result |= (byte & np.uint64(0x7F)) << shift
        if byte < np.uint64(0x80):
            return np.int64(result >> np.uint64(1)) ^ -np.int64(result & np.uint64(1)), position
        shift += np.uint64(7)
    return np.int64(0), np.int64(-1)


@njit(_place(_bytes, types.int64, types.int64), **_OPTIONS)
def _read(data, start, size):  # type: ignore[no-untyped-def]
    """(End, timestamp delta, offset delta, position and size of the key, whether there is a value) of a record.

    The end is -1 if the record is malformed; the key's size is -1 for null. Nothing after ``size`` is read.
    """
    broken = (np.int64(-1), np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0))
    length, position = _varint(data, start, size)
    if position < 0 or length < 0 or length > size - position:
        return broken
    end = position + length
    timestamp_delta, position = _varint(data, position + 1, end)
    if position < 0:
        return broken
    offset_delta, position = _varint(data, position, end)
    if position < 0:
        return broken
    key_size, position = _varint(data, position, end)
    if position < 0 or key_size > end - position:
        return broken
    key_at = position
    position += max(key_size, np.int64(0))
    if position >= end:
        return broken
    has_value = np.int64(1) - np.int64(data[position] & 1)
    return end, timestamp_delta, offset_delta, key_at, key_size, has_value


_NOTE_KEYS = types.int64(
    _bytes, types.int64, types.int64, types.int64, types.int64, types.int64, types.int64,
    _table, types.int64, types.int64, types.int64, _bytes, types.int64, _words, _numbers,
)  # fmt: skip


@cfunc(_NOTE_KEYS, **_OPTIONS)
def _note_keys(  # type: ignore[no-untyped-def]
    data, start, size, count, base_offset, last_delta, start_offset,
    table, slots, max_size, first_offset, bits, bits_size, words, found,
):  # fmt: skip
    """Add the keys of records from ``start_offset`` on to the table; returns a status.

    ``found``: number of keys before and after; 1 if offsets are not ascending or do not match the batch.
    """
    position = start
    keys = found[0]
    found[1] = 0
    delta_before = np.int64(-1)
    status = np.int64(_OK)
    for _ in range(count):
        end, _, offset_delta, key_at, key_size, _ = _read(data, position, size)
        if end < 0:
            status = np.int64(_BROKEN)
            break
        position = end
        if offset_delta <= delta_before or offset_delta > last_delta:
            found[1] = 1
        delta_before = offset_delta
        offset = base_offset + offset_delta
        if key_size < 0 or offset < start_offset:
            continue
        low, high = md5(data, key_at, key_size, words)
        entry = _find(table, np.uint64(slots), low, high)
        if table[entry + 2] == 0:
            if keys >= max_size:
                status = np.int64(_FULL)
                break
            keys += 1
            table[entry] = low
            table[entry + 1] = high
        elif table[entry + 2] <= np.uint64(offset):
            place = np.int64(table[entry + 2]) - 1 - first_offset
            if 0 <= place < bits_size * 8:
                bits[place >> 3] |= np.uint8(1 << (place & 7))
        table[entry + 2] = np.uint64(offset + 1)
    found[0] = keys
    return np.int64(_BROKEN) if status == _OK and position != size else status


_CHOOSE = types.int64(
    _bytes, types.int64, types.int64, types.int64, types.int64, types.int64, types.int64,
    _table, types.int64, types.int64, _bytes, types.int64, _words, _bytes, _numbers,
)  # fmt: skip


@cfunc(_CHOOSE, **_OPTIONS)
def _choose(  # type: ignore[no-untyped-def]
    data, start, size, count, base_offset, latest_offset, keeps_tombstones,
    table, slots, first_offset, bits, bits_size, words, out, found,
):  # fmt: skip
    """Copy the records to keep to ``out``; returns a status.

    ``found``: records kept, records without a key, kept tombstones, largest kept timestamp delta, kept bytes.
    """
    position = start
    kept = keyless = tombstones = newest = filled = np.int64(0)
    for _ in range(count):
        first = position
        end, timestamp_delta, offset_delta, key_at, key_size, has_value = _read(data, first, size)
        if end < 0:
            return np.int64(_BROKEN)
        position = end
        offset = base_offset + offset_delta
        if offset <= latest_offset:
            if key_size < 0:
                keyless += 1
                continue
            if has_value == 0 and keeps_tombstones == 0:
                continue
            place = offset - first_offset
            if 0 <= place < bits_size * 8:
                if (bits[place >> 3] >> np.uint8(place & 7)) & 1:
                    continue
            else:
                low, high = md5(data, key_at, key_size, words)
                if offset + 1 < np.int64(table[_find(table, np.uint64(slots), low, high) + 2]):
                    continue
        if kept == 0 or timestamp_delta > newest:
            newest = timestamp_delta
        kept += 1
        tombstones += 1 - has_value
        for index in range(end - first):
            out[filled + index] = data[first + index]
        filled += end - first
    found[0] = kept
    found[1] = keyless
    found[2] = tombstones
    found[3] = newest
    found[4] = filled
    return np.int64(_OK if position == size else _BROKEN)


@cfunc(types.void(_bytes, types.int64, types.int64, _words, types.CPointer(types.uint64)), **_OPTIONS)
def _digest(data, start, size, words, found):  # type: ignore[no-untyped-def]
    """``found``: both halves of ``md5``."""
    found[0], found[1] = md5(data, start, size, words)


def c_functions() -> dict[str, Any]:
    """The functions for ``cleaner_kernel``, by the names under which the code is stored."""
    return {"kafka_zk_note_keys": _note_keys, "kafka_zk_choose": _choose, "kafka_zk_digest": _digest}

"""The two loops of a cleaning over all records, compiled: keys into the offset map, and the choice of what stays.

They do what ``cleaner`` and ``record_filter.choose`` do, on the same table (see ``offset_map``), and are used where
numba is installed. It keeps the compiled code in a cache beside this file, or in the user's cache folder where that is
not writable. Tests: tests/storage/test_cleaner_kernel.py; all tests of compaction run with and without it.
"""

import numpy as np
from numba import njit, types

from kafka_zk.storage.errors import CorruptRecord
from kafka_zk.storage.offset_map import OffsetMap
from kafka_zk.storage.record_batch import BatchHeader
from kafka_zk.storage.record_filter import Chosen

_OK, _FULL, _BROKEN = range(3)

# MD5 (RFC 1321): the sines of 1 to 64, and which word of the block each of the 64 steps takes.
_SINES = np.floor(np.abs(np.sin(np.arange(1, 65, dtype=np.float64))) * 2.0**32).astype(np.uint32)
_STEPS = np.arange(16, dtype=np.uint32)
_ORDER = np.concatenate([_STEPS, (5 * _STEPS + 1) % 16, (3 * _STEPS + 5) % 16, (7 * _STEPS) % 16]).astype(np.uint32)

_input = types.Array(types.uint8, 1, "C", readonly=True)
_bytes = types.uint8[::1]
_words = types.uint32[::1]
_table = types.uint64[:, ::1]
_digest = types.UniTuple(types.uint64, 2)
_varint_result = types.UniTuple(types.int64, 2)
_place = types.UniTuple(types.int64, 6)


@njit(types.uint32(_input, types.int64, types.int64, types.int64), cache=True, nogil=True)
def _padded_byte(data, start, size, index):  # type: ignore[no-untyped-def]
    """A byte of a message with MD5's padding behind it, but for the length at its end."""
    if index < size:
        return np.uint32(data[types.uintp(start + index)])
    return np.uint32(0x80 if index == size else 0)


@njit(types.void(_input, types.int64, types.int64, types.int64, _words), cache=True, nogil=True)
def _load_block(data, start, size, block, words):  # type: ignore[no-untyped-def]
    """The 16 words of a block of the padded message."""
    first = block * 64
    for word in range(16):
        at = first + word * 4
        if at + 4 <= size:
            place = types.uintp(start + at)
            words[word] = (
                np.uint32(data[place])
                | np.uint32(data[place + types.uintp(1)]) << np.uint32(8)
                | np.uint32(data[place + types.uintp(2)]) << np.uint32(16)
                | np.uint32(data[place + types.uintp(3)]) << np.uint32(24)
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


@njit(types.uint32(types.uint64, _words, types.uintp, types.uint32, types.uint32), cache=True, nogil=True)
def _turn(mixed, words, step, rotation, onto):  # type: ignore[no-untyped-def]
    """Add the step's constant and its word, rotate to the left, add."""
    total = np.uint32(mixed + _SINES[step] + words[types.uintp(_ORDER[step])])
    return np.uint32(onto + np.uint32((total << rotation) | (total >> np.uint32(np.uint32(32) - rotation))))


@njit(_digest(_input, types.int64, types.int64, _words), cache=True, nogil=True)
def md5(data, start, size, words):  # type: ignore[no-untyped-def]
    """The digest of a part of ``data`` as two little-endian numbers; ``words`` is room for 16.

    Written out so far that every rotation is by a constant: otherwise it takes several times as long (measured).
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


@njit(types.int64(_table, types.uint64, types.uint64), cache=True, nogil=True)
def _find(table, low, high):  # type: ignore[no-untyped-def]
    """The slot of a digest, or that of the free entry where it belongs, as ``OffsetMap`` looks for it."""
    slots = np.uint64(table.shape[0])
    slot = low % slots
    step = np.uint64(0)
    while True:
        entry = table[types.uintp(slot)]
        if (entry[0] == low and entry[1] == high) or (entry[0] == 0 and entry[1] == 0 and entry[2] == 0):
            return np.int64(slot)
        if step == 0:
            step = np.uint64(1) + high % (slots - np.uint64(1))
        slot = (slot + step) % slots


@njit(_varint_result(_input, types.int64, types.int64), cache=True, nogil=True)
def _varint(data, position, end):  # type: ignore[no-untyped-def]
    """(value, position after it), the position -1 if there is none before ``end``."""
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


@njit(_place(_input, types.int64), cache=True, nogil=True)
def _read(data, start):  # type: ignore[no-untyped-def]
    """(end, timestamp delta, offset delta, where the key lies, its size, whether there is a value) of a record.

    The end is -1 if it is malformed; a key's size is -1 for null.
    """
    broken = (np.int64(-1), np.int64(0), np.int64(0), np.int64(0), np.int64(0), np.int64(0))
    size = np.int64(data.size)
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
    has_value = np.int64(1) - np.int64(data[types.uintp(position)] & 1)
    return end, timestamp_delta, offset_delta, key_at, key_size, has_value


@njit(
    types.UniTuple(types.int64, 2)(_input, types.int64, types.int64, types.int64, _table, types.int64, types.int64),
    cache=True, nogil=True,
)  # fmt: skip
def _note(data, count, base_offset, start_offset, table, size, max_size):  # type: ignore[no-untyped-def]
    """Put the keys of records from ``start_offset`` on into the table; returns (status, how many keys it has then)."""
    words = np.empty(16, dtype=np.uint32)
    position = np.int64(0)
    for _ in range(count):
        end, _, offset_delta, key_at, key_size, _ = _read(data, position)
        if end < 0:
            return np.int64(_BROKEN), size
        position = end
        offset = base_offset + offset_delta
        if key_size < 0 or offset < start_offset:
            continue
        low, high = md5(data, key_at, key_size, words)
        entry = table[types.uintp(_find(table, low, high))]
        if entry[2] == 0:
            if size >= max_size:
                return np.int64(_FULL), size
            size += 1
            entry[0] = low
            entry[1] = high
        entry[2] = np.uint64(offset + 1)
    return np.int64(_OK if position == data.size else _BROKEN), size


@njit(
    types.UniTuple(types.int64, 6)(
        _input, types.int64, types.int64, types.int64, types.boolean, _table, _bytes
    ),
    cache=True, nogil=True,
)  # fmt: skip
def _choose(data, count, base_offset, latest_offset, keeps_tombstones, table, out):  # type: ignore[no-untyped-def]
    """(status, kept, without a key, tombstones among the kept, largest timestamp delta, bytes put into ``out``)."""
    words = np.empty(16, dtype=np.uint32)
    position = kept = keyless = tombstones = newest = filled = np.int64(0)
    for _ in range(count):
        start = position
        end, timestamp_delta, offset_delta, key_at, key_size, has_value = _read(data, start)
        if end < 0:
            return np.int64(_BROKEN), kept, keyless, tombstones, newest, filled
        position = end
        offset = base_offset + offset_delta
        if offset <= latest_offset:
            if key_size < 0:
                keyless += 1
                continue
            if has_value == 0 and not keeps_tombstones:
                continue
            low, high = md5(data, key_at, key_size, words)
            if offset + 1 < np.int64(table[types.uintp(_find(table, low, high))][2]):
                continue
        if kept == 0 or timestamp_delta > newest:
            newest = timestamp_delta
        kept += 1
        tombstones += 1 - has_value
        to, origin = types.uintp(filled), types.uintp(start)
        for index in range(types.uintp(end - start)):
            out[to + index] = data[origin + index]
        filled += end - start
    return np.int64(_OK if position == data.size else _BROKEN), kept, keyless, tombstones, newest, filled


class CleanerKernel:
    """The loops over the records of one batch after the other, for one offset map."""

    def __init__(self, offsets: OffsetMap) -> None:
        self._offsets = offsets
        self._table = np.frombuffer(offsets.table, dtype=np.uint64).reshape(-1, 3)
        self._out = np.empty(1 << 16, dtype=np.uint8)

    def note_keys(self, records: bytes, header: BatchHeader, start_offset: int) -> bool:
        """Note the last offsets of a batch's keys; False if the map is full. Raises: CorruptRecord."""
        offsets = self._offsets
        data = np.frombuffer(records, dtype=np.uint8)
        status, offsets.size = _note(
            data, header.record_count, header.base_offset, start_offset, self._table, offsets.size, offsets.max_size
        )
        if status == _BROKEN:
            raise _malformed(header)
        return bool(status == _OK)

    def choose(self, records: bytes, header: BatchHeader, latest_offset: int, keeps_tombstones: bool) -> Chosen:
        """As ``record_filter.choose``. Raises: CorruptRecord."""
        data = np.frombuffer(records, dtype=np.uint8)
        if data.size > self._out.size:
            self._out = np.empty(data.size, dtype=np.uint8)
        status, kept, keyless, tombstones, newest, filled = _choose(
            data, header.record_count, header.base_offset, latest_offset, keeps_tombstones, self._table, self._out
        )
        if status == _BROKEN:
            raise _malformed(header)
        return Chosen(kept, keyless, tombstones > 0, newest, self._out[:filled].tobytes())

    def close(self) -> None:
        """Let go of the map's memory."""
        del self._table


def _malformed(header: BatchHeader) -> CorruptRecord:
    return CorruptRecord(f"a record of the batch at offset {header.base_offset} is malformed or not there")

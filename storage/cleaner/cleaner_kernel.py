"""The compiled loops of a cleaning, if available: see ``cleaner_loops``.

``cleaner`` and ``record_filter.filter_batch`` use them instead of the interpreted versions, with the same table.
Tests: tests/storage/cleaner/test_cleaner_kernel.py; all tests of compaction run with and without them.
"""

import sys
from ctypes import CFUNCTYPE, POINTER, addressof, c_char, c_char_p, c_int64, c_uint32, c_void_p, string_at
from functools import cache

from kafka_zk.base.machine_code import MachineCode, machine_code
from kafka_zk.storage.cleaner.offset_map import OffsetMap
from kafka_zk.storage.cleaner.record_filter import Chosen
from kafka_zk.storage.files.errors import CorruptRecord
from kafka_zk.storage.records.record_batch import BatchHeader

_LOOPS = "kafka_zk.storage.cleaner.cleaner_loops"
_NOTE_KEYS, _CHOOSE, _DIGEST = NAMES = ("kafka_zk_note_keys", "kafka_zk_choose", "kafka_zk_digest")
_OK, _FULL, _BROKEN = range(3)
_LEAST_OUT_BYTES = 1 << 16

_note_keys_type = CFUNCTYPE(
    c_int64, c_char_p, c_int64, c_int64, c_int64, c_int64, c_int64, c_int64,
    c_void_p, c_int64, c_int64, c_int64, c_void_p, c_int64, c_void_p, POINTER(c_int64),
)  # fmt: skip
_choose_type = CFUNCTYPE(
    c_int64, c_char_p, c_int64, c_int64, c_int64, c_int64, c_int64, c_int64,
    c_void_p, c_int64, c_int64, c_void_p, c_int64, c_void_p, c_void_p, POINTER(c_int64),
)  # fmt: skip
_digest_type = CFUNCTYPE(None, c_char_p, c_int64, c_int64, c_void_p, c_void_p)


_loaded: list[MachineCode] = []
"""At most one. Missing loops may become available when another cleaning or process has compiled them."""


def load_loops(*, compiles: bool) -> MachineCode | None:
    """The loops, compiled now if needed and allowed; None if unavailable."""
    if not _loaded and sys.byteorder == "little":
        found = _compiled() if compiles else machine_code(_LOOPS, NAMES, compiles=False)
        _loaded.extend(filter(None, [found]))
    return _loaded[0] if _loaded else None


@cache
def _compiled() -> MachineCode | None:
    """Compile the loops, which takes seconds, so there is only one attempt."""
    return machine_code(_LOOPS, NAMES, compiles=True)


class CleanerKernel:
    """The loops over the records of a batch, for one offset map.

    Records are passed as the bytes that end with them and their start position.
    """

    def __init__(self, offsets: OffsetMap, loops: MachineCode) -> None:
        self._loops = loops  # keeps the functions alive
        self._note_keys = _note_keys_type(loops.addresses[_NOTE_KEYS])
        self._choose = _choose_type(loops.addresses[_CHOOSE])
        self._offsets = offsets
        self._memory = c_char.from_buffer(offsets.table)
        self._table = c_void_p(addressof(self._memory))
        self._first_offset, bits = offsets.replaced
        self._bits = (c_char * len(bits)).from_buffer(bits)
        self._words = (c_uint32 * 16)()
        self._found = (c_int64 * 5)()
        self._out_size = _LEAST_OUT_BYTES
        self._out = (c_char * self._out_size)()

    def note_keys(self, data: bytes, start: int, header: BatchHeader, start_offset: int) -> bool:
        """Store the last offsets of a batch's keys; False if the map is full. Raises: CorruptRecord."""
        offsets = self._offsets
        self._found[0] = offsets.size
        status = self._note_keys(
            data, start, len(data), header.record_count, header.base_offset, header.last_offset_delta, start_offset,
            self._table, offsets.slots, offsets.max_size,
            self._first_offset, self._bits, len(offsets.replaced.bits), self._words, self._found,
        )  # fmt: skip
        offsets.size = self._found[0]
        if self._found[1]:
            offsets.forget_replaced()
        if status == _BROKEN:
            raise _malformed(header)
        return bool(status == _OK)

    def choose(
        self, data: bytes, start: int, header: BatchHeader, latest_offset: int, keeps_tombstones: bool
    ) -> Chosen:
        """Like ``record_filter.choose``. Raises: CorruptRecord."""
        if len(data) > self._out_size:
            self._out_size = len(data)
            self._out = (c_char * self._out_size)()
        bits_size = len(self._offsets.replaced.bits) if header.base_offset >= self._first_offset else 0
        status = self._choose(
            data, start, len(data), header.record_count, header.base_offset, latest_offset, keeps_tombstones,
            self._table, self._offsets.slots, self._first_offset, self._bits, bits_size,
            self._words, self._out, self._found,
        )  # fmt: skip
        if status != _OK:
            raise _malformed(header)
        kept, keyless, tombstones, newest, filled = self._found
        return Chosen(kept, keyless, tombstones > 0, newest, string_at(self._out, filled))

    def close(self) -> None:
        """Release the map's memory."""
        del self._memory, self._table, self._bits


def digest(loops: MachineCode, data: bytes, start: int, size_bytes: int) -> bytes:
    """The MD5 digest of a part of ``data``, computed as for keys."""
    found = (c_char * 16)()
    _digest_type(loops.addresses[_DIGEST])(data, start, size_bytes, (c_uint32 * 16)(), found)
    return found.raw


def _malformed(header: BatchHeader) -> CorruptRecord:
    return CorruptRecord(f"a record of the batch at offset {header.base_offset} is malformed or not there")

"""The two loops of log cleaning over a batch's records: one notes keys in an offset map, one chooses what to keep.

The native module has both. Without it, ``PythonLoops`` does the same, and rejects the same records. Both loops take
``data``, which ends after the last record, and ``start``, the position of the first record in it. All tests of
compaction run with the native module and with ``PythonLoops``.
"""

from functools import partial
from typing import Protocol

from kafka_zk.native.loading import Native
from kafka_zk.storage.cleaner.offset_map import OffsetMap
from kafka_zk.storage.cleaner.record_filter import Choose, Chosen, choose, places
from kafka_zk.storage.files.errors import CorruptRecord
from kafka_zk.storage.records.record_batch import BatchHeader

_NO_BITS = bytearray()


class RecordLoops(Protocol):
    """The loops for one offset map. Headers must come from ``record_filter.read_checked``."""

    def note_keys(self, data: bytes, start: int, header: BatchHeader, start_offset: int) -> bool:
        """Store the last offsets of a batch's keys; False if the map is full. Raises: CorruptRecord."""

    @property
    def choose(self) -> Choose:
        """``record_filter.choose`` with the map's present content."""


def record_loops(offsets: OffsetMap, native: Native | None) -> RecordLoops:
    """The loops for ``offsets``. ``native``: as for ``OffsetMap``."""
    return PythonLoops(offsets) if native is None else NativeLoops(offsets, native)


class PythonLoops:
    def __init__(self, offsets: OffsetMap) -> None:
        self._offsets = offsets

    def note_keys(self, data: bytes, start: int, header: BatchHeader, start_offset: int) -> bool:
        base_offset, first_delta, put = header.base_offset, start_offset - header.base_offset, self._offsets.put
        last_delta, delta_before = header.last_offset_delta, -1
        for _, _, _, offset_delta, key, _ in places(data, start, header.record_count):
            if not delta_before < offset_delta <= last_delta:
                self._offsets.forget_replaced()
            delta_before = offset_delta
            if key is not None and offset_delta >= first_delta and not put(key, base_offset + offset_delta):
                return False
        return True

    @property
    def choose(self) -> Choose:
        return partial(choose, self._offsets.get, replaced=self._offsets.replaced)


class NativeLoops:
    def __init__(self, offsets: OffsetMap, native: Native) -> None:
        self._offsets = offsets
        self._native = native

    def note_keys(self, data: bytes, start: int, header: BatchHeader, start_offset: int) -> bool:
        offsets = self._offsets
        first_offset, bits = offsets.replaced
        try:
            offsets.size, is_full, in_order = self._native.note_keys(
                data, start, header.record_count, header.base_offset, header.last_offset_delta, start_offset,
                offsets.secret, offsets.table, offsets.size, offsets.max_size, first_offset, bits,
            )  # fmt: skip
        except ValueError as error:
            raise _refused(header, error) from None
        if not in_order:
            offsets.forget_replaced()
        return not is_full

    @property
    def choose(self) -> Choose:
        return self._choose

    def _choose(
        self, data: bytes, start: int, header: BatchHeader, latest_offset: int, keeps_tombstones: bool
    ) -> Chosen:
        offsets = self._offsets
        first_offset, bits = offsets.replaced
        try:
            found = self._native.choose(
                data, start, header.record_count, header.base_offset, latest_offset, keeps_tombstones,
                offsets.secret, offsets.table, first_offset, bits if header.base_offset >= first_offset else _NO_BITS,
            )  # fmt: skip
        except ValueError as error:
            raise _refused(header, error) from None
        return Chosen(*found)


def _refused(header: BatchHeader, error: ValueError) -> CorruptRecord:
    return CorruptRecord(f"the batch at offset {header.base_offset}: {error}")

"""Snapshots of a log's producers: the file format, and the incremental encoding of large ones.

``<offset>.snapshot`` is their state at that offset. Layout (big-endian): ``version int16 = 1, crc uint32, count
int32``, then per producer ``producer_id int64, epoch int16, last_sequence int32, last_offset int64, offset_delta int32,
timestamp int64, coordinator_epoch int32, current_txn_first_offset int64``. The CRC-32C covers everything after it.
Source: ProducerStateManager.java@3.9.

Encoding many producers takes seconds, so a roll only lists them (``SnapshotUnderWay``). Later they are encoded a few at
a time; one that is about to change is encoded first. Until all are written, a restart loads an older snapshot.
Tests: tests/storage/log/test_producer_state.py.
"""

from collections.abc import Callable, Generator, Iterable
from struct import Struct
from typing import Any

from crc32c import crc32c

from kafka_zk.storage.files.errors import CorruptSnapshot
from kafka_zk.storage.files.filenames import SNAPSHOT_SUFFIX, offset_file, parse_offset_file
from kafka_zk.storage.files.files import list_directory
from kafka_zk.storage.records.record_batch import NO_PRODUCER_EPOCH, NO_SEQUENCE

MAX_SEQUENCE = 0x7FFFFFFF
NO_OFFSET = -1
ENTRIES_A_STEP = 256
"""Number of entries per step; encoding them takes about 0.5 ms."""
REMEMBERED_BATCHES = 5
_PRODUCED_BATCH = Struct("=iiqqq")
_EARLIER_BYTES = (REMEMBERED_BATCHES - 2) * _PRODUCED_BATCH.size
_SNAPSHOT_VERSION = 1
_SNAPSHOT_HEADER = Struct(">hIi")
_SNAPSHOT_ENTRY = Struct(">qhiqiqiq")
_SNAPSHOT_CRC_START = 6


ProducedBatch = tuple[int, int, int, int, int]
"""First sequence, last sequence, first offset, last offset, largest timestamp in ms."""


class ProducerEntry:
    """One producer id in a partition.

    Attributes:
        last_batch: the last batch of the current epoch, if known; earlier batches are packed to save memory.
        last_timestamp_ms: timestamp of the last batch or marker; expiration counts from it.
        coordinator_epoch: the coordinator epoch in the last marker; -1 before the first marker.
        current_txn_first_offset: the first offset of the open transaction; NO_OFFSET if none is open.
    """

    __slots__ = (
        "_earlier", "coordinator_epoch", "current_txn_first_offset", "last_batch", "last_timestamp_ms",
        "producer_epoch", "producer_id",
    )  # fmt: skip

    def __init__(
        self,
        producer_id: int,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        coordinator_epoch: int = -1,
        last_timestamp_ms: int = -1,
        current_txn_first_offset: int = NO_OFFSET,
    ) -> None:
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch
        self.coordinator_epoch = coordinator_epoch
        self.last_timestamp_ms = last_timestamp_ms
        self.current_txn_first_offset = current_txn_first_offset
        self.last_batch: ProducedBatch | None = None
        self._earlier = b""

    @property
    def last_sequence(self) -> int:
        return NO_SEQUENCE if self.last_batch is None else self.last_batch[1]

    @property
    def last_offset(self) -> int:
        return NO_OFFSET if self.last_batch is None else self.last_batch[3]

    @property
    def batches(self) -> list[ProducedBatch]:
        """The last REMEMBERED_BATCHES batches of the current epoch, oldest first."""
        earlier: list[Any] = list(_PRODUCED_BATCH.iter_unpack(self._earlier))
        return earlier if self.last_batch is None else [*earlier, self.last_batch]

    def add(self, batch: ProducedBatch) -> None:
        last = self.last_batch
        if last is not None:
            self._earlier = self._earlier[-_EARLIER_BYTES:] + _PRODUCED_BATCH.pack(*last)
        self.last_batch = batch

    def forget_batches(self) -> None:
        self.last_batch, self._earlier = None, b""


class SnapshotUnderWay:
    """A log's producers at ``offset``, encoded a few at a time while the log continues.

    ``is_void``: the snapshot is useless, because the log was truncated, closed or deleted, or its producers were
    replaced.
    """

    __slots__ = ("_changed", "_entries", "is_void", "offset")

    def __init__(self, entries: Iterable[ProducerEntry], offset: int) -> None:
        self.offset = offset
        self.is_void = False
        self._entries = list(entries)
        self._changed: dict[int, bytes] = {}  # producer id -> entry before its change

    def keep(self, entry: ProducerEntry) -> None:
        """Encode an entry before it changes."""
        if entry.producer_id not in self._changed:
            self._changed[entry.producer_id] = _encode_entry(entry)

    def encode_steps(self) -> Generator[None, None, Callable[[], bytes]]:
        """Encode ENTRIES_A_STEP entries per step. The result is a function, for any thread, that returns the file's
        content."""
        parts, count = [], len(self._entries)
        for start in range(0, count, ENTRIES_A_STEP):
            if self.is_void:
                break
            entries = self._entries[start : start + ENTRIES_A_STEP]
            parts.append(b"".join(self._changed.pop(each.producer_id, b"") or _encode_entry(each) for each in entries))
            yield
        return lambda: _with_header(count, b"".join(parts))


def encode_snapshot(producers: dict[int, ProducerEntry]) -> bytes:
    return _with_header(len(producers), b"".join(map(_encode_entry, producers.values())))


def _encode_entry(entry: ProducerEntry) -> bytes:
    _, last_sequence, first_offset, last_offset, _ = entry.last_batch or (-1,) * 5
    return _SNAPSHOT_ENTRY.pack(
        entry.producer_id,
        entry.producer_epoch,
        last_sequence,
        last_offset,
        last_offset - first_offset,
        entry.last_timestamp_ms,
        entry.coordinator_epoch,
        entry.current_txn_first_offset,
    )


def _with_header(count: int, entries: bytes) -> bytes:
    crc = crc32c(entries, crc32c(count.to_bytes(4, "big")))
    return _SNAPSHOT_HEADER.pack(_SNAPSHOT_VERSION, crc, count) + entries


def decode_snapshot(data: bytes) -> list[ProducerEntry]:
    """Raises CorruptSnapshot."""
    if len(data) < _SNAPSHOT_HEADER.size:
        raise CorruptSnapshot(f"{len(data)} bytes are too few")
    version, crc, count = _SNAPSHOT_HEADER.unpack_from(data)
    if version != _SNAPSHOT_VERSION:
        raise CorruptSnapshot(f"version {version}, expected {_SNAPSHOT_VERSION}")
    if crc32c(data[_SNAPSHOT_CRC_START:]) != crc:
        raise CorruptSnapshot("the CRC does not match")
    if count < 0 or len(data) < _SNAPSHOT_HEADER.size + count * _SNAPSHOT_ENTRY.size:
        raise CorruptSnapshot(f"{count} entries announced, {len(data)} bytes found")
    entries = []
    for index in range(count):
        producer_id, epoch, last_sequence, last_offset, delta, timestamp_ms, coordinator_epoch, txn_offset = (
            _SNAPSHOT_ENTRY.unpack_from(data, _SNAPSHOT_HEADER.size + index * _SNAPSHOT_ENTRY.size)
        )
        entry = ProducerEntry(producer_id, epoch, coordinator_epoch, timestamp_ms, txn_offset)
        if last_offset != NO_OFFSET:
            first_sequence = (last_sequence - delta) % (MAX_SEQUENCE + 1)
            entry.add((first_sequence, last_sequence, last_offset - delta, last_offset, timestamp_ms))
        entries.append(entry)
    return entries


def snapshot_path(directory: str, offset: int) -> str:
    return f"{directory}/{offset_file(offset, SNAPSHOT_SUFFIX)}"


def snapshot_offsets(directory: str) -> list[int]:
    """The offsets of all snapshots in a partition's directory, ascending."""
    parsed = (parse_offset_file(name) for name, _ in list_directory(directory))
    return sorted(found[0] for found in parsed if found is not None and found[1] == SNAPSHOT_SUFFIX)

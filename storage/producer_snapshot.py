"""Snapshots of the producer state: ``<offset>.snapshot`` holds what the log up to that offset says about producers.

Layout (big-endian): ``version int16 = 1, crc uint32, count int32``, then per producer ``producer_id int64, epoch int16,
last_sequence int32, last_offset int64, offset_delta int32, timestamp int64, coordinator_epoch int32,
current_txn_first_offset int64``. The CRC-32C covers everything after itself.
Source: ProducerStateManager.java@3.9. Tests: tests/storage/test_producer_state.py.
"""

import os
from struct import Struct

from crc32c import crc32c

from kafka_zk.storage.errors import CorruptSnapshot
from kafka_zk.storage.filenames import SNAPSHOT_SUFFIX, offset_file, parse_offset_file
from kafka_zk.storage.files import read_file, write_atomically
from kafka_zk.storage.findings import Observe, discard, ignore
from kafka_zk.storage.producer_state import MAX_SEQUENCE, NO_OFFSET, ProducerEntry, ProducerState

_VERSION = 1
_HEADER = Struct(">hIi")
_ENTRY = Struct(">qhiqiqiq")
_CRC_START = 6


def encode_snapshot(producers: dict[int, ProducerEntry]) -> bytes:
    """The content of a snapshot file."""
    out = bytearray(_HEADER.pack(_VERSION, 0, len(producers)))
    for entry in producers.values():
        _, last_sequence, first_offset, last_offset, _ = entry.batches[-1] if entry.batches else (-1,) * 5
        out += _ENTRY.pack(
            entry.producer_id,
            entry.producer_epoch,
            last_sequence,
            last_offset,
            last_offset - first_offset,
            entry.last_timestamp_ms,
            entry.coordinator_epoch,
            entry.current_txn_first_offset,
        )
    out[2:_CRC_START] = crc32c(bytes(out[_CRC_START:])).to_bytes(4, "big")
    return bytes(out)


def decode_snapshot(data: bytes) -> list[ProducerEntry]:
    """The producers of a snapshot; raises CorruptSnapshot."""
    if len(data) < _HEADER.size:
        raise CorruptSnapshot(f"{len(data)} bytes are too few")
    version, crc, count = _HEADER.unpack_from(data)
    if version != _VERSION:
        raise CorruptSnapshot(f"version {version}, expected {_VERSION}")
    if crc32c(data[_CRC_START:]) != crc:
        raise CorruptSnapshot("the CRC does not fit")
    if count < 0 or len(data) < _HEADER.size + count * _ENTRY.size:
        raise CorruptSnapshot(f"{count} entries announced, {len(data)} bytes found")
    entries = []
    for index in range(count):
        producer_id, epoch, last_sequence, last_offset, delta, timestamp_ms, coordinator_epoch, txn_offset = (
            _ENTRY.unpack_from(data, _HEADER.size + index * _ENTRY.size)
        )
        entry = ProducerEntry(producer_id, epoch, coordinator_epoch, timestamp_ms, txn_offset)
        if last_offset != NO_OFFSET:
            first_sequence = (last_sequence - delta) % (MAX_SEQUENCE + 1)
            entry.batches.append((first_sequence, last_sequence, last_offset - delta, last_offset, timestamp_ms))
        entries.append(entry)
    return entries


def snapshot_path(directory: str, offset: int) -> str:
    return f"{directory}/{offset_file(offset, SNAPSHOT_SUFFIX)}"


def write(state: ProducerState, directory: str, offset: int) -> None:
    """Write the snapshot for ``offset`` unless the newest one is of that offset already."""
    if offset <= state.snapshot_offset:
        return
    write_atomically(snapshot_path(directory, offset), encode_snapshot(state.producers), durable=bool(state.producers))
    state.snapshot_offset = offset


def list_offsets(directory: str) -> list[int]:
    """The offsets of all snapshots in a partition's directory, ascending."""
    parsed = (parse_offset_file(name) for name in os.listdir(directory))
    return sorted(found[0] for found in parsed if found is not None and found[1] == SNAPSHOT_SUFFIX)


def load_latest(
    directory: str, low: int, high: int, offsets: list[int], observe: Observe = ignore
) -> tuple[list[ProducerEntry], int] | None:
    """The newest readable snapshot with ``low < offset <= high``; damaged ones are discarded on the way."""
    for offset in reversed(offsets):
        if not low < offset <= high:
            continue
        path = snapshot_path(directory, offset)
        try:
            return decode_snapshot(read_file(path) or b""), offset
        except CorruptSnapshot as error:
            meaning = "what it said of the producers is taken from the log and from an older snapshot, if there is one"
            observe(discard(path, error, meaning))
    return None

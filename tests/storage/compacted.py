"""Random histories of a compacted log, and the expected result: a dictionary of last values and a list of offsets."""

import random
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from kafka_zk.storage.cleaner.cleaner import CleanerConfig
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.records.record_batch import NO_TIMESTAMP, BatchHeader, Header, RecordBatchBuilder, iter_batches
from kafka_zk.storage.records.record_decoder import Record, decode_records
from tests.storage.done_here import clean_here
from tests.storage.helpers import T0, append, new_log, remove_due

CODECS = ("none", "none", "gzip", "snappy", "lz4", "zstd")
SMALL = CleanerConfig(dedupe_buffer_bytes=24 * 1_000, io_buffer_bytes=1024)


class Wrote(NamedTuple):
    """A record as it was appended."""

    offset: int
    timestamp_ms: int
    key: bytes
    value: bytes | None
    headers: tuple[Header, ...]
    producer_id: int = -1  # of its transaction, -1 for none


def batches(log: Log) -> list[tuple[BatchHeader, list[Record]]]:
    """All batches of a log from the start of its first segment, as a consumer reads them."""
    found = []
    position = log.log_start_offset
    while (read := log.read(position, 1 << 20)).slice is not None:
        data = read.slice.read()
        for at, header in iter_batches(data):
            found.append((header, list(decode_records(data, at))))
        position = read.next_offset
    return found


def records(log: Log) -> list[Record]:
    return [record for _, found in batches(log) for record in found]


class History:
    """A log and a record of every write to it."""

    def __init__(self, path: Path, rng: random.Random, **config: Any) -> None:
        self.rng = rng
        chosen: dict[str, Any] = {
            "cleanup_policy": ("compact",),
            "segment_bytes": rng.choice((6_000, 12_000, 50_000)),
            "index_interval_bytes": rng.choice((0, 100, 4096)),
            "delete_retention_ms": rng.choice((0, 1_000, 50_000)),
            "file_delete_delay_ms": 0,
            **config,
        }
        self.log = new_log(path, **chosen)
        self.now_ms = T0
        self.wrote: dict[int, Wrote] = {}
        self.attempted_offset = 0  # an interrupted cleaning may have removed records before this offset
        self.cleaned_at: list[tuple[int, int]] = []  # (time, the first offset that no cleaning may have examined)
        self._keys = rng.choice((1, 3, 10, 100))
        self._producers: dict[int, int] = {}
        self.last_sequence_batch: dict[int, tuple[int, int]] = {}  # producer -> (sequence, offset) of its last record
        self._open: dict[int, list[int]] = {}  # producer -> offsets of its open transaction's records
        self.aborted: set[int] = set()
        self.commits: dict[int, bool] = {}  # offset of a marker -> whether it commits
        self._transactional = rng.choice(((), (), (4,), (4, 5)))

    def append(self) -> None:
        """One batch of random records, or the end of a transaction."""
        rng = self.rng
        if self._open and rng.random() < 0.3:
            self.end(rng.choice(list(self._open)), commit=rng.random() < 0.5)
            return
        producer_id = rng.choice((-1, -1, 1, 2, 3, *self._transactional, *self._transactional))
        is_transactional = producer_id in self._transactional
        sequence = self._producers.get(producer_id, 0)
        idempotent = (producer_id, 0, sequence) if producer_id >= 0 else (-1, -1, -1)
        builder = RecordBatchBuilder(rng.choice(CODECS), *idempotent, transactional=is_transactional)
        made = []
        for _ in range(rng.randint(1, rng.choice((1, 3, 20)))):
            key = b"key-%d" % rng.randrange(self._keys)
            value = None if rng.random() < 0.15 else rng.randbytes(rng.choice((0, 5, 70, 200)))
            headers = (("h", None), ("i", b"x")) if rng.random() < 0.1 else ()
            timestamp_ms = self.now_ms + rng.randint(-500, 500)
            builder.append(timestamp_ms, key, value, headers)
            made.append((timestamp_ms, key, value, headers))
        info = append(self.log, bytearray(builder.build()), now_ms=self.now_ms)
        for offset, (timestamp_ms, key, value, headers) in enumerate(made, info.first_offset):
            transaction_id = producer_id if is_transactional else -1
            self.wrote[offset] = Wrote(offset, timestamp_ms, key, value, headers, transaction_id)
            if is_transactional:
                self._open.setdefault(producer_id, []).append(offset)
        if producer_id >= 0:
            self._producers[producer_id] = sequence + len(made)
            self.last_sequence_batch[producer_id] = (sequence + len(made) - 1, info.last_offset)
        self.now_ms += rng.choice((0, 10, 1_000, 30_000))

    def is_open(self, offset: int) -> bool:
        """Whether a record is part of a transaction that has not ended."""
        return any(offset in offsets for offsets in self._open.values())

    def end(self, producer_id: int, *, commit: bool) -> None:
        """Write the marker of a producer's open transaction."""
        builder = RecordBatchBuilder("none", producer_id, 0, -1, transactional=True, control=True)
        builder.append(self.now_ms, b"\0\0\0\1" if commit else b"\0\0\0\0", b"\0\0\0\0\0\7")
        offset = self.log.log_end_offset
        self.log.append_as_follower(builder.build(base_offset=offset, partition_leader_epoch=0), now_ms=self.now_ms)
        ended = self._open.pop(producer_id)
        self.aborted |= set() if commit else set(ended)
        self.commits[offset] = commit

    def clean(self, config: CleanerConfig = SMALL) -> None:
        self.log.flush()
        cleaning = clean_here(self.log, config, self.now_ms)
        if cleaning is not None:
            self.cleaned_at.append((self.now_ms, cleaning.work.uncleanable_offset))
        remove_due(self.log.segments, self.now_ms)


def check(history: History) -> None:
    """Check that the log contains exactly what compaction must keep."""
    found = batches(history.log)
    left = {record.offset: record for header, some in found for record in some if not header.is_control}
    offsets = [record.offset for _, some in found for record in some]
    assert offsets == sorted(set(offsets)), "each offset once, in ascending order"
    ends = [(header.base_offset, header.last_offset) for header, _ in found]
    assert all(one[1] < other[0] for one, other in pairwise(ends)), "batches do not overlap"
    for record in left.values():
        wrote = history.wrote[record.offset]
        assert wrote[1:5] == record[1:], "a record differs from what was written"
    _check_last_values(history, left)
    _check_markers(history, found)
    for header, some in found:
        if not some:
            assert header.producer_id >= 0 or header.next_offset in {end for _, end in history.cleaned_at}
            assert header.attributes & 0x47 == 0 and header.base_timestamp == NO_TIMESTAMP
    _check_producers(history, found)
    if history.cleaned_at and not history.attempted_offset:
        end_offset = history.cleaned_at[-1][1]
        assert end_offset in {header.next_offset for header, _ in found}, "no checkpoint of the cleaned part"


def _check_last_values(history: History, left: dict[int, Record]) -> None:
    """The cleaned part has exactly the last record of each key; the rest has every record."""
    cleaned_to = history.log.cleaned_offset or 0
    touched_to = max(cleaned_to, history.attempted_offset)
    last: dict[bytes, Wrote] = {}
    for wrote in history.wrote.values():
        if wrote.offset in history.aborted:  # its segment may be removed, even if the map contained no key up to it
            continue
        last[wrote.key] = wrote
        if wrote.offset >= touched_to:
            assert wrote.offset in left, f"{wrote.offset} is lost, and the log is clean up to {touched_to} only"
    for wrote in last.values():
        if wrote.value is not None:
            assert wrote.offset in left, f"the last value of {wrote.key!r} at {wrote.offset} is lost"
    counted = [wrote for wrote in history.wrote.values() if wrote.offset not in history.aborted]
    last_clean = {wrote.key: wrote.offset for wrote in counted if wrote.offset < cleaned_to}
    for offset, record in left.items():
        assert offset not in history.aborted or offset >= cleaned_to, f"{offset} is aborted, but kept"
        if offset < cleaned_to and record.key is not None:
            assert last_clean[record.key] == offset, f"{offset} was replaced by {last_clean[record.key]}, but kept"
    _check_tombstones(history, left, last)


def _check_tombstones(history: History, left: dict[int, Record], last: dict[bytes, Wrote]) -> None:
    """The first cleaning that reaches a last tombstone sets its delete horizon; only a cleaning after that time removes
    it."""
    retention_ms = history.log.config.delete_retention_ms
    for wrote in last.values():
        if wrote.value is not None:
            continue
        seen_ms = [at for at, end in history.cleaned_at if wrote.offset < end]
        if not any(at >= seen_ms[0] + retention_ms for at in seen_ms[1:]):
            assert wrote.offset in left, f"the tombstone at {wrote.offset} was removed too early"


def _check_markers(history: History, found: list[tuple[BatchHeader, list[Record]]]) -> None:
    """A reader of any record of a transaction still finds its marker; no marker is removed before its delete
    horizon."""
    left = {header.base_offset: header for header, some in found if header.is_control and some}
    for header, some in found:
        if some and header.is_transactional and not header.is_control:
            ends = [at for at, marker in left.items() if marker.producer_id == header.producer_id]
            end = next((at for at in ends if at > header.base_offset), None)
            if end is None:
                assert history.is_open(header.base_offset), f"the marker of {header.base_offset} is lost"
            else:
                assert history.commits[end] == (header.base_offset not in history.aborted)
    for offset in history.commits.keys() - left.keys():
        seen_ms = [at for at, end in history.cleaned_at if offset < end]
        is_late = any(at >= seen_ms[0] + history.log.config.delete_retention_ms for at in seen_ms[1:])
        assert is_late, f"the marker at {offset} was removed too early"


def _check_producers(history: History, found: list[tuple[BatchHeader, list[Record]]]) -> None:
    """The batch with each producer's last sequence still exists."""
    for producer_id, (sequence, offset) in history.last_sequence_batch.items():
        own = [header for header, _ in found if header.producer_id == producer_id]
        last = [header for header in own if not header.is_control][-1]
        assert (last.last_sequence, last.last_offset) == (sequence, offset)

"""What a log knows about idempotent and transactional producers: last sequences, epochs, open transactions.

Rules (KIP-98, ProducerAppendInfo.java@3.9): a batch equal to one of the producer's last five is a duplicate and is
answered with its first offsets; a lower epoch is fenced; within an epoch sequences follow each other without a
gap (after 2^31-1 comes 0); a new epoch starts at 0; a producer that the log does not know may start anywhere, since
retention may have removed its past. Entries expire ``producer.id.expiration.ms`` after their last batch.

The last five batches are kept as tuples, because this runs on every append.

``<offset>.snapshot`` holds what the log up to that offset says about producers. Layout (big-endian): ``version int16
= 1, crc uint32, count int32``, then per producer ``producer_id int64, epoch int16, last_sequence int32, last_offset
int64, offset_delta int32, timestamp int64, coordinator_epoch int32, current_txn_first_offset int64``. The CRC-32C
covers everything after itself. Source: ProducerStateManager.java@3.9.
Tests: tests/storage/test_producer_state.py.
"""

from collections.abc import Iterable
from contextlib import suppress
from struct import Struct

from crc32c import crc32c

from kafka_zk.storage.errors import (
    CorruptRecord,
    CorruptSnapshot,
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequence,
)
from kafka_zk.storage.filenames import SNAPSHOT_SUFFIX, offset_file, parse_offset_file
from kafka_zk.storage.files import list_directory, read_file, remove_file, write_atomically
from kafka_zk.storage.findings import Observe, discard, ignore
from kafka_zk.storage.record_batch import (
    CONTROL_FLAG,
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    TIMESTAMP_TYPE_FLAG,
    TRANSACTIONAL_FLAG,
    BatchHeader,
    check_crc,
    last_sequence,
)
from kafka_zk.storage.record_stream import batch_chunks, key_and_value, walk
from kafka_zk.storage.segment import Segment

REMEMBERED_BATCHES = 5
MAX_SEQUENCE = 0x7FFFFFFF
DEFAULT_EXPIRATION_MS = 86_400_000
NO_OFFSET = -1
_CONTROL_KEY = Struct(">hh")  # version, type
_CONTROL_VALUE = Struct(">hi")  # version, coordinator epoch
ABORT_MARKER = 0
COMMIT_MARKER = 1
_SNAPSHOT_VERSION = 1
_SNAPSHOT_HEADER = Struct(">hIi")
_SNAPSHOT_ENTRY = Struct(">qhiqiqiq")
_SNAPSHOT_CRC_START = 6

ProducedBatch = tuple[int, int, int, int, int]
"""First sequence, last sequence, first offset, last offset, largest timestamp in ms."""


class ProducerEntry:
    """One producer id: its epoch, its last batches (oldest first) and its open transaction."""

    __slots__ = (
        "batches", "coordinator_epoch", "current_txn_first_offset", "last_timestamp_ms", "producer_epoch",
        "producer_id",
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
        self.batches: list[ProducedBatch] = []

    @property
    def last_sequence(self) -> int:
        return self.batches[-1][1] if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        return self.batches[-1][3] if self.batches else NO_OFFSET


class ProducerState:
    """The producers of one log. ``snapshot_offset`` is the offset of the newest snapshot file on disk.

    ``observe`` is told of snapshots that cannot be read.
    """

    __slots__ = ("_observe", "_unstable", "producers", "snapshot_offset")

    def __init__(self, observe: Observe = ignore) -> None:
        self._observe = observe
        self.producers: dict[int, ProducerEntry] = {}
        self._unstable: dict[int, int] = {}  # first offset of a transaction -> its marker's, NO_OFFSET while it is open
        self.snapshot_offset = -1

    @property
    def has_unstable_offset(self) -> bool:
        """Whether to ask for ``first_unstable_offset``: every fetch needs to know."""
        return bool(self._unstable)

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Where the oldest transaction begins that is open or whose marker is not committed; None without one.

        Transactions that ended before ``high_watermark`` are forgotten, since it does not go back.
        Source: ProducerStateManager.firstUnstableOffset@3.9.
        """
        for first_offset, marker_offset in list(self._unstable.items()):  # they begin in this order
            if marker_offset == NO_OFFSET or marker_offset >= high_watermark:
                return first_offset
            del self._unstable[first_offset]
        return None

    def check(self, header: BatchHeader, *, is_own: bool = False) -> ProducedBatch | None:
        """Judge a batch before it is appended; returns the earlier batch that it repeats, else None.

        Batches that the broker writes itself for a transaction (``is_own``: committed offsets) have no sequences.

        Raises: InvalidProducerEpoch, OutOfOrderSequence, InvalidTransactionState.
        """
        entry = self.producers.get(header.producer_id)
        if entry is None:
            return None
        sequence = header.base_sequence
        if header.producer_epoch < entry.producer_epoch:
            raise InvalidProducerEpoch(
                f"producer {header.producer_id}: epoch {header.producer_epoch} is older than {entry.producer_epoch}"
            )
        if is_own:
            return None
        if header.producer_epoch == entry.producer_epoch:
            last = entry.last_sequence
            following = last + 1 if last != MAX_SEQUENCE else 0
            if sequence != following:
                end = last_sequence(sequence, header.last_offset_delta)
                for batch in entry.batches:
                    if batch[0] == sequence and batch[1] == end:
                        return batch
                raise OutOfOrderSequence(
                    f"producer {header.producer_id}: sequence {sequence} arrived, {following} was expected"
                )
        elif sequence and entry.producer_epoch != NO_PRODUCER_EPOCH:
            raise OutOfOrderSequence(
                f"producer {header.producer_id}: epoch {header.producer_epoch} begins with sequence {sequence}, not 0"
            )
        if entry.current_txn_first_offset != NO_OFFSET and not header.attributes & TRANSACTIONAL_FLAG:
            raise InvalidTransactionState(f"producer {header.producer_id}: a batch outside its open transaction")
        return None

    def update(self, header: BatchHeader, base_offset: int, max_timestamp_ms: int) -> None:
        """Remember a data batch that has been appended at ``base_offset``."""
        entry = self.producers.get(header.producer_id)
        if entry is None:
            entry = self.producers[header.producer_id] = ProducerEntry(header.producer_id)
        if entry.producer_epoch != header.producer_epoch:
            entry.producer_epoch = header.producer_epoch
            entry.batches.clear()
        delta = header.last_offset_delta
        sequence = header.base_sequence
        entry.batches.append(
            (sequence, last_sequence(sequence, delta), base_offset, base_offset + delta, max_timestamp_ms)
        )
        if len(entry.batches) > REMEMBERED_BATCHES:
            del entry.batches[0]
        entry.last_timestamp_ms = max_timestamp_ms
        if header.attributes & TRANSACTIONAL_FLAG and entry.current_txn_first_offset == NO_OFFSET:
            entry.current_txn_first_offset = base_offset
            self._unstable[base_offset] = NO_OFFSET

    def _end_transaction(
        self, header: BatchHeader, marker_offset: int, coordinator_epoch: int, timestamp_ms: int
    ) -> None:
        entry = self.producers.get(header.producer_id)
        if entry is None:
            entry = self.producers[header.producer_id] = ProducerEntry(header.producer_id)
        if entry.producer_epoch != header.producer_epoch:
            entry.producer_epoch = header.producer_epoch
            entry.batches.clear()
        first_offset = entry.current_txn_first_offset
        entry.current_txn_first_offset = NO_OFFSET
        entry.coordinator_epoch = coordinator_epoch
        entry.last_timestamp_ms = timestamp_ms
        if first_offset != NO_OFFSET:
            self._unstable[first_offset] = marker_offset

    def load(self, entries: list[ProducerEntry], snapshot_offset: int) -> None:
        """Start from the entries of a snapshot."""
        self.producers = {entry.producer_id: entry for entry in entries}
        opened = sorted(entry.current_txn_first_offset for entry in entries)
        self._unstable = {first_offset: NO_OFFSET for first_offset in opened if first_offset != NO_OFFSET}
        self.snapshot_offset = snapshot_offset

    def clear(self) -> None:
        self.producers = {}
        self._unstable = {}
        self.snapshot_offset = -1

    def remove_expired(self, now_ms: int, expiration_ms: int = DEFAULT_EXPIRATION_MS) -> int:
        """Forget producers without an open transaction whose last batch is too old; returns how many."""
        expired = [
            producer_id
            for producer_id, entry in self.producers.items()
            if entry.current_txn_first_offset == NO_OFFSET and now_ms - entry.last_timestamp_ms >= expiration_ms
        ]
        for producer_id in expired:
            del self.producers[producer_id]
        return len(expired)

    # -- what is in the log already -----------------------------------------------------------------------------

    def apply_marker(self, batch: bytes | bytearray | memoryview, header: BatchHeader, base_offset: int) -> None:
        """Apply the transaction marker in a control batch; an empty one (compacted away) changes nothing."""
        for data, _, timestamp_delta, _, body, end in walk(batch_chunks(batch, header), header.record_count):
            key_start, key_size, value_start, value_size = key_and_value(data, body, end)
            key = bytes(data[key_start : key_start + key_size]) if key_size >= 0 else None
            value = bytes(data[value_start : value_start + value_size]) if value_size >= 0 else None
            _, coordinator_epoch = parse_marker(key, value)
            append_time = header.attributes & TIMESTAMP_TYPE_FLAG
            timestamp_ms = header.max_timestamp if append_time else header.base_timestamp + timestamp_delta
            self._end_transaction(header, base_offset, coordinator_epoch, timestamp_ms)
            return

    def replay(self, segments: Iterable[Segment], start_offset: int, end_offset: int) -> None:
        """Take the headers of all batches in ``[start_offset, end_offset)``; only markers are read whole."""
        for segment in segments:
            if segment.base_offset >= end_offset:
                return
            for span in segment.sound_spans(segment.position_for(start_offset)):
                if span.last_offset < start_offset or span.magic != 2:
                    continue
                if span.base_offset >= end_offset:
                    return
                header = segment.header_at(span.position)
                if header.producer_id < 0:
                    continue
                if header.attributes & CONTROL_FLAG:
                    batch = segment.read(span.position, span.size_bytes)
                    with suppress(CorruptRecord):  # durable and damaged since: its readers find out, the log opens
                        check_crc(batch, 0, header)
                        self.apply_marker(batch, header, header.base_offset)
                else:
                    self.update(header, header.base_offset, header.max_timestamp)

    def write_snapshot(self, directory: str, offset: int) -> None:
        """Write the snapshot for ``offset`` unless the newest one is of that offset already."""
        if offset <= self.snapshot_offset:
            return
        content = encode_snapshot(self.producers)
        write_atomically(snapshot_path(directory, offset), content, durable=bool(self.producers))
        self.snapshot_offset = offset

    def load_snapshot(self, directory: str, low: int, high: int) -> int:
        """Begin anew with the newest readable snapshot with ``low < offset <= high``.

        Damaged ones are discarded on the way, and those beyond ``high`` removed. Returns its offset, from which on
        ``replay`` has to follow; ``low`` without one.
        """
        self.clear()
        offsets = snapshot_offsets(directory)
        for offset in offsets:
            if offset > high:
                remove_file(snapshot_path(directory, offset))
        for offset in reversed(offsets):
            if low < offset <= high:
                path = snapshot_path(directory, offset)
                try:
                    self.load(decode_snapshot(read_file(path) or b""), offset)
                    return offset
                except CorruptSnapshot as error:
                    meaning = "what it said of the producers is taken from the log and from an older snapshot, if any"
                    self._observe(discard(path, error, meaning))
        return low


def parse_marker(key: bytes | None, value: bytes | None) -> tuple[int, int]:
    """(marker type, coordinator epoch) of a control record; a value that is missing gives epoch -1."""
    marker_type = _CONTROL_KEY.unpack_from(key)[1] if key is not None and len(key) >= _CONTROL_KEY.size else -1
    if value is None or len(value) < _CONTROL_VALUE.size:
        return marker_type, -1
    return marker_type, _CONTROL_VALUE.unpack_from(value)[1]


def encode_snapshot(producers: dict[int, ProducerEntry]) -> bytes:
    """The content of a snapshot file."""
    out = bytearray(_SNAPSHOT_HEADER.pack(_SNAPSHOT_VERSION, 0, len(producers)))
    for entry in producers.values():
        _, last_sequence, first_offset, last_offset, _ = entry.batches[-1] if entry.batches else (-1,) * 5
        out += _SNAPSHOT_ENTRY.pack(
            entry.producer_id,
            entry.producer_epoch,
            last_sequence,
            last_offset,
            last_offset - first_offset,
            entry.last_timestamp_ms,
            entry.coordinator_epoch,
            entry.current_txn_first_offset,
        )
    out[2:_SNAPSHOT_CRC_START] = crc32c(bytes(out[_SNAPSHOT_CRC_START:])).to_bytes(4, "big")
    return bytes(out)


def decode_snapshot(data: bytes) -> list[ProducerEntry]:
    """The producers of a snapshot; raises CorruptSnapshot."""
    if len(data) < _SNAPSHOT_HEADER.size:
        raise CorruptSnapshot(f"{len(data)} bytes are too few")
    version, crc, count = _SNAPSHOT_HEADER.unpack_from(data)
    if version != _SNAPSHOT_VERSION:
        raise CorruptSnapshot(f"version {version}, expected {_SNAPSHOT_VERSION}")
    if crc32c(data[_SNAPSHOT_CRC_START:]) != crc:
        raise CorruptSnapshot("the CRC does not fit")
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
            entry.batches.append((first_sequence, last_sequence, last_offset - delta, last_offset, timestamp_ms))
        entries.append(entry)
    return entries


def snapshot_path(directory: str, offset: int) -> str:
    return f"{directory}/{offset_file(offset, SNAPSHOT_SUFFIX)}"


def snapshot_offsets(directory: str) -> list[int]:
    """The offsets of all snapshots in a partition's directory, ascending."""
    parsed = (parse_offset_file(name) for name, _ in list_directory(directory))
    return sorted(found[0] for found in parsed if found is not None and found[1] == SNAPSHOT_SUFFIX)

"""Damaged files: each kind of damage to each file of a log directory, and what a broker serves after its next start.

The results are stored in ``damaged_files.json``, which ``damaged_files_page`` and
tests/peers/logs/damaged_files.py write.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from kafka_zk.base.types import FetchIsolation, TopicPartition
from kafka_zk.storage.files import files
from kafka_zk.storage.files.errors import CorruptRecord, InconsistentLogDir, OffsetOutOfRange, OutOfOrderSequence
from kafka_zk.storage.files.filenames import (
    CLEAN_SHUTDOWN,
    CLEANER_OFFSET_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_CHECKPOINT,
)
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.records.record_batch import check_crc, iter_batches, read_header
from kafka_zk.storage.records.record_decoder import decode_records
from tests.storage.helpers import append, batch
from tests.storage.made_directory import (
    CLEAN,
    COMPACTED,
    END,
    KILLED,
    NEWEST_EPOCH,
    THEN_MS,
    TOPICS,
    TRANSACTIONAL,
    Made,
    Produced,
    Unsynced,
    copy_directory,
    manager_of,
)

RESULTS = Path(__file__).with_name("damaged_files.json")


class Damage(NamedTuple):
    """One row: the kind of damage, the damaged file, and the kind of stop before it."""

    file: str
    kind: str
    ending: str
    topic: str | None  # the partition of the file, None for a file of the log directory

    @property
    def name(self) -> str:
        return f"{self.label}, {self.kind}, {self.ending}"

    @property
    def label(self) -> str:
        """The file, with its topic if it is not the usual one."""
        return self.file if self.topic in (None, TRANSACTIONAL) else f"{self.file} ({self.topic})"

    @property
    def topics(self) -> Sequence[str]:
        return tuple(TOPICS) if self.topic is None else (self.topic,)


class Served(NamedTuple):
    """The records that a log serves after the start, and its state."""

    uncommitted: list[int]  # offsets of readable records
    committed: list[int]  # offsets, among these, that a reader of committed records gets
    wrong: list[int]  # offsets whose values are not those that were produced
    aborted: list[int]  # offsets of aborted records that a reader of committed records gets
    next_offset: int | None  # the offset of the next record; None if the append is refused
    serves_new: bool  # whether that record is readable
    knows_producer: bool  # whether a batch that its producer repeats is recognized


#: By topic; None if the directory is offline. ``REFUSED`` if the broker does not start.
Outcome = dict[str, Served | None]
REFUSED: Outcome = {}


# -- damage -----------------------------------------------------------------------------------------------------------

NOTHING, UNDAMAGED = "nothing", "undamaged"
_BLOCK_BYTES = 4096


def _garbage(data: bytes) -> bytes:
    return random.Random(len(data)).randbytes(max(len(data), 64))


def _short(data: bytes) -> bytes:
    """Truncate a ``.log`` file to half of its batches."""
    ends = [position + header.size_bytes for position, header in iter_batches(data)]
    return data[: ends[len(ends) // 2 - 1]]


#: What becomes of the content; None: the file is removed.
KINDS: Mapping[str, Callable[[bytes], bytes | None]] = {
    "zeroed": lambda data: bytes(len(data)),
    "torn": lambda data: data[: len(data) // 2 + 1],
    "empty": lambda data: b"",
    "NUL tail": lambda data: data + bytes(_BLOCK_BYTES),
    "missing": lambda data: None,
    "garbage": _garbage,
    "short": _short,
}
_ONLY_LOGS = ("short",)

_DIRECTORY_FILES = (
    RECOVERY_POINT_CHECKPOINT, REPLICATION_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT, CLEANER_OFFSET_CHECKPOINT,
    META_PROPERTIES,
)  # fmt: skip
#: Files of the topic with transactions: a label, and the number of the segment that it belongs to.
_SEGMENT_FILES = {
    "last .log": (".log", -1),
    "closed .log": (".log", 2),
    ".index": (".index", 2),
    ".timeindex": (".timeindex", 2),
    ".txnindex": (".txnindex", 2),
    ".snapshot": (".snapshot", -1),
}
#: After a kill: what the recovery point does not cover.
_UNFLUSHED_FILES = {"unflushed .log": (".log", -3), "unflushed .index": (".index", -3)}


def damages() -> Iterator[Damage]:
    """All rows of the table, the undamaged directories first."""
    for ending in (CLEAN, KILLED):
        yield Damage(NOTHING, UNDAMAGED, ending, None)
    for kind in KINDS:
        for damage in _damages_of(kind):
            if kind not in _ONLY_LOGS or damage.file.endswith(".log"):
                yield damage


def _damages_of(kind: str) -> Iterator[Damage]:
    for ending in (CLEAN, KILLED):
        for file in _SEGMENT_FILES:
            yield Damage(file, kind, ending, TRANSACTIONAL)
        for file in (LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA):
            yield Damage(file, kind, ending, TRANSACTIONAL)
        for file in _DIRECTORY_FILES:
            yield Damage(file, kind, ending, None)
    for file in _UNFLUSHED_FILES:
        yield Damage(file, kind, KILLED, TRANSACTIONAL)
    yield Damage("unflushed .log", kind, KILLED, COMPACTED)
    yield Damage(CLEAN_SHUTDOWN, kind, CLEAN, None)


def apply(damage: Damage, directory: Path, name: str | None) -> None:
    """Damage a copy in which the topic of the damaged file has this name."""
    if damage.kind == UNDAMAGED:
        return
    path = _victim(damage, directory, name)
    changed = KINDS[damage.kind](path.read_bytes())
    if changed is None:
        path.unlink()
    else:
        path.write_bytes(changed)


def _victim(damage: Damage, directory: Path, name: str | None) -> Path:
    if damage.topic is None:
        return directory / damage.file
    folder = directory / f"{name}-0"
    suffix, slot = {**_SEGMENT_FILES, **_UNFLUSHED_FILES}.get(damage.file, (None, 0))
    return folder / damage.file if suffix is None else sorted(folder.glob(f"*{suffix}"))[slot]


# -- what is served ---------------------------------------------------------------------------------------------------


class Reader(Protocol):
    """A log, or a partition of a broker."""

    def fetch(self, offset: int, *, committed: bool) -> tuple[bytes, list[tuple[int, int]], int] | None:
        """Read from the batch that contains ``offset``. Returns the bytes, (producer id, first offset) of aborted
        transactions, and the offset that a reader may not reach. Returns None if the fetch is refused.
        """

    def produce(self, data: bytearray) -> int | None:
        """The offset that a batch got; None if it was refused."""


def look(reader: Reader, produced: Produced) -> Served:
    """Read everything twice, append a record, and send the idempotent producer's last batch again."""
    uncommitted = _read(reader, committed=False)
    committed = _read(reader, committed=True)
    next_offset = reader.produce(batch(1, key=b"new", value=b"new", timestamp_ms=THEN_MS))
    serves_new = next_offset is not None and _read(reader, committed=False, start=next_offset) == {next_offset: b"new"}
    again, offset = produced.repeated
    knows_producer = reader.produce(bytearray(again)) == offset
    everything = {**uncommitted, **committed}
    return Served(
        sorted(uncommitted),
        sorted(committed),
        sorted(offset for offset, value in everything.items() if produced.values.get(offset) != value),
        sorted(produced.aborted.intersection(committed)),
        next_offset,
        serves_new,
        knows_producer,
    )


def _read(reader: Reader, *, committed: bool, start: int = 0) -> dict[int, bytes]:
    """Values by offset. Unreadable offsets are skipped one at a time."""
    found: dict[int, bytes] = {}
    offset = start
    while offset <= END + 1:
        answer = reader.fetch(offset, committed=committed)
        if answer is not None and answer[2] <= offset:
            break
        following = offset + 1
        if answer is not None:
            data, aborted, _ = answer
            records = _first_batch(data, aborted)
            if records is not None:
                following = max(following, records[0])
                found |= {each: value for each, value in records[1].items() if each >= offset}
        offset = following
    return found


def _first_batch(data: bytes, aborted: Sequence[tuple[int, int]]) -> tuple[int, dict[int, bytes]] | None:
    """The offset after a batch, and its records as a consumer gets them; None if the batch is damaged."""
    try:
        header = read_header(data)
        check_crc(memoryview(data), 0, header)
        if len(data) < header.size_bytes or header.magic != 2:
            return None
        values = {record.offset: record.value or b"" for record in decode_records(data, 0)}
    except CorruptRecord:
        return None
    is_aborted = any(id_ == header.producer_id and first <= header.last_offset for id_, first in aborted)
    return header.next_offset, {} if header.is_control or is_aborted else values


class LogReader:
    """A log whose only replica is this broker."""

    def __init__(self, log: Log) -> None:
        self._log = log
        log.follow_log_end()

    def fetch(self, offset: int, *, committed: bool) -> tuple[bytes, list[tuple[int, int]], int] | None:
        log = self._log
        isolation = FetchIsolation.TXN_COMMITTED if committed else FetchIsolation.HIGH_WATERMARK
        try:
            read = log.read(offset, 1, isolation=isolation)
            data = read.slice.read() if read.slice is not None else b""
            entries = log.aborted_transactions(offset, read.next_offset) if committed else []
        except (OffsetOutOfRange, CorruptRecord):
            return None
        return data, [(each.producer_id, each.first_offset) for each in entries], log.readable_end(isolation)

    def produce(self, data: bytearray) -> int | None:
        try:
            return append(self._log, data, leader_epoch=NEWEST_EPOCH + 1).first_offset
        except OutOfOrderSequence:
            return None


def outcome_of(damage: Damage, directory: Path, produced: Mapping[str, Produced]) -> Outcome:
    """Start on a damaged directory and read all logs."""
    manager = manager_of(directory)
    try:
        manager.start(TOPICS)
    except InconsistentLogDir:
        return REFUSED
    except OSError:  # the only directory
        return dict.fromkeys(damage.topics)
    try:
        logs = {topic: manager.get(TopicPartition(topic, 0)) for topic in damage.topics}
        return {topic: look(LogReader(log), produced[topic]) if log else None for topic, log in logs.items()}
    finally:
        manager.shutdown()


# -- the results ------------------------------------------------------------------------------------------------------

OURS, KAFKA = "kafka-zk", "Apache Kafka 3.9.1"
Results = dict[str, dict[str, Outcome]]
"""Row name -> name of the broker that was started -> outcome."""


def stored() -> Results:
    """The contents of ``damaged_files.json``."""
    rows = json.loads(RESULTS.read_text())
    return {
        name: {
            who: {topic: None if served is None else _decode(served) for topic, served in outcome.items()}
            for who, outcome in row.items()
        }
        for name, row in rows.items()
    }


def store(results: Results) -> None:
    """Write the file, one row per line."""
    lines = [
        f"{json.dumps(name)}: "
        + json.dumps(
            {
                who: {topic: None if served is None else _encode(served) for topic, served in outcome.items()}
                for who, outcome in row.items()
            }
        )
        for name, row in results.items()
    ]
    RESULTS.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _encode(served: Served) -> list[Any]:
    offsets = [ranges(each) for each in served[:4]]
    return [*offsets, served.next_offset, served.serves_new, served.knows_producer]


def _decode(row: list[Any]) -> Served:
    uncommitted, committed, wrong, aborted = (list(_offsets(text)) for text in row[:4])
    return Served(uncommitted, committed, wrong, aborted, *row[4:])


def ranges(offsets: Sequence[int]) -> str:
    """``0-3 5`` for 0, 1, 2, 3 and 5."""
    found: list[list[int]] = []
    for offset in offsets:
        if found and offset == found[-1][-1] + 1:
            found[-1][1:] = [offset]
        else:
            found.append([offset])
    return " ".join("-".join(map(str, each)) for each in found)


def _offsets(text: str) -> Iterator[int]:
    for part in text.split():
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


# -- what they mean ---------------------------------------------------------------------------------------------------


def undamaged(results: Results, ending: str) -> Mapping[str, Served]:
    """The state of each topic without damage; all brokers agree on it."""
    (one,) = {str(outcome): outcome for outcome in results[f"{NOTHING}, {UNDAMAGED}, {ending}"].values()}.values()
    return {topic: served for topic, served in one.items() if served is not None}


def complaints(damage: Damage, results: Results) -> list[str]:
    """The differences where our storage does worse than Kafka, or serves records that were not produced.

    Ours may serve less than Kafka after a kill if Kafka serves records behind a hole: records behind lost ones were not
    durable either, and a follower fetches all of them again.
    """
    ours, kafka = results[damage.name][OURS], results[damage.name][KAFKA]
    found = [
        f"{topic}: serves {kind} records"
        for topic, served in ours.items()
        if served is not None
        for kind, offsets in (("wrong", served.wrong), ("aborted", _more_aborted(served, kafka.get(topic))))
        if offsets
    ]
    for topic, theirs in kafka.items():
        if theirs is None:
            continue
        served = ours.get(topic)
        if served is None:
            found.append(f"{topic}: is not served")
            continue
        expected = undamaged(results, damage.ending)[topic]
        first_missing = min({*expected.uncommitted} - {*theirs.uncommitted}, default=END)
        may_end_there = damage.ending == KILLED
        found += [
            f"{topic}: does not serve {offset}"
            for offset in sorted(({*theirs.uncommitted} - {*served.uncommitted} - {*theirs.wrong})
                                 | ({*theirs.committed} - {*served.committed} - {*theirs.aborted} - {*theirs.wrong}))
            if not (may_end_there and offset > first_missing)
        ]  # fmt: skip
        is_cut = may_end_there and first_missing < END
        if not is_cut and (served.next_offset or -1) < (theirs.next_offset or -1):
            found.append(f"{topic}: the next record gets {served.next_offset}, not {theirs.next_offset}")
        if theirs.serves_new and not served.serves_new:
            found.append(f"{topic}: the next record is not served")
        if not is_cut and theirs.knows_producer and not served.knows_producer:
            found.append(f"{topic}: the producer is forgotten")
    return found


def _more_aborted(served: Served, theirs: Served | None) -> list[int]:
    """Aborted records that a reader of committed ones gets from our storage but not from Kafka."""
    return sorted({*served.aborted} - {*(theirs.aborted if theirs is not None else ())})


def run_here(damage: Damage, made: Made, path: Path) -> Outcome:
    """The row of our storage: ``path`` gets the damaged copy."""
    with files.use(Unsynced()):
        copy_directory(made.directories[damage.ending], path, {topic: topic for topic in damage.topics})
        apply(damage, path, damage.topic)
        return outcome_of(damage, path, made.produced[damage.ending])

"""A log directory with all kinds of logs, after a clean stop and after a kill.

Tests damage copies of it: see ``damaged_files``.
"""

from __future__ import annotations

import base64
import random
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from kafka_zk.base.types import TopicPartition
from kafka_zk.storage.cleaner.cleaner import CleanerConfig
from kafka_zk.storage.files import files
from kafka_zk.storage.files.checkpoints import format_checkpoint, read_offsets
from kafka_zk.storage.files.filenames import PARTITION_METADATA
from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.manager.log_manager import LogManager
from kafka_zk.storage.records.record_batch import RecordBatchBuilder
from kafka_zk.storage.records.record_decoder import decode_records
from tests.storage.done_here import clean_here
from tests.storage.helpers import Clock, append, batch, remove_due

CLEAN, KILLED = "clean stop", "kill"
CLUSTER_ID = "dgHHDDEuS6uOPGGVLS9rkQ"
BROKER_ID = 0
NEWEST_EPOCH = 8
"""The last epoch of the leaders that wrote the records. The next leader has a newer one."""
END, CHECKPOINTED_SEGMENTS = 60, 4

#: Topics of the directory; each log has ten segments of six offsets or so, a new leader epoch in every second one.
PLAIN, TRANSACTIONAL, COMPACTED = "plain", "transactional", "compacted"
TOPICS: Mapping[str, Mapping[str, str]] = {
    PLAIN: {},
    TRANSACTIONAL: {},
    COMPACTED: {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "1.0"},
}
#: The broker's configuration: each batch has its index entry, and all timestamps are valid.
BROKER_CONFIG = {
    "log.retention.ms": "-1",
    "log.index.interval.bytes": "0",
    "log.index.size.max.bytes": "4096",
    "log.message.timestamp.before.max.ms": str(2**63 - 1),
    "log.message.timestamp.after.max.ms": str(2**63 - 1),
}
#: The year 2100: a broker forgets producers whose last record is a day old.
THEN_MS = 4_102_444_800_000
IDEMPOTENT_ID, COMMITTING_ID, ABORTING_ID, OPEN_ID = 9, 11, 12, 13
_DELETED_BEFORE = 9


class Produced(NamedTuple):
    """Everything that was appended to a log."""

    values: dict[int, bytes]  # by offset; no other records may be served
    aborted: set[int]  # offsets that readers of committed records must not get
    repeated: tuple[bytes, int]  # the newest batch of the idempotent producer, and its offset


def manager_of(path: Path) -> LogManager:
    config = LogConfig(index_interval_bytes=0, retention_ms=-1, segment_index_bytes=4096)
    return LogManager([path], config, broker_id=BROKER_ID, cluster_id=CLUSTER_ID, clock_ms=Clock(THEN_MS))


def make_directory(path: Path, *, clean: bool) -> dict[str, Produced]:
    """A log directory after a clean stop, or after a kill: then four segments and the log start offset of each log are
    durable, and later records are only written. Returns what was produced, by topic."""
    manager = manager_of(path)
    manager.start(TOPICS)
    logs = {topic: _create(manager, topic) for topic in TOPICS}
    produced = {topic: Produced({}, set(), (b"", -1)) for topic in TOPICS}
    for number in range(END // 6):
        for topic, log in logs.items():
            repeated = _fill(log, topic, number, produced[topic])
            produced[topic] = produced[topic]._replace(repeated=repeated)
            if number + 1 < END // 6:
                log.roll(THEN_MS)
        if number + 1 == CHECKPOINTED_SEGMENTS:
            _checkpoint(manager, logs)
    if clean:
        manager.shutdown()
    else:
        for log in logs.values():
            log.segments.close_files()
        for log_dir in manager.hosted.live_dirs:
            log_dir.close()
    return produced


def _create(manager: LogManager, topic: str) -> Log:
    config = LogConfig.from_properties(TOPICS[topic], manager.default_config)
    return manager.get_or_create(TopicPartition(topic, 0), config, topic_id(topic))


def topic_id(topic: str) -> str:
    """A topic's id, from its name."""
    return base64.urlsafe_b64encode(random.Random(topic).randbytes(16)).rstrip(b"=").decode()


def _checkpoint(manager: LogManager, logs: Mapping[str, Log]) -> None:
    logs[PLAIN].increment_log_start_offset(_DELETED_BEFORE)
    logs[PLAIN].delete_old_segments(THEN_MS)
    remove_due(logs[PLAIN].segments, THEN_MS + (1 << 40))
    for log in logs.values():
        log.flush()
    clean_here(logs[COMPACTED], CleanerConfig(), THEN_MS)
    remove_due(logs[COMPACTED].segments, THEN_MS + (1 << 40))
    manager.upkeep.checkpoint()
    manager.upkeep.checkpoint_high_watermarks()


def _fill(log: Log, topic: str, number: int, produced: Produced) -> tuple[bytes, int]:
    """Append six offsets. Returns the last batch of the idempotent producer, which ends the log, and its offset."""
    epoch = number * NEWEST_EPOCH // (END // 6 - 1)
    fill = {PLAIN: _fill_plain, TRANSACTIONAL: _fill_transactional, COMPACTED: _fill_compacted}[topic]
    fill(log, number, epoch, produced)
    data = batch(1, key=b"k", value=b"idempotent-%d" % number, producer_id=IDEMPOTENT_ID, producer_epoch=0,
                 base_sequence=number, timestamp_ms=THEN_MS + number)  # fmt: skip
    sent = bytes(data)
    return sent, _take(log, data, epoch, produced)


def _take(log: Log, data: bytearray, epoch: int, produced: Produced) -> int:
    info = append(log, data, leader_epoch=epoch)
    for record in decode_records(data, 0):
        produced.values[record.offset] = record.value or b""
    return info.first_offset


def _fill_plain(log: Log, number: int, epoch: int, produced: Produced) -> None:
    for each in range(5):
        value = b"plain-%d-%d" % (number, each)
        _take(log, batch(1, value=value, timestamp_ms=THEN_MS + number), epoch, produced)


def _fill_compacted(log: Log, number: int, epoch: int, produced: Produced) -> None:
    """Append records whose keys recur in the next segment, so that compaction leaves holes, including the whole end of
    a segment.
    """
    for each in range(5):
        key = b"key-%d" % (each if each < 2 else 10 * number + each % 2)
        value = b"compacted-%d-%d" % (number, each)
        _take(log, batch(1, key=key, value=value, timestamp_ms=THEN_MS + number), epoch, produced)


def _fill_transactional(log: Log, number: int, epoch: int, produced: Produced) -> None:
    """Append a committed and an aborted transaction. The last segment begins one that stays open."""
    is_last = number + 1 == END // 6
    for producer_id in (COMMITTING_ID, OPEN_ID if is_last else ABORTING_ID):
        data = batch(1, value=b"of-%d-%d" % (producer_id, number), producer_id=producer_id, producer_epoch=0,
                     base_sequence=0 if is_last and producer_id == OPEN_ID else number, timestamp_ms=THEN_MS + number,
                     transactional=True)  # fmt: skip
        offset = _take(log, data, epoch, produced)
        if producer_id == ABORTING_ID:
            produced.aborted.add(offset)
    _end(log, COMMITTING_ID, epoch, commit=True)
    if is_last:
        _take(log, batch(1, value=b"behind the open transaction", timestamp_ms=THEN_MS + number), epoch, produced)
    else:
        _end(log, ABORTING_ID, epoch, commit=False)
    _take(log, batch(1, value=b"plain-%d" % number, timestamp_ms=THEN_MS + number), epoch, produced)


def _end(log: Log, producer_id: int, epoch: int, *, commit: bool) -> None:
    builder = RecordBatchBuilder("none", producer_id, 0, -1, transactional=True, control=True)
    builder.append(THEN_MS, b"\0\0\0\1" if commit else b"\0\0\0\0", b"\0\0\0\0\0\7")
    data = builder.build(base_offset=log.log_end_offset, partition_leader_epoch=epoch)
    log.append_as_follower(data, now_ms=THEN_MS)


def copy_directory(made: Path, target: Path, names: dict[str, str]) -> None:
    """A copy in which the topics of ``names`` have other names and matching ids; it has no other topics."""
    target.mkdir(parents=True)
    for path in made.iterdir():
        if path.is_file() and path.name.endswith("-checkpoint"):
            offsets = read_offsets(str(path))
            kept = names | {tp.topic: tp.topic for tp in offsets if tp.topic not in TOPICS}  # rows of no partition
            rows = [(kept[tp.topic], tp.partition, offset) for tp, offset in offsets.items() if tp.topic in kept]
            (target / path.name).write_bytes(format_checkpoint(sorted(rows)))
        elif path.is_file():
            shutil.copyfile(path, target / path.name)
    for topic, name in names.items():
        folder = target / f"{name}-0"
        shutil.copytree(made / f"{topic}-0", folder)
        (folder / PARTITION_METADATA).write_text(f"version: 0\ntopic_id: {topic_id(name)}\n")


class Unsynced(files.FileSystem):
    """Skips fsyncs: no power loss is simulated, and hundreds of fsyncs take long."""

    def sync(self, descriptor: int) -> None:
        pass

    sync_data = sync


class Made(NamedTuple):
    """For each kind of stop: the directory that all copies are made of, and the produced records."""

    directories: Mapping[str, Path]
    produced: Mapping[str, Mapping[str, Produced]]


def make(path: Path) -> Made:
    directories = {CLEAN: path / "clean", KILLED: path / "killed"}
    with files.use(Unsynced()):
        produced = {ending: make_directory(each, clean=ending == CLEAN) for ending, each in directories.items()}
    return Made(directories, produced)

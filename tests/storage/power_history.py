"""Random histories of logs on a disk that loses power, with all of Kafka's ways to leave holes, and the judge of the
result.

One log is written by a leader. Another copies it as a follower does, including gaps from compaction. Both are
compacted, truncated, cut by DeleteRecords and retention, moved between log directories, and change their policy back
and forth. The same happens to a third log, which producers and transactions write to (``power_transactions``).
"""

import dataclasses
import random
from pathlib import Path
from typing import Any
from unittest.mock import patch

from kafka_zk.base.types import TopicPartition
from kafka_zk.sim.machine.disk import SimDisk
from kafka_zk.storage.cleaner.cleaner import CleanedSegment
from kafka_zk.storage.files import files
from kafka_zk.storage.files.findings import Finding
from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.log.large_snapshots import WRITTEN_AT_ONCE
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.manager.hosted_logs import LogCallbacks
from kafka_zk.storage.manager.log_cleaner_manager import LogCleanerManager
from kafka_zk.storage.manager.log_manager import LogManager
from kafka_zk.storage.records.record_batch import iter_batches
from kafka_zk.storage.records.record_decoder import decode_records
from tests.storage.compacted import SMALL
from tests.storage.helpers import T0, Clock, append, batch, present
from tests.storage.power_transactions import Produced
from tests.storage.transaction_model import committed_offsets

LEADER = TopicPartition("led", 0)
FOLLOWER = TopicPartition("copied", 0)
PRODUCED = TopicPartition("produced", 0)
ALL = (LEADER, FOLLOWER, PRODUCED)
FOLDER = "/broker"
CONFIG = LogConfig(
    cleanup_policy=("compact",), segment_bytes=400, index_interval_bytes=100, min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=0,
)  # fmt: skip
Written = dict[int, tuple[bytes | None, bytes | None]]  # offset -> key, value


class Killed(BaseException):
    """The machine loses power at this point."""


class Lives:
    """One broker's log directories through several losses of power.

    ``written``: the records appended to each log that it may still hold. ``durable``: the offset up to which each log
    has reported to be durable. ``began``: the offset below which each log may have deleted records on purpose.
    ``cleaned``: the offset up to which a cleaning may have run.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.disk = SimDisk(lambda: T0)
        self.written: dict[TopicPartition, Written] = {tp: {} for tp in ALL}
        self.durable = dict.fromkeys(ALL, 0)
        self.began = dict.fromkeys(ALL, 0)
        self.cleaned = dict.fromkeys(ALL, 0)
        self.produced = Produced(self.random)
        self.config = dict.fromkeys(ALL, CONFIG)
        if self.random.random() < 0.5:
            self.config[PRODUCED] = dataclasses.replace(CONFIG, cleanup_policy=("delete",))
        self.findings: list[Finding] = []
        self.cleaned_count = self.dropped_count = 0
        self._steps_left = 0

    def play(self, lives: int = 5, steps: int = 80) -> None:
        """Raises: AssertionError with the violation."""
        most_at_once = self.random.choice((2, WRITTEN_AT_ONCE))
        with files.use(self.disk), patch("kafka_zk.storage.log.local_log.WRITTEN_AT_ONCE", most_at_once):
            files.make_directory(FOLDER)
            for _ in range(lives):
                self._start()
                self.judge()
                self._live(steps)
                if self.random.random() < 0.3:  # only the process is gone, and the page cache stays
                    self.disk.close_all(FOLDER)
                else:
                    self.disk.lose_power(FOLDER, self.random)
            self._start()
            self.judge()

    def _start(self) -> None:
        self.disk.fault = lambda operation, path: None
        self.logs = LogManager(
            [f"{FOLDER}/a", f"{FOLDER}/b"],
            CONFIG,
            broker_id=0,
            cluster_id="c",
            clock_ms=Clock(),
            callbacks=LogCallbacks(observe=self.findings.append, random=self.random),
        )
        self.dropped_count += len(self.logs.start({}).dropped)
        self.cleaner = LogCleanerManager(self.logs, lambda tp, reason: None)

    def _live(self, steps: int) -> None:
        """Random work until the power fails, at any change of the disk."""
        self._steps_left = self.random.randint(20, 2_000)
        self.disk.fault = self._kill_at_last_step
        try:
            for _ in range(self.random.randint(1, steps)):
                self._step()
        except Killed:
            pass

    def _kill_at_last_step(self, operation: str, path: str) -> OSError | None:
        if operation not in ("read", "pread", "entries"):
            self._steps_left -= 1
            if self._steps_left <= 0:
                raise Killed
        return None

    def _step(self) -> None:
        tp = self.random.choice((LEADER, LEADER, FOLLOWER, PRODUCED, PRODUCED))
        log = self.logs.get_or_create(tp, self.config[tp], "A" * 22)
        weights: dict[Any, int] = {
            self._grow: 60, self._flush: 10, self._checkpoint: 3, self._clean: 12, self._roll: 4, self._truncate: 2,
            self._delete_records: 2, self._change_policy: 3, self._move: 2, self._encode_snapshots: 10,
        }  # fmt: skip
        self.random.choices(list(weights), list(weights.values()))[0](log)
        for each in self.logs.all_logs():
            self.durable[each.tp] = max(self.durable[each.tp], each.recovery_point)

    # -- changes of a log ----------------------------------------------------------------------------------------

    def _grow(self, log: Log) -> None:
        if log.tp == FOLLOWER:
            self._copy(log)
            return
        log.follow_log_end()
        written = self.written[log.tp]
        for _ in range(self.random.randint(1, 6)):
            if log.tp == PRODUCED and self.random.random() < 0.4:
                self.produced.end_transaction(log)
                continue
            key = b"k%d" % self.random.choice((0, 0, 1, 2, self.random.randint(3, 500)))
            value = b"v%d" % len(written) + b"x" * self.random.choice((5, 120))
            written[log.log_end_offset] = key, value
            if log.tp == PRODUCED:
                self.produced.append(log, key, value)
            else:
                append(log, batch(1, key=key, value=value, timestamp_ms=T0))

    def _copy(self, log: Log) -> None:
        leader = self.logs.get(LEADER)
        if leader is None or log.log_end_offset > leader.log_end_offset:
            return
        if log.log_end_offset < leader.log_start_offset:
            self.durable[FOLLOWER] = 0
            self.began[FOLLOWER] = leader.log_start_offset
            log.truncate_fully_and_start_at(leader.log_start_offset)
            self.written[FOLLOWER] = {}
        found = leader.read(log.log_end_offset, self.random.choice((1, 300, 2_000))).slice
        data = b"" if found is None else found.read()
        for at, _ in iter_batches(data):
            self.written[FOLLOWER] |= {each.offset: (each.key, each.value) for each in decode_records(data, at)}
        log.append_as_follower(data, now_ms=T0)
        log.update_high_watermark(log.log_end_offset)

    def _flush(self, log: Log) -> None:
        if log.tp == PRODUCED:
            self.produced.flush(log)
        else:
            log.flush()

    def _encode_snapshots(self, log: Log) -> None:
        for _ in self.logs.large_snapshots.steps():
            pass

    def _checkpoint(self, log: Log) -> None:
        self.logs.upkeep.checkpoint()

    def _roll(self, log: Log) -> None:
        log.roll(T0)

    def _truncate(self, log: Log) -> None:
        """Truncate as a follower does for a new leader. Compacted records were committed, so they are never truncated.
        If the power fails during the truncation, all records may still exist.
        """
        first = max(log.log_start_offset, self.cleaned[log.tp])
        if first > log.log_end_offset:
            return
        offset = self.random.randint(first, log.log_end_offset)
        self.durable[log.tp] = min(self.durable[log.tp], offset)
        if log.tp == PRODUCED:
            self.produced.truncating(log, offset)
        log.truncate_to(offset)
        self.written[log.tp] = {at: each for at, each in self.written[log.tp].items() if at < log.log_end_offset}
        if log.tp == PRODUCED:
            self.produced.lost_from(log.log_end_offset)

    def _delete_records(self, log: Log) -> None:
        offset = self.random.randint(log.log_start_offset, log.high_watermark)
        self.began[log.tp] = max(self.began[log.tp], offset)
        log.increment_log_start_offset(offset)
        if log.tp == PRODUCED:
            self.produced.delete_segments(log)
        else:
            log.delete_old_segments(T0)

    def _change_policy(self, log: Log) -> None:
        if not self.config[log.tp].is_compacted:
            return
        policy = ("delete",) if log.config.is_compacted else ("compact",)
        log.update_config(dataclasses.replace(log.config, cleanup_policy=policy))

    def _clean(self, log: Log) -> None:
        log.flush(log.segments.active.base_offset if log.tp != PRODUCED else None)
        if not self.cleaner.clean_next(log.tp):
            return
        for _ in self.cleaner.examine_steps(T0):
            pass
        cleaning = self.cleaner.grab(SMALL, T0)
        if cleaning is None:
            return
        end = cleaning.to_clean.uncleanable_offset
        if cleaning.log.tp == PRODUCED:  # a later marker may decide on a record before it
            end = self.produced.cleaned = cleaning.log.log_end_offset
            cleaning.log.flush()
        self.cleaned[cleaning.log.tp] = max(self.cleaned[cleaning.log.tp], end)

        def swap(cleaned: CleanedSegment) -> None:
            for work in self.cleaner.swap_steps(cleaning, cleaned, T0):
                work()

        self.cleaned_count += self.cleaner.finish(cleaning, cleaning.work.run(swap).end_offset)

    def _move(self, log: Log) -> None:
        if log.tp == PRODUCED:
            self.produced.moving(log)
        (target,) = (each for each in self.logs.live_directories if each != self.logs.log_dir_of(log.tp))
        future = self.logs.moves.begin_future(log.tp, Path(target))
        if log.log_start_offset:
            future.truncate_fully_and_start_at(log.log_start_offset)
        while (found := log.read(future.log_end_offset, 1_000).slice) is not None:
            future.append_as_follower(found.read(), now_ms=T0)
        if future.log_end_offset < log.log_end_offset:
            future.extend_to(log.log_end_offset, T0)
        future.update_high_watermark(log.high_watermark)
        future.cleaned_offset = log.cleaned_offset
        future.flush()
        self.logs.moves.replace_by_future(log.tp)

    # -- the judge ------------------------------------------------------------------------------------------------

    def judge(self) -> None:
        """A log must contain a prefix of its appended records, minus those that compaction and deletion may remove."""
        for tp in ALL:
            log = self.logs.get(tp)
            if log is None:
                assert not self.durable[tp], f"{tp} was durable up to {self.durable[tp]} and is gone"
                self.written[tp] = {}
                if tp == PRODUCED:
                    self.produced.gone()
                continue
            if tp == PRODUCED:
                self.produced.started(log)
            self._judge(log)
            if tp == PRODUCED:
                self.produced.judge(log, self.began[tp])
            self.durable[tp] = log.recovery_point

    def _judge(self, log: Log) -> None:
        tp, end = log.tp, log.log_end_offset
        gone = [offset for offset in self.written[tp] if end <= offset < self.durable[tp]]
        assert not gone, f"{tp} ends at {end}: {gone} were durable, but are lost"
        written = self.written[tp] = {offset: each for offset, each in self.written[tp].items() if offset < end}
        served = contents(log)
        wrong = [offset for offset, each in served.items() if written.get(offset) != each]
        assert not wrong, f"{tp}: offsets {wrong} are not what was written"
        first = max(log.log_start_offset, self.began[tp])
        committed = written.keys() if tp != PRODUCED else set(committed_offsets(self.produced.history))
        newest = {
            key: offset for offset, (key, _) in sorted(written.items()) if offset >= first and offset in committed
        }
        wanted = {*newest.values(), *(offset for offset in written if offset >= max(first, self.cleaned[tp]))}
        lost = sorted(wanted - served.keys())
        assert not lost, f"{tp}, {log.log_start_offset}..{end}: the records at {lost} are lost, which nothing replaced"


def contents(log: Log) -> Written:
    """Offset -> key, value of every record that a consumer reads."""
    found: Written = {}
    position = log.log_start_offset
    while (read := log.read(position, 1 << 20)).slice is not None:
        data = present(read.slice).read()
        for at, header in iter_batches(data):
            if not header.is_control:
                found |= {each.offset: (each.key, each.value) for each in decode_records(data, at)}
        position = read.next_offset
    return {offset: each for offset, each in found.items() if offset >= log.log_start_offset}

"""Damage to the small files beside the records: records that were not deleted are served, deleted ones stay deleted if
the file that says so is intact, every loss is reported, and the next stop and start report nothing more.

This tests the storage hundreds of times; ``test_checkpoints_served`` tests a broker.
"""

import random
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from kafka_zk.base.types import TimestampOffset, TopicPartition
from kafka_zk.storage.files.checkpoints import MAX_OFFSET
from kafka_zk.storage.files.errors import InconsistentLogDir
from kafka_zk.storage.files.filenames import (
    CLEAN_SHUTDOWN,
    LEADER_EPOCH_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    META_PROPERTIES,
    PARTITION_METADATA,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_CHECKPOINT,
)
from kafka_zk.storage.log.log import Log
from tests.soak.file_damage import damage
from tests.soak.logs import RandomLogs, Values, small_segments
from tests.storage.helpers import T0, max_timestamp_offset, offset_for_timestamp, read_values, remove_due

KEPT = TopicPartition("kept", 0)
CUT = TopicPartition("cut", 0)
IDLE = TopicPartition("idle", 0)
STEP_MS = 4
SPREAD_MS = 1000
OFFSETS = (RECOVERY_POINT_CHECKPOINT, LOG_START_OFFSET_CHECKPOINT, REPLICATION_CHECKPOINT)
TOLD_WHEN_GONE = (LOG_START_OFFSET_CHECKPOINT, LEADER_EPOCH_CHECKPOINT, ".index", ".timeindex")
_SOUND = re.compile(rb"0\n(0|[1-9][0-9]*)\n((?:[a-zA-Z0-9._-]+ [0-9]{1,9} [0-9]{1,19}\n)*)")


class State(NamedTuple):
    """A log's state as its users see it."""

    start: int
    end: int
    values: Values
    epochs: list[tuple[int, int]]
    by_timestamp: list[TimestampOffset | None]
    newest: TimestampOffset | None
    producer: tuple[int, int] | None


def state_of(log: Log) -> State:
    """The state, without parts that a start may forget: epochs without a record, and a producer whose batches are
    deleted."""
    producer = log.producers.producers.get(7)
    if producer is not None and producer.last_offset < log.log_start_offset:
        producer = None
    return State(
        log.log_start_offset,
        log.log_end_offset,
        read_values(log),
        [each for each in log.leader_epochs.entries if each[1] < log.log_end_offset],
        [offset_for_timestamp(log, T0 + ms) for ms in range(-1, SPREAD_MS + 1, 50)],
        max_timestamp_offset(log),
        (producer.last_sequence, producer.last_offset) if producer else None,
    )


class Folder:
    """A log directory that was used for a while; then its process stopped or was killed."""

    def __init__(self, path: Path, rng: random.Random, is_clean: bool) -> None:
        self.path = path
        self.rng = rng
        self.config = small_segments(rng)
        logs = self.logs()
        logs.step_ms = STEP_MS
        logs.manager.start({})
        for tp in (KEPT, CUT, IDLE):
            log = logs.manager.get_or_create(tp, topic_id="YTI9vJfzQOepxQr8vcaMoQ")
            for _ in range(rng.randint(5, 60) if tp != IDLE else 0):
                logs.append(log)
                if rng.random() < 0.1:
                    log.flush()
        cut = logs.log(CUT)
        cut.increment_log_start_offset(rng.randint(1, cut.log_end_offset))
        if rng.random() < 0.5:
            cut.delete_old_segments(T0)
            remove_due(cut.segments, T0 + (1 << 40))
        logs.manager.upkeep.checkpoint()
        logs.manager.upkeep.checkpoint_high_watermarks()
        self.segments = {tp: [each.base_offset for each in logs.log(tp).segments] for tp in (KEPT, CUT, IDLE)}
        self.before = {tp: state_of(logs.log(tp)) for tp in (KEPT, CUT, IDLE)}
        self.is_clean = is_clean
        if is_clean:
            logs.manager.shutdown()
        else:
            logs.crash()

    def logs(self) -> RandomLogs:
        return RandomLogs(self.path, self.rng, self.config)

    def small_files(self) -> list[Path]:
        names = (*OFFSETS, *([CLEAN_SHUTDOWN] if self.is_clean else []))
        suffixes = (".index", ".timeindex", ".snapshot", LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA)
        beside = [each for each in sorted(self.path.glob("*-0/*")) if each.name.endswith(suffixes)]
        return [*(self.path / name for name in names), *beside]


def rows_of(content: bytes) -> dict[str, int] | None:
    """The rows of an offset checkpoint; None unless it is certainly valid."""
    found = _SOUND.fullmatch(content)
    if found is None:
        return None
    rows = [line.split() for line in found[2].decode().splitlines()]
    names = {f"{topic} {int(partition)}" for topic, partition, _ in rows}
    if len(rows) != int(found[1]) or len(names) != len(rows) or any(int(row[2]) > MAX_OFFSET for row in rows):
        return None
    return {f"{topic} {int(partition)}": int(offset) for topic, partition, offset in rows}


def test_damage_beside_the_records_costs_none_of_them(tmp_path: Path, campaign_seed: int) -> None:
    rng = random.Random(campaign_seed)
    folder = Folder(tmp_path, rng, rng.random() < 0.6)
    files = folder.small_files()
    favourites = [path for path in files if path.name in OFFSETS or path.name == LEADER_EPOCH_CHECKPOINT]
    victims = {rng.choice(rng.choice((files, favourites))) for _ in range(rng.choice((1, 1, 2, 4)))}
    old = {path: path.read_bytes() for path in victims}
    done = {
        path: damage(
            rng,
            path,
            is_text=path.suffix not in (".index", ".timeindex", ".snapshot"),
            may_go=path.name.endswith(TOLD_WHEN_GONE),
        )
        for path in sorted(victims)
    }
    new = {path: path.read_bytes() if path.is_file() else None for path in victims}

    again = folder.logs()
    assert not again.manager.start({}).dropped, done
    told = {finding.path: finding for finding in again.findings}
    for finding in again.findings:
        assert finding.kept_as is None or Path(finding.kept_as).exists()
        if finding.kept_as is not None and (content := new.get(Path(finding.path))) is not None:
            assert Path(finding.kept_as).read_bytes() == content
    for path in victims:
        if must_be_told(folder, path, old[path], new[path]):
            assert str(path) in told, f"{done[path]} of {path} was not told"
    check(folder, again, old, new, done)
    after = {}
    for log in again.manager.all_logs():
        again.appended[log.tp] = list(folder.before[log.tp].values)
        end_offset = log.log_end_offset
        again.append(log)
        assert log.log_end_offset > end_offset
        after[log.tp] = state_of(log)
    again.manager.shutdown()

    last = folder.logs()
    assert not last.manager.start({}).dropped
    assert not last.findings, done
    assert {log.tp: state_of(log) for log in last.manager.all_logs()} == after
    last.manager.shutdown()


def must_be_told(folder: Folder, path: Path, old: bytes, new: bytes | None) -> bool:
    """True if the start must report the file: it is certainly damaged, and this start needs it."""
    if new is None:
        return path.is_dir() or path.parent.name != str(IDLE)
    if path.name in OFFSETS:
        return rows_of(new) is None and new.split() != old.split()
    if path.name == PARTITION_METADATA:
        return re.fullmatch(rb"version: 0\ntopic_id: [A-Za-z0-9_-]{22}\n?", new) is None and new.split() != old.split()
    if path.name == LEADER_EPOCH_CHECKPOINT:
        return not new.strip(b"\0") or not new.startswith(b"0")
    if path.suffix == ".snapshot" and new != old:
        tp = TopicPartition(path.parent.name.removesuffix("-0"), 0)
        return folder.is_clean and int(path.stem) == folder.before[tp].end > folder.before[tp].start
    return False


def check(
    folder: Folder, again: RandomLogs, old: dict[Path, bytes], new: dict[Path, bytes | None], done: dict[Path, str]
) -> None:
    """Check that all logs are unchanged, except for state that only a damaged file contained."""
    told = {finding.path for finding in again.findings}
    starts = folder.path / LOG_START_OFFSET_CHECKPOINT
    rows = rows_of(new[starts] or b"") if starts in new else rows_of(starts.read_bytes())
    for tp, before in folder.before.items():
        log = again.log(tp)
        after = state_of(log)
        first = folder.segments[tp][0]
        start = before.start
        if starts in new and str(starts) in told:
            start = first
        elif starts in new and rows is not None:
            start = max(rows.get(f"{tp.topic} {tp.partition}", first), first)
        if start > before.end:
            assert (after.start, after.end, after.values) == (start, start, []), done
            moved = next(finding for finding in again.findings if finding.path == str(log.directory))
            assert {int(each.stem) for each in Path(moved.kept_as or "").glob("*.log")} == set(folder.segments[tp])
            continue
        assert (after.start, after.end) == (start, before.end), done
        expected = [each for each in before.values if each[0] >= start]
        assert [each for each in after.values if each[0] >= before.start] == expected, done
        assert [offset for offset, _ in after.values] == list(range(start, before.end)), done
        if start == before.start:
            assert (after.by_timestamp, after.newest) == (before.by_timestamp, before.newest), done
        epochs = folder.path / f"{tp}" / LEADER_EPOCH_CHECKPOINT
        if start == before.start and (epochs not in new or str(epochs) in told):
            assert after.epochs == before.epochs, done
        if tp != CUT:
            assert after.producer == before.producer, done
            assert log.delete_old_segments(T0 + SPREAD_MS) == 0, done


def test_a_damaged_identity_is_refused_until_it_is_mended(tmp_path: Path, campaign_seed: int) -> None:
    """A broker that accepted it could serve another broker's records as its own."""
    rng = random.Random(campaign_seed)
    folder = Folder(tmp_path, rng, is_clean=True)
    meta = tmp_path / META_PROPERTIES
    content = meta.read_bytes()
    damage(rng, meta, is_text=True)
    is_sound = meta.is_file() and content.split() == meta.read_bytes().split()
    if not is_sound:
        logs = folder.logs()
        try:
            logs.manager.start({})
        except (InconsistentLogDir, OSError) as error:
            assert str(tmp_path) in str(error)
        else:  # the damaged lines were not needed, or the cluster's id is missing
            assert b"cluster.id=c\n" in meta.read_bytes() and b"broker.id=0\n" in meta.read_bytes()
            logs.crash()
    if meta.is_dir():
        for each in meta.iterdir():
            each.unlink()
        meta.rmdir()
    meta.write_bytes(content)
    again = folder.logs()
    again.manager.start({})
    assert {tp: state_of(again.log(tp)) for tp in folder.before} == folder.before
    again.manager.shutdown()


@pytest.mark.parametrize("is_clean", [True, False])
def test_without_damage_nothing_is_told(tmp_path: Path, campaign_seed: int, is_clean: bool) -> None:
    """Nothing is reported after a clean stop, nor after a kill."""
    rng = random.Random(campaign_seed * 2 + is_clean)
    folder = Folder(tmp_path, rng, is_clean)
    again = folder.logs()
    again.manager.start({})
    assert not again.findings
    assert {tp: state_of(again.log(tp)) for tp in folder.before} == folder.before
    again.manager.shutdown()

"""A log whose closed segments are copied to remote storage."""

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kafka_zk.sim.machine.disk import SimDisk
from kafka_zk.storage.files import files
from kafka_zk.storage.files.errors import OffsetMovedToTieredStorage, OffsetOutOfRange
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.log.producer_snapshot import decode_snapshot
from kafka_zk.storage.log.tiered_log import SegmentReading, apply_local_retention, begin_from_remote, replica_of
from kafka_zk.storage.tiered.remote_log_metadata import RemotePartitionLog
from kafka_zk.storage.tiered.segment_storage import SegmentPart
from tests.storage.helpers import T0, append, batch, new_log, present, read_offsets, reopen
from tests.storage.tiered.segments import remote_log, segment

NOTHING = RemotePartitionLog()


def tiered(tmp_path: Path, count: int = 12, **config: Any) -> Log:
    """Segments of two one-record batches of producer 7 each, one second apart."""
    tier: dict[str, Any] = {"remote_storage_enable": True, "remote_log_storage_system_enable": True}
    log = new_log(tmp_path, segment_bytes=250, **tier, **{"local_retention_ms": 0, **config})
    for number in range(count):
        sent = batch(
            value=b"x" * 40, timestamp_ms=T0 + 1000 * number, producer_id=7, producer_epoch=0, base_sequence=number
        )
        append(log, sent, now_ms=T0 + 1000 * number)
    assert [each.base_offset for each in log.segments] == list(range(0, count, 2))
    return log


def copied(*starts: int) -> RemotePartitionLog:
    return remote_log(*(segment(1 + start, start, start + 1) for start in starts))


def test_local_segments_are_deleted_only_when_they_are_copied(tmp_path: Path) -> None:
    """The log start offset stays; earlier records are in remote storage."""
    log = tiered(tmp_path)
    assert apply_local_retention(log, NOTHING, T0 + 100_000) == 0
    assert apply_local_retention(log, copied(0, 2), T0 + 100_000) == 2
    assert (log.log_start_offset, log.local_log_start_offset) == (0, 4)
    assert read_offsets(log, 4) == list(range(4, 12))


def test_records_in_remote_storage_are_not_out_of_range(tmp_path: Path) -> None:
    log = tiered(tmp_path)
    apply_local_retention(log, copied(0, 2), T0 + 100_000)
    log.increment_log_start_offset(2)
    with pytest.raises(OffsetMovedToTieredStorage):
        log.read(3, 1000)
    with pytest.raises(OffsetOutOfRange):
        log.read(1, 1000)


def test_segments_above_the_high_watermark_stay(tmp_path: Path) -> None:
    """A follower knows from the metadata what is copied before it knows what is committed."""
    log = tiered(tmp_path)
    log.update_high_watermark(3)
    assert apply_local_retention(log, copied(0, 2, 4), T0 + 100_000) == 1


def test_the_active_segment_is_closed_when_all_others_are_deleted(tmp_path: Path) -> None:
    log = tiered(tmp_path)
    everything_closed = copied(0, 2, 4, 6, 8)
    assert apply_local_retention(log, everything_closed, T0 + 100_000) == 5
    assert [each.base_offset for each in log.segments] == [10, 12]


def test_segments_before_the_log_start_offset_are_deleted_without_metadata(tmp_path: Path) -> None:
    log = tiered(tmp_path)
    log.increment_log_start_offset(5)
    assert apply_local_retention(log, NOTHING, T0) == 2
    assert (log.log_start_offset, log.local_log_start_offset) == (5, 5)


def test_a_log_that_is_being_moved_keeps_its_segments(tmp_path: Path) -> None:
    log = tiered(tmp_path)
    log.is_being_cleaned = True
    assert apply_local_retention(log, copied(0), T0 + 100_000) == 0


@pytest.mark.parametrize("clean", [True, False])
def test_a_start_keeps_offsets_and_epochs_of_remote_records(tmp_path: Path, clean: bool) -> None:
    """Both come from the checkpoint, because the local segments no longer show them."""
    log = tiered(tmp_path)
    append(log, batch(), leader_epoch=3)
    apply_local_retention(log, copied(0, 2), T0 + 100_000)
    log.flush()
    log.close()
    again, _ = reopen(log, clean=clean, recovery_point=13, log_start_offset=1)
    assert (again.log_start_offset, again.local_log_start_offset, again.log_end_offset) == (1, 4, 13)
    assert again.leader_epochs.entries == [(0, 1), (3, 12)]
    assert again.producers.producers[7].last_offset == 11


@pytest.mark.parametrize("seed", range(10))
def test_a_power_loss_leaves_the_epochs_of_remote_records(seed: int) -> None:
    """No local batch has them, and consumers cannot read remote records without them."""
    disk = SimDisk(lambda: T0)
    with files.use(disk):
        log = tiered(Path("/broker"))
        append(log, batch(), leader_epoch=3)
        apply_local_retention(log, copied(0, 2), T0 + 100_000)
        log.flush()
        append(log, batch(), leader_epoch=5)
        disk.lose_power("/broker", Random(seed))
        again, _ = reopen(log, recovery_point=13)
        assert again.leader_epochs.entries[:2] == [(0, 0), (3, 12)]


@pytest.mark.parametrize("seed", range(10))
def test_a_power_loss_after_a_start_leaves_the_epochs_of_remote_records(seed: int) -> None:
    """A start moves the first epoch to the log start offset."""
    disk = SimDisk(lambda: T0)
    with files.use(disk):
        log = tiered(Path("/broker"))
        append(log, batch(), leader_epoch=3)
        apply_local_retention(log, copied(0, 2), T0 + 100_000)
        log.flush()
        reopen(log, recovery_point=13, log_start_offset=2)
        disk.lose_power("/broker", Random(seed))
        again, _ = reopen(log, recovery_point=13, log_start_offset=2)
        assert again.leader_epochs.entries == [(0, 2), (3, 12)]


def test_a_start_without_the_checkpoint_begins_at_the_first_segment(tmp_path: Path) -> None:
    """The topic became tiered after its last checkpoint, and no local segment has been deleted since."""
    log = tiered(tmp_path)
    log.update_config(replace(log.config, remote_storage_enable=False, retention_ms=0))
    log.update_high_watermark(4)
    assert log.delete_old_segments(T0 + 100_000) == 2
    log.update_config(replace(log.config, remote_storage_enable=True))
    log.close()
    again, _ = reopen(log, clean=True, log_start_offset=None)
    assert (again.log_start_offset, again.local_log_start_offset) == (4, 4)


def test_a_lost_checkpoint_loses_no_remote_records(tmp_path: Path) -> None:
    """If they were lost, the leader would delete what lies before the first local segment."""
    log = tiered(tmp_path)
    log.increment_log_start_offset(2)
    assert apply_local_retention(log, copied(0, 2, 4), T0 + 100_000) == 3
    log.close()
    again, _ = reopen(log, clean=True, log_start_offset=None)
    assert (again.log_start_offset, again.local_log_start_offset) == (2, 6)


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_stays_tiered_that_was_turned_off_while_it_was_closed(tmp_path: Path, clean: bool) -> None:
    log = tiered(tmp_path)
    apply_local_retention(log, copied(0, 2), T0 + 100_000)
    log.flush()
    log.close()
    log.config = replace(log.config, remote_storage_enable=False)
    again, _ = reopen(log, clean=clean, recovery_point=12, log_start_offset=0)
    assert (again.config.is_tiered, again.log_start_offset, again.local_log_start_offset) == (True, 0, 4)


def test_a_log_without_remote_storage_begins_at_its_first_segment(tmp_path: Path) -> None:
    """The topic's configuration does not matter while the broker has no remote storage."""
    log = tiered(tmp_path)
    log.update_config(replace(log.config, remote_log_storage_system_enable=False, retention_ms=0))
    assert not log.config.is_tiered
    assert log.delete_old_segments(T0 + 100_000) == 6
    assert log.log_start_offset == 12


def test_a_compacted_log_is_not_tiered(tmp_path: Path) -> None:
    config = tiered(tmp_path).config
    assert config.is_tiered
    assert not replace(config, cleanup_policy=("compact", "delete")).is_tiered


def test_truncation_before_the_local_records_keeps_the_remote_ones(tmp_path: Path) -> None:
    """After an unclean election, a follower may have to go back that far."""
    log = tiered(tmp_path)
    apply_local_retention(log, copied(0, 2), T0 + 100_000)
    log.truncate_to(3)
    assert (log.log_start_offset, log.local_log_start_offset, log.log_end_offset) == (0, 3, 3)
    assert log.leader_epochs.entries == [(0, 0)]


def test_facts_of_a_log(tmp_path: Path) -> None:
    log = tiered(tmp_path, 4)
    append(log, batch(), leader_epoch=2)
    facts = replica_of(log)
    assert (facts.lineage, facts.log_start_offset, facts.log_end_offset) == ([(0, 0), (2, 4)], 0, 5)
    assert [(each.base_offset, each.next_offset, each.max_timestamp_ms) for each in facts.segments] == [
        (0, 2, T0 + 1000), (2, 4, T0 + 3000), (4, 5, T0),
    ]  # fmt: skip


def test_what_is_copied_of_a_segment(tmp_path: Path) -> None:
    """The leader epochs and the producers are those at the segment's end."""
    log = tiered(tmp_path, 6)
    append(log, batch(), leader_epoch=2)
    reading = present(SegmentReading.of(log, replica_of(log).segments[1]))
    data = reading.run()
    assert Path(data.log_path).name == f"{2:020d}.log"
    assert data.parts[SegmentPart.LEADER_EPOCHS] == b"0\n1\n0 0\n"
    assert [each.last_offset for each in decode_snapshot(data.parts[SegmentPart.PRODUCER_SNAPSHOT])] == [3]
    assert data.parts[SegmentPart.TIME_INDEX]
    assert SegmentPart.TRANSACTION_INDEX not in data.parts


@pytest.mark.parametrize("missing", [(4,), (2, 4), (2, 4, 6)])
def test_a_missing_snapshot_is_rebuilt(tmp_path: Path, missing: tuple[int, ...]) -> None:
    """A missing snapshot that stopped all copying would fill the disk (KAFKA-17428)."""
    log = tiered(tmp_path, 8)
    before = present(SegmentReading.of(log, replica_of(log).segments[1])).run()
    for offset in missing:
        (tmp_path / "events-0" / f"{offset:020d}.snapshot").unlink()
    again = present(SegmentReading.of(log, replica_of(log).segments[1])).run()
    assert again.parts[SegmentPart.PRODUCER_SNAPSHOT] == before.parts[SegmentPart.PRODUCER_SNAPSHOT]


def test_a_damaged_snapshot_is_rebuilt(tmp_path: Path) -> None:
    log = tiered(tmp_path, 8)
    before = present(SegmentReading.of(log, replica_of(log).segments[1])).run()
    (tmp_path / "events-0" / f"{4:020d}.snapshot").write_bytes(b"damaged")
    again = present(SegmentReading.of(log, replica_of(log).segments[1])).run()
    assert again.parts[SegmentPart.PRODUCER_SNAPSHOT] == before.parts[SegmentPart.PRODUCER_SNAPSHOT]


def test_a_deleted_segment_is_not_read(tmp_path: Path) -> None:
    log = tiered(tmp_path, 8)
    reading = present(SegmentReading.of(log, replica_of(log).segments[0]))
    apply_local_retention(log, copied(0), T0 + 100_000)
    with pytest.raises(FileNotFoundError):
        reading.run()


def test_a_segment_that_retention_has_deleted_is_not_copied(tmp_path: Path) -> None:
    """Retention runs while a copy waits for the quota."""
    log = tiered(tmp_path, 6)
    chosen = replica_of(log).segments[:2]
    assert log.delete_oldest(2, T0) == 2
    assert [SegmentReading.of(log, each) for each in chosen] == [None, None]


@pytest.mark.parametrize("clean", [True, False])
def test_a_log_that_began_from_remote_storage_keeps_its_state(tmp_path: Path, clean: bool) -> None:
    """The log keeps its state even if the process is killed before the first record."""
    leader = tiered(tmp_path / "leader")
    snapshot = (
        present(SegmentReading.of(leader, replica_of(leader).segments[1])).run().parts[SegmentPart.PRODUCER_SNAPSHOT]
    )
    log = new_log(tmp_path, remote_storage_enable=True, remote_log_storage_system_enable=True)
    begin_from_remote(log, 8, [(0, 1), (2, 5)], snapshot)
    assert (log.log_start_offset, log.local_log_start_offset, log.log_end_offset) == (1, 8, 8)
    assert log.producers.producers[7].last_offset == 3
    if clean:
        log.flush()
        log.close()
    assert log.recovery_point == 8
    again, _ = reopen(log, clean=clean, recovery_point=8, log_start_offset=1)
    assert (again.log_start_offset, again.local_log_start_offset, again.log_end_offset) == (1, 8, 8)
    assert again.leader_epochs.entries == [(0, 1), (2, 5)]
    assert again.producers.producers[7].last_offset == 3


def test_records_before_the_remote_start_are_dropped(tmp_path: Path) -> None:
    log = tiered(tmp_path)
    log.update_high_watermark(4)
    log.increment_log_start_offset(2)
    begin_from_remote(log, 20, [(0, 0), (3, 15)], None)
    assert (log.log_start_offset, log.local_log_start_offset, log.log_end_offset) == (2, 20, 20)
    assert not log.producers.producers
    append(log, batch(), leader_epoch=3)
    assert read_offsets(log, 20) == [20]

"""What a broker with remote storage copies and deletes."""

from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from twisted.internet.defer import Deferred, ensureDeferred

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.tiered import remote_log_manager
from kafka_zk.broker.tiered.remote_log_manager import COPY_TIMEOUT_S
from kafka_zk.broker.tiered.remote_log_metadata_manager import CONSUME_WAIT_S, RemoteLogMetadataManager
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.storage.tiered.object_store import ObjectStoreError
from kafka_zk.storage.tiered.segment_metadata import RemoteLogSegmentMetadata, RemoteLogSegmentState
from kafka_zk.storage.tiered.segment_storage import LocalSegmentStorage, SegmentData
from tests.kafka_zk.broker.conftest import build_harness
from tests.kafka_zk.broker.tiered.tiered_broker import TURN_S, T, TieredBroker
from tests.storage.helpers import T0, append, batch
from tests.storage.tiered.segments import DELETING, FINISHED, STARTED, update


def states(broker: TieredBroker) -> list[tuple[int, RemoteLogSegmentState]]:
    return sorted((each.start_offset, each.state) for each in broker.remote.segments.values())


class FailingStorage(LocalSegmentStorage):
    """``failing``: the names of methods that fail, after they did their work."""

    failing: set[str]

    def copy(self, segment: RemoteLogSegmentMetadata, data: SegmentData) -> None:
        super().copy(segment, data)
        if "copy" in self.failing:
            raise ObjectStoreError("the store refuses")

    def delete(self, segment: RemoteLogSegmentMetadata) -> None:
        super().delete(segment)
        if "delete" in self.failing:
            raise ObjectStoreError("the store refuses")


def failing(folder: Path, broker: TieredBroker, *names: str) -> FailingStorage:
    broker.storage = storage = FailingStorage(str(folder / "remote"))
    storage.failing = set(names)
    broker.start()
    return storage


def test_closed_segments_are_copied_and_then_deleted_here(tmp_path: Path) -> None:
    """The records stay in the log: only the local log start offset moves."""
    broker = TieredBroker(tmp_path)
    broker.fill(7)
    broker.run()
    assert broker.objects() == [0, 2, 4]
    assert broker.objects(".snapshot") == [0, 2, 4]
    assert states(broker) == [(0, FINISHED), (2, FINISHED), (4, FINISHED)]
    assert (broker.log.log_start_offset, broker.log.local_log_start_offset) == (0, 6)


def test_a_round_without_news_changes_nothing(tmp_path: Path) -> None:
    broker = TieredBroker(tmp_path, local_retention_ms="-2")
    broker.fill(7)
    for _ in range(3):
        broker.run()
    assert broker.objects() == [0, 2, 4]
    assert broker.log.local_log_start_offset == 0


def test_records_above_the_last_stable_offset_are_not_copied(tmp_path: Path) -> None:
    broker = TieredBroker(tmp_path)
    broker.fill(7)
    broker.log.update_high_watermark(4)
    broker.run()
    assert broker.objects() == [0, 2]


def test_the_metadata_topic_is_created_first(tmp_path: Path) -> None:
    broker = TieredBroker(tmp_path, has_metadata_topic=False)
    broker.fill(7)
    broker.run()
    assert (broker.created, broker.objects()) == (["__remote_log_metadata"], [])
    assert broker.log.local_log_start_offset == 0


def test_a_copy_that_fails_is_removed_and_begins_again(tmp_path: Path) -> None:
    """The metadata record stays, so that expiration can delete the rest of the copy. Until the segment is copied, no
    local segment is deleted."""
    broker = TieredBroker(tmp_path)
    storage = failing(tmp_path, broker, "copy")
    broker.fill(7)
    broker.run()
    assert (broker.objects(), states(broker)) == ([], [(0, STARTED)])
    assert broker.log.local_log_start_offset == 0
    storage.failing.clear()
    broker.run()
    assert broker.objects() == [0, 2, 4]
    assert states(broker) == [(0, STARTED), (0, FINISHED), (2, FINISHED), (4, FINISHED)]
    assert broker.log.local_log_start_offset == 6


def test_an_outage_is_logged_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Each attempt has a different message, because the message names the objects of a new segment id."""

    class Refusing(LocalSegmentStorage):
        refuses = True

        def copy(self, segment: RemoteLogSegmentMetadata, data: SegmentData) -> None:
            if self.refuses:
                raise ObjectStoreError(f"{segment.segment_id.id} cannot be written")
            super().copy(segment, data)

    broker = TieredBroker(tmp_path)
    broker.storage = storage = Refusing(str(tmp_path / "remote"))
    broker.start()
    broker.fill(7)
    for is_away, rounds, told_count in ((True, 1, 1), (True, 1, 1), (False, 2, 1), (True, 1, 2)):
        storage.refuses = is_away
        for _ in range(rounds):
            broker.run()
        broker.fill(2)
        told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        assert len(told) == told_count, told


def test_a_store_that_is_away_for_long_gets_few_copies(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Each attempt leaves a metadata record. The pauses grow to 31 rounds, and end with the first success."""
    broker = TieredBroker(tmp_path)
    storage = failing(tmp_path, broker, "copy")
    broker.fill(7)
    for attempts, rounds in ((1, 1), (2, 1), (2, 1), (3, 1), (3, 3), (4, 1), (9, 120)):
        for _ in range(rounds):
            broker.run()
        assert [start for start, _ in states(broker)] == [0] * attempts
    (told,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert "; retrying" in told.getMessage()
    storage.failing.clear()
    for _ in range(32):
        broker.run()
    assert broker.log.local_log_start_offset == 6
    storage.failing = {"copy"}
    broker.fill(2)
    broker.run()
    storage.failing.clear()
    broker.run()
    assert broker.log.local_log_start_offset > 6


def test_a_store_that_hangs_stops_no_other_work(tmp_path: Path) -> None:
    """The copy fails at its deadline. If its thread still writes, the objects belong to a segment id that is not used
    again."""
    broker = TieredBroker(tmp_path)
    broker.fill(7)
    broker.threads.holds = True
    broker.run()
    assert len(broker.threads.held) == 1
    broker.run()  # the task is in progress
    assert len(broker.threads.held) == 1
    broker.clock.advance(COPY_TIMEOUT_S)
    broker.threads.holds = False
    broker.threads.release()
    assert (broker.objects(), states(broker)) == ([0], [(0, STARTED)])
    broker.run()
    assert broker.objects() == [0, 0, 2, 4]
    assert broker.log.local_log_start_offset == 6


def test_copies_wait_for_their_quota_and_retention_does_not(tmp_path: Path) -> None:
    """Copied segments are deleted locally before the next copy begins. A higher limit applies within a second."""
    broker = TieredBroker(tmp_path)
    broker.copy_bytes_per_second = 1
    broker.fill(7)
    broker.run()
    assert (broker.objects(), broker.log.local_log_start_offset) == ([0], 2)
    broker.clock.pump([1] * 30)
    assert not broker.manager._running, "a long wait holds up the next round"
    broker.run()
    assert broker.objects() == [0]
    broker.copy_bytes_per_second = 1 << 20
    broker.clock.pump([1] * 3)
    assert (broker.objects(), broker.log.local_log_start_offset) == ([0, 2, 4], 6)


def test_copies_that_wait_for_their_quota_do_not_need_deletions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = TieredBroker(tmp_path)

    async def refuse(term: object) -> None:
        raise ObjectStoreError("the store refuses")

    monkeypatch.setattr(broker.manager, "_expire", refuse)
    broker.copy_bytes_per_second = 1
    broker.fill(7)
    broker.run()
    assert broker.objects() == [0]
    broker.copy_bytes_per_second = 1 << 20
    broker.clock.pump([1] * 3)
    assert broker.objects() == [0, 2, 4]


def test_a_copy_that_waits_for_its_quota_ends_with_the_leadership(tmp_path: Path) -> None:
    broker = TieredBroker(tmp_path)
    broker.copy_bytes_per_second = 1
    broker.fill(7)
    broker.run()
    broker.harness.lead_again("t", broker.topic_id, leader=1, leader_epoch=1, isr=[0, 1], replicas=[0, 1])
    broker.copy_bytes_per_second = 1 << 20
    broker.clock.pump([1] * 3)
    assert (broker.objects(), states(broker)) == ([0], [(0, FINISHED)])
    broker.harness.lead_again("t", broker.topic_id, leader_epoch=2)
    broker.run()
    assert broker.objects() == [0, 2, 4]


def test_a_copy_of_a_former_leader_is_discarded(tmp_path: Path) -> None:
    broker = TieredBroker(tmp_path)
    broker.fill(7)
    broker.threads.holds = True
    broker.run()
    broker.harness.lead_again("t", broker.topic_id, leader=1, leader_epoch=1, isr=[0, 1], replicas=[0, 1])
    broker.threads.holds = False
    broker.threads.release()
    assert (broker.objects(), states(broker)) == ([], [(0, STARTED)])


def test_a_lost_response_is_no_lost_record(tmp_path: Path) -> None:
    """The record with state STARTED was written; the task does not know that and copies nothing."""
    broker = TieredBroker(tmp_path)
    broker.fill(7)
    broker.connection.loses = {ApiKey.PRODUCE}
    broker.run()
    broker.metadata.poll()
    assert (broker.objects(), states(broker)) == ([], [(0, STARTED)])
    broker.connection.loses = set()
    broker.run()
    assert broker.objects() == [0, 2, 4]


def test_a_crash_between_the_copy_and_its_record_leaves_objects_that_are_deleted_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No local segment is deleted before another copy is complete."""
    broker = TieredBroker(tmp_path)
    broker.fill(3)
    whole_write = RemoteLogMetadataManager.write

    async def write(self: RemoteLogMetadataManager, record: Any) -> None:
        if not isinstance(record, RemoteLogSegmentMetadata):
            await Deferred()  # the process ends here
        await whole_write(self, record)

    monkeypatch.setattr(RemoteLogMetadataManager, "write", write)
    broker.run()
    monkeypatch.undo()
    assert (broker.objects(), states(broker)) == ([0], [(0, STARTED)])
    assert broker.log.local_log_start_offset == 0
    broker.start(seed=2)
    broker.run()
    assert states(broker) == [(0, STARTED), (0, FINISHED)]
    assert broker.log.local_log_start_offset == 2
    broker.clock.advance(remote_log_manager._ABANDONED_AFTER_MS / 1000)
    broker.run()
    assert (broker.objects(), states(broker)) == ([0, 2], [(0, FINISHED), (2, FINISHED)])


def test_metadata_that_cannot_be_read_keep_everything(tmp_path: Path) -> None:
    """Producers can continue; local retention waits."""
    broker = TieredBroker(tmp_path)
    broker.fill(7)
    broker.connection.fault = ConnectionError("no route")
    broker.run()
    broker.clock.advance(CONSUME_WAIT_S)
    broker.fill(2)
    assert (broker.objects(), broker.log.local_log_start_offset) == ([], 0)
    broker.connection.fault = None
    broker.run()
    assert broker.objects() == [0, 2, 4, 6]
    assert broker.log.local_log_start_offset > 6


def test_expired_segments_are_deleted_there(tmp_path: Path) -> None:
    """Before that, the log start offset moves and becomes durable."""
    broker = TieredBroker(tmp_path, retention_bytes="500")
    broker.fill(9)
    broker.run()
    assert broker.log.log_start_offset == 4
    assert broker.objects() == broker.objects(".index") == [4, 6]
    assert states(broker) == [(4, FINISHED), (6, FINISHED)]
    checkpoint = (tmp_path / "logs" / "log-start-offset-checkpoint").read_text().splitlines()
    assert "t 0 4" in checkpoint


def test_a_deletion_that_fails_begins_again(tmp_path: Path) -> None:
    broker = TieredBroker(tmp_path, retention_bytes="500")
    storage = failing(tmp_path, broker, "delete")
    broker.fill(9)
    broker.run()
    assert [start for start, _ in states(broker)] == [0, 2, 4, 6]
    storage.failing.clear()
    broker.run()
    assert states(broker) == [(4, FINISHED), (6, FINISHED), (8, FINISHED)]


def test_a_new_leader_begins_where_records_can_be_read(tmp_path: Path) -> None:
    """The previous leader deleted segments, and no follower learned of it."""
    broker = TieredBroker(tmp_path)
    broker.fill(7)
    broker.run()
    first = next(each for each in broker.remote.segments.values() if each.start_offset == 0)
    ensureDeferred(broker.metadata.write(update(first, DELETING)))
    broker.run()
    assert broker.log.log_start_offset == 2


def test_a_new_leader_waits_for_its_high_watermark(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It does not move its log start offset beyond the high watermark."""
    broker = TieredBroker(tmp_path)
    broker.fill(7)
    broker.run()
    first = next(each for each in broker.remote.segments.values() if each.start_offset == 0)
    ensureDeferred(broker.metadata.write(update(first, DELETING)))
    broker.log.update_high_watermark(1)
    broker.run()
    assert broker.log.log_start_offset == 0
    assert not [record for record in caplog.records if record.exc_info]
    broker.log.follow_log_end()
    broker.run()
    assert broker.log.log_start_offset == 2


def test_a_follower_deletes_what_its_leader_copied(tmp_path: Path) -> None:
    """The follower uses the metadata. It copies nothing itself."""
    broker = TieredBroker(tmp_path, local_retention_ms="-2")
    broker.fill(7)
    broker.run()
    assert broker.log.local_log_start_offset == 0
    mark = broker.log.high_watermark
    broker.harness.lead_again("t", broker.topic_id, leader=1, leader_epoch=1, isr=[0, 1], replicas=[0, 1])
    broker.harness.configs.topics["t"]["local.retention.ms"] = "0"
    for _ in broker.replicas.update_topic_configs({"t": broker.harness.configs.topics["t"]}):
        pass
    broker.log.update_high_watermark(mark)
    broker.run()
    assert broker.log.local_log_start_offset == 6


def test_a_partition_that_is_deleted_before_its_turn_is_left_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Thousands of followed partitions may wait for their turns, and one may be deleted before its turn."""
    broker = TieredBroker(tmp_path, local_retention_ms="-2")
    broker.fill(7)
    broker.run()
    broker.harness.lead_again("t", broker.topic_id, leader=1, leader_epoch=1, isr=[0, 1], replicas=[0, 1])
    log = broker.log
    log.update_config(replace(log.config, local_retention_ms=0))
    broker.clock.advance(30)
    broker.manager.run_tasks()
    broker.replicas.partitions[T].log = None
    broker.replicas.logs.delete(T)
    broker.clock.advance(TURN_S)
    assert not [record for record in caplog.records if record.exc_info]
    assert log.local_log_start_offset == 0


def test_damaged_records_are_not_copied(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Other replicas may have undamaged records, and would delete them if this copy existed. Segments that were copied
    before are deleted as usual."""
    broker = TieredBroker(tmp_path)
    broker.fill(7)
    path = tmp_path / "logs" / "t-0" / f"{2:020d}.log"
    data = bytearray(path.read_bytes())
    data[70] ^= 1
    path.write_bytes(data)
    for _ in range(3):
        broker.run()
    (told,) = [record for record in caplog.records if record.levelname in ("WARNING", "ERROR", "CRITICAL")]
    assert "is damaged at position 0" in told.getMessage()
    assert (broker.objects(), broker.log.local_log_start_offset) == ([0], 2)
    broker.log.update_config(replace(broker.log.config, retention_bytes=0))
    broker.run()
    assert (broker.objects(), broker.log.log_start_offset) == ([], 2)


def test_metadata_are_forgotten_with_the_last_tiered_partition(tmp_path: Path) -> None:
    broker = TieredBroker(tmp_path)
    broker.fill(7)
    broker.run()
    assert broker.remote.segments
    del broker.replicas.partitions[T]
    broker.run()
    assert not broker.remote.segments


def test_a_topic_without_an_id_is_not_tiered(tmp_path: Path) -> None:
    """Old controllers assign no ids, and the metadata need one."""
    broker = TieredBroker(tmp_path)
    broker.fill(7)
    broker.replicas.partitions[T].topic_id = UUID(int=0)
    broker.run()
    assert broker.objects() == []


@pytest.mark.parametrize("change", [{"remote.storage.enable": "false"}, {"cleanup.policy": "compact"}])
def test_a_topic_that_others_turn_off_stays_tiered(
    tmp_path: Path, change: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """Kafka's tools can turn tiering off in ZooKeeper, and its brokers then lose the remote records."""
    broker = TieredBroker(tmp_path)
    broker.fill(7)
    broker.run()
    for _ in range(2):
        for _ in broker.replicas.update_topic_configs({"t": {**broker.harness.configs.topics["t"], **change}}):
            pass
    assert broker.log.config.is_tiered
    (told,) = [record for record in caplog.records if "stays tiered" in record.getMessage()]
    assert told.levelname == "ERROR"
    broker.fill(2)
    broker.run()
    assert broker.objects() == [0, 2, 4, 6]
    assert broker.log.log_start_offset == 0


@pytest.mark.parametrize("is_internal", [True, False])
def test_topics_of_brokers_are_never_tiered(tmp_path: Path, is_internal: bool) -> None:
    """For internal topics, Kafka accepts the key and ignores it."""
    broker = TieredBroker(tmp_path)
    topic = "__remote_log_metadata" if is_internal else "ordinary"
    broker.harness.configs.topics[topic] = {"remote.storage.enable": "true"}
    broker.harness.lead(topic)
    log = broker.replicas.partitions[TopicPartition(topic, 0)].log
    assert log is not None
    for _ in broker.replicas.update_topic_configs(broker.harness.configs.topics):
        pass
    assert log.config.is_tiered is not is_internal


def test_each_partition_has_its_own_turn(tmp_path: Path) -> None:
    """Otherwise, thousands of partitions would block the reactor in one turn."""
    broker = TieredBroker(tmp_path)
    broker.harness.configs.topics["u"] = broker.harness.configs.topics["t"]
    broker.harness.lead("u", 3)
    for tp, partition in broker.replicas.partitions.items():
        if tp.topic in ("t", "u"):
            assert partition.log is not None
            for _ in range(3):
                append(partition.log, batch(value=b"x" * 40))
            partition.log.follow_log_end()
    broker.manager.run_tasks()
    seen = []
    for _ in range(5):
        seen.append(len(broker.objects()))
        broker.clock.advance(TURN_S)
    assert seen == [0, 1, 2, 3, 4]


def test_a_tiered_topic_without_remote_storage_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The log exceeds local.retention.*, because only retention.ms and retention.bytes delete records."""
    harness = build_harness(tmp_path)
    topic = {"remote.storage.enable": "true", "local.retention.ms": "0", "segment.bytes": "250"}
    harness.configs.topics["t"] = {**topic, "retention.ms": "-1"}
    harness.lead("t", 2)
    log = harness.services.replicas.partitions[T].log
    assert log is not None
    for _ in range(7):
        append(log, batch(value=b"x" * 40))
    log.follow_log_end()
    for _ in harness.services.replicas.update_topic_configs(harness.configs.topics):
        pass
    assert sum(harness.services.replicas.logs.upkeep.cleanup_steps(T0 + 10**12)) == 0
    assert log.log_start_offset == 0
    (told,) = [record for record in caplog.records if "has no remote storage" in record.getMessage()]
    assert told.levelname == "ERROR"

"""AlterReplicaLogDirs: logs move between the broker's log directories, under appends, and through crashes."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.replica import replica_alter_log_dirs_manager
from kafka_zk.protocol import codec, uuids
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.storage.log.log import Log
from kafka_zk.storage.log.producer_snapshot import decode_snapshot
from kafka_zk.storage.records.end_transaction_marker import COMMIT_MARKER, EndTransactionMarker, marker_batch
from kafka_zk.storage.records.record_batch import read_header
from tests.kafka_zk.broker.conftest import Harness, batch, leader_and_isr, update_metadata
from tests.kafka_zk.broker.handlers.data.test_produce_and_fetch import produce, produced

Make = Callable[..., Harness]
TP = TopicPartition("t", 0)
_TOPIC_ID = uuids.random_topic_id()


@pytest.fixture
def dirs(tmp_path: Path) -> tuple[Path, Path]:
    return tmp_path / "a", tmp_path / "b"


@pytest.fixture
def broker(harness: Make, dirs: tuple[Path, Path]) -> Harness:
    """The broker leads t-0, with 30 records in its first directory."""
    made = _started(harness, dirs)
    for _ in range(10):
        _append(made)
    return made


def _started(harness: Make, dirs: tuple[Path, Path]) -> Harness:
    made = harness(log_dirs=",".join(map(str, dirs)), log_segment_bytes="300")
    _lead(made)
    return made


def _lead(broker: Harness, leader_epoch: int = 0) -> None:
    fields = {"controller_epoch": 1, "leader": 0, "leader_epoch": leader_epoch, "isr": [0], "replicas": [0]}
    broker.ask(ApiKey.LEADER_AND_ISR, 7, leader_and_isr("t", _TOPIC_ID, 1, fields))
    broker.ask(ApiKey.UPDATE_METADATA, 8, update_metadata("t", _TOPIC_ID, 1, fields))


def _append(broker: Harness) -> None:
    assert produced(broker, produce(batch(b"x" * 20, b"y", b"z"))).error_code == 0


def _alter(broker: Harness, directory: Path, topic: str = "t", version: int = 2) -> ErrorCode:
    request = codec.request(ApiKey.ALTER_REPLICA_LOG_DIRS)
    topics = [request.AlterReplicaLogDir.AlterReplicaLogDirTopic(name=topic, partitions=[0])]
    wanted = request(dirs=[request.AlterReplicaLogDir(path=str(directory), topics=topics)])
    answer = broker.ask(ApiKey.ALTER_REPLICA_LOG_DIRS, version, wanted)
    assert answer.results[0].topic_name == topic
    return ErrorCode(answer.results[0].partitions[0].error_code)


def _described(broker: Harness) -> dict[str, tuple[bool, int]]:
    """For each log directory: whether its log of t-0 is an incomplete copy, and its lag."""
    answer = broker.ask(ApiKey.DESCRIBE_LOG_DIRS, 4, codec.request(ApiKey.DESCRIBE_LOG_DIRS)(topics=None))
    return {
        Path(result.log_dir).name: (found.is_future_key, found.offset_lag)
        for result in answer.results
        for topic in result.topics
        for found in topic.partitions
    }


def _log(broker: Harness) -> Log:
    log = broker.services.replicas.logs.get(TP)
    assert log is not None and broker.services.replicas.partitions[TP].log is log
    return log


def _content(log: Log) -> bytes:
    data = b""
    offset = log.log_start_offset
    while (found := log.read(offset, 1_000_000)).slice is not None:
        data += found.slice.read()
        offset = found.next_offset
    return data


def _pump(broker: Harness, times: int = 100) -> None:
    for _ in range(times):
        broker.clock.advance(0.2)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_log_moves_while_it_is_written(broker: Harness, dirs: tuple[Path, Path], version: int) -> None:
    before = _log(broker)
    _alter(broker, dirs[1], version=version)
    described = _described(broker)
    assert described["a"] == (False, 0) and described["b"] > (True, 0)
    _pump(broker, 1)
    _append(broker)
    _pump(broker)
    assert _described(broker) == {"b": (False, 0)}
    assert _log(broker).directory == dirs[1] / "t-0"
    assert _content(_log(broker)) == _content(before)
    _append(broker)
    assert _log(broker).log_end_offset == _log(broker).high_watermark == 36
    assert sorted(each.name.rpartition("-")[2] for each in dirs[0].iterdir() if each.is_dir()) == ["delete"]


def test_what_cannot_be_moved_is_refused(broker: Harness, dirs: tuple[Path, Path], tmp_path: Path) -> None:
    assert _alter(broker, tmp_path / "c") is ErrorCode.LOG_DIR_NOT_FOUND
    assert _alter(broker, dirs[1], "elsewhere") is ErrorCode.REPLICA_NOT_AVAILABLE
    assert _alter(broker, dirs[0]) is ErrorCode.NONE
    assert _described(broker) == {"a": (False, 0)}
    long_name = "n" * 240
    broker.lead(long_name)
    target = next(each for each in dirs if not (each / f"{long_name}-0").exists())
    assert _alter(broker, target, long_name) is ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_partition_that_comes_later_goes_where_it_was_wanted(harness: Make, dirs: tuple[Path, Path]) -> None:
    broker = harness(log_dirs=",".join(map(str, dirs)))
    assert _alter(broker, dirs[1]) is ErrorCode.REPLICA_NOT_AVAILABLE
    broker.lead("t")
    assert _log(broker).directory == dirs[1] / "t-0"


def test_a_move_back_ends_the_move(broker: Harness, dirs: tuple[Path, Path]) -> None:
    assert _alter(broker, dirs[1]) is ErrorCode.NONE
    assert _alter(broker, dirs[0]) is ErrorCode.NONE
    _pump(broker)
    assert _described(broker) == {"a": (False, 0)}
    assert not _log(broker).is_being_cleaned


def test_a_log_that_is_truncated_on_its_way_is_copied_anew(broker: Harness, dirs: tuple[Path, Path]) -> None:
    _alter(broker, dirs[1])
    _pump(broker, 1)
    log = _log(broker)
    log.truncate_to(6)
    log.append_as_follower(bytes(_moved(batch(b"other"), 6)), now_ms=0)
    _pump(broker)
    assert _log(broker).directory == dirs[1] / "t-0"
    assert _content(_log(broker)) == _content(log)
    assert _log(broker).log_end_offset == 7


def _moved(records: bytes, offset: int) -> bytearray:
    data = bytearray(records)
    data[:8] = offset.to_bytes(8, "big")
    return data


def test_deleted_records_are_not_copied(broker: Harness, dirs: tuple[Path, Path]) -> None:
    """The log begins within a batch; so does the copy."""
    _log(broker).increment_log_start_offset(4)
    _alter(broker, dirs[1])
    _pump(broker)
    assert (_log(broker).log_start_offset, _log(broker).log_end_offset) == (4, 30)
    assert _log(broker).directory == dirs[1] / "t-0"


def test_a_topic_that_is_deleted_takes_its_copy_with_it(broker: Harness, dirs: tuple[Path, Path]) -> None:
    _alter(broker, dirs[1])
    broker.services.replicas.stop_replica(TP, -2, delete=True)
    _pump(broker)
    assert _described(broker) == {}
    assert all("delete" in each.name for directory in dirs for each in directory.iterdir() if each.is_dir())


def test_a_replica_that_is_stopped_goes_on_when_it_is_served_again(broker: Harness, dirs: tuple[Path, Path]) -> None:
    _alter(broker, dirs[1])
    broker.services.replicas.stop_replica(TP, 0, delete=False)
    _pump(broker)
    log = broker.services.replicas.logs.get(TP)
    assert log is not None and log.directory == dirs[0] / "t-0" and not log.is_being_cleaned
    _lead(broker, leader_epoch=1)
    _pump(broker)
    assert _described(broker) == {"b": (False, 0)}
    assert _log(broker).log_end_offset == 30


def test_a_clean_stop_interrupts_a_move_only(broker: Harness, harness: Make, dirs: tuple[Path, Path]) -> None:
    _alter(broker, dirs[1])
    broker.services.alter_log_dirs.stop()
    broker.services.replicas.logs.shutdown()
    again = _started(harness, dirs)
    _pump(again)
    assert _log(again).directory == dirs[1] / "t-0"
    assert _log(again).log_end_offset == 30


def test_a_directory_that_fails_takes_the_copy_in_the_other_one_with_it(
    broker: Harness, dirs: tuple[Path, Path]
) -> None:
    _alter(broker, dirs[1])
    broker.services.replicas.logs.fail_directory(_log(broker), OSError("the disk is gone"))
    _pump(broker)
    assert broker.services.replicas.logs.moves.future(TP) is None
    assert _described(broker) == {}
    assert _alter(broker, dirs[1]) is ErrorCode.KAFKA_STORAGE_ERROR


def _crash(broker: Harness) -> None:
    for log_dir in broker.services.replicas.logs.hosted.live_dirs:
        log_dir.close()


def test_a_move_that_a_crash_interrupts_begins_anew(
    broker: Harness, harness: Make, dirs: tuple[Path, Path]
) -> None:
    _alter(broker, dirs[1])
    _crash(broker)
    again = _started(harness, dirs)
    _pump(again)
    assert _log(again).directory == dirs[1] / "t-0"
    assert _log(again).log_end_offset == 30


def test_a_crash_between_the_two_renames_loses_nothing(
    broker: Harness, harness: Make, dirs: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: Any) -> None:
        raise OSError("the disk is gone")

    before = _content(_log(broker))
    monkeypatch.setattr("kafka_zk.storage.manager.log_dir.LogDir.adopt_future", fails)
    _alter(broker, dirs[1])
    _pump(broker)
    assert broker.services.replicas.logs.get(TP) is None
    monkeypatch.undo()
    _crash(broker)
    again = _started(harness, dirs)
    assert _log(again).directory == dirs[1] / "t-0"
    assert _content(_log(again)) == before


class _HeldWork:
    """Threads whose work completes when the test says so."""

    def __init__(self) -> None:
        self._held: list[tuple[Deferred[Any], Callable[[], Any]]] = []

    def __call__(self, work: Callable[[], Any]) -> "Deferred[Any]":
        self._held.append((Deferred(), work))
        return self._held[-1][0]

    def do(self) -> None:
        held, self._held = self._held, []
        for done, work in held:
            done.callback(work())


def test_a_flush_that_a_produce_waits_for_holds_in_the_copy_that_takes_over(
    harness: Make, dirs: tuple[Path, Path]
) -> None:
    broker = harness(log_dirs=",".join(map(str, dirs)), log_flush_interval_messages="1")
    _lead(broker)
    _append(broker)
    copying = broker.services.alter_log_dirs._run_in_thread = _HeldWork()
    _alter(broker, dirs[1])
    _pump(broker, 3)
    appending = broker.services.replicas.run_in_thread = _HeldWork()
    answers: list[Any] = []
    broker.start(ApiKey.PRODUCE, 9, produce(batch(b"durable"))).addCallback(answers.append)
    copying.do()
    assert _log(broker).directory == dirs[1] / "t-0" and not answers
    appending.do()
    assert answers and _log(broker).recovery_point == _log(broker).log_end_offset == 4


def test_a_copy_keeps_back_what_is_not_stable(broker: Harness, dirs: tuple[Path, Path]) -> None:
    """One transaction has ended, but its marker is not committed; another one is being verified."""
    log = _log(broker)
    begun = batch(b"x", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    log.append_as_follower(bytes(_moved(begun, 30)), now_ms=0)
    log.update_high_watermark(31)
    assert log.last_stable_offset == 30
    log.producers.end_transaction(read_header(begun), EndTransactionMarker(COMMIT_MARKER, 0), 31, 0)
    log.append_as_follower(bytes(_moved(batch(b"stands for the marker"), 31)), now_ms=0)
    guard = log.producers.begin_verification(8, 0, 0, 0)
    _alter(broker, dirs[1])
    _pump(broker)
    assert _log(broker) is not log
    assert _log(broker).last_stable_offset == 30
    assert _log(broker).producers.begin_verification(8, 0, 0, 0) is guard


def _begin_transaction(log: Log, producer_id: int) -> None:
    sequence = log.producers.producers[producer_id].last_sequence + 1 if producer_id in log.producers.producers else 0
    begun = batch(b"x", producer_id=producer_id, producer_epoch=0, base_sequence=sequence, transactional=True)
    log.append_as_leader(bytearray(begun), read_header(begun), leader_epoch=0, now_ms=0)


def _end_transaction(log: Log, producer_id: int) -> None:
    marker = marker_batch(producer_id, 0, 0, is_commit=True, timestamp_ms=0)
    log.append_as_leader(marker, read_header(marker), leader_epoch=0, now_ms=0, from_client=False)


def test_transactions_begin_and_end_in_a_copy_that_took_over(broker: Harness, dirs: tuple[Path, Path]) -> None:
    """Two transactions have ended before; the log and its copy have forgotten different ones."""
    for producer_id in (1, 2):
        _begin_transaction(_log(broker), producer_id)
        _end_transaction(_log(broker), producer_id)
    assert _log(broker).last_stable_offset == _log(broker).log_end_offset == 34
    _alter(broker, dirs[1])
    _pump(broker)
    log = _log(broker)
    assert log.directory == dirs[1] / "t-0"
    _begin_transaction(log, 3)
    assert log.last_stable_offset == 34
    _end_transaction(log, 3)
    assert log.last_stable_offset == log.log_end_offset == 36


def test_a_copy_does_not_remember_all_transactions_of_the_log(
    broker: Harness, dirs: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replica_alter_log_dirs_manager, "COPY_BYTES", 200)
    monkeypatch.setattr(broker.services.alter_log_dirs, "_bytes_per_second", lambda: 1000)
    for _ in range(50):
        _begin_transaction(_log(broker), 1)
        _end_transaction(_log(broker), 1)
    _alter(broker, dirs[1])
    future = broker.services.replicas.logs.moves.future(TP)
    assert future is not None
    while future.log_end_offset < 100:
        _pump(broker, 1)
    assert _log(broker) is not future
    assert len(future.producers.transactions.unstable) < 5


def test_a_log_whose_last_records_were_compacted_away_ends_where_it_did(
    broker: Harness, dirs: tuple[Path, Path]
) -> None:
    log = _log(broker)
    log.extend_to(40, 0)
    _alter(broker, dirs[1])
    _pump(broker)
    assert _log(broker) is not log
    assert _log(broker).log_end_offset == _log(broker).high_watermark == 40
    _append(broker)
    assert _log(broker).log_end_offset == 43


def _failing(*_: Any, **__: Any) -> Any:
    raise OSError("the disk is gone")


def test_a_directory_that_takes_no_copy_ends_no_other_move(
    harness: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directories = [tmp_path / name for name in "abc"]
    broker = harness(log_dirs=",".join(map(str, directories)))
    logs = broker.services.replicas.logs
    for topic in "tu":
        logs.moves.prefer(TopicPartition(topic, 0), directories[0])
        broker.lead(topic)
        assert produced(broker, produce(batch(b"x"), topic=topic)).error_code == 0
    assert _alter(broker, directories[1]) is _alter(broker, directories[2], "u") is ErrorCode.NONE
    copy, flush = logs.moves.future(TP), Log.prepare_flush
    monkeypatch.setattr(Log, "prepare_flush", lambda log: _failing() if log is copy else flush(log))
    monkeypatch.setattr("kafka_zk.storage.manager.log_dir.LogDir.delete_future", _failing)
    _pump(broker)
    assert logs.live_directories == [directories[0], directories[2]]
    assert _log(broker).directory == directories[0] / "t-0" and not _log(broker).is_being_cleaned
    assert logs.log_dir_of(TopicPartition("u", 0)) == directories[2]


def test_a_log_that_cannot_be_read_takes_its_own_directory_offline(
    broker: Harness, dirs: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    _alter(broker, dirs[1])
    monkeypatch.setattr("kafka_zk.storage.segments.file_slice.FileSlice.read", _failing)
    _pump(broker)
    assert broker.services.replicas.logs.live_directories == [dirs[1]]
    assert broker.services.replicas.partitions[TP].refusal is ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("is_truncated", [False, True])
def test_a_tiered_log_moves_with_its_local_part(
    harness: Make, dirs: tuple[Path, Path], is_truncated: bool
) -> None:
    """Records that are only in remote storage stay readable. Their offsets, leader epochs and producers stay known."""
    broker = harness(log_dirs=",".join(map(str, dirs)), log_segment_bytes="300")
    replicas = broker.services.replicas
    replicas.set_topic_defaults(replace(replicas.logs.default_config, remote_log_storage_system_enable=True))
    broker.configs.topics["t"] = {"remote.storage.enable": "true", "segment.bytes": "300"}
    _lead(broker)
    old_producer = batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0)
    assert produced(broker, produce(old_producer)).error_code == 0
    for epoch in range(1, 4):
        _lead(broker, epoch)
        for _ in range(3):
            _append(broker)
    before = _log(broker)
    before.increment_log_start_offset(1)
    before.delete_oldest(len(before.segments) - 3, 0)
    local_start = before.local_log_start_offset
    assert local_start > 10
    _alter(broker, dirs[1])
    if is_truncated:
        before.truncate_to(before.log_end_offset - 3)
        before.follow_log_end()
    content = _local_content(before)
    _pump(broker)
    after = _log(broker)
    assert after.directory == dirs[1] / "t-0"
    assert (after.log_start_offset, after.local_log_start_offset) == (1, local_start)
    assert after.log_end_offset == before.log_end_offset
    assert after.leader_epochs.entries == before.leader_epochs.entries
    assert after.leader_epochs.entries[0] == (1, 1)
    assert _local_content(after) == content
    snapshots = [decode_snapshot(path.read_bytes()) for path in sorted((dirs[1] / "t-0").glob("*.snapshot"))]
    assert snapshots and all(entry[0].producer_id == 7 for entry in snapshots)
    assert "t 0 1" in (dirs[1] / "log-start-offset-checkpoint").read_text().splitlines()


def test_a_moved_tiered_log_does_not_begin_later(harness: Make, dirs: tuple[Path, Path]) -> None:
    """The log's leader epochs were rebuilt from local segments, which are only remote now. If the copy's log start
    offset were larger, retention would delete the remote segments before it."""
    broker = harness(log_dirs=",".join(map(str, dirs)), log_segment_bytes="300")
    replicas = broker.services.replicas
    replicas.set_topic_defaults(replace(replicas.logs.default_config, remote_log_storage_system_enable=True))
    broker.configs.topics["t"] = {"remote.storage.enable": "true", "segment.bytes": "300"}
    _lead(broker)
    for _ in range(9):
        _append(broker)
    before = _log(broker)
    before.leader_epochs.replace([(0, 2)])
    before.delete_oldest(len(before.segments) - 2, 0)
    assert before.local_log_start_offset > 2
    _alter(broker, dirs[1])
    _pump(broker)
    after = _log(broker)
    assert after.directory == dirs[1] / "t-0"
    assert (after.log_start_offset, after.leader_epochs.entries) == (0, [(0, 2)])


def _local_content(log: Log) -> bytes:
    found = log.read(log.local_log_start_offset, 1_000_000).slice
    return b"" if found is None else found.read()

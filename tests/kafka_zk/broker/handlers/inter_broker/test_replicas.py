"""A broker's replicas when a log directory fails, a topic changes, or another broker becomes the leader."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from twisted.internet.defer import Deferred, DeferredLock

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.handlers.inter_broker.leader_and_isr import PARTITIONS_A_PORTION
from kafka_zk.broker.replica.partition import Partition
from kafka_zk.protocol import codec, uuids
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.storage.files.helper_process import Helper
from kafka_zk.storage.log.batch_work import AT_ONCE_RECORDS
from kafka_zk.storage.segments import timestamp_search
from kafka_zk.storage.segments.segment import Segment
from kafka_zk.storage.segments.timestamp_search import AT_ONCE
from tests.kafka_zk.broker.conftest import Harness, batch, leader_and_isr, update_metadata
from tests.kafka_zk.broker.handlers.data.test_produce_and_fetch import fetch, fetched, produce, produced
from tests.kafka_zk.broker.handlers.test_other_apis import list_offsets, listed
from tests.storage.helpers import remove_due

R = TypeVar("R")

Make = Callable[..., Harness]
T0 = TopicPartition("t", 0)


def fail_directory_of(broker: Harness, tp: TopicPartition) -> None:
    logs = broker.services.replicas.logs
    log = logs.get(tp)
    assert log is not None
    logs.fail_directory(log, OSError("the disk is gone"))


def stop_replica(broker: Harness, topic: str) -> int:
    """Sends StopReplica (delete) for partition 0; returns its error code."""
    request = codec.request(ApiKey.STOP_REPLICA)
    states = request.StopReplicaTopicState
    answer = broker.ask(
        ApiKey.STOP_REPLICA, 4,
        request(
            controller_id=0, controller_epoch=1, broker_epoch=1,
            topic_states=[
                states(
                    topic_name=topic,
                    partition_states=[
                        states.StopReplicaPartitionState(partition_index=0, leader_epoch=-2, delete_partition=True)
                    ],
                )
            ],
        ),
    )  # fmt: skip
    return int(answer.partition_errors[0].error_code)


@pytest.fixture
def two_disks(harness: Make, tmp_path: Path) -> Harness:
    return harness(log_dirs=f"{tmp_path / 'a'},{tmp_path / 'b'}")


def test_a_log_on_a_failed_disk_is_not_begun_anew_on_another(two_disks: Harness) -> None:
    """A new log would reuse offsets of existing records; another LeaderAndIsr changes nothing."""
    topic_id = two_disks.lead("t")
    produced(two_disks, produce(batch(b"x")))
    fail_directory_of(two_disks, T0)
    for epoch in (0, 1):
        assert two_disks.lead_again("t", topic_id, leader_epoch=epoch) == ErrorCode.KAFKA_STORAGE_ERROR
    assert produced(two_disks, produce(batch(b"y"))).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert two_disks.services.replicas.logs.get(T0) is None


def test_with_a_disk_missing_only_new_partitions_get_a_log(two_disks: Harness) -> None:
    """An older partition may be on the missing disk."""
    two_disks.lead("other")
    fail_directory_of(two_disks, TopicPartition("other", 0))
    topic_id = uuids.random_topic_id()
    assert two_disks.lead_again("t", topic_id, is_new=False) == ErrorCode.KAFKA_STORAGE_ERROR
    assert two_disks.lead_again("new", topic_id, is_new=True) == ErrorCode.NONE


def test_a_replica_out_of_reach_is_not_deleted(two_disks: Harness) -> None:
    """Without the error the controller would delete the topic, and its files would return with the disk."""
    two_disks.lead("t")
    fail_directory_of(two_disks, T0)
    assert stop_replica(two_disks, "t") == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_replica_that_may_lie_on_a_failed_disk_is_not_deleted_either(two_disks: Harness) -> None:
    """The broker was started without the disk; the controller does not make it host partitions that it deletes."""
    two_disks.lead("t")
    two_disks.lead("u")
    fail_directory_of(two_disks, T0)
    assert stop_replica(two_disks, "was-here-before") == ErrorCode.KAFKA_STORAGE_ERROR
    assert stop_replica(two_disks, "u") == ErrorCode.NONE


def test_nothing_is_written_into_a_log_of_another_topic_of_the_same_name(harness: Make) -> None:
    """The topic was recreated while this broker was away, so requests now mean the new topic."""
    broker = harness()
    old = broker.lead("t", leader_epoch=5)
    assert broker.lead_again("t", uuids.random_topic_id(), leader_epoch=0) == ErrorCode.INCONSISTENT_TOPIC_ID
    assert produced(broker, produce(batch(b"x"))).error_code == ErrorCode.INCONSISTENT_TOPIC_ID
    assert broker.lead_again("t", old, leader_epoch=5) == ErrorCode.NONE
    assert produced(broker, produce(batch(b"x"))).error_code == 0


def test_a_topic_whose_configuration_becomes_usable_is_served(harness: Make) -> None:
    """An old tool set an unsupported value and removed it; the broker needs neither a restart nor a new leader."""
    broker = harness()
    broker.configs.topics["t"] = {"cleanup.policy": "shred"}
    broker.lead("t")
    assert produced(broker, produce(batch(b"x"))).error_code == ErrorCode.INVALID_CONFIG
    list(broker.services.replicas.update_topic_configs({"t": {"cleanup.policy": "delete"}}))
    assert produced(broker, produce(batch(b"x"))).error_code == 0


def test_a_value_that_is_not_allowed_stops_only_its_topic(harness: Make) -> None:
    """An old tool wrote the value before the topic had a log; the topic is served as soon as the value is corrected."""
    broker = harness()
    broker.configs.topics["t"] = {"retention.ms": "x"}
    broker.lead("t")
    broker.lead("u")
    assert produced(broker, produce(batch(b"x"))).error_code == ErrorCode.INVALID_CONFIG
    assert produced(broker, produce(batch(b"x"), topic="u")).error_code == 0
    list(broker.services.replicas.update_topic_configs({"t": {}}))
    assert produced(broker, produce(batch(b"x"))).error_code == 0


def test_a_value_that_is_not_allowed_leaves_an_open_log_at_the_configuration_before(
    harness: Make, caplog: pytest.LogCaptureFixture
) -> None:
    """Kafka's handler of the change fails with the same effect."""
    broker = harness()
    broker.configs.topics["t"] = {"max.message.bytes": "100"}
    topic_id = broker.lead("t")
    changed = {"max.message.bytes": "x", "retention.ms": "7"}
    list(broker.services.replicas.update_topic_configs({"t": changed}))
    assert produced(broker, produce(batch(b"x"))).error_code == 0
    assert produced(broker, produce(batch(b"x" * 200))).error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert "/config/topics/t" in caplog.text
    broker.configs.topics["t"] = changed
    assert broker.lead_again("t", topic_id, leader_epoch=1) == ErrorCode.NONE
    assert produced(broker, produce(batch(b"x"))).error_code == 0


def test_who_is_sent_away_is_told_where_to(harness: Make) -> None:
    """A producer whose leader moves requests metadata immediately, but UpdateMetadata comes after LeaderAndIsr."""
    broker = harness()
    topic_id = broker.lead("t", replicas=[0, 1])
    assert broker.lead_again("t", topic_id, leader=1, leader_epoch=1, isr=[0, 1], replicas=[0, 1]) == ErrorCode.NONE
    assert produced(broker, produce(batch(b"x"))).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    info = broker.services.metadata.partition("t", 0)
    assert info is not None and (info.leader, info.leader_epoch, info.isr) == (1, 1, [0, 1])
    assert broker.lead_again("t", topic_id, leader=0, leader_epoch=0) == ErrorCode.STALE_CONTROLLER_EPOCH
    assert broker.services.metadata.partition("t", 0) == info


def test_leader_and_isr_brings_the_configuration_that_holds_now(harness: Make) -> None:
    """The broker missed the announcement of a change because it was away."""
    broker = harness()
    topic_id = broker.lead("t")
    broker.configs.topics["t"] = {"max.message.bytes": "100"}
    assert broker.lead_again("t", topic_id) == ErrorCode.STALE_CONTROLLER_EPOCH  # the leader epoch is known already
    assert produced(broker, produce(batch(b"x" * 200))).error_code == ErrorCode.MESSAGE_TOO_LARGE


def test_followers_fetch_on_while_zookeeper_does_not_answer(harness: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker reads the configurations of LeaderAndIsr's topics from ZooKeeper; fetchers wait only while roles
    change.
    """
    broker = harness()
    topic_id = broker.lead("t")
    replicas = broker.services.replicas
    answered: Deferred[Any] = Deferred()
    monkeypatch.setattr(broker.configs, "synced_entities", lambda *args: answered)
    fields = {"controller_epoch": 1, "leader": 0, "leader_epoch": 1, "isr": [0], "replicas": [0]}
    broker.start(ApiKey.LEADER_AND_ISR, 7, leader_and_isr("t", topic_id, 1, fields))
    assert (replicas.state_changes.locked, replicas.role_changes.locked) == (True, False)
    held: list[bool] = []
    replicas.role_listeners.append(lambda partition: held.append(bool(replicas.role_changes.locked)))
    answered.callback({"t": {}})
    assert (held, replicas.role_changes.locked) == ([True], False)


def test_fetchers_go_on_between_portions_of_many_partitions(harness: Make) -> None:
    """All brokers receive the partitions in the same order, so partitions that both leader and follower know are
    replicated while the rest wait.
    """
    broker = harness()
    replicas = broker.services.replicas
    changed: list[TopicPartition] = []
    fetched_with: list[int] = []

    def fetch_now(lock: DeferredLock) -> None:
        fetched_with.append(len(changed))
        lock.release()

    def role_changed(partition: Partition) -> None:
        changed.append(partition.tp)
        if not replicas.role_changes.waiting:
            replicas.role_changes.acquire().addCallback(fetch_now)

    replicas.role_listeners.append(role_changed)
    fields = {"controller_epoch": 1, "leader": 1, "leader_epoch": 0, "isr": [0, 1], "replicas": [0, 1]}
    request = leader_and_isr("t", uuids.random_topic_id(), 2 * PARTITIONS_A_PORTION + 1, fields)
    assert len(broker.ask(ApiKey.LEADER_AND_ISR, 7, request).topics[0].partition_errors) == len(changed)
    assert fetched_with == [PARTITIONS_A_PORTION, 2 * PARTITIONS_A_PORTION, 2 * PARTITIONS_A_PORTION + 1]


def test_a_topic_that_was_deleted_while_this_broker_was_away_takes_nothing_more(harness: Make) -> None:
    """The broker has registered again. The controller, which then sends it everything, omits the topic."""
    broker = harness()
    broker.lead("t")
    kept = broker.lead("u")
    fields = {"controller_epoch": 1, "leader": 0, "leader_epoch": 0, "isr": [0], "replicas": [0]}
    everything = update_metadata("u", kept, 1, fields)
    everything.broker_epoch = 2
    broker.ask(ApiKey.UPDATE_METADATA, 8, everything)
    assert produced(broker, produce(batch(b"x"))).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert fetched(broker.ask(ApiKey.FETCH, 11, fetch(0))).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert produced(broker, produce(batch(b"x"), topic="u")).error_code == 0


def test_a_partition_that_is_elsewhere_is_not_unknown(harness: Make) -> None:
    """A client with old metadata refreshes them instead of giving up."""
    broker = harness()
    broker.lead("u")
    fields = {"controller_epoch": 1, "leader": 1, "leader_epoch": 0, "isr": [1], "replicas": [1]}
    broker.ask(ApiKey.UPDATE_METADATA, 8, update_metadata("t", uuids.random_topic_id(), 1, fields))
    assert produced(broker, produce(batch(b"x"))).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert fetched(broker.ask(ApiKey.FETCH, 11, fetch(0))).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert listed(broker, list_offsets(-1)).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_flush_that_fails_is_answered_and_lets_go_of_the_other_logs(two_disks: Harness) -> None:
    """With flush.messages, an acknowledged record is durable; a record that may be lost is not acknowledged."""
    for topic in ("t", "u"):
        two_disks.configs.topics[topic] = {"flush.messages": "1"}
        two_disks.lead(topic)
    running: list[tuple[Callable[[], object], Deferred[Any]]] = []

    def run_later(work: Callable[[], R]) -> "Deferred[R]":
        running.append((work, Deferred()))
        return running[-1][1]

    two_disks.services.replicas.run_in_thread = run_later
    request = produce(batch(b"x"))
    request.topic_data += produce(batch(b"x"), topic="u").topic_data
    answers: list[Any] = []
    two_disks.start(ApiKey.PRODUCE, 9, request).addCallback(answers.append)
    other = two_disks.services.replicas.partition(TopicPartition("u", 0)).log
    assert other is not None and not answers
    (_, first), (work, second) = running
    first.errback(OSError("the disk is gone"))
    work()
    second.callback(None)
    codes = {topic.name: topic.partition_responses[0].error_code for topic in answers[0].responses}
    assert codes == {"t": ErrorCode.KAFKA_STORAGE_ERROR, "u": 0}
    assert other.recovery_point == 1


@pytest.mark.parametrize(("version", "timestamp"), [(0, 1000), (6, 1000), (7, -3)])
@pytest.mark.parametrize("in_helper", [False, True])
def test_a_disk_that_fails_while_offsets_are_listed_takes_its_directory_offline(
    two_disks: Harness, monkeypatch: pytest.MonkeyPatch, version: int, timestamp: int, in_helper: bool
) -> None:
    """As with a fetch, every later request for the directory's partitions receives the same error."""
    two_disks.lead("t")
    count = AT_ONCE.record_count + 1 if in_helper else 1
    assert produced(two_disks, produce(batch(*[b"x"] * count))).error_code == 0
    log = two_disks.services.replicas.logs.get(T0)
    assert log is not None
    path = Path(log.segments[0].path)
    if version == 0:
        path.unlink()
    elif in_helper:
        unreadable = os.open(path, os.O_WRONLY)
        begin = Helper.begin
        monkeypatch.setattr(Helper, "begin", lambda self, work, descriptor: begin(self, work, unreadable))
    else:
        monkeypatch.setattr(timestamp_search, "read_range", _fail)
    assert listed(two_disks, list_offsets(timestamp), version).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert two_disks.services.replicas.logs.get(T0) is None
    assert produced(two_disks, produce(batch(b"x"))).error_code == ErrorCode.KAFKA_STORAGE_ERROR


@pytest.mark.parametrize("in_helper", [False, True])
def test_a_disk_that_fails_while_records_are_converted_takes_its_directory_offline(
    two_disks: Harness, monkeypatch: pytest.MonkeyPatch, in_helper: bool
) -> None:
    """The request is Fetch version 3, whose response needs conversion."""
    two_disks.lead("t")
    count = AT_ONCE_RECORDS + 1 if in_helper else 1
    assert produced(two_disks, produce(batch(*[b"x"] * count))).error_code == 0
    log = two_disks.services.replicas.logs.get(T0)
    assert log is not None
    if in_helper:
        unreadable = os.open(log.segments[0].path, os.O_WRONLY)
        begin = Helper.begin
        monkeypatch.setattr(Helper, "begin", lambda self, work, descriptor: begin(self, work, unreadable))
    else:
        monkeypatch.setattr(Segment, "read", _fail)
    assert fetched(two_disks.ask(ApiKey.FETCH, 3, fetch(0))).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert two_disks.services.replicas.logs.get(T0) is None


def test_a_segment_that_retention_removes_during_a_lookup_is_no_disk_failure(two_disks: Harness) -> None:
    """The lookup searches the removed segment to its end, and the response is the same as without the removal."""
    two_disks.configs.topics["t"] = {"segment.bytes": "20000", "file.delete.delay.ms": "0", "retention.ms": "1"}
    two_disks.lead("t")
    many = AT_ONCE.record_count + 1
    for timestamp_ms in (1000, 2000):
        assert produced(two_disks, produce(batch(*[b"x"] * many, timestamp_ms=timestamp_ms))).error_code == 0
    log = two_disks.services.replicas.logs.get(T0)
    assert log is not None and len(log.segments) == 2
    running: list[tuple[Callable[[], object], Deferred[Any]]] = []

    def run_later(work: Callable[[], R]) -> "Deferred[R]":
        running.append((work, Deferred()))
        return running[-1][1]

    two_disks.services.replicas.run_in_thread = run_later
    answers: list[Any] = []
    two_disks.start(ApiKey.LIST_OFFSETS, 7, list_offsets(1000)).addCallback(answers.append)
    path = Path(log.segments[0].path)
    assert running and not answers
    assert log.delete_old_segments(10**15) == 2 and remove_due(log.segments, 10**15) == 2 and not path.exists()
    work, done = running.pop()
    work()
    done.callback(None)
    found = answers[0].topics[0].partitions[0]
    assert (found.error_code, found.offset) == (0, 0)
    assert two_disks.services.replicas.logs.get(T0) is log


def _fail(*_: object) -> None:
    raise OSError("the disk is gone")

"""The replica manager with real logs, without handlers and sockets."""

import gc
import uuid
import weakref
from array import array
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from twisted.internet.defer import Deferred, ensureDeferred

from kafka_zk.base.events import Event, EventSource
from kafka_zk.base.types import FetchIsolation, LogAppendInfo, TopicPartition
from kafka_zk.broker.metadata.cache import MetadataCache
from kafka_zk.broker.replica.delayed_produce import AppendResult, DelayedProduce
from kafka_zk.broker.replica.events import ControllerIgnored, ReplicasOffline, RoleChanged
from kafka_zk.broker.replica.manager import LeaderState, ReplicaManager
from kafka_zk.broker.replica.partition import LeaderAndIsrPartitionState, Partition, Role
from kafka_zk.broker.replica.purgatory import Purgatory
from kafka_zk.protocol import uuids
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.sim.machine.scheduler import VirtualClock
from kafka_zk.storage.files.errors import InvalidRecord
from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.manager.hosted_logs import LogCallbacks
from kafka_zk.storage.manager.log_manager import LogManager
from kafka_zk.storage.records.record_batch import RecordBatchBuilder

R = TypeVar("R")

T, U = TopicPartition("t", 0), TopicPartition("u", 0)
NOW_MS = 1_700_000_000_000
TOPIC_ID = uuid.UUID(int=7)
FLUSHED = {"flush.messages": "1"}


class World:
    """A manager whose threads wait until the test lets them run."""

    def __init__(self, folder: Path) -> None:
        self.told: list[Event] = []
        self.clock = VirtualClock(NOW_MS)
        self.waiting: list[tuple[Callable[[], object], Deferred[Any]]] = []
        self.logs = LogManager(
            [folder],
            LogConfig(),
            broker_id=0,
            cluster_id="c",
            clock_ms=lambda: 1_700_000_000_000,
            callbacks=LogCallbacks(
                on_directory_failure=lambda directory, error, lost: self.replicas.directory_failed(lost)
            ),
        )  # fmt: skip
        self.logs.start({})
        self.purgatory = Purgatory(self.clock)
        self.replicas = ReplicaManager(
            0, self.logs, self.clock, self.purgatory, self._run, MetadataCache(),
            EventSource("broker-0", self.told.append, self.clock.wall_ms),
        )  # fmt: skip

    def _run(self, work: Callable[[], R]) -> "Deferred[R]":
        self.waiting.append((work, Deferred()))
        return self.waiting[-1][1]

    def finish_one(self, error: OSError | None = None) -> None:
        work, done = self.waiting.pop(0)
        if error is not None:
            done.errback(error)
            return
        work()
        done.callback(None)

    def tell(self, tp: TopicPartition = T, properties: dict[str, str] | None = None, **changes: Any) -> ErrorCode:
        """Send LeaderAndIsr for one partition."""
        state = LeaderAndIsrPartitionState(0, 0, 1, 0, [0], [0], True)._replace(**changes)
        [(_, code)] = self.replicas.become_leader_or_follower([LeaderState(tp, TOPIC_ID, state, properties or {})])
        return code

    def append(self, *tps: TopicPartition, acks: int = -1) -> list[list[AppendResult]]:
        """Append one record to each partition; the results are appended to the list when they come."""
        answers: list[list[AppendResult]] = []
        batches = [(tp, record()) for tp in tps]
        ensureDeferred(self._append(batches, acks)).addCallback(answers.append)
        return answers

    async def _append(self, batches: list[tuple[TopicPartition, memoryview]], acks: int) -> list[AppendResult]:
        appended = await self.replicas.append_records(batches, acks)
        return await self.replicas.replicated(appended, 1000) if isinstance(appended, DelayedProduce) else appended


def record() -> memoryview:
    builder = RecordBatchBuilder()
    builder.append(1_700_000_000_000, None, b"x")
    return memoryview(bytearray(builder.build()))


def codes(results: list[AppendResult]) -> list[ErrorCode | int]:
    """The offset of each append, or its error code."""
    return [
        result.first_offset
        if isinstance(result, LogAppendInfo)
        else result.code if isinstance(result, ApiError) else ErrorCode.KAFKA_STORAGE_ERROR
        for result in results
    ]  # fmt: skip


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.replicas.batch_helpers.close()


@pytest.mark.parametrize("acks", [-1, 0, 1])
def test_an_append_without_a_flush_waits_for_nothing(world: World, acks: int) -> None:
    """The coroutine ends at its first step and creates no Deferred."""
    world.tell()
    with pytest.raises(StopIteration) as ended:
        world.replicas.append_records([(T, record()), (U, record())], acks).send(None)
    assert codes(ended.value.value) == [0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_other_acks_are_refused(world: World) -> None:
    """Nothing is appended."""
    world.tell()
    assert codes(world.append(T, acks=2)[0]) == [ErrorCode.INVALID_REQUIRED_ACKS]
    assert world.append(T)[0][0].first_offset == 0  # type: ignore[union-attr]


def test_records_that_are_refused_are_free_without_the_collector(world: World) -> None:
    """If references remained, twenty batches of 50 MB would stay in memory until the collector runs."""
    world.tell()
    buffer = array("B", bytes(100))
    gc.disable()
    try:
        answers: list[Any] = []
        ensureDeferred(world.replicas.append_records([(T, memoryview(buffer))], 1)).addCallback(answers.append)
        assert [type(result) for result in answers[0]] == [InvalidRecord]
        freed = weakref.ref(buffer)
        del buffer
        assert freed() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("acks", [-1, 1])
def test_an_append_is_answered_when_its_flush_is_done(world: World, acks: int) -> None:
    """Before its flush, the record is in the log but not readable."""
    world.tell(properties=FLUSHED)
    world.tell(U)
    answers = world.append(T, U, acks=acks)
    log = world.replicas.partition(T).leader_log()
    assert not answers and log.log_end_offset == 1
    assert log.readable_end(FetchIsolation.HIGH_WATERMARK) == 0 < log.readable_end(FetchIsolation.LOG_END)
    world.finish_one()
    assert codes(answers[0]) == [0, 0] and log.high_watermark == 1


@pytest.mark.parametrize("replicas", [(0,), (0, 1)])
def test_a_new_leader_counts_what_it_wrote_as_a_follower_when_it_is_durable(
    world: World, replicas: tuple[int, ...]
) -> None:
    """The broker was elected before its own flush was complete."""
    world.tell(leader=1, isr=(0, 1), replicas=(0, 1), properties=FLUSHED)
    log = world.replicas.partition(T).log
    assert log is not None
    log.append_as_follower(record(), now_ms=NOW_MS)
    world.tell(leader_epoch=1, isr=(0,), replicas=replicas, properties=FLUSHED)
    assert (log.high_watermark, log.recovery_point) == (0, 0)
    world.finish_one()
    assert (log.high_watermark, log.recovery_point) == (1, 1)


def test_an_append_behind_a_flush_waits_for_the_high_watermark_with_all_acks_only(world: World) -> None:
    """The topic no longer flushes each append, but one flush is in progress: later records are not committed yet."""
    world.tell(properties=FLUSHED)
    first = world.append(T)
    world.tell()
    assert codes(world.append(T, acks=1)[0]) == [1]
    behind = world.append(T)
    assert not first and not behind and world.purgatory.count == 1
    world.finish_one()
    assert codes(first[0]) == [0] and codes(behind[0]) == [2] and world.purgatory.count == 0


def test_waiting_for_the_high_watermark_ends_with_the_timeout_or_the_leadership(world: World) -> None:
    world.tell(properties=FLUSHED)
    world.append(T)
    world.tell()
    late = world.append(T)
    world.clock.advance(1)
    assert codes(late[0]) == [ErrorCode.REQUEST_TIMED_OUT]
    moved = world.append(T)
    assert world.replicas.stop_replica(T, -1, delete=False) == ErrorCode.NONE
    assert codes(moved[0]) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_a_disk_that_fails_in_a_flush_takes_back_what_it_had_taken(world: World) -> None:
    """All appends in the directory fail, including those to a partition without a pending flush."""
    world.tell(properties=FLUSHED)
    world.tell(U)
    answers = world.append(U, T)
    world.finish_one(OSError("the disk is gone"))
    assert codes(answers[0]) == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
    assert world.replicas.partition(T).role is Role.OFFLINE
    assert world.tell(leader_epoch=1) == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_batch_to_take_apart_is_appended_after_the_others(world: World) -> None:
    """Small batches are decoded immediately."""
    world.tell(properties={"compression.type": "gzip"})
    world.tell(U)
    assert codes(world.append(T, U, T)[0]) == [0, 0, 1]


def test_the_controller_makes_leaders_and_followers(world: World) -> None:
    """An older leader epoch changes nothing; a follower keeps its log."""
    assert world.tell(leader_epoch=3) == ErrorCode.NONE
    partition = world.replicas.partition(T)
    assert (partition.role, partition.leader_epoch) == (Role.LEADER, 3)
    assert world.tell(leader_epoch=2, leader=1) == ErrorCode.STALE_CONTROLLER_EPOCH
    assert world.tell(leader_epoch=4, leader=1) == ErrorCode.NONE
    assert partition.role is Role.FOLLOWER and partition.log is world.logs.get(T)
    assert codes(world.append(T)[0]) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_observers_hear_what_becomes_of_a_replica(world: World) -> None:
    """Each change is reported once; a repeated state is not."""
    world.tell()
    world.tell()
    world.tell(leader_epoch=1)
    world.replicas.accept_controller(5)
    world.replicas.accept_controller(4)
    world.replicas.directory_failed([T, U])
    assert world.told == [
        RoleChanged(NOW_MS, "broker-0", "LeaderAndIsr", 0, T, Role.LEADER, 0, None),
        RoleChanged(NOW_MS, "broker-0", "LeaderAndIsr", 0, T, Role.LEADER, 1, None),
        ControllerIgnored(NOW_MS, "broker-0", "an older epoch", 0, 4, 5),
        ReplicasOffline(NOW_MS, "broker-0", "a log directory failed", 0, (T,)),
    ]


def test_a_follower_opens_its_log_and_takes_the_leaders_high_watermark(world: World) -> None:
    """Clients are referred to the leader, because the log is for the leader's records."""
    followed: list[tuple[TopicPartition, Role]] = []
    world.replicas.role_listeners.append(lambda partition: followed.append((partition.tp, partition.role)))
    assert world.tell(replicas=[0, 1], isr=[0, 1], leader=1, leader_epoch=4) == ErrorCode.NONE
    partition = world.replicas.partition(T)
    assert followed == [(T, Role.FOLLOWER)]
    assert (partition.role, partition.leader, partition.leader_epoch) == (Role.FOLLOWER, 1, 4)
    assert codes(world.append(T)[0]) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert partition.log is not None
    partition.log.append_as_follower(record(), now_ms=NOW_MS)
    assert partition.log.high_watermark == 0
    partition.take_leader_high_watermark(3)
    assert partition.log.high_watermark == 1


def test_a_stopped_replica_is_hosted_no_more(world: World) -> None:
    world.tell(leader_epoch=3)
    partition = world.replicas.partition(T)
    assert world.replicas.stop_replica(T, 2, delete=True) == ErrorCode.FENCED_LEADER_EPOCH
    assert world.replicas.stop_replica(T, 3, delete=True) == ErrorCode.NONE
    assert partition.role is Role.STOPPED and T not in world.replicas.partitions and world.logs.get(T) is None


def test_an_append_is_not_acknowledged_by_a_later_term_of_the_same_leader(world: World) -> None:
    """During the flush, the broker lost the leadership, truncated the record, and regained the leadership."""
    world.tell(properties=FLUSHED)
    answers = world.append(T)
    world.tell(leader=1, leader_epoch=1, isr=(0, 1), replicas=(0, 1), properties=FLUSHED)
    log = world.logs.get(T)
    assert log is not None and log.log_end_offset == 1
    log.truncate_to(0)
    world.tell(leader_epoch=2, properties=FLUSHED)
    others = world.append(T)
    world.finish_one()
    world.finish_one()
    assert codes(others[0]) == [0]
    assert codes(answers[0]) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]


def test_a_raised_leader_epoch_of_the_same_leader_takes_nothing_back(world: World) -> None:
    """Replicas that are added raise the epoch, for example; the log stays unchanged."""
    world.tell(properties=FLUSHED)
    answers = world.append(T)
    world.tell(leader_epoch=1, properties=FLUSHED)
    world.finish_one()
    assert codes(answers[0]) == [0]


def test_a_log_that_no_controller_spoke_of_is_not_served_and_can_be_deleted(world: World) -> None:
    """The replica was removed, or its topic deleted, while this broker was dead. A log with another topic id is never
    taken for the current topic.
    """
    world.logs.get_or_create(T, topic_id=uuids.to_text(uuid.UUID(int=8)))
    with pytest.raises(ApiError) as refused:
        world.replicas.partition(T)
    assert refused.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert world.tell() == ErrorCode.INCONSISTENT_TOPIC_ID
    assert codes(world.append(T)[0]) == [ErrorCode.INCONSISTENT_TOPIC_ID]
    assert world.replicas.stop_replica(T, -1, delete=True) == ErrorCode.NONE
    assert world.logs.get(T) is None
    assert world.tell() == ErrorCode.NONE


def test_an_error_with_one_partition_spoils_no_other(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The error may come from opening its log or from a listener of roles."""
    heard: list[TopicPartition] = []

    def listener(partition: Partition) -> None:
        if partition.tp == T:
            raise KeyError("a mistake of a listener")

    world.replicas.role_listeners += [listener, lambda partition: heard.append(partition.tp)]
    state = LeaderAndIsrPartitionState(0, 0, 1, 0, [0], [0], True)
    asked = [LeaderState(tp, TOPIC_ID, state, {}) for tp in (T, U)]
    assert dict(world.replicas.become_leader_or_follower(asked)) == {T: 0, U: 0}
    assert heard == [T, U] and "a mistake of a listener" in caplog.text

    def mistake(*args: object, **named: object) -> None:
        raise KeyError("a mistake of ours")

    with monkeypatch.context() as patch:
        patch.setattr(world.logs, "get_or_create", mistake)
        assert world.tell(TopicPartition("t", 1)) == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "a mistake of ours" in caplog.text
    assert world.tell(TopicPartition("t", 1), leader_epoch=1) == ErrorCode.NONE


def test_a_topic_keeps_its_name_until_its_last_replica_goes(world: World) -> None:
    """The last replica may be deleted immediately, or stopped first and deleted later, as in a topic deletion."""
    other = TopicPartition("t", 1)
    world.tell(T)
    world.tell(other)
    world.replicas.stop_replica(T, -2, delete=True)
    assert world.replicas.topic_ids.name(TOPIC_ID) == "t"
    assert world.replicas.hosts(TOPIC_ID.bytes, 1)
    world.replicas.stop_replica(other, -2, delete=False)
    world.replicas.stop_replica(other, -2, delete=True)
    assert world.replicas.topic_ids.name(TOPIC_ID) is None


def test_a_topic_id_that_comes_later_reaches_whoever_goes_by_it(world: World) -> None:
    """Epoch and role stay: the controller's protocol was raised to one with ids."""
    heard: list[uuid.UUID] = []
    world.replicas.role_listeners.append(lambda partition: heard.append(partition.topic_id))
    state = LeaderAndIsrPartitionState(1, 0, 1, 0, [0, 1], [0, 1], True)
    for topic_id, code in ((uuids.ZERO, 0), (TOPIC_ID, 0), (TOPIC_ID, ErrorCode.STALE_CONTROLLER_EPOCH)):
        [(_, found)] = world.replicas.become_leader_or_follower([LeaderState(T, topic_id, state, {})])
        assert found == code
    assert heard == [uuids.ZERO, TOPIC_ID]
    assert world.replicas.topic_ids.name(TOPIC_ID) == "t"
    assert world.replicas.topic_ids.name(uuids.ZERO) is None

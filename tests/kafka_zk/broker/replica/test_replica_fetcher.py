"""A fetcher with a real log and a leader that a test plays."""

import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred, DeferredLock, fail

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.config.inter_broker_protocol import follower_versions
from kafka_zk.broker.replica.fetch_session_handler import FetchSessionHandler
from kafka_zk.broker.replica.fetcher_state import FetcherState
from kafka_zk.broker.replica.leader_endpoint import EARLIEST, LATEST, Connection, FetchLimits
from kafka_zk.broker.replica.partition import LeaderAndIsrPartitionState, Partition
from kafka_zk.broker.replica.remote_replicas import InSyncRule
from kafka_zk.broker.replica.replica_fetcher import FollowerHost
from kafka_zk.broker.replica.replica_fetcher_manager import ReplicaFetcherManager, ReplicaFetcherSettings
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.fetch import EpochEndOffset, FetchedPartition, FetchedTopic, FetchResponse, write_fetch_response
from kafka_zk.protocol.fetch_request import FetchPartition, FetchRequest, read_fetch_request
from kafka_zk.sim.machine.scheduler import VirtualClock
from kafka_zk.storage.files.errors import TooManyOpenFiles
from kafka_zk.storage.log.log import Log
from tests.storage.helpers import T0, append, batch, new_log

TP = TopicPartition("events", 0)
TOPIC_ID = uuid.UUID(int=7)
ME, LEADER, OTHER = 1, 2, 3
VERSION = 17


class Leader:
    """What a connection leads to: Fetch requests wait for the test, ``offsets`` answers ListOffsets."""

    def __init__(self, version: int = VERSION) -> None:
        self.connected_to_broker = True
        self.requests: list[FetchRequest] = []
        self.waiting: list[Deferred[memoryview]] = []
        self.offsets: dict[int, int] = {}
        self.asked: list[tuple[int, int]] = []
        self.epoch_ends: list[tuple[ErrorCode, EpochEndOffset]] = []  # the answers to OffsetForLeaderEpoch
        self.epochs_asked: list[int] = []
        self._version = version

    def send_raw(self, api_key: int, version: int, parts: Any) -> "Deferred[memoryview]":
        assert (api_key, version) == (ApiKey.FETCH, self._version)
        self.requests.append(read_fetch_request(version, memoryview(b"".join(parts))))
        self.waiting.append(Deferred())
        return self.waiting[-1]

    async def request(self, api_key: int, message: Any, *, version: int) -> Any:
        if api_key == ApiKey.OFFSET_FOR_LEADER_EPOCH:
            return self._epoch_end(message)
        assert (api_key, version) == (ApiKey.LIST_OFFSETS, 9)
        [topic] = message.topics
        [partition] = topic.partitions
        self.asked.append((partition.timestamp, partition.current_leader_epoch))
        found = _Named(partition_index=0, error_code=0, offset=self.offsets[partition.timestamp])
        return _Named(topics=[_Named(name=topic.name, partitions=[found])])

    def _epoch_end(self, message: Any) -> Any:
        [topic] = message.topics
        [partition] = topic.partitions
        self.epochs_asked.append(partition.leader_epoch)
        code, (epoch, end_offset) = self.epoch_ends.pop(0)
        found = _Named(partition=0, error_code=code, leader_epoch=epoch, end_offset=end_offset)
        return _Named(topics=[_Named(topic=topic.topic, partitions=[found])])

    def disconnect(self) -> None:
        self.connected_to_broker = False
        for waiting in self.waiting:
            if not waiting.called:
                waiting.errback(ConnectionError("closed"))

    def answer(self, *partitions: FetchedPartition, session_id: int = 9, error: int = 0) -> None:
        topics = [FetchedTopic(None, TOPIC_ID.bytes, partitions)] if partitions else []
        response = FetchResponse(topics, 0, error, session_id)
        parts = write_fetch_response(VERSION, 0, response)
        self.waiting[-1].callback(memoryview(b"".join(bytes(part) for part in parts))[5:])  # type: ignore[arg-type]

    @property
    def wanted(self) -> list[FetchPartition]:
        return [partition for topic in self.requests[-1].topics for partition in topic.partitions]


class _Named:
    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


class World:
    """Broker ME, which hosts ``events-0``."""

    def __init__(self, folder: Path, protocol: str = "3.9") -> None:
        self.clock = VirtualClock(T0)
        self.versions = follower_versions(protocol)
        self.leaders: dict[int, Leader] = {}
        self.changed: list[TopicPartition] = []
        self.failed: list[OSError] = []
        self.is_reachable = True
        self.in_threads: list[tuple[Callable[[], object], Deferred[Any]]] = []
        self.role_changes = DeferredLock()
        self.epoch_ends: list[tuple[ErrorCode, EpochEndOffset]] = []
        settings = ReplicaFetcherSettings(self.versions, FetchLimits(500, 1, 1 << 20), 1 << 20, 1.0)
        self.fetchers = ReplicaFetcherManager(
            ME, lambda: 44, self.clock, settings, self._connect, FollowerHost(
                self.changed.append, lambda log, error: self.failed.append(error), self.role_changes,
                self._run_in_thread,
            ),
        )  # fmt: skip
        self.log = new_log(folder)
        self.partition = Partition(ME, TP, InSyncRule(1000, lambda broker_id: True))
        self.partition.topic_id = TOPIC_ID
        self.partition.log = self.log

    def _connect(self, broker_id: int) -> Awaitable[Connection]:
        connected: Deferred[Connection] = Deferred()
        if not self.is_reachable:
            return fail(ConnectionRefusedError())
        self.leaders[broker_id] = Leader(self.versions.fetch)
        self.leaders[broker_id].epoch_ends = self.epoch_ends
        connected.callback(self.leaders[broker_id])
        return connected

    def _run_in_thread(self, work: Callable[[], Any]) -> Deferred[Any]:
        self.in_threads.append((work, Deferred()))
        return self.in_threads[-1][1]

    def lead(self, leader: int = LEADER, leader_epoch: int = 3, isr: Sequence[int] | None = None) -> None:
        """LeaderAndIsr: who leads now."""
        state = LeaderAndIsrPartitionState(leader, leader_epoch, 1, 0, isr or [leader, ME], [leader, ME])
        self.partition.take_state(state)
        self.partition.become(None, 0)
        self.fetchers.role_changed(self.partition)

    @property
    def leader(self) -> Leader:
        return self.leaders[LEADER]

    def answer(self, records: bytes = b"", high_watermark: int = 0, **fields: Any) -> None:
        fields.setdefault("log_start_offset", 0)
        self.leader.answer(FetchedPartition(0, 0, high_watermark, -1, records=records, **fields))

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path)
    yield world
    world.log.close()


def written(folder: Path, make: Callable[[Log], object]) -> bytes:
    """The bytes of a leader's log."""
    folder.mkdir()
    log = new_log(folder)
    make(log)
    data = b"".join(path.read_bytes() for path in sorted(log.directory.glob("*.log")))
    log.close()
    return data


def three_batches(log: Log) -> None:
    for epoch in (0, 0, 2):
        append(log, batch(5), leader_epoch=epoch)


def test_the_log_becomes_the_leaders(world: World, tmp_path: Path) -> None:
    """Byte by byte, with its epochs; the high watermark follows, and whoever waits for it is told."""
    data = written(tmp_path / "leader", three_batches)
    world.lead()
    [wanted] = world.leader.wanted
    assert wanted == FetchPartition(0, 0, 1 << 20, 3, -1, 0)
    assert world.leader.requests[0][:2] == (500, 1)
    assert world.leader.requests[0].replica_id == ME
    assert world.leader.requests[0].replica_epoch == 44
    world.answer(data, high_watermark=12)
    assert (world.log.directory / "00000000000000000000.log").read_bytes() == data
    assert world.log.leader_epochs.entries == [(0, 0), (2, 10)]
    assert (world.log.log_end_offset, world.log.high_watermark) == (15, 12)
    assert world.changed == [TP, TP]  # cut to its high watermark at first
    assert world.leader.wanted == [FetchPartition(0, 15, 1 << 20, 3, 2, 0)]
    assert (world.leader.requests[-1].session_id, world.leader.requests[-1].session_epoch) == (9, 1)
    assert world.fetchers.max_lag == 0


def test_what_is_to_be_flushed_is_durable_before_the_leader_hears_of_it(world: World, tmp_path: Path) -> None:
    """With flush.messages: a fetch from an offset says that this broker has what is before it."""
    world.log.update_config(replace(world.log.config, flush_messages=1))
    world.lead()
    world.answer(written(tmp_path / "leader", three_batches), high_watermark=10)
    assert world.log.log_end_offset == 15 and world.log.recovery_point == 0
    assert len(world.leader.requests) == 1
    [(work, done)] = world.in_threads
    done.callback(work())
    assert world.log.recovery_point == 15
    assert len(world.leader.requests) == 2 and world.leader.wanted[0].fetch_offset == 15


def test_an_answer_of_an_older_leader_epoch_is_not_applied(world: World, tmp_path: Path) -> None:
    data = written(tmp_path / "leader", three_batches)
    world.lead()
    world.lead(leader_epoch=4)
    world.answer(data, high_watermark=15)
    assert world.log.log_end_offset == 0
    assert world.leader.wanted[0].current_leader_epoch == 4


def test_another_leader_is_followed_over_another_connection(world: World, tmp_path: Path) -> None:
    """The old connection ends, and what comes over it counts for nothing."""
    world.lead()
    old = world.leader
    world.lead(OTHER, 4)
    assert not old.connected_to_broker
    assert world.leaders[OTHER].wanted[0].current_leader_epoch == 4


def test_whoever_becomes_leader_fetches_no_more(world: World) -> None:
    world.lead()
    world.lead(ME, 4)
    assert not world.leader.connected_to_broker


def test_what_the_leader_does_not_have_is_cut_off(world: World) -> None:
    """An unreplicated end of an old leader: records of an epoch that ended earlier at the new one."""
    three_batches(world.log)
    world.lead()
    world.answer(diverging_epoch=EpochEndOffset(0, 5), high_watermark=20)
    assert world.log.log_end_offset == 5
    assert world.log.high_watermark == 5  # the leader's is taken with the next answer
    assert world.leader.wanted[0][1:5] == (5, 1 << 20, 3, 0)


def test_an_epoch_without_records_is_given_up(world: World) -> None:
    """Or leader and follower would tell each other the same for ever."""
    three_batches(world.log)
    world.log.leader_epochs.begin(5, 15)
    world.lead(leader_epoch=6)
    assert world.leader.wanted[0].last_fetched_epoch == 5
    world.answer(diverging_epoch=EpochEndOffset(2, 15))
    assert world.leader.wanted[0].last_fetched_epoch == 2


def test_behind_the_leaders_start_the_log_begins_anew_with_the_batch_that_holds_it(
    world: World, tmp_path: Path
) -> None:
    """The leader's log starts in the middle of a batch: all of it is taken."""
    def late(log: Log) -> None:
        log.truncate_fully_and_start_at(62)
        append(log, batch(60), leader_epoch=2)

    three_batches(world.log)
    world.lead()
    world.leader.offsets = {LATEST: 122, EARLIEST: 100}
    world.leader.answer(FetchedPartition(0, ErrorCode.OFFSET_OUT_OF_RANGE))
    assert world.leader.asked == [(LATEST, 3), (EARLIEST, 3)]
    assert world.leader.wanted[0][1:] == (100, 1 << 20, 3, -1, 100, None)
    world.answer(written(tmp_path / "leader", late), high_watermark=122, log_start_offset=100)
    assert (world.log.log_start_offset, world.log.log_end_offset, world.log.high_watermark) == (100, 122, 122)
    assert world.log.segments[0].base_offset == 62


def test_ahead_of_the_leader_the_log_is_cut_to_its_end(world: World) -> None:
    three_batches(world.log)
    world.lead()
    world.leader.offsets = {LATEST: 10, EARLIEST: 0}
    world.leader.answer(FetchedPartition(0, ErrorCode.OFFSET_OUT_OF_RANGE))
    assert world.log.log_end_offset == 10
    assert world.leader.wanted[0].fetch_offset == 10


def test_within_a_batch_of_the_leader_the_log_is_cut_until_the_batches_fit(world: World, tmp_path: Path) -> None:
    """The leader has lost all of its log, and written anew in the same epoch: two batches, from 0 to 6 and to 21."""

    def anew(log: Log) -> None:
        append(log, batch(7), leader_epoch=2)
        append(log, batch(15), leader_epoch=2)

    leaders, second = written(tmp_path / "leader", anew), len(batch(7))
    for _ in range(3):  # from 0, 5 and 10 to 15
        append(world.log, batch(5), leader_epoch=2)
    world.lead()
    world.answer(leaders[second:], high_watermark=22)
    assert world.log.log_end_offset == 5
    world.answer(leaders, high_watermark=22)
    assert world.log.log_end_offset == 0
    world.answer(leaders, high_watermark=22)
    assert world.log.log_end_offset == 22
    assert (world.log.directory / "00000000000000000000.log").read_bytes() == leaders


def test_a_damaged_batch_is_never_appended(world: World, tmp_path: Path) -> None:
    """Nor what came with it; it is asked for again after a while."""
    data = bytearray(written(tmp_path / "leader", three_batches))
    data[-1] ^= 1
    world.lead()
    world.answer(bytes(data), high_watermark=15)
    assert world.log.log_end_offset == 0
    requests = len(world.leader.requests)
    world.pass_time(0.9)
    assert len(world.leader.requests) == requests
    world.pass_time(0.2)
    assert len(world.leader.requests) == requests + 1


def test_the_log_start_offset_follows_the_leaders(world: World, tmp_path: Path) -> None:
    three_batches(world.log)
    world.lead()
    world.answer(high_watermark=15, log_start_offset=7)
    assert world.log.log_start_offset == 7
    assert world.leader.wanted[0].log_start_offset == 7


def test_a_leader_that_does_not_answer_is_tried_again(world: World) -> None:
    world.is_reachable = False
    world.lead()
    assert world.leaders == {}
    world.is_reachable = True
    world.pass_time(1.1)
    assert world.leader.wanted[0].fetch_offset == 0
    world.leader.disconnect()
    world.pass_time(1.1)
    assert len(world.leader.requests) == 1  # over a new connection
    assert (world.leader.requests[-1].session_id, world.leader.requests[-1].session_epoch) == (0, 0)


def test_an_old_leader_epoch_is_not_fetched_any_more(world: World) -> None:
    world.lead()
    world.leader.answer(FetchedPartition(0, ErrorCode.FENCED_LEADER_EPOCH))
    world.pass_time(5)
    assert not world.leader.connected_to_broker
    world.lead(leader_epoch=4)
    assert world.leader.wanted[0].current_leader_epoch == 4


def test_records_in_remote_storage_are_not_asked_for_again(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """The leader is a broker of Apache Kafka with a tiered topic: one error for each leader epoch, no retry."""
    world.lead()
    world.leader.answer(FetchedPartition(0, ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE))
    requests = len(world.leader.requests)
    world.pass_time(60)
    assert len(world.leader.requests) == requests and not world.leader.connected_to_broker
    (told,) = [record for record in caplog.records if "remote storage" in record.getMessage()]
    assert told.levelname == "ERROR" and "stays out of the ISR" in told.getMessage()
    world.lead(leader_epoch=4)
    assert world.leader.wanted[0].current_leader_epoch == 4


def test_a_disk_that_refuses_takes_its_directory_offline(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Log, *args: object, **named: object) -> None:
        raise OSError(28, "No space left on device")

    world.lead()
    monkeypatch.setattr(Log, "append_as_follower", refuse)
    world.answer(written(tmp_path / "leader", three_batches))
    assert [error.errno for error in world.failed] == [28]
    assert not world.leader.connected_to_broker


@pytest.fixture
def err_in(world: World, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """An answer comes while these methods have a bug."""
    def mistake(*args: object) -> None:
        raise KeyError("a mistake of ours")

    def err(owner: type, *methods: str) -> None:
        world.lead()
        with monkeypatch.context() as patch:
            for method in methods:
                patch.setattr(owner, method, mistake)
            world.answer()

    return err


def raised(caplog: pytest.LogCaptureFixture) -> list[type[BaseException] | None]:
    """What was logged with its traceback."""
    return [record.exc_info[0] for record in caplog.records if record.exc_info]


def test_an_error_of_ours_ends_the_fetching_of_one_partition_only(
    world: World, err_in: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    """It is told with its traceback, and the next leader epoch begins anew."""
    err_in(FetcherState, "answered")
    assert caplog.text.count("is not fetched any more in this leader epoch") == 1
    assert raised(caplog) == [KeyError]
    assert world.fetchers.failed_count == 1
    world.pass_time(5)
    assert not world.leader.connected_to_broker
    world.lead(leader_epoch=4)
    assert world.leader.wanted[0].current_leader_epoch == 4
    assert world.fetchers.failed_count == 0


def test_an_error_of_the_loop_itself_is_told_and_does_not_end_all_fetching(
    world: World, err_in: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    """The partition of then counts as failed; one that comes is fetched."""
    err_in(FetchSessionHandler, "take_response", "failed")
    assert "the fetcher of broker 2 has stopped" in caplog.text and "KeyError" in caplog.text
    assert world.fetchers.failed_count == 1
    world.lead(leader_epoch=4)
    assert world.leader.wanted[0].current_leader_epoch == 4


def test_an_unexpected_error_of_a_request_is_told_with_its_traceback(
    world: World, err_in: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    """It was one line that looked as if the leader were away."""
    err_in(FetchSessionHandler, "take_response")
    assert raised(caplog) == [KeyError]
    world.pass_time(1.1)
    assert world.leader.wanted[0].current_leader_epoch == 3


def test_a_flush_without_a_descriptor_is_made_later(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And so is a flush after an error of ours: the leader is never told of what is not durable."""
    def no_descriptor(self: Log, *args: object) -> None:
        raise TooManyOpenFiles("no descriptor is free")

    world.log.update_config(replace(world.log.config, flush_messages=1))
    world.lead()
    with monkeypatch.context() as patch:
        patch.setattr(Log, "prepare_flush", no_descriptor)
        world.answer(written(tmp_path / "leader", three_batches), high_watermark=10)
    assert world.failed == []
    assert len(world.leader.requests) == 1
    world.pass_time(1.1)
    [(work, done)] = world.in_threads
    done.callback(work())
    assert len(world.leader.requests) == 2 and world.leader.wanted[0].fetch_offset == 15


def test_partitions_of_one_change_of_roles_are_asked_for_together(world: World) -> None:
    """Not the first one alone, while the others wait until the leader has answered."""
    held = world.role_changes.acquire()
    assert held.called
    world.lead()
    assert world.leaders == {}
    world.role_changes.release()
    assert len(world.leader.requests) == 1


def test_a_broker_that_is_about_to_stop_follows_only_where_it_is_in_sync(world: World) -> None:
    """Elsewhere it would catch up, and the leader wait for it until it hears that the broker is gone."""
    world.lead()
    world.fetchers.leave()
    world.lead(OTHER, 4)
    assert world.leaders[OTHER].wanted[0].current_leader_epoch == 4
    world.lead(LEADER, 5, isr=[LEADER])
    world.pass_time(2)
    assert not world.leader.connected_to_broker and len(world.leader.requests) == 1
    world.lead(LEADER, 6)
    assert world.leader.wanted[0].current_leader_epoch == 6


def test_a_stop_waits_for_what_is_under_way(world: World) -> None:
    world.lead()
    stopped: list[None] = []
    Deferred.fromCoroutine(world.fetchers.stop()).addCallback(stopped.append)
    assert stopped == [None]
    assert not world.leader.connected_to_broker
    world.lead(leader_epoch=4)
    assert len(world.leader.requests) == 1


# -- protocols below 2.7, with which a follower asks where the leader's epochs end ------------------------------------


@pytest.fixture
def old_world(tmp_path: Path) -> Iterator[World]:
    world = World(tmp_path, "2.6")
    three_batches(world.log)
    yield world
    world.log.close()


def test_a_leader_that_does_not_tell_its_epochs_yet_is_asked_again(old_world: World) -> None:
    """It may not know yet that it leads; nothing else would wake the fetcher."""
    old_world.epoch_ends += [(ErrorCode.UNKNOWN_LEADER_EPOCH, EpochEndOffset(-1, -1))]
    old_world.epoch_ends += [(ErrorCode.NONE, EpochEndOffset(2, 12))]
    old_world.lead()
    assert old_world.leader.epochs_asked == [2]
    old_world.pass_time(1.1)
    assert old_world.leader.epochs_asked == [2, 2]
    assert old_world.leader.wanted[0].fetch_offset == 10


def test_a_truncation_that_takes_several_questions_goes_on(old_world: World) -> None:
    """The leader names an epoch that the follower does not have."""
    old_world.epoch_ends += [(ErrorCode.NONE, EpochEndOffset(1, 12)), (ErrorCode.NONE, EpochEndOffset(0, 5))]
    old_world.lead()
    assert old_world.leader.epochs_asked == [2, 0]
    assert old_world.log.log_end_offset == 5
    assert old_world.leader.wanted[0].fetch_offset == 5

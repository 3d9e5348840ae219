"""A follower with a log and a fetcher, and a leader whose part the test plays."""

import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred, DeferredLock, fail

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.config.inter_broker_protocol import follower_versions
from kafka_zk.broker.replica.leader_endpoint import FetchLimits, LeaderConnection
from kafka_zk.broker.replica.partition import LeaderAndIsrPartitionState, Partition
from kafka_zk.broker.replica.remote_replicas import InSyncRule
from kafka_zk.broker.replica.remote_state import RemoteStateReader
from kafka_zk.broker.replica.replica_fetcher import FollowerHost
from kafka_zk.broker.replica.replica_fetcher_manager import ReplicaFetcherManager, ReplicaFetcherSettings
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.fetch import EpochEndOffset, FetchedPartition, FetchedTopic, FetchResponse, write_fetch_response
from kafka_zk.protocol.fetch_request import FetchPartition, FetchRequest, read_fetch_request
from kafka_zk.sim.machine.scheduler import VirtualClock
from kafka_zk.storage.log.log import Log
from tests.storage.helpers import T0, append, batch, new_log

TP = TopicPartition("events", 0)
TOPIC_ID = uuid.UUID(int=7)
ME = 1
LEADER = 2
OTHER = 3
VERSION = 17


class Leader:
    """The other end of a connection. Fetch requests wait for the test; ``offsets`` are the responses to ListOffsets."""

    def __init__(self, version: int = VERSION) -> None:
        self.connected_to_broker = True
        self.requests: list[FetchRequest] = []
        self.waiting: list[Deferred[memoryview]] = []
        self.offsets: dict[int, int] = {}
        self.local_epoch = 0  # the leader epoch in those responses
        self.asked: list[tuple[int, int]] = []
        self.epoch_ends: list[tuple[ErrorCode, EpochEndOffset]] = []  # the responses to OffsetForLeaderEpoch
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
        offset = self.offsets[partition.timestamp]
        found = _Named(partition_index=0, error_code=0, offset=offset, leader_epoch=self.local_epoch)
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

    def __init__(self, folder: Path, protocol: str = "3.9", remote_state: RemoteStateReader | None = None) -> None:
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
                self._run_in_thread, remote_state,
            ),
        )  # fmt: skip
        self.log = new_log(folder)
        self.partition = Partition(ME, TP, InSyncRule(1000, lambda broker_id: True))
        self.partition.topic_id = TOPIC_ID
        self.partition.log = self.log

    def _connect(self, broker_id: int) -> Awaitable[LeaderConnection]:
        connected: Deferred[LeaderConnection] = Deferred()
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
        """Apply a LeaderAndIsr that names the leader."""
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

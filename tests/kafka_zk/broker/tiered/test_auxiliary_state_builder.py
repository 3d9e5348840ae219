"""How a follower begins if its leader has the next records in remote storage only."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import ensureDeferred

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.replica.leader_endpoint import EARLIEST_LOCAL
from kafka_zk.broker.replica.partition import Partition
from kafka_zk.broker.replica.remote_state import Leader, RemoteState, RemoteStateUnavailable
from kafka_zk.broker.tiered.auxiliary_state_builder import AuxiliaryStateBuilder
from kafka_zk.broker.tiered.storage_calls import StorageCalls
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.protocol.fetch import FetchedPartition
from kafka_zk.storage.log.producer_snapshot import decode_snapshot
from tests.kafka_zk.broker.replica.fetched_leader import World, written
from tests.kafka_zk.broker.tiered.tiered_broker import T, TieredBroker
from tests.storage.helpers import append, batch

MOVED = FetchedPartition(0, ErrorCode.OFFSET_MOVED_TO_TIERED_STORAGE)


class Asked:
    """A follower's leader; its responses come from the log of ``broker``."""

    def __init__(self, broker: TieredBroker) -> None:
        self._log = broker.log

    async def earliest_local(self, tp: TopicPartition, leader_epoch: int) -> tuple[int, int]:
        offset = self._log.local_log_start_offset
        return offset, self._log.leader_epochs.epoch_for_offset(offset)

    async def epoch_end(self, tp: TopicPartition, leader_epoch: int, epoch: int) -> tuple[int, int]:
        return self._log.end_offset_for_epoch(epoch)


@pytest.fixture
def broker(tmp_path: Path) -> TieredBroker:
    """A broker whose offsets 0 to 7 are only in remote storage, in epochs 0 and 2. Producer 7 wrote offsets 5 to 7."""
    broker = TieredBroker(tmp_path)
    broker.fill(5)
    for number in range(3):
        sent = batch(value=b"x" * 40, producer_id=7, producer_epoch=0, base_sequence=number)
        append(broker.log, sent, leader_epoch=2)
    append(broker.log, batch(), leader_epoch=2)
    broker.log.follow_log_end()
    broker.run()
    assert broker.log.local_log_start_offset == 8
    return broker


def new_builder(broker: TieredBroker) -> AuxiliaryStateBuilder:
    return AuxiliaryStateBuilder(broker.metadata, broker.storage, StorageCalls(broker.clock, broker.threads, 1, 1))


def read(broker: TieredBroker, leader: Leader | None = None, builder: AuxiliaryStateBuilder | None = None) -> Any:
    builder = builder or new_builder(broker)
    found: list[Any] = []
    reading = builder.read(broker.replicas.partitions[T], 2, leader or Asked(broker))
    ensureDeferred(reading).addErrback(lambda failure: failure.value).addCallback(found.append)
    return found[0] if found else None


def test_a_follower_begins_after_the_remote_records(broker: TieredBroker) -> None:
    """The follower takes the leader epochs, and the producers' state at that offset, from remote storage."""
    state = read(broker)
    assert (state.start_offset, state.leader_epochs) == (8, [(0, 0), (2, 5)])
    assert [each.last_offset for each in decode_snapshot(state.snapshot)] == [7]


def test_reads_of_the_state_are_counted(broker: TieredBroker) -> None:
    builder = new_builder(broker)
    read(broker, builder=builder)
    for path in broker.remote_folder.rglob("*.snapshot"):
        path.unlink()
    read(broker, builder=builder)
    assert (builder.rates.requests, builder.rates.errors) == (2, 1)


def test_a_segment_that_the_leader_does_not_share_gives_no_producers(broker: TieredBroker) -> None:
    """The end of the segment was written by a leader whose records were lost."""

    class Elsewhere(Asked):
        async def epoch_end(self, tp: TopicPartition, leader_epoch: int, epoch: int) -> tuple[int, int]:
            return 1, 7

    state = read(broker, Elsewhere(broker))
    assert (state.start_offset, state.snapshot) == (8, None)


@pytest.mark.parametrize("suffix", ["snapshot", "leader_epoch_checkpoint"])
@pytest.mark.parametrize("content", [None, b"damaged"])
def test_state_that_is_missing_or_damaged_is_read_again_later(
    broker: TieredBroker, suffix: str, content: bytes | None
) -> None:
    for path in list(broker.remote_folder.rglob(f"*.{suffix}")):
        path.unlink()
        if content is not None:
            path.write_bytes(content)
    assert isinstance(read(broker), RemoteStateUnavailable)


def test_a_segment_that_is_not_known_is_looked_for_again_later(broker: TieredBroker) -> None:
    class Ahead(Asked):
        async def earliest_local(self, tp: TopicPartition, leader_epoch: int) -> tuple[int, int]:
            return 100, 2

    assert isinstance(read(broker, Ahead(broker)), RemoteStateUnavailable)


class Reader:
    """``state``: the result; None: remote storage is unavailable."""

    def __init__(self) -> None:
        self.state: RemoteState | None = None
        self.asked: list[tuple[int, int]] = []

    async def read(self, partition: Partition, leader_epoch: int, leader: Leader) -> RemoteState:
        self.asked.append(await leader.earliest_local(partition.tp, leader_epoch))
        if self.state is None:
            raise RemoteStateUnavailable("not now")
        return self.state


@pytest.fixture
def reader() -> Reader:
    return Reader()


@pytest.fixture
def world(tmp_path: Path, reader: Reader) -> Iterator[World]:
    """A new replica of a tiered topic."""
    world = World(tmp_path, remote_state=reader)
    world.log.update_config(
        replace(world.log.config, remote_storage_enable=True, remote_log_storage_system_enable=True)
    )
    yield world
    world.log.close()


def test_a_new_replica_begins_from_remote_storage(
    world: World, reader: Reader, broker: TieredBroker, tmp_path: Path
) -> None:
    """The replica then fetches the records that follow."""
    snapshot = read(broker).snapshot
    reader.state = RemoteState(8, [(0, 0), (2, 5)], snapshot)
    world.lead()
    world.leader.offsets = {EARLIEST_LOCAL: 8}
    world.leader.local_epoch = 2
    world.leader.answer(MOVED)
    assert reader.asked == [(8, 2)]
    log = world.log
    assert (log.log_start_offset, log.local_log_start_offset, log.log_end_offset) == (0, 8, 8)
    assert log.leader_epochs.entries == [(0, 0), (2, 5)]
    assert log.producers.producers[7].last_offset == 7
    [wanted] = world.leader.wanted
    assert (wanted.fetch_offset, wanted.last_fetched_epoch, wanted.log_start_offset) == (8, 2, 0)

    sent = bytearray(written(tmp_path / "leader", lambda log: append(log, batch(3), leader_epoch=2)))
    sent[:8] = (8).to_bytes(8, "big")
    world.answer(bytes(sent), high_watermark=11, log_start_offset=4)
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (4, 11, 11)
    assert log.leader_epochs.entries == [(0, 4), (2, 5)]


def test_remote_state_that_is_unavailable_is_asked_for_again(
    world: World, reader: Reader, caplog: pytest.LogCaptureFixture
) -> None:
    """The follower asks again after the backoff, with another fetch. The problem is logged once."""
    world.lead()
    world.leader.offsets = {EARLIEST_LOCAL: 8}
    for _ in range(3):
        world.leader.answer(MOVED)
        assert world.log.log_end_offset == 0
        world.pass_time(1.1)
    assert len(reader.asked) == 3
    (told,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert told.getMessage() == "the remote state of events-0 could not be read, trying again later: not now"
    world.leader.answer(MOVED)
    requests = len(world.leader.requests)
    reader.state = RemoteState(8, [(0, 0)], None)
    world.pass_time(1.1)
    assert len(world.leader.requests) == requests + 1
    world.leader.answer(MOVED)
    assert world.log.log_end_offset == 8


def test_state_of_an_earlier_leader_epoch_is_not_taken(
    world: World, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def late(partition: Partition, leader_epoch: int, leader: Leader) -> RemoteState:
        world.lead(leader_epoch=4)
        return RemoteState(8, [(0, 0)], None)

    monkeypatch.setattr(reader, "read", late)
    world.lead()
    world.leader.answer(MOVED)
    assert world.log.log_end_offset == 0
    assert world.leader.wanted[0].current_leader_epoch == 4


def test_a_new_replica_is_tiered_if_its_leader_is(world: World, reader: Reader) -> None:
    """Kafka's tools turned tiering off in ZooKeeper. If the replica were not tiered, it would request the records
    forever."""
    world.log.update_config(replace(world.log.config, remote_storage_enable=False))
    reader.state = RemoteState(8, [(0, 0)], None)
    world.lead()
    world.leader.offsets = {EARLIEST_LOCAL: 8}
    world.leader.answer(MOVED)
    assert (world.log.log_end_offset, reader.asked, world.log.config.is_tiered) == (8, [(8, 0)], True)

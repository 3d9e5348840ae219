"""Offsets that transactions commit: pending until the marker, fenced by generation and epoch, loaded again."""

import random
import struct
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from twisted.internet.defer import Deferred, ensureDeferred

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.group.loading import LoadedPartition
from kafka_zk.broker.group.offset_manager import Codes, Committer
from kafka_zk.broker.group.partitions import OFFSETS_TOPIC
from kafka_zk.broker.group.records import OffsetAndMetadata
from kafka_zk.broker.group.transactional_offsets import Producer
from kafka_zk.broker.handlers.transactions.write_txn_markers import write
from kafka_zk.broker.replica.transaction_markers import TransactionMarker, batch_of
from kafka_zk.broker.replica.transaction_verification import TransactionToVerify
from kafka_zk.protocol.errors import ErrorCode
from kafka_zk.storage.records.record_batch import (
    CONTROL_FLAG,
    NO_SEQUENCE,
    TRANSACTIONAL_FLAG,
    RecordBatchBuilder,
    assemble_batch,
    iter_batches,
    read_header,
)
from tests.kafka_zk.broker.group.coordinated import EPOCH_MS, NO_DELAY, P0, T0, T1, World, committed, done

NONE = ErrorCode.NONE
UNSTABLE = ErrorCode.UNSTABLE_OFFSET_COMMIT
P = Producer(7, 0)


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path, replace(NO_DELAY, metadata_max_bytes=5))
    made.lead()
    return made


def commit(
    world: World,
    offsets: dict[TopicPartition, OffsetAndMetadata],
    *committer: Any,
    producer: Producer = P,
    group: str = "g",
) -> Codes:
    codes: Codes = done(
        world.coordinator.transactional_commits.commit(
            group, Committer(*committer), TransactionToVerify("x", *producer), offsets
        )
    )
    return codes


def commit_plainly(world: World, offsets: dict[TopicPartition, OffsetAndMetadata], group: str = "g") -> None:
    assert set(done(world.coordinator.offsets.commit(group, Committer(), offsets)).values()) == {NONE}


def write_marker(world: World, producer: Producer = P, *, is_committed: bool) -> None:
    """Append a marker as the receiver of WriteTxnMarkers does."""
    marker = RecordBatchBuilder(
        producer_id=producer.producer_id, producer_epoch=producer.producer_epoch, base_sequence=NO_SEQUENCE,
        transactional=True, control=True,
    )  # fmt: skip
    marker.append(EPOCH_MS, struct.pack(">hh", 0, int(is_committed)), struct.pack(">hi", 0, 0))
    data = bytearray(marker.build())
    world.log.append_as_leader(data, read_header(data), leader_epoch=0, now_ms=EPOCH_MS, from_client=False)


def end(world: World, producer: Producer = P, *, is_committed: bool = True) -> None:
    write_marker(world, producer, is_committed=is_committed)
    told = TransactionMarker(producer.producer_id, producer.producer_epoch, 0, is_committed)
    offset = world.log.log_end_offset - 1
    world.coordinator.transactional_commits.markers_written(P0, offset, [batch_of(told, EPOCH_MS)])


def fetch(world: World, *wanted: TopicPartition, group: str = "g", stable: bool = False) -> dict[Any, Any]:
    error, found = world.coordinator.offsets.find(group)
    assert error is NONE
    offsets: dict[Any, Any] = {}
    for tp in wanted or found:
        known = found.get(tp)
        offsets[tp] = None if known is None else known.offset
        if stable and found.is_pending(tp):
            offsets[tp] = UNSTABLE
    return offsets


def restart(world: World) -> None:
    world.stop()
    world.start()
    world.lead(epoch=world.replicas.controller_epoch + 5)


def test_offsets_of_a_transaction_count_from_its_commit_on(world: World) -> None:
    """Until the commit, a fetch returns the old offsets, and a fetch that requires stable offsets gets a retriable
    error (KIP-447).
    """
    commit_plainly(world, {T0: committed(3)})
    assert commit(world, {T0: committed(7), T1: committed(8)}) == {T0: NONE, T1: NONE}
    assert fetch(world, T0, T1) == {T0: 3, T1: None}
    assert fetch(world, T0, T1, stable=True) == {T0: UNSTABLE, T1: UNSTABLE}
    end(world)
    assert fetch(world, T0, T1, stable=True) == {T0: 7, T1: 8}
    restart(world)
    assert fetch(world, T0, T1, stable=True) == {T0: 7, T1: 8}


def test_offsets_of_an_aborted_transaction_never_count(world: World) -> None:
    """A fetch that requires stable offsets gets the old ones."""
    commit_plainly(world, {T0: committed(3)})
    commit(world, {T0: committed(7)})
    end(world, is_committed=False)
    assert fetch(world, T0, stable=True) == {T0: 3}
    restart(world)
    assert fetch(world, T0, stable=True) == {T0: 3}


def listed(world: World) -> list[str]:
    return [each.group_id for each in done(world.coordinator.list_groups())[1]]


def test_a_group_that_only_had_an_aborted_transaction_is_listed_until_the_cleanup(world: World) -> None:
    commit(world, {T0: committed(7)})
    end(world, is_committed=False)
    assert listed(world) == ["g"]
    done(world.coordinator.offsets.remove_expired())
    assert listed(world) == []


def test_of_the_groups_that_no_transaction_committed_the_newest_1000_are_listed(world: World) -> None:
    """A client may send any number of group ids. A group with committed offsets always stays."""
    refused = ErrorCode.UNKNOWN_MEMBER_ID
    commit(world, {T0: committed(7)})
    end(world)
    for number in range(1_100):
        assert commit(world, {T0: committed(1)}, "m", None, 1, group=f"g{number}") == {T0: refused}
    assert sorted(listed(world)) == sorted(["g", *(f"g{number}" for number in range(100, 1_100))])
    assert world.coordinator._manager.memory.used_bytes == 0
    world.lead(leader=1, epoch=1)
    world.turns()
    assert world.coordinator._manager.groups == {} == world.coordinator._manager._kept


def test_records_are_a_batch_of_the_transaction(world: World) -> None:
    """The batch has the producer's id and epoch and sequence 0, as Kafka writes it."""
    commit(world, {T0: committed(7)})
    found = world.log.read(0, 1 << 20).slice
    assert found is not None
    ((_, header),) = iter_batches(found.read())
    assert header.is_transactional and not header.is_control
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 0, 0)


def test_a_transaction_may_commit_several_times(world: World) -> None:
    """The last commit of a partition wins."""
    for offset in (1, 5, 9):
        assert commit(world, {T0: committed(offset)}) == {T0: NONE}
    end(world)
    assert fetch(world) == {T0: 9}


def test_an_old_epoch_is_fenced_by_the_log(world: World) -> None:
    """A zombie commits although its successor has already written."""
    commit(world, {T0: committed(7)}, producer=Producer(7, 1))
    assert commit(world, {T0: committed(6)}) == {T0: ErrorCode.INVALID_PRODUCER_EPOCH}
    end(world, Producer(7, 1))
    assert fetch(world) == {T0: 7}


def test_a_refused_batch_leaves_nothing_pending(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Offsets that are not in the log must not delay fetches of stable offsets."""
    later: Deferred[Any] = Deferred()
    monkeypatch.setattr(world.replicas, "append_own", lambda *_: later)
    answer = ensureDeferred(
        world.coordinator.transactional_commits.commit(
            "g", Committer(), TransactionToVerify("x", *P), {T0: committed(7)}
        )
    )
    assert fetch(world, T0, stable=True) == {T0: UNSTABLE}
    later.callback(OSError("no"))
    assert done(answer) == {T0: ErrorCode.NOT_COORDINATOR}
    assert fetch(world, T0, stable=True) == {T0: None}
    assert world.coordinator._manager.open_transactions.of(0, 7) == []


def test_only_members_of_the_generation_commit(world: World) -> None:
    """A client that sends no generation, as before 2.5, may still commit here, unlike with OffsetCommit."""
    member = world.stable_member()
    wanted = {T0: committed(7)}
    assert commit(world, wanted, member.member_id, None, member.generation_id) == {T0: NONE}
    assert commit(world, wanted, member.member_id, None, member.generation_id + 1) == {
        T0: ErrorCode.ILLEGAL_GENERATION
    }
    assert commit(world, wanted, "stranger", None, member.generation_id) == {T0: ErrorCode.UNKNOWN_MEMBER_ID}
    assert commit(world, wanted, "", "other", member.generation_id) == {T0: ErrorCode.UNKNOWN_MEMBER_ID}
    assert commit(world, wanted) == {T0: NONE}
    assert commit(world, wanted, "m", None, 1, group="new") == {T0: ErrorCode.UNKNOWN_MEMBER_ID}
    assert commit(world, wanted, group="") == {T0: ErrorCode.INVALID_GROUP_ID}
    assert listed(world) == ["g", "new"]


def test_long_metadata_are_refused_and_the_rest_is_stored(world: World) -> None:
    assert commit(world, {T0: committed(1, "123456"), T1: committed(2)}) == {
        T0: ErrorCode.OFFSET_METADATA_TOO_LARGE,
        T1: NONE,
    }
    assert commit(world, {T0: committed(1, "123456")}) == {T0: ErrorCode.OFFSET_METADATA_TOO_LARGE}


def test_the_order_in_the_log_counts_not_that_of_the_ends(world: World) -> None:
    """A plain commit that follows the transaction's in the log wins, whenever the transaction ends, both now and after
    a restart.
    """
    commit(world, {T0: committed(7)})
    commit_plainly(world, {T0: committed(9)})
    end(world)
    assert fetch(world) == {T0: 9}
    restart(world)
    assert fetch(world) == {T0: 9}


def test_open_transactions_are_loaded(world: World) -> None:
    """The new coordinator knows the pending offsets and ends their transaction."""
    commit_plainly(world, {T1: committed(1)})
    commit(world, {T0: committed(7), T1: committed(8)})
    commit_plainly(world, {T1: committed(9)})
    restart(world)
    assert fetch(world, T0, T1, stable=True) == {T0: UNSTABLE, T1: UNSTABLE}
    end(world)
    assert fetch(world, T0, T1, stable=True) == {T0: 7, T1: 9}


def test_a_marker_that_compaction_has_emptied_says_nothing(world: World) -> None:
    """The cleaner keeps the header of a producer's last batch."""
    commit(world, {T0: committed(7)})
    end(world)
    commit(world, {T1: committed(8)})
    emptied = assemble_batch(
        b"", attributes=TRANSACTIONAL_FLAG | CONTROL_FLAG, record_count=0, base_timestamp=-1, max_timestamp=EPOCH_MS,
        producer=(8, 0, NO_SEQUENCE), base_offset=world.log.log_end_offset, partition_leader_epoch=0,
        last_offset_delta=0,
    )  # fmt: skip
    world.log.append_as_follower(memoryview(emptied), now_ms=EPOCH_MS)
    restart(world)
    assert fetch(world, T0, T1, stable=True) == {T0: 7, T1: UNSTABLE}


def test_a_marker_that_comes_while_groups_are_loaded_counts(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a change of leaders both coordinators load at the same time, so the marker may come after the log was read.
    """
    commit(world, {T0: committed(7)}, group="g")
    commit(world, {T0: committed(8)}, group="h", producer=Producer(8, 0))
    read = LoadedPartition.load_steps

    def read_and_end(loaded: LoadedPartition, *where: Any) -> Iterator[None]:
        yield from read(loaded, *where)
        end(world)
        end(world, is_committed=False)  # of a transaction that committed no offsets here
        end(world, Producer(8, 0), is_committed=False)

    monkeypatch.setattr(LoadedPartition, "load_steps", read_and_end)
    restart(world)
    assert fetch(world, T0, group="g", stable=True) == {T0: 7}
    assert fetch(world, T0, group="h", stable=True) == {T0: None}
    assert commit(world, {T0: committed(9)}) == {T0: NONE}
    assert fetch(world, T0, stable=True) == {T0: UNSTABLE}


def test_a_marker_of_another_partition_changes_nothing(world: World) -> None:
    """A transaction may have offsets of groups in several partitions; each partition has its own marker."""
    commit(world, {T0: committed(7)})
    for other in (TopicPartition(OFFSETS_TOPIC, 1), TopicPartition("t", 0)):
        told = batch_of(TransactionMarker(7, 0, 0, True), EPOCH_MS)
        world.coordinator.transactional_commits.markers_written(other, 9, [told])
    assert fetch(world, T0, stable=True) == {T0: UNSTABLE}


def test_a_deleted_group_takes_pending_offsets_with_it(world: World) -> None:
    commit_plainly(world, {T0: committed(3)})
    commit(world, {T0: committed(7)})
    assert done(world.coordinator.delete("g")) is NONE
    end(world)
    assert done(world.coordinator.list_groups())[1] == []


@pytest.mark.parametrize("seed", range(60))
def test_random_histories_agree_with_a_model_and_with_the_log(tmp_path: Path, seed: int) -> None:
    """Several producers and groups commit, with plain commits in between and restarts at any point."""
    rng = random.Random(seed)
    world = World(tmp_path, NO_DELAY)
    world.lead()
    groups = ["a", "b"]
    tps = [T0, T1, TopicPartition("u", 3)]
    model: dict[tuple[str, TopicPartition], tuple[int, int]] = {}  # (place in the history, offset)
    pending: dict[int, dict[tuple[str, TopicPartition], tuple[int, int]]] = {}
    for place in range(rng.randint(5, 60)):
        group, tp, offset = rng.choice(groups), rng.choice(tps), rng.randrange(1000)
        producer_id = rng.randrange(3)
        roll = rng.random()
        if roll < 0.35:
            assert commit(world, {tp: committed(offset)}, producer=Producer(producer_id, 0), group=group) == {tp: NONE}
            pending.setdefault(producer_id, {})[group, tp] = place, offset
        elif roll < 0.6:
            commit_plainly(world, {tp: committed(offset)}, group)
            model[group, tp] = place, offset
        elif roll < 0.9:
            is_committed = rng.random() < 0.6
            end(world, Producer(producer_id, 0), is_committed=is_committed)
            for key, found in pending.pop(producer_id, {}).items():
                if is_committed:
                    model[key] = max(model.get(key, (-1, 0)), found)
        else:
            restart(world)
        unstable = {key for offsets in pending.values() for key in offsets}
        for each in groups:
            expected: dict[Any, Any] = {tp: model[each, tp][1] if (each, tp) in model else None for tp in tps}
            assert fetch(world, *tps, group=each) == expected
            stable = {tp: UNSTABLE if (each, tp) in unstable else expected[tp] for tp in tps}
            assert fetch(world, *tps, group=each, stable=True) == stable
    assert world.replicas.partition(P0).leader_log().log_end_offset > 0


def test_an_offset_that_a_transaction_is_about_to_replace_does_not_expire(world: World) -> None:
    """If the old offset expired, the new offset would be lost, because it precedes the tombstone in the log."""
    commit_plainly(world, {T0: committed(3), T1: committed(4)})
    world.clock.advance(NO_DELAY.retention_ms / 1000 + 1)
    assert commit(world, {T0: committed(7, at_ms=world.clock.wall_ms())}) == {T0: NONE}
    ensureDeferred(world.coordinator.offsets.remove_expired())
    world.turns()
    assert fetch(world, T0, T1) == {T0: 3, T1: None}
    end(world)
    assert fetch(world, T0) == {T0: 7}
    restart(world)
    assert fetch(world, T0) == {T0: 7}


class Flushes:
    """Each append to ``__consumer_offsets`` is flushed in a thread; the test decides which flush completes first."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self._world = world
        self._begun: list[tuple[Callable[[], object], Deferred[None]]] = []
        monkeypatch.setattr(world.replicas, "run_in_thread", self._run_in_thread)
        world.replicas.marker_listeners.append(world.coordinator.transactional_commits.markers_written)
        self._services: Any = SimpleNamespace(replicas=world.replicas, clock=world.clock)

    def _run_in_thread(self, work: Callable[[], object]) -> Deferred[None]:
        done: Deferred[None] = Deferred()
        self._begun.append((work, done))
        return done

    def finish(self, number: int) -> None:
        work, done = self._begun[number]
        work()
        done.callback(None)
        self._world.turns(3)

    def commit(self, offsets: dict[TopicPartition, OffsetAndMetadata], epoch: int) -> Any:
        transaction = TransactionToVerify("x", 7, epoch)
        return ensureDeferred(
            self._world.coordinator.transactional_commits.commit("g", Committer(), transaction, offsets)
        )

    def mark(self, epoch: int, *, is_committed: bool) -> Any:
        written = write(self._services, [(TransactionMarker(7, epoch, 0, is_committed), [P0])])
        assert isinstance(written, Coroutine), "the commit waits for its flush"
        return ensureDeferred(written)


@pytest.mark.parametrize("is_committed", [True, False], ids=["commit", "abort"])
def test_a_marker_that_is_flushed_before_the_offsets_before_it_ends_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_committed: bool
) -> None:
    """A marker ends everything before it in the log; the producer's next transaction has its own marker."""
    world = World(tmp_path, replace(NO_DELAY, metadata_max_bytes=5))
    world.lead(properties={"flush.messages": "1"})
    flushes = Flushes(world, monkeypatch)
    committing = flushes.commit({T0: committed(7)}, epoch=0)
    ending = flushes.mark(epoch=1, is_committed=is_committed)
    flushes.finish(1)
    assert ending.result == {7: {P0: NONE}}
    flushes.finish(0)
    assert committing.result == {T0: NONE}
    found = 7 if is_committed else None
    assert fetch(world, T0, stable=True) == {T0: found}, "no offset waits for a marker"
    assert world.coordinator._manager.open_transactions.of(0, 7) == []
    again = flushes.commit({T1: committed(1)}, epoch=2)
    flushes.finish(2)
    ending = flushes.mark(epoch=2, is_committed=True)
    flushes.finish(3)
    assert again.result == {T1: NONE} and ending.result == {7: {P0: NONE}}
    assert fetch(world, T0, T1, stable=True) == {T0: found, T1: 1}


def test_a_marker_that_is_told_late_leaves_the_next_transaction_alone(world: World) -> None:
    commit(world, {T0: committed(7)})
    write_marker(world, is_committed=True)
    late = world.log.log_end_offset - 1
    end(world)  # the coordinator has sent the marker again
    commit(world, {T0: committed(8)})
    told = batch_of(TransactionMarker(7, 0, 0, True), EPOCH_MS)
    world.coordinator.transactional_commits.markers_written(P0, late, [told])
    assert fetch(world, T0) == {T0: 7} and fetch(world, T0, stable=True) == {T0: UNSTABLE}
    end(world, is_committed=False)
    assert fetch(world, T0, stable=True) == {T0: 7}
    commit(world, {T0: committed(9)})
    end(world)
    assert fetch(world, T0, stable=True) == {T0: 9}


def test_offsets_of_transactions_have_the_bound_of_all(tmp_path: Path) -> None:
    """A refusal for another reason keeps its own error code."""
    world = World(tmp_path, replace(NO_DELAY, offsets_max_bytes=100))
    world.lead()
    large = committed(1)._replace(metadata="m" * 4000)
    assert commit(world, {T0: large}) == {T0: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    world.lead(leader=1, epoch=1)
    assert commit(world, {T0: large}) == {T0: ErrorCode.NOT_COORDINATOR}

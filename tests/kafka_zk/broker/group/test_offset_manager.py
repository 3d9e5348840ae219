"""Committed offsets: written, read, deleted, expired, and loaded again."""

import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred, ensureDeferred

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.group.coordinator import MemberIdentity
from kafka_zk.broker.group.offset_manager import Codes, Committer
from kafka_zk.broker.group.records import OffsetAndMetadata, OffsetKeys, encode_group_key, encode_offset_value
from kafka_zk.broker.replica.manager import LeaderState
from kafka_zk.broker.replica.partition import LeaderAndIsrPartitionState
from kafka_zk.protocol.errors import ApiError, ErrorCode
from kafka_zk.storage.records.log_validator import validate_batch
from kafka_zk.storage.records.record_batch import RecordBatchBuilder
from tests.kafka_zk.broker.group.coordinated import EPOCH_MS, NO_DELAY, P0, T0, T1, World, committed, done

NONE = ErrorCode.NONE
MINUTE_MS = 60_000


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path, replace(NO_DELAY, metadata_max_bytes=5, retention_ms=10 * MINUTE_MS))
    made.lead()
    return made


def commit(
    world: World, offsets: dict[TopicPartition, OffsetAndMetadata], *committer: Any, group: str = "g"
) -> Codes:
    codes: Codes = done(world.coordinator.offsets.commit(group, Committer(*committer), offsets))
    return codes


def fetch(world: World, *wanted: TopicPartition, group: str = "g", require_stable: bool = False) -> dict[Any, Any]:
    error, found = world.coordinator.offsets.find(group)
    assert error is NONE
    offsets = {}
    for tp in wanted or found:
        committed = found.get(tp)
        offsets[tp] = None if committed is None else committed.offset
        if require_stable and found.is_pending(tp):
            offsets[tp] = ErrorCode.UNSTABLE_OFFSET_COMMIT
    return offsets


def restart(world: World) -> None:
    world.stop()
    world.start()
    world.lead(epoch=world.replicas.controller_epoch + 5)


def test_what_is_committed_is_fetched_also_after_a_restart(world: World) -> None:
    assert commit(world, {T0: committed(7), T1: committed(8)}) == {T0: NONE, T1: NONE}
    assert commit(world, {T0: committed(9)}) == {T0: NONE}
    for _ in range(2):
        assert fetch(world) == {T0: 9, T1: 8}
        assert fetch(world, T0, TopicPartition("x", 0)) == {T0: 9, TopicPartition("x", 0): None}
        assert fetch(world, T0, group="other") == {T0: None}
        restart(world)


def test_long_metadata_are_refused_and_the_rest_is_stored(world: World) -> None:
    codes = commit(world, {T0: committed(7, "123456"), T1: committed(8, "12345")})
    assert codes == {T0: ErrorCode.OFFSET_METADATA_TOO_LARGE, T1: NONE}
    assert fetch(world) == {T1: 8}


def test_only_members_of_the_generation_commit(world: World) -> None:
    joined = world.stable_member()
    assert commit(world, {T0: committed(1)}) == {T0: ErrorCode.UNKNOWN_MEMBER_ID}
    assert commit(world, {T0: committed(1)}, joined.member_id, None, 2) == {T0: ErrorCode.ILLEGAL_GENERATION}
    assert commit(world, {T0: committed(1)}, "m", None, 1, group="new") == {T0: ErrorCode.ILLEGAL_GENERATION}
    assert commit(world, {T0: committed(1)}, joined.member_id, None, 1) == {T0: NONE}


def test_a_commit_shows_that_a_member_lives(world: World) -> None:
    joined = world.stable_member()
    for _ in range(4):
        world.clock.advance(8)
        assert commit(world, {T0: committed(1)}, joined.member_id, None, 1) == {T0: NONE}
    assert world.heartbeat(joined) is NONE


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REQUEST_TIMED_OUT),
    ],
)
def test_a_commit_that_fails_leaves_the_offset_as_it_was(
    world: World, monkeypatch: pytest.MonkeyPatch, failure: ErrorCode, told: ErrorCode
) -> None:
    async def append(*_: object) -> ApiError:
        return ApiError(failure)

    commit(world, {T0: committed(1)})
    monkeypatch.setattr(world.replicas, "append_own", append)
    assert commit(world, {T0: committed(2)}) == {T0: told}
    assert fetch(world, require_stable=True) == {T0: 1}


@pytest.mark.parametrize("partitions", [1, 200])
@pytest.mark.parametrize("is_slow", [False, True])
def test_a_commit_that_fails_leaves_no_group_behind(
    world: World, monkeypatch: pytest.MonkeyPatch, is_slow: bool, partitions: int
) -> None:
    """If such groups stayed, clients with invented group ids would fill the memory while too few replicas are in
    sync.
    """
    refused = ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)

    async def append(*_: object) -> ApiError:
        return refused

    monkeypatch.setattr(world.replicas, "append_own", append if is_slow else lambda *_: refused)
    offsets = {TopicPartition("t", number): committed(1) for number in range(partitions)}
    assert set(commit(world, offsets).values()) == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert done(world.coordinator.list_groups()) == (NONE, [])


def test_a_bug_under_a_commit_ends_the_request(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker then closes the connection; otherwise, the request would stay in memory."""

    def fail(*arguments: Any) -> Any:
        raise AssertionError("a bug")

    monkeypatch.setattr(world.coordinator._manager.appends, "store_offsets", fail)
    failure = done(world.coordinator.offsets.commit("g", Committer(), {T0: committed(1)}))
    assert failure.check(AssertionError)


def test_too_many_offsets_for_one_batch(world: World) -> None:
    many = {TopicPartition("t" * 200, number): committed(1) for number in range(5_000)}
    assert set(commit(world, many).values()) == {ErrorCode.INVALID_COMMIT_OFFSET_SIZE}


def test_an_offset_that_is_being_written_is_not_stable(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    commit(world, {T0: committed(1)})
    appended: Deferred[Any] = Deferred()

    async def append(*_: object) -> Any:
        return await appended

    monkeypatch.setattr(world.replicas, "append_own", append)
    begun = ensureDeferred(world.coordinator.offsets.commit("g", Committer(), {T0: committed(2)}))
    assert fetch(world, T0, require_stable=True) == {T0: ErrorCode.UNSTABLE_OFFSET_COMMIT}
    assert fetch(world, T0) == {T0: 1}
    appended.callback(ApiError(ErrorCode.REQUEST_TIMED_OUT))
    assert begun.result == {T0: ErrorCode.REQUEST_TIMED_OUT}
    assert fetch(world, T0, require_stable=True) == {T0: 1}


def test_offsets_of_topics_that_are_read_are_not_deleted(world: World) -> None:
    joined = world.stable_member()
    other = TopicPartition("u", 0)
    commit(world, {T0: committed(1), other: committed(2)}, joined.member_id, None, 1)
    codes = {T0: ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, other: NONE}
    assert world.coordinator.offsets.delete("g", [T0, other]) == (NONE, codes)
    assert fetch(world) == {T0: 1}
    assert world.coordinator.offsets.delete("x", [T0])[0] is ErrorCode.GROUP_ID_NOT_FOUND
    restart(world)
    assert fetch(world) == {T0: 1}


def test_a_group_of_others_than_consumers_keeps_its_offsets(world: World) -> None:
    world.join(protocol_type="connect")
    assert world.coordinator.offsets.delete("g", [T0]) == (ErrorCode.NON_EMPTY_GROUP, {})


def test_a_group_that_only_keeps_offsets_goes_with_the_last_one(world: World) -> None:
    commit(world, {T0: committed(1)})
    assert world.coordinator.offsets.delete("g", [T0]) == (NONE, {T0: NONE})
    assert world.coordinator.describe("g").state == "Dead"
    assert [record.value for record in world.records()[1:]] == [None]
    assert encode_group_key("g") not in [record.key for record in world.records()]


def test_deleted_partitions_take_their_offsets_with_them(world: World) -> None:
    commit(world, {T0: committed(1), T1: committed(2)})
    done(world.coordinator.offsets.partitions_deleted([T0]))
    assert fetch(world) == {T1: 2}
    restart(world)
    assert fetch(world) == {T1: 2}


def test_offsets_of_a_group_without_members_expire(world: World) -> None:
    """The retention counts from when the group became empty, not from the commit."""
    joined = world.stable_member()
    commit(world, {T0: committed(1)}, joined.member_id, None, 1)
    world.coordinator.leave("g", [MemberIdentity(joined.member_id)])
    world.clock.advance(599)
    done(world.coordinator.offsets.remove_expired())
    assert fetch(world) == {T0: 1}
    world.clock.advance(2)
    done(world.coordinator.offsets.remove_expired())
    assert world.coordinator.describe("g").state == "Dead"
    assert [record.value for record in world.records()[-2:]] == [None, None]  # the tombstones of offset and group


def test_offsets_of_a_simple_consumer_expire_after_their_commit(world: World) -> None:
    commit(world, {T0: committed(1), T1: committed(2, at_ms=EPOCH_MS + MINUTE_MS)})
    world.clock.advance(601)
    done(world.coordinator.offsets.remove_expired())
    assert fetch(world) == {T1: 2}


def test_an_empty_group_without_offsets_is_forgotten(world: World) -> None:
    joined = world.stable_member()
    world.coordinator.leave("g", [MemberIdentity(joined.member_id)])
    done(world.coordinator.offsets.remove_expired())
    assert done(world.coordinator.list_groups())[1] == []
    restart(world)
    assert done(world.coordinator.list_groups())[1] == []


def test_offsets_of_transactions_count_when_they_are_committed(world: World) -> None:
    """A broker of Apache Kafka may have left such offsets in its folder."""
    log = world.log
    for producer_id, offset in ((1, 11), (2, 22), (3, 33)):
        batch = RecordBatchBuilder(producer_id=producer_id, producer_epoch=0, base_sequence=0, transactional=True)
        tp = TopicPartition("t", producer_id)
        batch.append(EPOCH_MS, OffsetKeys("g").encode(tp), encode_offset_value(committed(offset)))
        append_raw(world, batch)
    for producer_id, kind in ((1, 1), (2, 0)):  # a commit and an abort; the third transaction stays open
        marker = RecordBatchBuilder(
            producer_id=producer_id, producer_epoch=0, base_sequence=-1, transactional=True, control=True
        )
        marker.append(EPOCH_MS, b"\0\0\0" + bytes([kind]), b"\0\0\0\0\0\0")
        append_raw(world, marker)
    assert log.log_end_offset == 5
    restart(world)
    assert fetch(world) == {TopicPartition("t", 1): 11}


def append_raw(world: World, batch: RecordBatchBuilder) -> None:
    data = bytearray(batch.build())
    world.log.append_as_leader(data, validate_batch(data), leader_epoch=0, now_ms=EPOCH_MS, from_client=False)


def test_many_records_are_loaded_with_the_last_of_each(world: World) -> None:
    for number in range(50):
        commit(world, {TopicPartition("t", partition): committed(number) for partition in range(100)})
    restart(world)
    assert set(fetch(world).values()) == {49} and len(fetch(world)) == 100
    assert world.replicas.partition(P0).leader_log().log_end_offset == 5000


def test_keys_that_resemble_each_other_are_told_apart_when_they_are_loaded(world: World) -> None:
    """Most keys differ from the previous key only in the partition, and take a shortcut."""
    at = [("g", "t", 0), ("g", "t", 1), ("g", "u", 1), ("h", "t", 1), ("gt", "t", 2), ("g", "t", -1), ("g", "t", 2)]
    records: list[tuple[bytes, bytes | None]] = [
        (OffsetKeys(group).encode(TopicPartition(topic, partition)), encode_offset_value(committed(number)))
        for number, (group, topic, partition) in enumerate(at)
    ]
    records.insert(1, (OffsetKeys("g").encode(TopicPartition("t", 7)) + b"more", encode_offset_value(committed(70))))
    records.insert(3, (OffsetKeys("g").encode(TopicPartition("t", 8)), encode_offset_value(committed(80, "text"))))
    world.write(*records)
    restart(world)
    for number, (group, topic, partition) in enumerate(at):
        tp = TopicPartition(topic, partition)
        assert fetch(world, tp, group=group) == {tp: number}
    assert fetch(world, TopicPartition("t", 7), TopicPartition("t", 8)) == {
        TopicPartition("t", 7): 70, TopicPartition("t", 8): 80,
    }  # fmt: skip


def test_a_key_of_version_0_means_what_one_of_version_1_means(world: World) -> None:
    """Compaction keeps the last version-0 record of a log that a 0.8.2 broker began, beside later records."""
    keys = {tp: OffsetKeys("g").encode(tp) for tp in (T0, T1)}
    old = {tp: b"\0\0" + key[2:] for tp, key in keys.items()}
    world.write(*((key, encode_offset_value(committed(1))) for key in old.values()))
    world.write((keys[T0], encode_offset_value(committed(2))), (keys[T1], None))
    restart(world)
    assert fetch(world) == {T0: 2}


def test_committed_offsets_have_a_bound(tmp_path: Path) -> None:
    """In an earlier version, 50,000 groups with 4 KB of metadata took 454 MB. A partition with a committed offset may
    commit again.
    """
    world = World(tmp_path, replace(NO_DELAY, offsets_max_bytes=100_000))
    world.lead()
    manager = world.coordinator._manager
    large = committed(1)._replace(metadata="m" * 4000)
    codes = [commit(world, {T0: large}, group=f"g{number}")[T0] for number in range(20)]
    taken = codes.count(NONE)
    assert codes == [NONE] * taken + [ErrorCode.COORDINATOR_NOT_AVAILABLE] * (20 - taken)
    assert 5 < taken < 20
    assert 80_000 < manager.offsets_memory.used_bytes <= 100_000
    assert commit(world, {T0: large}, group="g0") == {T0: NONE}
    assert done(world.coordinator.delete("g1")) is NONE
    assert commit(world, {T0: large}, group="new") == {T0: NONE}
    used_bytes = manager.offsets_memory.used_bytes
    world.stop()
    assert manager.offsets_memory.used_bytes == 0
    world.start()
    world.lead(epoch=world.replicas.controller_epoch + 5)
    assert world.coordinator._manager.offsets_memory.used_bytes == used_bytes


def test_a_deletion_that_is_not_written_is_not_called_done(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    async def append(*_: object) -> ApiError:
        return ApiError(ErrorCode.REQUEST_TIMED_OUT)

    commit(world, {T0: committed(1)})
    assert done(world.coordinator._manager.appends.remove(0, "g", [T0], with_group=True)) is NONE
    monkeypatch.setattr(world.replicas, "append_own", append)
    removal = world.coordinator._manager.appends.remove(0, "g", [T0], with_group=True)
    assert done(removal) is ErrorCode.REQUEST_TIMED_OUT


def test_the_role_of_another_topics_partition_says_nothing_of_groups(world: World) -> None:
    commit(world, {T0: committed(1)})
    state = LeaderAndIsrPartitionState(1, 1, 1, 0, [1], [0, 1], True)
    other = LeaderState(TopicPartition("t", 0), uuid.UUID(int=1), state, {})
    assert [code for _, code in world.replicas.become_leader_or_follower([other])] == [NONE]
    assert fetch(world) == {T0: 1}

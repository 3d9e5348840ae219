"""The driver of groups: what it loads, writes and responds, and when it wakes a group."""

import logging
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kafka_zk.base.client_gone import ClientGone
from kafka_zk.broker.group.config import CoordinatorConfig, GroupConfig
from kafka_zk.broker.group.coordinator import MemberIdentity
from kafka_zk.broker.group.memory import held_bytes
from kafka_zk.broker.group.records import (
    GroupKey,
    GroupMetadataValue,
    StoredMember,
    decode_group_value,
    decode_key,
    encode_group_key,
    encode_group_value,
)
from kafka_zk.broker.group.subscription import MAX_TOPICS, subscribed_topics
from kafka_zk.protocol.errors import ApiError, ErrorCode
from tests.kafka_zk.broker.group.coordinated import NO_DELAY, SESSION_MS, World, done, now


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.lead()
    return made


def test_nothing_is_answered_before_the_partition_is_led(tmp_path: Path) -> None:
    world = World(tmp_path)
    assert world.join().error is ErrorCode.NOT_COORDINATOR
    world.lead()
    assert world.join().error is ErrorCode.NONE
    world.lead(leader=1, epoch=1)
    assert world.join().error is ErrorCode.NOT_COORDINATOR
    world.lead(epoch=2)
    assert world.join().error is ErrorCode.NONE


def test_a_group_without_a_name_is_invalid(world: World) -> None:
    assert world.join(group="").error is ErrorCode.INVALID_GROUP_ID
    assert world.coordinator.leave("", []).error is ErrorCode.INVALID_GROUP_ID
    assert world.coordinator.describe("").error is ErrorCode.NONE


@pytest.mark.parametrize(("session_ms", "allowed"), [(5_999, False), (6_000, True), (1_800_001, False)])
def test_session_timeouts_have_bounds(world: World, session_ms: int, allowed: bool) -> None:
    expected = ErrorCode.NONE if allowed else ErrorCode.INVALID_SESSION_TIMEOUT
    assert world.join(session_timeout_ms=session_ms).error is expected


def test_member_ids_begin_with_the_client_id_or_the_instance_id(world: World) -> None:
    assert world.join(client_id="app").member_id.startswith("app-")
    assert world.join(group="h", group_instance_id="one").member_id.startswith("one-")


def test_a_known_member_of_an_unknown_group_is_unknown(world: World) -> None:
    assert world.join("c-1").error is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.coordinator.heartbeat("g", "c-1", None, 1) is ErrorCode.UNKNOWN_MEMBER_ID
    left = world.coordinator.leave("g", [MemberIdentity("c-1")])
    assert (left.error, left.members[0][1]) == (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID)


def test_a_stable_group_is_in_the_log(world: World) -> None:
    joined = world.stable_member()
    [record] = world.records()
    assert decode_key(record.key or b"") == GroupKey("g")
    stored = decode_group_value(record.value or b"")
    assert (stored.generation_id, stored.leader) == (1, joined.member_id)
    assert [(member.member_id, member.assignment) for member in stored.members] == [(joined.member_id, b"all")]


def test_the_initial_delay_is_waited_for(tmp_path: Path) -> None:
    world = World(tmp_path, CoordinatorConfig(GroupConfig(initial_rebalance_delay_ms=3000), partition_count=1))
    world.lead()
    first = world.begin_join()
    world.clock.advance(2)
    assert not first.called
    second = world.begin_join()
    world.clock.advance(1)
    assert not first.called  # another member joined
    world.clock.advance(3)
    joined = [now(first), now(second)]
    assert {each.generation_id for each in joined} == {1}
    assert sum(len(each.members) for each in joined) == 2  # only the leader receives the members


def test_a_silent_member_is_removed_when_its_session_is_over(world: World) -> None:
    joined = world.stable_member()
    for _ in range(5):
        world.clock.advance(SESSION_MS / 1000 - 1)
        assert world.heartbeat(joined) is ErrorCode.NONE
    world.clock.advance(SESSION_MS / 1000 + 0.001)
    assert world.heartbeat(joined) is ErrorCode.UNKNOWN_MEMBER_ID
    assert world.coordinator.describe("g").state == "Empty"
    assert decode_group_value(world.records()[-1].value or b"").members == ()


def test_one_timer_for_each_group(world: World) -> None:
    """Heartbeats create no further timers."""
    joined = world.stable_member()
    for _ in range(20):
        world.clock.advance(0.1)
        world.heartbeat(joined)
    assert len(world.clock.getDelayedCalls()) == 1


def test_a_join_whose_client_is_gone_is_forgotten(world: World) -> None:
    world.stable_member()
    waiting = world.begin_join()
    awaited = world.coordinator._manager.replies
    assert len(awaited) == 1
    [reply] = awaited._waiting.values()
    reply.abandon()
    failure = now(waiting)
    assert failure.check(ClientGone) and len(awaited) == 0


def test_a_restart_keeps_the_group(world: World, tmp_path: Path) -> None:
    """Members keep their ids, and their session timeouts restart."""
    joined = world.stable_member()
    world.stop()
    world.start()
    assert world.heartbeat(joined) is ErrorCode.NOT_COORDINATOR
    world.lead(epoch=1)
    assert world.heartbeat(joined) is ErrorCode.NONE
    assert world.sync(joined).assignment == b"all"
    world.clock.advance(SESSION_MS / 1000 + 0.001)
    assert world.heartbeat(joined) is ErrorCode.UNKNOWN_MEMBER_ID


def test_while_a_partition_is_loaded_clients_are_told_to_wait(world: World) -> None:
    joined = world.stable_member()
    world.stop()
    world.start()
    lock = world.coordinator._manager._loads.acquire()  # another partition is being loaded
    world.lead(epoch=1)
    assert world.heartbeat(joined) is ErrorCode.NONE
    assert world.sync(joined).error is ErrorCode.REBALANCE_IN_PROGRESS
    assert world.join().error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert world.coordinator.describe("g").error is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert done(world.coordinator.list_groups()) == (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, [])
    now(lock).release()
    world.turns()
    assert world.coordinator.describe("g").state == "Stable"


def test_a_lead_that_is_lost_while_it_is_loaded_is_not_taken(world: World) -> None:
    world.stable_member()
    world.stop()
    world.start()
    lock = world.coordinator._manager._loads.acquire()
    world.lead(epoch=1)
    world.lead(leader=1, epoch=2)
    now(lock).release()
    world.turns()
    assert world.coordinator.describe("g").error is ErrorCode.NOT_COORDINATOR
    assert not world.coordinator._manager.groups


def test_whoever_waits_is_told_when_the_lead_is_lost(world: World) -> None:
    world.stable_member()
    waiting = world.begin_join()
    world.lead(leader=1, epoch=1)
    assert now(waiting).error is ErrorCode.NOT_COORDINATOR
    assert not world.clock.getDelayedCalls()


def test_records_that_make_no_sense_are_skipped_with_one_line(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    joined = world.stable_member()
    world.write((b"\0", b"x"), (encode_group_key("bad"), b"\0\x03junk"), (b"\0\x09", b"a key of the future"))
    world.stop()
    world.start()
    with caplog.at_level(logging.ERROR, "kafka_zk.broker.group.metadata_manager"):
        world.lead(epoch=1)
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    assert caplog.messages[0].startswith("__consumer_offsets-0: 3 records were skipped, the first at offset 1: ")
    assert world.heartbeat(joined) is ErrorCode.NONE


@pytest.mark.parametrize("protocol_name", ["range", None])
def test_a_group_that_contradicts_itself_is_skipped(
    world: World, caplog: pytest.LogCaptureFixture, protocol_name: str | None
) -> None:
    """The other groups of its partition are loaded."""
    joined = world.stable_member()
    member = StoredMember("m", "one", "c", "/h", 1, 1, b"", b"")
    value = GroupMetadataValue("consumer", 1, protocol_name, "m", -1, (member, replace(member, member_id="n")))
    world.write((encode_group_key("twice"), encode_group_value(value)))
    world.stop()
    world.start()
    with caplog.at_level(logging.ERROR, "kafka_zk.broker.group.metadata_manager"):
        world.lead(epoch=1)
    assert len(caplog.messages) == 1
    assert world.heartbeat(joined) is ErrorCode.NONE
    assert world.coordinator.describe("twice").state == "Dead"


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.REBALANCE_IN_PROGRESS),
    ],
)
def test_an_assignment_that_cannot_be_stored_is_nobodys(
    world: World, monkeypatch: pytest.MonkeyPatch, failure: ErrorCode, told: ErrorCode
) -> None:
    async def append(*_: object) -> ApiError:
        return ApiError(failure)

    joined = world.join()
    monkeypatch.setattr(world.replicas, "append_own", append)
    assert world.sync(joined, {joined.member_id: b"all"}).error is told
    assert world.coordinator.describe("g").state == "PreparingRebalance"


def test_groups_are_listed_by_state_and_type(world: World) -> None:
    world.stable_member("g")
    world.join(group="h")
    _, groups = done(world.coordinator.list_groups())
    assert [tuple(group) for group in groups] == [
        ("g", "consumer", "Stable"), ("h", "consumer", "CompletingRebalance"),
    ]  # fmt: skip
    assert [group.group_id for group in done(world.coordinator.list_groups(["STABLE"]))[1]] == ["g"]
    assert len(done(world.coordinator.list_groups(types=["Classic"]))[1]) == 2
    assert done(world.coordinator.list_groups(types=["consumer"]))[1] == []


def test_a_group_is_described_with_its_members_only_while_it_is_stable(world: World) -> None:
    joined = world.join()
    before = world.coordinator.describe("g")
    assert (before.state, before.protocol_name, before.members[0].assignment) == ("CompletingRebalance", "", b"")
    world.sync(joined, {joined.member_id: b"all"})
    described = world.coordinator.describe("g")
    assert (described.protocol_type, described.protocol_name) == ("consumer", "range")
    assert (described.members[0].client_host, described.members[0].assignment) == ("/127.0.0.1", b"all")
    assert world.coordinator.describe("x").state == "Dead"


def test_only_groups_without_members_are_deleted(world: World) -> None:
    joined = world.stable_member()
    assert done(world.coordinator.delete("g")) is ErrorCode.NON_EMPTY_GROUP
    assert world.coordinator.leave("g", [MemberIdentity(joined.member_id)]).members[0][1] is ErrorCode.NONE
    assert done(world.coordinator.delete("g")) is ErrorCode.NONE
    assert done(world.coordinator.delete("g")) is ErrorCode.GROUP_ID_NOT_FOUND
    assert (world.records()[-1].key, world.records()[-1].value) == (encode_group_key("g"), None)
    world.stop()
    world.start()
    world.lead(epoch=1)
    assert done(world.coordinator.list_groups())[1] == []


def test_a_full_group_takes_nobody(tmp_path: Path) -> None:
    world = World(tmp_path, CoordinatorConfig(GroupConfig(0, max_size=1), partition_count=1))
    world.lead()
    world.stable_member()
    assert world.join().error is ErrorCode.GROUP_MAX_SIZE_REACHED


@pytest.mark.parametrize("properties", [{"cleanup.policy": "compact"}, {"flush.messages": "1"}])
def test_our_batches_are_appended_as_they_are(tmp_path: Path, properties: dict[str, str]) -> None:
    """The batches are not decoded again; the request waits for a flush."""
    world = World(tmp_path, NO_DELAY)
    world.lead(properties=properties)
    world.stable_member()
    assert len(world.records()) == 1


NOT_UTF8 = "\ufffd" * 20_000
"""The decoded form of 20,000 bytes that are not UTF-8. Encoded again, it takes three times as many bytes."""


def test_a_group_id_that_no_record_can_hold_is_invalid(world: World) -> None:
    """If the coordinator accepted the id, the group's leader would wait indefinitely, because the group cannot be
    stored.
    """
    assert world.join(group=NOT_UTF8).error is ErrorCode.INVALID_GROUP_ID
    assert world.coordinator.describe(NOT_UTF8).error is ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("fields", [{"protocol_type": NOT_UTF8}, {"protocols": ((NOT_UTF8, b""),)}])
def test_a_protocol_that_no_record_can_hold_is_refused(world: World, fields: dict[str, Any]) -> None:
    assert world.join(**fields).error is ErrorCode.INVALID_REQUEST


def test_what_members_hold_has_a_bound(tmp_path: Path) -> None:
    """New members receive a retriable error; existing members stay, and those that leave free their memory."""
    world = World(tmp_path, replace(NO_DELAY, members_max_bytes=100_000))
    world.lead()
    metadata = (("range", bytes(20_000)),)
    joined = [world.join(group=f"g{number}", protocols=metadata) for number in range(6)]
    assert [each.error for each in joined] == [ErrorCode.NONE] * 4 + [ErrorCode.COORDINATOR_NOT_AVAILABLE] * 2
    assert world.join(joined[0].member_id, "g0", protocols=metadata).error is ErrorCode.NONE
    larger = world.join(joined[1].member_id, "g1", protocols=(("range", bytes(50_000)),))
    assert larger.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    for number in range(4):
        world.coordinator.leave(f"g{number}", [MemberIdentity(joined[number].member_id)])
    assert world.coordinator._manager.memory.used_bytes == 0
    assert world.join(group="g4", protocols=metadata).error is ErrorCode.NONE


def test_a_static_member_that_comes_back_replaces_what_it_held(tmp_path: Path) -> None:
    world = World(tmp_path, replace(NO_DELAY, members_max_bytes=30_000))
    world.lead()
    fields: dict[str, Any] = {"group_instance_id": "i", "protocols": (("range", bytes(20_000)),)}
    joined = world.join(**fields)
    world.sync(joined, {joined.member_id: b"all"})
    assert world.join(group="other", protocols=fields["protocols"]).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    again = world.join(**fields)
    assert (again.error, again.generation_id) == (ErrorCode.NONE, joined.generation_id)
    assert again.member_id != joined.member_id
    larger = world.join(group_instance_id="i", protocols=(("range", bytes(40_000)),))
    assert larger.error is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_full_group_refuses_a_static_member_that_does_not_know_its_id(tmp_path: Path) -> None:
    """Kafka's acceptJoiningMember refuses it as well, although the member would replace itself."""
    world = World(tmp_path, replace(NO_DELAY, group=GroupConfig(initial_rebalance_delay_ms=0, max_size=1)))
    world.lead()
    joined = world.join(group_instance_id="i")
    world.sync(joined, {joined.member_id: b"all"})
    assert world.join(group_instance_id="i").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert world.join(joined.member_id, group_instance_id="i").error is ErrorCode.NONE


def test_ids_that_nobody_joins_with_have_a_bound(tmp_path: Path) -> None:
    """When the ids expire, nothing of their groups remains."""
    world = World(tmp_path, replace(NO_DELAY, members_max_bytes=100_000))
    world.lead()
    codes = [
        world.join(group=f"g{number}", requires_known_member_id=True, protocols=(("range", b""),)).error
        for number in range(100)
    ]
    assert set(codes) == {ErrorCode.MEMBER_ID_REQUIRED, ErrorCode.COORDINATOR_NOT_AVAILABLE}
    world.clock.advance(SESSION_MS / 1000)
    assert world.coordinator._manager.groups == {}
    assert world.coordinator._manager.memory.used_bytes == 0
    assert world.clock.getDelayedCalls() == []


def test_a_join_that_is_refused_leaves_no_group(world: World) -> None:
    assert world.join(protocols=()).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert world.coordinator._manager.groups == {}


def test_assignments_have_a_bound_too(tmp_path: Path) -> None:
    world = World(tmp_path, replace(NO_DELAY, members_max_bytes=100_000))
    world.lead()
    joined = world.join()
    assert world.sync(joined, {joined.member_id: bytes(200_000)}).error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert world.sync(joined, {joined.member_id: bytes(50_000)}).error is ErrorCode.NONE
    assert 50_000 < world.coordinator._manager.memory.used_bytes < 100_000


def test_memory_is_counted_as_members_come_and_go(world: World) -> None:
    """The counted memory equals what the members hold."""
    manager = world.coordinator._manager
    static = world.join(group_instance_id="i", protocols=(("range", bytes(500)),))
    world.sync(static, {static.member_id: bytes(300)})
    back = world.join(group_instance_id="i", protocols=(("range", bytes(700)), ("sticky", bytes(50))))
    assert back.error is ErrorCode.NONE
    pending = world.join(requires_known_member_id=True)
    manager.groups["g"].carry_out(())
    assert manager.memory.used_bytes == held_bytes(manager.groups["g"].group) > 4000
    world.coordinator.leave("g", [MemberIdentity(pending.member_id), MemberIdentity(back.member_id)])
    assert manager.memory.used_bytes == 0
    world.stable_member()
    world.lead(leader=1, epoch=1)
    assert manager.memory.used_bytes == 0


@pytest.mark.parametrize(("position", "damage"), [(16, b"\x09"), (8, b"\x7f\xff\xff\xff"), (8, b"\0\0\0\1")])
def test_what_comes_before_damage_in_the_log_is_loaded_all_the_same(
    world: World, caplog: pytest.LogCaptureFixture, position: int, damage: bytes
) -> None:
    """If these records were not loaded, members would be unknown, and consumers would start where auto.offset.reset
    says.
    """
    joined = world.stable_member()
    size = world.log.size_bytes
    world.write((encode_group_key("later"), None))
    world.stop()
    [segment] = (world.folder / "__consumer_offsets-0").glob("*.log")
    with segment.open("r+b") as file:
        file.seek(size + position)
        file.write(damage)
    world.start()
    with caplog.at_level(logging.ERROR, "kafka_zk.broker.group.metadata_manager"):
        world.lead(epoch=1)
    assert len(caplog.messages) == 1 and "at offset 1: " in caplog.messages[0]
    assert world.heartbeat(joined) is ErrorCode.NONE


def test_the_largest_generation_is_followed_by_the_first(world: World) -> None:
    """A record may hold the largest generation, but the next number could not be encoded."""
    value = GroupMetadataValue("consumer", 2**31 - 1, None, None, -1, ())
    world.write((encode_group_key("g"), encode_group_value(value)))
    world.stop()
    world.start()
    world.lead(epoch=1)
    joined = world.stable_member()
    assert joined.generation_id == 1


def test_topics_of_a_member_are_read_up_to_a_bound() -> None:
    """Millions of names in one subscription would block all clients, again in every generation."""
    names = struct.pack(">hi", 1, MAX_TOPICS + 1) + b"\0\0" * (MAX_TOPICS + 1)
    assert subscribed_topics([names]) is None
    assert subscribed_topics([struct.pack(">hi", 1, 2) + b"\0\1a\0\1b"] * 3) == frozenset("ab")

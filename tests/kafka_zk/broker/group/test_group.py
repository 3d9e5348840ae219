"""The effects of each event on a group."""

import tracemalloc
from typing import Any

import pytest

from kafka_zk.broker.coordinator.replies import Reply
from kafka_zk.broker.group.config import GroupConfig
from kafka_zk.broker.group.events import RebalancePrepared
from kafka_zk.broker.group.group import Group
from kafka_zk.broker.group.records import decode_group_value, encode_group_value
from kafka_zk.broker.group.requests import (
    AnswerJoin,
    AnswerSync,
    Effect,
    Happened,
    JoinGroup,
    JoinResult,
    Now,
    StoreGroup,
    SyncGroup,
    SyncResult,
)
from kafka_zk.broker.group.states import GroupState
from kafka_zk.protocol.errors import ErrorCode

SESSION_MS = 10_000
REBALANCE_MS = 60_000
RANGE = (("range", b"metadata"),)


class Table:
    """A group and its responses."""

    def __init__(self, **config: Any) -> None:
        self.ms = 0
        self.group = Group("g", GroupConfig(**{"initial_rebalance_delay_ms": 0, **config}), self.now)
        self.joins: dict[int, JoinResult] = {}
        self.syncs: dict[int, SyncResult] = {}
        self.stores: list[StoreGroup] = []
        self.effects: list[Effect] = []
        self._replies = 0

    @property
    def now(self) -> Now:
        return Now(self.ms, 1_000_000 + self.ms)

    def apply(self, effects: list[Effect]) -> None:
        self.effects += effects
        for effect in effects:
            if isinstance(effect, AnswerJoin):
                self.joins[effect.reply] = effect.result
            elif isinstance(effect, AnswerSync):
                self.syncs[effect.reply] = effect.result
            elif isinstance(effect, StoreGroup):
                self.stores.append(effect)

    def join(self, member_id: str = "", new: str = "", instance: str | None = None, **changes: Any) -> int:
        self._replies += 1
        request = JoinGroup(
            member_id, new, instance, "client", "/127.0.0.1", SESSION_MS, REBALANCE_MS,
            changes.pop("protocol_type", "consumer"), changes.pop("protocols", RANGE),
            **{"requires_known_member_id": False, **changes},
        )  # fmt: skip
        self.apply(self.group.join(request, Reply(self._replies), self.now))
        return self._replies

    def sync(self, member_id: str, generation: int, assignments: dict[str, bytes] | None = None, **changes: Any) -> int:
        self._replies += 1
        request = SyncGroup(member_id, generation, assignments=assignments, **changes)
        self.apply(self.group.sync(request, Reply(self._replies), self.now))
        return self._replies

    def store(self, error: ErrorCode = ErrorCode.NONE) -> None:
        for effect in self.stores[:]:
            self.stores.remove(effect)
            self.apply(self.group.stored(effect.then, error, self.now))

    def wait(self, ms: int) -> None:
        self.ms += ms
        self.apply(self.group.tick(self.now))

    def heartbeat(self, member_id: str, generation: int, instance: str | None = None) -> ErrorCode:
        return self.group.heartbeat(member_id, instance, generation, self.now)

    def stable(self, *member_ids: str) -> None:
        """The first generation of these members."""
        for member_id in member_ids:
            self.join(new=member_id)
            for other in self.group.members.ids:
                if other != member_id:
                    self.join(other)
        leader = self.group.members.leader or ""
        generation = self.group.generation_id
        self.sync(leader, generation, {member_id: member_id.encode() for member_id in member_ids})
        for member_id in member_ids:
            if member_id != leader:
                self.sync(member_id, generation)
        self.store()
        assert self.group.state is GroupState.STABLE


@pytest.fixture
def table() -> Table:
    return Table()


def test_a_group_of_one(table: Table) -> None:
    first = table.join(new="a")
    assert table.joins[first].leader == table.joins[first].member_id == "a"
    assert [member.member_id for member in table.joins[first].members] == ["a"]
    sync = table.sync("a", 1, {"a": b"everything"})
    assert sync not in table.syncs, "a response came before the assignment was stored"
    table.store()
    assert table.syncs[sync] == SyncResult(ErrorCode.NONE, "consumer", "range", b"everything")
    assert table.heartbeat("a", 1) is ErrorCode.NONE


def test_a_client_is_sent_away_for_its_id(table: Table) -> None:
    """KIP-394. Otherwise, each attempt of a client whose responses are lost would become a member."""
    asked = table.join(new="a", requires_known_member_id=True)
    assert table.joins[asked] == JoinResult(ErrorCode.MEMBER_ID_REQUIRED, "a")
    assert len(table.group.members) == 0
    joined = table.join("a")
    assert table.joins[joined].error is ErrorCode.NONE


def test_a_group_that_was_empty_waits_for_more_members() -> None:
    """Each newcomer puts the first generation off by group.initial.rebalance.delay.ms."""
    table = Table(initial_rebalance_delay_ms=3000)
    first = table.join(new="a")
    table.wait(2000)
    second = table.join(new="b")
    table.wait(1000)
    assert not table.joins
    table.wait(3000)
    assert {table.joins[first].generation_id, table.joins[second].generation_id} == {1}


def test_a_join_asks_the_others_to_join_again(table: Table) -> None:
    table.stable("a", "b")
    table.join(new="c")
    assert table.heartbeat("a", table.group.generation_id) is ErrorCode.REBALANCE_IN_PROGRESS
    table.join("a")
    table.join("b")
    assert table.group.state is GroupState.COMPLETING_REBALANCE
    assert table.group.generation_id == 3


def test_a_member_without_heartbeats_fails(table: Table) -> None:
    table.stable("a", "b")
    for _ in range(5):
        table.wait(SESSION_MS // 4)
        table.heartbeat("a", 2)
    assert table.group.members.ids == ("a",)
    assert table.heartbeat("b", 2) is ErrorCode.UNKNOWN_MEMBER_ID
    assert table.heartbeat("a", 2) is ErrorCode.REBALANCE_IN_PROGRESS


def test_who_does_not_join_again_in_time_is_removed(table: Table) -> None:
    table.stable("a", "b")
    joined = table.join("a", protocols=(("range", b"changed"),))
    for _ in range(7):
        table.wait(REBALANCE_MS // 7 + 1)
        table.heartbeat("b", 2)
    assert table.joins[joined].generation_id == 3
    assert table.group.members.ids == ("a",)


def test_a_sync_of_another_generation_is_refused(table: Table) -> None:
    table.stable("a", "b")
    table.join("a")
    table.join("b")
    late = table.sync("a", 2, {"a": b"old", "b": b"old"})
    assert table.syncs[late].error is ErrorCode.ILLEGAL_GENERATION
    assert not table.stores


def test_a_sync_that_names_another_protocol_is_refused(table: Table) -> None:
    table.join(new="a")
    sync = table.sync("a", 1, {}, protocol_type="connect", protocol_name="range")
    assert table.syncs[sync].error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_sync_with_another_protocol_is_refused_while_members_are_awaited_too(table: Table) -> None:
    """Kafka checks the request before it checks the state."""
    table.stable("a")
    table.join(new="b")
    assert table.group.state is GroupState.PREPARING_REBALANCE
    wrong = table.sync("a", 1, protocol_name="other")
    assert table.syncs[wrong].error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_an_assignment_that_cannot_be_stored_starts_over(table: Table) -> None:
    table.join(new="a")
    sync = table.sync("a", 1, {"a": b"x"})
    table.store(ErrorCode.NOT_COORDINATOR)
    assert table.syncs[sync] == SyncResult(ErrorCode.NOT_COORDINATOR)
    assert table.group.state is GroupState.PREPARING_REBALANCE


def test_protocols_must_have_one_in_common(table: Table) -> None:
    table.stable("a")
    other = table.join(new="b", protocols=(("sticky", b""),))
    assert table.joins[other].error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    kind = table.join(new="c", protocol_type="connect")
    assert table.joins[kind].error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_the_protocol_is_voted_for(table: Table) -> None:
    table.join(new="a", protocols=(("range", b""), ("sticky", b"")))
    table.join(new="b", protocols=(("sticky", b""), ("range", b"")))
    table.join(new="c", protocols=(("sticky", b""), ("range", b"")))
    table.join("a", protocols=(("range", b""), ("sticky", b"")))
    table.join("b", protocols=(("sticky", b""), ("range", b"")))
    assert table.group.protocol_name == "sticky"


def test_a_protocol_that_is_named_twice_counts_once(table: Table) -> None:
    """A repeated protocol of one member must not count as the support of two members."""
    table.join(new="a", protocols=(("x", b"1"), ("x", b"2"), ("range", b"")))
    other = table.join(new="b", protocols=(("range", b""),))
    table.join("a", protocols=(("x", b"1"), ("x", b"2"), ("range", b"")))
    assert table.joins[other].protocol_name == "range"


def test_protocols_that_no_member_supports_any_more_are_forgotten(table: Table) -> None:
    """A client may keep sending new protocol names of 32 KB each."""
    table.join(new="a")
    tracemalloc.start()
    try:
        for number in range(300):
            table.join("a", protocols=(*RANGE, (f"{number}".ljust(30_000), b"")))
            table.effects.clear()
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_full_group_takes_nobody() -> None:
    table = Table(max_size=1)
    table.stable("a")
    other = table.join(new="b")
    assert table.joins[other] == JoinResult(ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert table.group.state is GroupState.STABLE


class TestStaticMembers:
    """KIP-345."""

    def stable(self, table: Table) -> None:
        table.join(new="a1", instance="a")
        table.sync("a1", 1, {"a1": b"x"}, group_instance_id="a")
        table.store()

    @pytest.mark.parametrize("can_skip", [False, True])
    def test_one_comes_back_without_a_rebalance(self, table: Table, can_skip: bool) -> None:
        self.stable(table)
        back = table.join(new="a2", instance="a", can_skip_assignment=can_skip)
        assert back not in table.joins, "a response came before the group was stored"
        table.store()
        result = table.joins[back]
        assert (result.error, result.generation_id, result.member_id) == (ErrorCode.NONE, 1, "a2")
        assert (result.leader, result.skip_assignment) == (("a2", True) if can_skip else ("a1", False))
        sync = table.sync("a2", 1, group_instance_id="a")
        assert table.syncs[sync].assignment == b"x"

    def test_the_old_one_is_fenced(self, table: Table) -> None:
        self.stable(table)
        table.join(new="a2", instance="a")
        assert table.heartbeat("a1", 1, "a") is ErrorCode.FENCED_INSTANCE_ID
        assert table.heartbeat("a2", 1, "a") is ErrorCode.NONE

    def test_it_has_its_old_id_again_when_its_return_cannot_be_stored(self, table: Table) -> None:
        self.stable(table)
        back = table.join(new="a2", instance="a")
        table.store(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        assert table.joins[back].error is ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert table.heartbeat("a1", 1, "a") is ErrorCode.NONE

    def test_one_that_comes_back_before_it_synced_is_awaited_under_its_new_id(self, table: Table) -> None:
        """If the group waited for the old id, it would rebalance for a member that has been replaced."""
        table.join(new="a1", instance="a")
        table.join(new="b1", instance="b")
        table.join("a1", instance="a")
        table.sync("a1", 2, {}, group_instance_id="a")
        table.store()
        table.join(new="b2", instance="b")
        table.store()
        table.sync("b2", 2, group_instance_id="b")
        for _ in range(14):
            table.wait(SESSION_MS // 2)
            table.heartbeat("a1", 2, "a")
            table.heartbeat("b2", 2, "b")
        happened = [effect for effect in table.effects[-3:] if isinstance(effect, Happened)]
        assert not [event for event in happened if event.kind is RebalancePrepared]
        assert table.group.state is GroupState.STABLE

    def test_it_leaves_by_its_instance_id(self, table: Table) -> None:
        self.stable(table)
        code, effects = table.group.leave("", "a", "removed by an administrator", table.now)
        table.apply(effects)
        assert code is ErrorCode.NONE and table.group.state is GroupState.EMPTY


class TestCommits:
    def test_a_client_without_a_group_commits_to_an_empty_one(self, table: Table) -> None:
        assert table.group.commit_refusal("", None, -1) is ErrorCode.NONE

    def test_with_members_only_they_commit(self, table: Table) -> None:
        table.stable("a")
        assert table.group.commit_refusal("", None, -1) is ErrorCode.UNKNOWN_MEMBER_ID
        assert table.group.commit_refusal("a", None, 1) is ErrorCode.NONE
        assert table.group.commit_refusal("a", None, 0) is ErrorCode.ILLEGAL_GENERATION
        assert table.group.commit_refusal("b", None, 1) is ErrorCode.UNKNOWN_MEMBER_ID

    def test_nobody_commits_while_the_assignment_is_awaited(self, table: Table) -> None:
        table.join(new="a")
        assert table.group.commit_refusal("a", None, 1) is ErrorCode.REBALANCE_IN_PROGRESS


def test_the_last_one_leaves_an_empty_group(table: Table) -> None:
    table.stable("a")
    code, effects = table.group.leave("a", None, "", table.now)
    table.apply(effects)
    assert code is ErrorCode.NONE
    assert (table.group.state, table.group.generation_id) == (GroupState.EMPTY, 2)
    assert table.stores[-1].value.members == ()


def test_a_stored_group_is_loaded_as_it_was(table: Table) -> None:
    table.stable("a", "b")
    value = table.group.value({"a": b"1", "b": b"2"})
    loaded, _ = Group.loaded("g", GroupConfig(), decode_group_value(encode_group_value(value)), table.now)
    assert loaded.state is GroupState.STABLE
    assert loaded.value({member.member_id: member.assignment for member in loaded.members}) == value
    assert loaded.heartbeat("a", None, 2, table.now) is ErrorCode.NONE
    assert loaded.earliest_deadline_ms == table.ms + SESSION_MS


def test_who_waits_is_told_when_the_coordinator_goes(table: Table) -> None:
    table.stable("a", "b")
    waiting = table.join("a", protocols=(("range", b"new"),))
    table.apply(table.group.unload())
    assert table.joins[waiting].error is ErrorCode.NOT_COORDINATOR
    assert table.heartbeat("b", 2) is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_a_leader_that_joins_again_stays_it_whoever_came_before(table: Table) -> None:
    """A silent static member has lost the leadership for good, although it comes first in the list."""
    table.join(new="a", instance="i")
    table.join(new="b")
    table.join("a", instance="i")
    assert table.group.members.leader == "a"
    table.join("b", protocols=(("range", b"other"),))
    generation = table.group.generation_id
    for _ in range(7):
        table.heartbeat("a", generation, "i")
        table.wait(REBALANCE_MS // 7 + 1)
    assert (table.group.members.leader, list(table.group.members.ids)) == ("b", ["a", "b"])
    table.join("a", instance="i", protocols=(("range", b"more"),))
    table.join("b")
    assert table.group.members.leader == "b"

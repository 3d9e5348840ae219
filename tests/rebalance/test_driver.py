"""Drivers on the in-memory ZooKeeper: groups form, change and dissolve, without faults."""

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.rebalance import events
from kafka_zk.rebalance.config import GroupConfig
from kafka_zk.rebalance.events import RebalanceEvent
from kafka_zk.registry.client.errors import FencedInstanceId, SessionLost
from kafka_zk.registry.znodes import consumers as znodes
from tests.rebalance.world import Group, Process

STRATEGIES = ("range", "roundrobin", "sticky", "cooperative-sticky", "weighted")


def told(process: Process, kind: type[RebalanceEvent], since: int = 0) -> set[TopicPartition]:
    """All partitions in the events of a kind."""
    named: set[TopicPartition] = set()
    for event in process.events[since:]:
        if isinstance(event, kind):
            named.update(getattr(event, "partitions", ()) or getattr(event, "offsets", ()))
    return named


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_group_shares_its_partitions_and_delivers_everything_once(strategy: str) -> None:
    group = Group({"t": 7, "u": 2})
    group.produce(20)
    group.join_all("abc", [strategy])
    assert group.is_served()
    assert sorted(group.counts) == ([2, 3, 4] if strategy == "range" else [3, 3, 3])
    group.produce(20)
    group.until_consumed()
    assert not group.violations()
    handed_out = [(fact.partition, fact.offset) for fact in group.facts if fact.kind.value == "handed out"]
    assert len(handed_out) == len(set(handed_out)) == 9 * 40


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_member_that_leaves_hands_its_position_over(strategy: str) -> None:
    group = Group({"t": 4})
    first, second = group.join_all("ab", [strategy])
    group.produce(50)
    group.settle(250)
    group.scheduler.run(first.leave())
    group.until_served(1000)
    group.until_consumed()
    assert second.owned == sorted(group.log_ends)
    handed_out = [(fact.partition, fact.offset) for fact in group.facts if fact.kind.value == "handed out"]
    assert len(handed_out) == len(set(handed_out)) == 4 * 50
    assert not group.violations()
    assert not first.refusals and not second.refusals


def test_under_cooperative_only_what_moves_stops() -> None:
    group = Group({"t": 6})
    first, second = group.join_all("ab")
    before = [set(first.owned), set(second.owned)]
    marks = [len(first.events), len(second.events)]
    (third,) = group.join_all("c")
    for process, owned, mark in zip((first, second), before, marks, strict=True):
        assert told(process, events.DeliveryStopped, mark) == owned - set(process.owned)
        assert not told(process, events.DeliveryStarted, mark)
        finished = process.named(events.RebalanceFinished)[-1]
        assert set(finished.kept) == set(process.owned) and set(finished.lost) == owned - set(process.owned)
    assert len(third.owned) == 2 and third.named(events.RebalanceFinished)[-1].gained == tuple(third.owned)


@pytest.mark.parametrize("strategy", ["range", "sticky"])
def test_under_eager_everything_stops_and_is_released_before_anything_is_claimed(strategy: str) -> None:
    group = Group({"t": 6})
    first, _ = group.join_all("ab", [strategy])
    owned, mark = set(first.owned), len(first.events)
    group.join_all("c", [strategy])
    assert told(first, events.DeliveryStopped, mark) == owned == told(first, events.Released, mark)
    kinds = [type(event) for event in first.events[mark:]]
    assert kinds.index(events.Released) < kinds.index(events.Claimed)
    assert kinds.count(events.DeliveryStopped) == kinds.count(events.Released) == kinds.count(events.Claimed) == 1


def test_sticky_keeps_what_balance_allows() -> None:
    group = Group({"t": 6})
    first, second, _ = group.join_all("abc", ["sticky"])
    before = set(first.owned) | set(second.owned)
    group.scheduler.run(group.processes[2].leave())
    group.settle()
    assert before <= set(first.owned) | set(second.owned) == set(group.log_ends)
    assert group.counts == [3, 3]


def test_a_static_member_that_returns_in_time_takes_its_partitions_back_without_a_rebalance() -> None:
    group = Group({"t": 6})
    first, second = group.join_all("ab", instance_timeout_ms=45_000)
    group.produce(10)
    mark, owned = len(first.events), second.owned
    group.scheduler.run(second.leave())
    group.settle(20_000)
    assert all(group.owner(tp) is None for tp in owned)
    (back,) = group.join_all("b", instance_timeout_ms=45_000)
    assert back.owned == owned
    assert not told(first, events.DeliveryStopped, mark) and not told(first, events.Claimed, mark)
    group.until_consumed()
    assert not group.violations()


def test_a_static_member_that_was_killed_returns_as_soon_as_its_ghost_is_gone() -> None:
    group = Group({"t": 6})
    first, second = group.join_all("ab", instance_timeout_ms=45_000)
    mark, owned = len(first.events), second.owned
    second.kill()
    group.settle(100)
    back = group.join("b", instance_timeout_ms=45_000)
    group.until_served(10_000)
    assert back.owned == owned
    assert not told(first, events.DeliveryStopped, mark) and not told(first, events.Claimed, mark)


def test_a_static_member_that_stays_away_loses_its_place() -> None:
    group = Group({"t": 6})
    first, second = group.join_all("ab", instance_timeout_ms=5000)
    group.scheduler.run(second.leave())
    group.settle(4500)
    assert len(first.owned) == 3
    (away,) = first.named(events.StaticMemberAway)
    assert away.consumer_id == second.consumer_id
    group.settle(1500)
    assert first.owned == sorted(group.log_ends)
    assignment = group.assignment()
    assert assignment is not None and set(assignment.static_members) == {first.consumer_id}


@pytest.mark.parametrize("other", ["old", "range"])
def test_a_static_member_says_when_its_place_is_not_kept(other: str) -> None:
    """A member of another implementation, or one with other strategies, can make the group use a strategy that reserves
    no partitions."""
    group = Group({"t": 6})
    first, second = group.join_all("ab", instance_timeout_ms=45_000)
    assert not first.named(events.PlaceNotKept)
    if other == "old":
        group.join_old("x")
        why = "falls back to eager range: old_x announces no strategy"
    else:
        group.join_all("x", ["range"])
        why = "range is announced by all 3 members"
    group.settle(3000)
    group.until_served(20_000)
    for process in (first, second):
        (told,) = process.named(events.PlaceNotKept)
        assert told.cause == f"group.instance.id has no effect while the group runs range ({why})"
    group.scheduler.run(second.leave())
    group.settle(5000)
    assert group.is_served() and None not in group.owners().values()


def test_a_member_that_is_not_static_says_nothing_of_places() -> None:
    group = Group({"t": 6})
    (member,) = group.join_all("a", ["range"])
    assert not member.named(events.PlaceNotKept)


def test_the_place_of_a_static_member_outlives_the_leader() -> None:
    group = Group({"t": 6})
    first, second, third = group.join_all("abc", instance_timeout_ms=10_000)
    owned = third.owned
    group.scheduler.run(third.leave())
    group.scheduler.run(first.leave())  # the leader
    group.settle(5000)
    assert all(group.owner(tp) is None for tp in owned)
    group.settle(6000)
    assert second.owned == sorted(group.log_ends)


@pytest.mark.parametrize("away_ms", [500, 5000, 30_000])
@pytest.mark.parametrize("back_after_ms", [100, 3000])
def test_a_static_member_that_was_killed_outwaits_its_ghost_however_long_zookeeper_is_away(
    back_after_ms: float, away_ms: float
) -> None:
    """A restarted ZooKeeper gives every session its full timeout again, including the dead member's."""
    group = Group({"t": 6})
    first, second = group.join_all("ab", instance_timeout_ms=45_000)
    mark, owned = len(first.events), second.owned
    second.kill()
    group.settle(back_after_ms)
    back = group.join("b", instance_timeout_ms=45_000)
    group.settle(1500)
    group.zookeeper.stop()
    group.settle(away_ms)
    group.zookeeper.start()
    group.until_served(15_000)
    assert back.failure is None and back.owned == owned
    assert not told(first, events.Claimed, mark)


def test_a_live_holder_of_the_instance_id_stays_when_zookeeper_was_away() -> None:
    group = Group({"t": 2})
    (first,) = group.join_all("a", instance_timeout_ms=45_000)
    second = group.join("a", instance_timeout_ms=45_000)
    group.settle(5000)
    group.zookeeper.stop()
    group.settle(20_000)
    group.zookeeper.start()
    group.settle(20_000)
    assert isinstance(second.failure, FencedInstanceId) and first.failure is None
    assert first.owned == sorted(group.log_ends)


def test_the_place_of_a_static_member_is_kept_while_zookeeper_is_away() -> None:
    """No member can return while ZooKeeper is away."""
    group = Group({"t": 6})
    first, second = group.join_all("ab", instance_timeout_ms=8000)
    mark, owned = len(first.events), second.owned
    group.scheduler.run(second.leave())
    group.settle(5000)
    group.zookeeper.stop()
    group.settle(20_000)
    group.zookeeper.start()
    group.settle(1000)
    assert all(group.owner(tp) is None for tp in owned), "two seconds are left"
    (back,) = group.join_all("b", instance_timeout_ms=8000)
    assert back.owned == owned
    assert not told(first, events.Claimed, mark)


def test_the_rest_of_the_time_runs_when_zookeeper_is_back() -> None:
    group = Group({"t": 6})
    first, second = group.join_all("ab", instance_timeout_ms=8000)
    group.scheduler.run(second.leave())
    for _ in range(2):
        group.settle(2000)
        group.zookeeper.stop()
        group.settle(20_000)
        group.zookeeper.start()
    group.settle(3000)
    assert len(first.owned) == 3
    group.settle(3000)
    assert first.owned == sorted(group.log_ends)


def test_a_second_live_holder_of_an_instance_id_is_fenced() -> None:
    group = Group({"t": 2})
    first, second = group.join("a", instance_timeout_ms=45_000), group.join("a", instance_timeout_ms=45_000)
    group.settle(20_000)
    (fenced,) = [process for process in (first, second) if process.failure is not None]
    assert isinstance(fenced.failure, FencedInstanceId)
    other = second if fenced is first else first
    assert other.owned == sorted(group.log_ends) and not fenced.owned


def test_with_an_old_consumer_the_group_falls_back_to_eager_range_and_says_so() -> None:
    group = Group({"t": 6})
    ours = group.join_all("ab")
    old = group.join_old("x")
    group.until_served(20_000)
    group.settle(3000)
    assert group.is_served() and len(old.positions) == 2
    for process in ours:
        chosen = process.named(events.StrategyChosen)[-1]
        assert (chosen.strategy, chosen.warning) == ("range", True)
        assert chosen.cause == "falls back to eager range: old_x announces no strategy"
    group.scheduler.run(old.leave())
    group.until_served(10_000)
    assert [process.named(events.StrategyChosen)[-1].strategy for process in ours] == ["cooperative-sticky"] * 2
    group.produce(5)
    group.until_consumed()


@pytest.mark.parametrize("strategies", [["roundrobin", "range"], ["cooperative-sticky", "roundrobin", "range"]])
def test_beside_an_old_consumer_roundrobin_gives_way_to_range(strategies: list[str]) -> None:
    """The old consumer uses range; with any other strategy, some partitions would never have an owner."""
    group = Group({"t": 5, "u": 3})
    group.join_all("ab", strategies)
    group.join_old("x")
    group.settle(3000)
    group.until_served(20_000)
    assert None not in group.owners().values()


def test_members_that_know_only_range_and_only_roundrobin_agree_on_range() -> None:
    group = Group({"t": 5, "u": 3})
    group.join_all("a", ["range"])
    group.join_all("b", ["roundrobin"])
    assert group.is_served() and None not in group.owners().values()


def test_a_group_that_falls_back_does_not_follow_the_old_assignment_afterwards() -> None:
    """The leader continues from the owners at the end of the fall-back."""
    group = Group({"t": 6})
    first, second = group.join_all("ab")
    old = group.join_old("x")
    group.until_served(20_000)
    group.settle(3000)
    marker = group.assignment()
    assert marker is not None and marker.strategy == "range" and not marker.assignment
    owned, marks = [first.owned, second.owned], [len(first.events), len(second.events)]
    group.scheduler.run(old.leave())
    group.until_served(10_000)
    for process, before, mark in zip((first, second), owned, marks, strict=True):
        assert set(before) <= set(process.owned)
        assert not told(process, events.DeliveryStopped, mark)


def test_a_group_is_upgraded_from_eager_to_cooperative_member_by_member() -> None:
    group = Group({"t": 6})
    group.join_all("abc", ["range"])
    for name in "abc":
        old = next(process for process in group.live if process.consumer_id.endswith(name))
        group.scheduler.run(old.leave())
        group.settle(300)
        group.produce(5)
        group.join_all(name.upper())
        group.until_served(5000)
    assert {process.named(events.StrategyChosen)[-1].strategy for process in group.live} == {"cooperative-sticky"}
    marks = {process: len(process.events) for process in group.live}
    group.join_all("d")
    assert group.is_served() and sorted(group.counts) == [1, 1, 2, 2]
    for process, mark in marks.items():
        assert len(told(process, events.DeliveryStopped, mark)) <= 1
    group.until_consumed()
    assert not group.violations()


def test_members_with_no_common_strategy_run_range() -> None:
    group = Group({"t": 5})
    ours = group.join_all("ab", ["sticky"])
    ours += group.join_all("c", ["cooperative-sticky"])
    for process in ours:
        chosen = process.named(events.StrategyChosen)[-1]
        assert (chosen.strategy, chosen.warning) == ("range", True)
        assert chosen.cause == "falls back to eager range: no strategy is announced by all members"
    assert group.is_served() and group.counts == [2, 2, 1]


def test_new_partitions_and_topics_are_taken_up() -> None:
    group = Group({"logs.a": 2})
    for name in "ab":
        group.join(name, subscription={"logs\\..*": 1}, pattern=znodes.WHITE_LIST)
    group.until_served(5000)
    group.grow_topic("logs.a", 2)
    group.until_served(5000)
    group.create_topic("logs.b", 2)
    group.until_served(5000)
    group.create_topic("other", 1)
    group.settle()
    assert sorted(group.counts) == [3, 3]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_brokers_count_for_classic_strategies_only(strategy: str) -> None:
    group = Group({"t": 4})
    first, _ = group.join_all("ab", [strategy])
    mark = len(first.events)
    group.start_broker(7)
    group.settle()
    assert bool(told(first, events.DeliveryStopped, mark)) == (strategy in ("range", "roundrobin"))
    assert group.is_served()


def test_a_member_that_does_not_release_is_reported_and_awaited() -> None:
    group = Group({"t": 1})
    blocker = group.zookeeper.client("blocker")
    config = GroupConfig(rebalance_backoff_ms=500, rebalance_max_retries=2)
    path = znodes.owner_path("g", "t", 0)
    group.scheduler.run(group.tool.create("/consumers/g"))
    for parent in ("/consumers/g/owners", "/consumers/g/owners/t"):
        group.scheduler.run(group.tool.create(parent))
    group.scheduler.run(blocker.create(path, b"somebody-0", ephemeral=True))
    (member,) = group.join_all("a", config=config)
    assert [event.owner for event in member.named(events.ClaimWaits)] == ["somebody-0"]
    group.settle(500)
    (overdue,) = member.named(events.ClaimOverdue)
    assert overdue.owner == "somebody-0" and overdue.waited_ms >= 1000
    group.scheduler.run(blocker.close())
    group.until_served(100)


def test_a_removed_registration_is_created_again() -> None:
    group = Group({"t": 4})
    first, second = group.join_all("ab")
    group.scheduler.run(group.tool.delete(znodes.id_path("g", second.consumer_id)))
    group.settle()
    group.until_served(5000)
    assert group.counts == [2, 2] and first.owned
    group.produce(5)
    group.until_consumed()
    assert not group.violations()


def test_a_member_that_leaves_before_it_owns_anything_leaves_nothing_behind() -> None:
    group = Group({"t": 4})
    (first,) = group.join_all("a")
    second = group.join("b")
    group.settle(3)
    group.scheduler.run(second.leave())
    group.until_served(5000)
    assert len(first.owned) == 4
    assert group.zookeeper.tree.children("/consumers/g/ids")[0] == [first.consumer_id]


@pytest.mark.parametrize("settled_ms", [0, 1, 2, 3, 4, 5])
@pytest.mark.parametrize("after", range(6))
def test_a_connection_that_breaks_while_a_new_member_leaves_is_no_failure(settled_ms: int, after: int) -> None:
    """The member may or may not have been registered by then. ``start`` reports the failure, because leaving ends
    it."""
    group = Group({"t": 2}, seed=after)
    member = group.join("a")
    group.settle(settled_ms)
    member.client.lose_request(after, applied=bool(after % 2))
    group.scheduler.run(member.leave())
    group.settle(20_000)
    assert member.failure is None or isinstance(member.failure, SessionLost)
    ids = znodes.ids_path("g")
    assert group.zookeeper.tree.exists(ids) is None or group.zookeeper.tree.children(ids)[0] == []

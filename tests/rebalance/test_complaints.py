"""Known failures of other ZooKeeper consumers, each with a test that is named after the required behaviour.

``test_safeguards.py`` disables the safeguards for some of them and checks that the scenario then fails. Therefore the
scenarios are plain functions; each raises AssertionError (``Stuck`` is a subclass) if the failure occurs.
"""

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.rebalance import events
from kafka_zk.rebalance.config import GroupConfig
from kafka_zk.registry.client.client import SessionState
from kafka_zk.registry.offsets import OffsetRegistry
from kafka_zk.registry.owners import Claim, Claimed, OwnerRegistry
from kafka_zk.registry.znodes import consumers as znodes
from kafka_zk.sim.judges.zookeeper_group import Kind
from tests.rebalance.world import Group, Process

SEEDS = range(4)
T0 = TopicPartition("t", 0)
STRATEGIES = ("range", "sticky", "cooperative-sticky")


def rebalances(process: Process, since: int = 0) -> list[events.RebalanceEvent]:
    return [event for event in process.events[since:] if isinstance(event, events.RebalanceStarted)]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("seed", SEEDS)
def test_1_consumers_started_together_do_not_fight(strategy: str, seed: int) -> None:
    """SOHU-Co/kafka-node#147: all but one died on NODE_EXISTS."""
    group = Group({"t": 18}, seed)
    for name in "abcdefgh":
        group.join(name, [strategy])
    group.until_shared(2, 2, 2, 2, 2, 2, 3, 3, limit_ms=2000)
    assert not [process.failure for process in group.processes if process.failure]


@pytest.mark.parametrize("applied", [True, False])
def test_2_a_claim_that_failed_half_way_leaves_nothing_owned_and_unread(applied: bool) -> None:
    """kafka-node#981: the connection breaks at the k-th request of the start, for every k."""
    for after in range(40):
        group = Group({"t": 9}, after)
        member = group.join("a", ["cooperative-sticky"])
        member.client.lose_request(after, applied=applied)
        nothing_is_owned_and_unread(group)


def nothing_is_owned_and_unread(group: Group) -> None:
    group.until_served(10_000)
    group.produce(2)
    group.until_consumed(10_000)
    assert not group.violations()


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("after_ms", [0, 1000, 3000, 6000, 9000, 12_000])
def test_3_a_restart_sooner_than_the_session_timeout_is_no_failure(strategy: str, after_ms: int) -> None:
    """apache/pinot#97: because of the ghost's znodes, the rebalance failed for good."""
    group = Group({"t": 4})
    first, second = group.join_all("ab", [strategy], instance_timeout_ms=10_000)
    second.kill()
    group.settle(after_ms)
    restarted = group.join("b", [strategy], instance_timeout_ms=10_000)
    group.until_shared(2, 2)
    assert restarted.failure is None and restarted.owned and first.owned


@pytest.mark.parametrize(("retries", "doubtful"), [(4, False), (3, True)])
def test_3_retries_that_end_before_the_session_timeout_cause_a_warning(retries: int, doubtful: bool) -> None:
    group = Group({"t": 1}, session_timeout_ms=6000)
    (member,) = group.join_all("a", config=GroupConfig(2000, retries))
    assert bool(member.named(events.SettingsDoubtful)) == doubtful


@pytest.mark.parametrize("seed", SEEDS)
def test_4_no_partition_is_lost_by_network_cuts(seed: int) -> None:
    """Parsely/pykafka#565. Every cut is shorter than the session, so nothing may even move."""
    group = Group({"t": 6}, seed)
    members = group.join_all("abc")
    for _ in range(100):
        process = group.random.choice(members)
        process.client.cut()
        group.settle(group.random.uniform(0, 1000))
        process.client.heal()
        group.settle(group.random.uniform(0, 500))
        assert None not in group.owners().values()
    group.until_served(1000)
    group.produce(2)
    group.until_consumed()
    assert not group.violations()


MOMENTS_MS = (0, 1, 2, 3, 4, 6, 8, 12, 20, 40, 300)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_5_a_member_whose_session_ended_registers_again_in_every_state(strategy: str) -> None:
    """pykafka#204: the member's id was gone and it raised an error, but its fetcher continued."""
    for moment_ms in MOMENTS_MS:
        registers_again(Group({"t": 6}, moment_ms), strategy, moment_ms)


def registers_again(group: Group, strategy: str = "sticky", moment_ms: float = 300) -> None:
    group.join_all("ab", [strategy])
    third = group.join("c", [strategy])
    group.settle(moment_ms)
    third.client.cut()
    group.zookeeper.expire(third.client)
    group.settle(200)
    third.client.heal()
    group.until_shared(2, 2, 2)
    group.produce(1)
    group.until_consumed()
    assert not group.violations()


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("seed", SEEDS)
def test_6_a_zombie_hands_out_nothing_and_commits_nothing(strategy: str, seed: int) -> None:
    """pykafka#273, brod#649: the consumer continued to read while ZooKeeper refused its requests."""
    zombie_is_harmless(Group({"t": 4}, seed), strategy)


def zombie_is_harmless(group: Group, strategy: str = "cooperative-sticky") -> None:
    first, zombie = group.join_all("ab", [strategy])
    lost = zombie.owned
    group.produce(1000)
    group.settle(700)
    zombie.pause()
    group.settle(10_000)
    assert first.owned == sorted(group.log_ends)
    reached = {tp: group.offset(tp) for tp in lost}
    committed: list[object] = []
    zombie.commit({tp: 1 for tp in lost}).addCallback(lambda outcomes: committed.extend(outcomes.values()))
    mark = len(group.facts)
    zombie.wake()
    assert not [f for f in group.facts[mark:] if f.kind is Kind.HANDED_OUT and f.member == zombie.consumer_id]
    group.settle(50)
    assert all(group.offset(tp) >= reached[tp] for tp in lost), "a zombie's commit got through"
    assert len(committed) == len(lost) and None not in committed
    group.until_served()
    group.until_consumed()
    assert not group.violations()


def test_6_a_member_that_is_silently_cut_off_stops_before_another_one_can_start() -> None:
    silently_cut_off(Group({"t": 4}, 3))


def silently_cut_off(group: Group) -> None:
    _, cut_off = group.join_all("ab")
    group.produce(1000)
    cut_off.client.cut(silent=True)
    group.settle(5000)
    assert not cut_off.driver.lease.may_act()
    group.settle(10_000)
    assert not group.violations(all_delivered=False)
    cut_off.client.heal()
    group.until_served()


def test_9_a_claim_follows_the_release_immediately_without_polling() -> None:
    """wvanbergen/kafka#58. A waiting member sends no requests; after the release there are one watch event, one read
    and one multi."""
    claim_follows_the_release(Group({"t": 1}))


def claim_follows_the_release(group: Group) -> None:
    blocker = group.zookeeper.client("blocker")
    group.scheduler.run(OffsetRegistry(blocker, "g").store({T0: 0}))
    assert isinstance(group.scheduler.run(OwnerRegistry(blocker, "g").claim([Claim(T0, "somebody-0")]))[T0], Claimed)
    (member,) = group.join_all("a")
    group.settle(3000)
    before = member.client.counts.copy()
    group.settle(3000)
    assert member.client.counts == before, "it polls"
    gone_ms = group.scheduler.now_ms
    group.scheduler.run(blocker.close())
    group.scheduler.run_until(lambda: member.owned)
    took_ms = group.scheduler.now_ms - gone_ms
    assert took_ms <= 2 + 2 + 4 + 4  # at most: the close, the watch, a read and a multi there and back
    used = member.client.counts - before
    # owner, offset and topic, together; the claim; then the own znode is watched
    assert (used["get"], used["exists"], used["multi"], used.total()) == (3, 1, 1, 5)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("seed", SEEDS)
def test_11_a_blip_shorter_than_the_session_causes_no_rebalance(strategy: str, seed: int) -> None:
    """pykafka#369: one SUSPENDED event killed the worker for good."""
    blip(Group({"t": 4}, seed), strategy)


def blip(group: Group, strategy: str = "cooperative-sticky") -> None:
    members = group.join_all("ab", [strategy])
    marks = [len(process.events) for process in members]
    owned = [process.owned for process in members]
    for process in members:
        process.client.cut()
    group.settle(3000)
    assert [process.suspended for process in members] == [True, True]
    group.produce(5)
    for process in members:
        process.client.heal()
    group.settle(500)
    assert [process.owned for process in members] == owned
    assert not [event for process, mark in zip(members, marks, strict=True) for event in rebalances(process, mark)]
    group.until_consumed()
    assert not group.violations()


@pytest.mark.parametrize("seed", SEEDS)
def test_12_the_owner_znode_of_another_member_is_not_deleted(seed: int) -> None:
    """pykafka#215, #308. An old consumer deletes znodes without checking the owner: here our member's, just before that
    member, which has not been notified, releases it."""
    others_znodes_stay(Group({"t": 4}, seed))


def others_znodes_stay(group: Group) -> None:
    (first,) = group.join_all("a")
    first.stop_ms = 1000
    second = group.join("b")
    group.scheduler.run_until(lambda: first.named(events.DeliveryStopped))  # the user finishes; then comes the release
    moving = sorted(set(group.log_ends) - set(first.owned))
    first.pause()
    for tp in moving:
        group.scheduler.run(group.tool.delete(znodes.owner_path("g", *tp)))
    group.scheduler.run_until(lambda: second.owned == moving)
    group.settle(first.stop_ms)
    first.wake()
    group.scheduler.run_until(lambda: first.named(events.Released))
    group.settle(10)
    assert {group.owners()[tp] for tp in moving} == {second.consumer_id}, "it deleted another member's znode"
    assert first.named(events.Released)[0].not_ours == tuple(moving)
    group.until_shared(2, 2)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("seed", SEEDS)
def test_13_changes_during_a_rebalance_are_not_missed(strategy: str, seed: int) -> None:
    """kazoo#259, #257: a partitioner missed changes while it waited for its last lock."""
    changes_are_seen(Group({"t": 6}, seed), strategy)


def changes_are_seen(group: Group, strategy: str = "sticky") -> None:
    group.join_all("ab", [strategy])
    for name in "cdef":
        group.join(name, [strategy])
        group.settle(group.random.uniform(0, 6))
    group.grow_topic("t", 6)
    leaving = [process.leave() for process in group.processes[:2]]
    group.until_shared(3, 3, 3, 3, limit_ms=3000)
    assert len(leaving) == 2


@pytest.mark.parametrize("seed", SEEDS)
def test_14_a_change_during_a_cut_is_seen_after_it(seed: int) -> None:
    """kazoo#151: one-shot watches were lost with the connection."""
    change_during_a_cut(Group({"t": 6}, seed))


def change_during_a_cut(group: Group) -> None:
    first, second = group.join_all("ab")
    for process in (first, second):
        process.client.cut()
    group.settle(500)
    group.join("c")
    group.settle(500)
    for process in (first, second):
        assert process.client.state is SessionState.SUSPENDED
        process.client.heal()
    group.until_shared(2, 2, 2, limit_ms=3000)

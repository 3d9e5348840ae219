"""When a person or a tool removes an owner znode, its owner stops immediately, and the partition is claimed again."""

from typing import Any

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.rebalance import events
from kafka_zk.rebalance.ownership import Ownership
from kafka_zk.registry.client.client import Create, Delete, SetData
from kafka_zk.registry.client.errors import ConnectionLoss
from kafka_zk.registry.znodes import consumers as znodes
from kafka_zk.sim.judges.zookeeper_group import Kind
from tests.rebalance.old_consumer import GROUP
from tests.rebalance.world import Group, Process

STRATEGIES = ("range", "roundrobin", "sticky", "cooperative-sticky")
T0 = TopicPartition("t", 0)
PATH = znodes.owner_path(GROUP, *T0)
NOTICED_MS = 50  # a few responses of the simulated ZooKeeper


def remove(group: Group, *partitions: TopicPartition) -> None:
    group.scheduler.run(group.tool.multi([Delete(znodes.owner_path(GROUP, *tp)) for tp in partitions]))


def holder(group: Group, tp: TopicPartition = T0) -> Process:
    return next(process for process in group.live if tp in process.owned)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("seed", range(3))
def test_an_owner_znode_that_is_removed_is_claimed_again(strategy: str, seed: int) -> None:
    is_claimed_again(Group({"t": 4}, seed), strategy)


def is_claimed_again(group: Group, strategy: str = "cooperative-sticky") -> None:
    group.join_all("ab", [strategy])
    group.produce(1000)
    group.settle(700)
    owner = holder(group)
    assert len(owner.owned) > 1
    before = len(owner.events)
    remove(group, T0)
    group.until_served(NOTICED_MS)
    assert holder(group) is owner
    (lost,) = [event for event in owner.events[before:] if isinstance(event, events.OwnershipLost)]
    assert lost.partitions == (T0,) and "owner znode" in lost.cause
    started = [event for event in owner.events[before:] if isinstance(event, events.DeliveryStarted)]
    assert [set(event.offsets) for event in started] == [{T0}], "the other partitions were not affected"
    group.until_consumed()
    group.seen.clear()  # for NOTICED_MS no member can know
    assert not group.violations()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_all_owner_znodes_that_are_removed_are_claimed_again(strategy: str) -> None:
    group = Group({"t": 6, "u": 3})
    group.join_all("abc", [strategy])
    for _ in range(3):
        partitions = [Delete(znodes.owner_path(GROUP, *tp)) for tp in group.log_ends]
        topics = [Delete(znodes.owners_path(GROUP, topic)) for topic in ("t", "u")]
        group.scheduler.run(group.tool.multi([*partitions, *topics]))
        group.until_served(200)


def test_a_claim_of_another_session_in_its_place_is_respected() -> None:
    """The znode is removed and created by another session before the owner is notified. The owner stops, waits, and
    claims when the new znode is gone."""
    group = Group({"t": 4})
    group.join_all("ab")
    group.produce(1000)
    group.settle(300)
    owner = holder(group)
    intruder = group.zookeeper.client("intruder")
    group.scheduler.run(intruder.multi([Delete(PATH), Create(PATH, b"intruder-0", ephemeral=True)]))
    group.settle(NOTICED_MS)
    mark = len(group.seen)
    assert T0 not in owner.positions
    group.settle(3000)
    assert group.owner(T0) == "intruder-0" and not group.seen[mark:]
    group.zookeeper.expire(intruder)
    group.until_served(NOTICED_MS)


def test_a_claim_that_is_removed_between_two_connections_is_noticed() -> None:
    group = Group({"t": 2})
    (member,) = group.join_all("a")
    member.client.cut()
    group.settle(100)
    remove(group, T0)
    member.client.heal()
    group.until_served(200)
    remove(group, T0)  # the watch of the second read
    group.until_served(NOTICED_MS)
    assert [event.partitions for event in member.named(events.OwnershipLost)] == [(T0,), (T0,)]


@pytest.mark.parametrize("after_ms", [0, 2, 5, 10, 20])
def test_a_claim_that_is_removed_while_it_is_given_back_is_no_error(after_ms: int) -> None:
    """The user is still processing the last records, or the release request is in flight."""
    group = Group({"t": 2})
    (member,) = group.join_all("a")
    group.produce(10)
    group.settle(500)
    leaving = member.leave()
    group.settle(after_ms)
    for tp in group.log_ends:
        if group.owner(tp) is not None:
            remove(group, tp)
    group.scheduler.run(leaving)
    assert member.failure is None and set(group.owners().values()) == {None}
    assert not group.violations(all_delivered=False)


@pytest.mark.parametrize("seed", range(5))
def test_a_claim_that_is_removed_as_soon_as_it_is_made_is_noticed(seed: int) -> None:
    group = Group({"t": 2}, seed)
    member = group.join("a")
    while group.owner(T0) is None:
        group.settle(0.1)
    remove(group, T0)
    group.until_served(NOTICED_MS)
    assert member.owned == sorted(group.log_ends)


def test_an_owner_znode_that_is_written_by_hand_is_still_watched() -> None:
    group = Group({"t": 2})
    (member,) = group.join_all("a")
    for _ in range(3):
        group.scheduler.run(group.tool.set(PATH, f"{member.consumer_id}-0".encode()))
        group.settle(NOTICED_MS)
    assert not member.named(events.OwnershipLost)
    remove(group, T0)
    group.until_served(NOTICED_MS)


def test_no_offset_is_committed_without_the_claim() -> None:
    """No offset is committed even before the owner is notified that its claim is gone."""
    no_commit_without_claim(Group({"t": 2}))


def no_commit_without_claim(group: Group) -> None:
    (member,) = group.join_all("a")
    group.settle(200)
    before = group.offset(T0)
    removing = group.tool.multi([Delete(PATH)])
    while group.owner(T0) is not None:
        group.settle(0.01)
    outcome = group.scheduler.run(member.commit({T0: 77}))[T0]
    group.scheduler.run(removing)
    assert outcome is not None and group.offset(T0) == before


def test_the_release_of_one_claim_says_nothing_about_the_next_one() -> None:
    """An eager group releases everything and claims it again; no partition counts as lost because of that."""
    group = Group({"t": 6})
    members = group.join_all("abcd", ["range"])
    group.scheduler.run(members[1].leave())
    group.settle()
    assert not [event for process in group.processes for event in process.named(events.OwnershipLost)]


def test_a_needless_write_to_a_group_znode_costs_one_read() -> None:
    group = Group({"t": 2})
    (member,) = group.join_all("a")
    group.settle(3000)
    before = member.client.counts.copy()
    group.scheduler.run(group.tool.multi([SetData(PATH, b"x"), SetData(PATH, b"y")]))
    group.settle(NOTICED_MS)
    assert {kind: n for kind, n in (member.client.counts - before).items() if kind != "ping"} == {"get": 1}


@pytest.mark.parametrize("seed", range(3))
def test_a_member_checks_its_claims_after_a_pause_before_it_delivers(seed: int) -> None:
    """The lease may still be valid after a short pause during which another member replaced the claim."""
    wakes_up_without_a_claim(Group({"t": 4}, seed))


def wakes_up_without_a_claim(group: Group) -> None:
    (member,) = group.join_all("a")
    group.produce(1000)
    group.settle(300)
    intruder = group.zookeeper.client("intruder")
    member.pause()
    group.settle(200)
    group.scheduler.run(intruder.multi([Delete(PATH), Create(PATH, b"intruder-0", ephemeral=True)]))
    group.settle(1400)
    assert member.client.lease_held()
    member.wake()
    group.settle(NOTICED_MS)
    assert T0 not in member.positions and not group.seen
    mark = len(group.facts)
    group.settle(1000)
    handed_out = {fact.partition for fact in group.facts[mark:] if fact.kind is Kind.HANDED_OUT}
    assert handed_out == set(group.log_ends) - {T0}


def test_a_connection_that_breaks_before_an_owner_is_watched_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next connection sets all watches again."""

    async def broken(*_: Any) -> frozenset[TopicPartition]:
        raise ConnectionLoss("gone")

    group = Group({"t": 2})
    with monkeypatch.context() as patch:
        patch.setattr(Ownership, "watch", broken)
        (member,) = group.join_all("a")
    assert len(member.owned) == 2 and member.failure is None and member.alive

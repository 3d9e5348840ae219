"""After a topic is deleted and recreated under the same name, its group starts according to ``auto.offset.reset``."""

from collections.abc import Iterable

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.rebalance import events
from kafka_zk.registry.offsets import OffsetRegistry
from kafka_zk.registry.znodes.group_topic import group_topic_path
from kafka_zk.sim.judges.zookeeper_group import Kind
from tests.rebalance.old_consumer import GROUP
from tests.rebalance.world import Group

STRATEGIES = ("range", "roundrobin", "sticky", "cooperative-sticky")
OLD, NEW = 20, 50  # records in each partition; the new log has outgrown the old offsets
PARTITIONS = 4


def consumed(group: Group, *names: str, strategy: str) -> None:
    group.join_all(names or "ab", [strategy])
    group.produce(OLD)
    group.until_consumed()


def handed_out_since(group: Group, mark: int, topic: str = "t") -> dict[TopicPartition, list[int]]:
    found: dict[TopicPartition, list[int]] = {}
    for fact in group.facts[mark:]:
        if fact.kind is Kind.HANDED_OUT and fact.partition.topic == topic:
            found.setdefault(fact.partition, []).append(fact.offset)
    return found


def told_of(group: Group) -> set[TopicPartition]:
    return {
        tp for process in group.processes for event in process.named(events.OffsetsOutdated) for tp in event.partitions
    }


def all_of(partitions: Iterable[TopicPartition]) -> dict[TopicPartition, list[int]]:
    return {tp: list(range(NEW)) for tp in partitions}


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("gap_ms", [None, 0, 1, 3, 10, 2000])
def test_the_first_records_of_the_new_topic_are_not_skipped(strategy: str, gap_ms: float | None) -> None:
    """The members keep running. ``None``: no member ever observes that the topic is missing."""
    starts_anew(Group({"t": PARTITIONS, "u": 2}), strategy, gap_ms)


def starts_anew(group: Group, strategy: str = "cooperative-sticky", gap_ms: float | None = 10) -> None:
    consumed(group, strategy=strategy)
    mark = len(group.facts)
    if gap_ms is None:
        group.make_again("t", PARTITIONS, NEW, at_once=True)
    else:
        group.delete_topic("t")
        group.settle(gap_ms)
        group.make_again("t", PARTITIONS, NEW)
    group.until_served()
    group.until_consumed()
    made_again = [tp for tp in group.log_ends if tp.topic == "t"]
    assert handed_out_since(group, mark) == all_of(made_again)
    assert told_of(group) == set(made_again)
    assert not handed_out_since(group, mark, "u"), "the other topic has not changed"
    assert not [process.failure for process in group.processes if process.failure]


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_topic_recreated_while_the_group_had_no_members(strategy: str) -> None:
    group = Group({"t": PARTITIONS})
    consumed(group, strategy=strategy)
    for process in group.live:
        group.scheduler.run(process.leave())
    group.make_again("t", PARTITIONS, NEW, at_once=True)
    mark = len(group.facts)
    group.join("c", [strategy])
    group.until_consumed()
    assert handed_out_since(group, mark) == all_of(group.log_ends)
    assert told_of(group) == set(group.log_ends)


def test_partitions_that_are_claimed_later_start_anew_as_well() -> None:
    """The first member may claim the new partitions one by one, with days in between."""
    group = Group({"t": PARTITIONS})
    consumed(group, strategy="range")
    for process in group.live:
        group.scheduler.run(process.leave())
    group.make_again("t", 2, NEW, at_once=True)
    mark = len(group.facts)
    (member,) = group.join_all("c", ["range"])
    group.until_consumed()
    group.grow_topic("t", 2)
    for tp in group.log_ends:
        group.log_ends[tp] = NEW
    group.until_consumed()
    assert handed_out_since(group, mark) == all_of(group.log_ends)
    assert member.failure is None


def test_what_was_committed_to_the_new_topic_counts() -> None:
    """Our members, old consumers and tools may write offsets. An offset written after the topic was created belongs to
    it."""
    group = Group({"t": 2})
    consumed(group, strategy="range")
    for process in group.live:
        group.scheduler.run(process.leave())
    group.make_again("t", 2, NEW, at_once=True)
    group.scheduler.run(OffsetRegistry(group.tool, GROUP).store({TopicPartition("t", 1): 30}))
    mark = len(group.facts)
    group.join_all("c", ["range"])
    group.until_consumed()
    assert handed_out_since(group, mark) == {
        TopicPartition("t", 0): list(range(NEW)),
        TopicPartition("t", 1): list(range(30, NEW)),
    }
    for process in group.live:
        group.scheduler.run(process.leave())
    group.produce(5)
    mark = len(group.facts)
    group.join_all("d", ["range"])
    group.until_consumed()
    assert handed_out_since(group, mark) == {tp: list(range(NEW, NEW + 5)) for tp in group.log_ends}


def test_offsets_of_a_group_that_none_of_ours_has_read_with_are_trusted() -> None:
    """The offsets may have been imported before the topic was created."""
    group = Group({"u": 1})
    tp = TopicPartition("t", 0)
    group.scheduler.run(OffsetRegistry(group.tool, GROUP).store({tp: 30}))
    group.create_topic("t", 1)
    group.log_ends[tp] = NEW
    (member,) = group.join_all("a", ["range"], subscription={"t": 1, "u": 1})
    group.until_consumed()
    assert handed_out_since(group, 0) == {tp: list(range(30, NEW))}
    assert not told_of(group) and member.failure is None


def test_the_identity_of_a_topic_is_written_once() -> None:
    group = Group({"t": PARTITIONS})
    consumed(group, strategy="range")
    first = group.zookeeper.tree.get(group_topic_path(GROUP, "t"))[1]
    for _ in range(2):
        group.make_again("t", PARTITIONS, NEW, at_once=True)
        group.until_consumed()
        group.join_all("x", ["range"])
    assert group.zookeeper.tree.get(group_topic_path(GROUP, "t"))[1] == first


@pytest.mark.parametrize("seed", range(16))
def test_a_topic_that_is_made_again_and_again_while_members_come_and_go(seed: int) -> None:
    """Connections also break. In the end, all records of the last topic were delivered."""
    group = Group({"t": PARTITIONS}, seed)
    consumed(group, strategy=STRATEGIES[seed % len(STRATEGIES)])
    for number in range(6):
        victim = group.random.choice(group.live)
        fault = group.random.choice([victim.client.disconnect, victim.leave, None])
        if fault is not None:
            fault()
        group.join(f"x{number}", [STRATEGIES[seed % len(STRATEGIES)]])
        group.settle(group.random.uniform(0, 30))
        mark = len(group.facts)
        group.delete_topic("t")
        group.settle(group.random.uniform(5, 100))  # records in flight at that moment count, see decision 0007
        group.make_again("t", PARTITIONS, NEW)
        group.settle(group.random.uniform(0, 1500))
    group.until_consumed()
    assert {tp: sorted(set(offsets)) for tp, offsets in handed_out_since(group, mark).items()} == all_of(group.log_ends)

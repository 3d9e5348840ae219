"""Properties of every strategy's assignor. A new strategy in the table is tested automatically."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Mapping
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.rebalance.assignment import Assignor, GroupSnapshot, group_snapshot
from kafka_zk.rebalance.group_strategy import STRATEGIES
from kafka_zk.registry.znodes.consumers import ConsumerRegistration
from tests.rebalance.groups import Group, equal_members, everything, groups, loads, random_group

K = TypeVar("K")
V = TypeVar("V")

ASSIGNORS = {strategy.assignor.name: strategy.assignor for strategy in STRATEGIES.values()}
every_strategy = pytest.mark.parametrize("assignor", ASSIGNORS.values(), ids=ASSIGNORS.keys())

# String hashes differ between processes, so this reveals an assignor that depends on the order of a set.
_DIGEST = """
import random, sys
from kafka_zk.rebalance.assignment import group_snapshot
from kafka_zk.rebalance.group_strategy import STRATEGIES
from tests.rebalance.groups import random_group
assignor, rng = STRATEGIES[sys.argv[1]].assignor, random.Random(4)
topics = {f"t{number}": range(number) for number in range(12)}
previous = {}
for _ in range(20):
    previous = assignor.assign(group_snapshot(random_group(rng, list(topics)), topics, previous))
    print(sorted(previous.items()))
"""


@every_strategy
@given(group=groups())
def test_total_and_disjoint(assignor: Assignor, group: Group) -> None:
    """Every partition with subscribers is assigned to one thread of a subscriber; other partitions are not assigned."""
    snapshot = group.snapshot
    assignment = assignor.assign(snapshot)
    assert set(assignment) == everything(snapshot)
    assert all(thread in snapshot.threads[partition.topic] for partition, thread in assignment.items())


@every_strategy
@given(group=groups(equal=True, topic_count=1))
def test_balanced(assignor: Assignor, group: Group) -> None:
    """On one topic, counts differ by at most one. (Each strategy's own tests cover several topics.)"""
    counts = loads(group.snapshot, assignor.assign(group.snapshot)).values()
    assert max(counts) - min(counts) <= 1


@every_strategy
@given(group=groups(), rng=st.randoms(use_true_random=False))
def test_deterministic_in_any_order(assignor: Assignor, group: Group, rng: random.Random) -> None:
    """ZooKeeper lists children in no defined order, so members may see different orders."""

    def shuffled(table: Mapping[K, V]) -> dict[K, V]:
        return dict(rng.sample(list(table.items()), len(table)))

    decided = assignor.assign(group.snapshot)
    assert assignor.assign(Group(*(shuffled(table) for table in group)).snapshot) == decided
    threads, partitions, previous = group.snapshot.threads, group.snapshot.partitions, group.snapshot.previous
    again = GroupSnapshot(shuffled(threads), shuffled(partitions), shuffled(previous))
    assert assignor.assign(again) == decided


@pytest.mark.integration
@every_strategy
def test_deterministic_in_every_process(assignor: Assignor) -> None:
    """There are twenty rounds, each starting from the previous assignment, with two seeds for Python's hashes."""
    outputs = {
        subprocess.run(
            [sys.executable, "-c", _DIGEST, assignor.name],
            capture_output=True, check=True, env={"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(outputs) == 1
    assert len(outputs.pop().splitlines()) == 20


@every_strategy
@given(group=groups())
def test_sticky_when_nothing_changed(assignor: Assignor, group: Group) -> None:
    """A rebalance without a cause moves nothing."""
    assignment = assignor.assign(group.snapshot)
    assert assignor.assign(group._replace(previous=dict(assignment)).snapshot) == assignment


@every_strategy
def test_the_snapshot_is_not_modified(assignor: Assignor) -> None:
    """Members share it with their observers."""
    group = random_group(random.Random(5), ["a", "b", "c", "d", "e"])
    snapshot, same = (group_snapshot(group, {"a": [0, 1, 2], "b": [0]}) for _ in range(2))
    assignor.assign(snapshot)
    assert snapshot == same


@pytest.mark.slow
@every_strategy
@pytest.mark.parametrize("topic_count", [1, 100, 2000])
def test_200_members_on_2000_partitions_take_less_than_a_second(assignor: Assignor, topic_count: int) -> None:
    """The limit is CPU time and covers the worst case, in which one member had all partitions. The calculation usually
    takes a fifth of it.
    """
    topics = {f"t{number}": range(2000 // topic_count) for number in range(topic_count)}
    members = equal_members(200, list(topics))
    hoarded = dict.fromkeys(everything(group_snapshot(members, topics)), "m000-0")
    snapshot = group_snapshot(members, topics, hoarded)
    started = time.process_time()
    assignment = assignor.assign(snapshot)
    assert time.process_time() - started < 1
    assert len(assignment) == 2000


@every_strategy
@pytest.mark.parametrize("previous", ["hoarded", "random"])
@pytest.mark.parametrize("topic_count", [20, 500])
def test_200_members_with_different_subscriptions_take_less_than_a_second(
    assignor: Assignor, topic_count: int, previous: str
) -> None:
    """Each member subscribes to about half of the topics, so that no two topics have the same subscribers."""
    rng = random.Random(topic_count)
    topics = {f"t{number}": range(2000 // topic_count) for number in range(topic_count)}
    names = [f"m{number:03}" for number in range(200)]
    members = {name: ConsumerRegistration({topic: 1 for topic in topics if rng.random() < 0.5}) for name in names}
    partitions = sorted(everything(group_snapshot(members, topics)))
    before = {partition: "m000-0" if previous == "hoarded" else f"{rng.choice(names)}-0" for partition in partitions}
    snapshot = group_snapshot(members, topics, before)
    started = time.process_time()
    assignment = assignor.assign(snapshot)
    assert time.process_time() - started < 1
    assert len(assignment) == 2000

"""``range``: the same assignments as Kafka's."""

from __future__ import annotations

import pytest
from hypothesis import given

from kafka_zk.rebalance.range import RangeAssignor
from tests.rebalance.golden import GOLDEN
from tests.rebalance.groups import Group, groups


@pytest.mark.parametrize("name", GOLDEN)
def test_golden_tables(name: str) -> None:
    """The tables are those of Kafka 0.8.2.2 and 0.10.2.2 (compared in tests/peers/groups/test_assignors.py)."""
    assert RangeAssignor().assign(GOLDEN[name].snapshot) == GOLDEN[name].assignment("range")


@given(groups())
def test_each_thread_has_one_run_of_each_topic(group: Group) -> None:
    """Runs are in the order of threads; the first threads get one partition more."""
    snapshot = group.snapshot
    assignment = RangeAssignor().assign(snapshot)
    for topic, threads in snapshot.threads.items():
        runs = [
            [number for number in snapshot.partitions[topic] if assignment[topic, number] == thread]  # type: ignore[index]
            for thread in threads
        ]
        assert [number for run in runs for number in run] == list(snapshot.partitions[topic])
        assert sorted(map(len, runs), reverse=True) == list(map(len, runs))
        assert len(runs[0]) - len(runs[-1]) <= 1

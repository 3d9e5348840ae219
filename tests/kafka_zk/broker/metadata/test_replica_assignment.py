"""Replica assignment: Kafka's example, and the properties that always hold."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.broker.metadata.replica_assignment import MissingRacks, alternate_racks, assign, assign_by_racks

_RACKS = {0: "rack1", 1: "rack3", 2: "rack3", 3: "rack2", 4: "rack2", 5: "rack1"}


def test_the_example_in_kafkas_documentation() -> None:
    """Five brokers, ten partitions, three replicas, start 0, shift 0 (AdminUtils)."""
    assignment = assign([0, 1, 2, 3, 4], 10, 3, 0, 0)
    assert assignment[0] == [0, 1, 2]
    assert assignment[4] == [4, 0, 1]
    assert assignment[5] == [0, 2, 3]
    assert assignment[9] == [4, 1, 2]


@given(st.integers(1, 9), st.integers(1, 40), st.data())
def test_leaders_are_balanced_and_replicas_distinct(broker_count: int, partitions: int, data: st.DataObject) -> None:
    """No broker leads two partitions more than another, no partition has a broker twice."""
    replicas = data.draw(st.integers(1, broker_count))
    brokers = list(range(100, 100 + broker_count))
    start, shift = data.draw(st.integers(0, 9)), data.draw(st.integers(0, 9))
    assignment = assign(brokers, partitions, replicas, start, shift)
    leaders = [assigned[0] for assigned in assignment.values()]
    counts = [leaders.count(broker) for broker in brokers]
    assert max(counts) - min(counts) <= 1
    assert all(len(set(assigned)) == replicas for assigned in assignment.values())


def test_the_example_with_racks_in_kafkas_documentation() -> None:
    """Six brokers in three racks; the seventh partition does not repeat the first."""
    assert alternate_racks(_RACKS) == [0, 3, 1, 5, 4, 2]
    assignment = assign_by_racks(_RACKS, 7, 3, 0, 0)
    assert list(assignment.values()) == [
        [0, 3, 1], [3, 1, 5], [1, 5, 4], [5, 4, 2], [4, 2, 0], [2, 0, 3], [0, 4, 2],
    ]  # fmt: skip


def test_racks_of_different_sizes_take_turns_as_long_as_they_can() -> None:
    assert alternate_racks({1: "b", 2: "a", 3: "a", 4: "a", 5: "c"}) == [2, 1, 5, 3, 4]


def test_without_racks_brokers_take_turns_by_their_ids() -> None:
    assert assign_by_racks(dict.fromkeys((2, 0, 1)), 3, 2, 0, 0) == assign([0, 1, 2], 3, 2, 0, 0)


def test_who_has_no_rack_among_those_who_have_is_named() -> None:
    with pytest.raises(MissingRacks, match="missing for 2, 7"):
        assign_by_racks({7: None, 1: "a", 2: None}, 1, 1, 0, 0)


@given(st.lists(st.sampled_from("abcd"), min_size=1, max_size=9), st.integers(1, 30), st.integers(0, 20), st.data())
def test_replicas_lie_in_as_many_racks_as_there_are(
    names: list[str], partitions: int, first: int, data: st.DataObject
) -> None:
    """Leaders are balanced over brokers, whatever their racks."""
    racks = {broker: name for broker, name in enumerate(names, 100)}
    replicas = data.draw(st.integers(1, len(racks)))
    start, shift = data.draw(st.integers(0, 9)), data.draw(st.integers(0, 9))
    assignment = assign_by_racks(racks, partitions, replicas, start, shift, first)
    assert list(assignment) == list(range(first, first + partitions))
    leaders = [assigned[0] for assigned in assignment.values()]
    counts = [leaders.count(broker) for broker in racks]
    assert max(counts) - min(counts) <= 1
    for assigned in assignment.values():
        assert len(set(assigned)) == replicas
        assert len({racks[broker] for broker in assigned}) == min(replicas, len(set(names)))

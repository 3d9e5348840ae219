"""Replica assignment: Kafka's example, and its promises."""

from hypothesis import given
from hypothesis import strategies as st

from kafka_zk.metadata.replica_assignment import assign


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

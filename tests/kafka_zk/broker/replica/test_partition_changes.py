"""The latest changes of partitions, for readers that examine only changed partitions."""

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.replica.partition_changes import KEPT, PartitionChanges

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


def test_what_has_changed_since_a_look_is_told_once() -> None:
    changes = PartitionChanges()
    assert changes.since(changes.count) == set()
    changes.note(A)
    seen_count = changes.count
    changes.note(B)
    changes.note(B)
    assert (changes.since(0), changes.since(seen_count), changes.since(changes.count)) == ({A, B}, {B}, set())


def test_whoever_looks_too_late_is_told_that_it_is_not_known() -> None:
    changes = PartitionChanges()
    for _ in range(KEPT + 1):
        changes.note(A)
    assert (changes.since(0), changes.since(1)) == (None, {A})

"""Events in words."""

import pytest

from kafka_zk.base.events import Event
from kafka_zk.base.types import TopicPartition
from kafka_zk.rebalance.events import ClaimWaits
from kafka_zk.recorder.timeline.narrator import Narrator, listed, short_name
from tests.kafka_zk.recorder.timeline.samples import every_event

_OF_BROKERS = (
    "kafka_zk.broker.controller.events", "kafka_zk.broker.replica.events", "kafka_zk.recorder.timeline.cluster_events",
    "kafka_zk.broker.transaction.events",
)  # fmt: skip


@pytest.mark.parametrize(
    "event",
    [event for event in every_event() if type(event).__module__ not in _OF_BROKERS],
    ids=lambda event: type(event).__name__,
)
def test_every_event_has_a_sentence(event: Event) -> None:
    """A new kind of event must get one, too."""
    assert Narrator("g").sentence(event)


def test_names_are_short() -> None:
    """What tells a member from the others."""
    assert short_name("g", "g_host-1795231299264-4cff9582") == "4cff9582"
    assert short_name("g", "g_anna") == "anna"
    assert short_name("g", "observer") == "observer"
    waits = ClaimWaits(0, "g_anna", "", 0, TopicPartition("t", 1), "g_host-1795231299264-4cff9582-0")
    assert Narrator("g").sentence(waits) == "waits for 4cff9582-0 to release t-1 (watches its owner znode)"


def test_partitions_are_listed_by_topic() -> None:
    """Short, in order."""
    tps = [TopicPartition("u", 2), TopicPartition("t", 10), TopicPartition("t", 9)]
    assert listed(tps) == "t-9,10 u-2" and listed([]) == "nothing"

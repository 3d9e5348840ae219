"""Events in words."""

import pytest

from kafka_zk.base.events import Event
from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.controller.events import ControllerChanged
from kafka_zk.rebalance.events import ClaimWaits
from kafka_zk.recorder.timeline.names import GroupNames, listed, listed_offsets, short_name
from kafka_zk.recorder.timeline.sentences import sentence
from kafka_zk.registry.client.client import EventType
from kafka_zk.registry.client.events import WatchFired
from tests.kafka_zk.recorder.timeline.samples import every_event

_REPEATS = {ControllerChanged}  # the sentence of a read of /controller contains it already


@pytest.mark.parametrize("event", every_event(), ids=lambda event: type(event).__name__)
def test_every_event_has_a_sentence(event: Event) -> None:
    """A new kind of event must get a sentence, too."""
    said = sentence(event)
    assert (said is None) == (type(event) in _REPEATS)
    assert said is None or ("{}" in said.text) == bool(said.items)
    assert said is None or str(said)


def test_names_are_short() -> None:
    """A short name is the part of an id that distinguishes the members."""
    assert short_name("g", "g_host-1795231299264-4cff9582") == "4cff9582"
    assert short_name("g", "g_anna") == "anna"
    assert short_name("g", "observer") == "observer"
    waits = ClaimWaits(0, "g_anna", "", 0, TopicPartition("t", 1), "g_host-1795231299264-4cff9582-0")
    said = sentence(waits, GroupNames("g"))
    assert str(said) == "waits for 4cff9582-0 to release t-1 (watches its owner znode)"


def test_paths_of_a_group_are_short() -> None:
    fired = WatchFired(0, "g_anna", "child", 0, "/consumers/g/ids", EventType.CHILD)
    assert str(sentence(fired, GroupNames("g"))) == "watch on ids fired: child"
    assert str(sentence(fired)) == "watch on /consumers/g/ids fired: child"


def test_partitions_are_listed_by_topic() -> None:
    """The list is short and sorted."""
    tps = [TopicPartition("u", 2), TopicPartition("t", 10), TopicPartition("t", 9)]
    assert listed(tps) == "t-9,10 u-2" and listed([]) == "nothing"
    assert listed_offsets(dict(zip(tps, (-1, 5, 5), strict=True))) == "t-9,10 at 5, u-2 without an offset"

"""Events as JSON and back."""

import json

import pytest

from kafka_zk.base.events import Event
from kafka_zk.base.types import TopicPartition
from kafka_zk.rebalance.events import Claimed
from kafka_zk.recorder.timeline.event_codec import EVENT_TYPES, UnknownEvent, decode, encode
from tests.kafka_zk.recorder.timeline.samples import every_event, kinds


@pytest.mark.parametrize("event", every_event(), ids=lambda event: type(event).__name__)
def test_every_kind_of_event_survives(event: Event) -> None:
    """The event survives a round trip through JSON; the test also finds new kinds by itself."""
    assert decode(json.loads(json.dumps(encode(event)))) == event


def test_every_kind_of_event_has_a_codec() -> None:
    """Events of the controller and of replicas are included. Names are unique, because a trace has only the name."""
    assert sorted(EVENT_TYPES) == [kind.__name__ for kind in kinds()]
    assert {"LeadersElected", "RoleChanged", "Claimed", "WatchFired", "OwnersSeen"} <= EVENT_TYPES.keys()


def test_what_a_line_looks_like() -> None:
    """Partitions appear as topic-partition, and keys as in the class."""
    event = Claimed(1_000, "g_a", "generation 2", 0, {TopicPartition("t", 0): 5}, {TopicPartition("t", 0): 9})
    assert encode(event) == {
        "event": "Claimed", "time_ms": 1_000, "actor": "g_a", "cause": "generation 2", "zxid": 0, "offsets": {"t-0": 5},
        "tokens": {"t-0": 9},
    }  # fmt: skip
    assert {"WatchArmed", "WatchFired", "RebalanceFinished", "OwnersSeen"} <= EVENT_TYPES.keys()


@pytest.mark.parametrize(
    "document", [{}, {"event": "Nonsense"}, {"event": "Claimed"}, {"event": "Claimed", "offsets": 5}]
)
def test_other_lines_are_refused(document: dict[str, object]) -> None:
    """The only exception is UnknownEvent."""
    with pytest.raises(UnknownEvent):
        decode(document)

"""The metadata cache follows the controller's updates."""

from kafka_zk.metadata.cache import MetadataCache
from kafka_zk.protocol import uuids
from tests.kafka_zk.handlers.conftest import update_metadata

LED = {"controller_epoch": 1, "leader": 0, "leader_epoch": 0, "isr": [0], "replicas": [0]}


def test_partitions_add_up_and_topic_ids_are_known_both_ways() -> None:
    """An update names what changed; the rest stays."""
    cache = MetadataCache()
    first, second = uuids.random_topic_id(), uuids.random_topic_id()
    cache.update(update_metadata("a", first, 2, LED))
    cache.update(update_metadata("b", second, 1, LED))
    assert {topic: sorted(partitions) for topic, partitions in cache.topics.items()} == {"a": [0, 1], "b": [0]}
    assert cache.topic_names == {first: "a", second: "b"}


def test_a_topic_made_anew_has_its_new_id_only() -> None:
    """Deleted and created again under the same name, with fewer partitions."""
    cache = MetadataCache()
    old, new = uuids.random_topic_id(), uuids.random_topic_id()
    cache.update(update_metadata("t", old, 3, LED))
    cache.update(update_metadata("t", new, 1, LED))
    assert (cache.topic_ids, cache.topic_names) == ({"t": new}, {new: "t"})
    assert list(cache.topics["t"]) == [0]


def test_leader_minus_2_deletes() -> None:
    """The last partition takes the topic and its id along."""
    cache = MetadataCache()
    topic_id = uuids.random_topic_id()
    cache.update(update_metadata("t", topic_id, 2, LED))
    cache.update(update_metadata("t", topic_id, 2, {**LED, "leader": -2}))
    assert (cache.topics, cache.topic_ids, cache.topic_names) == ({}, {}, {})


def test_a_broker_that_registered_again_forgets_what_it_is_not_told_anew() -> None:
    """A topic that was deleted while it was away is named by no later update; until the first one all stays."""
    cache = MetadataCache()
    kept = uuids.random_topic_id()
    cache.update(update_metadata("deleted", uuids.random_topic_id(), 1, LED))
    cache.update(update_metadata("kept", kept, 1, LED))
    assert sorted(cache.topics) == ["deleted", "kept"]
    first = update_metadata("kept", kept, 1, LED)
    first.broker_epoch = 2
    cache.update(first)
    assert (list(cache.topics), cache.topic_names) == (["kept"], {kept: "kept"})

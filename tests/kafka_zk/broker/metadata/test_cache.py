"""The metadata cache follows the controller's updates."""

from typing import Any

import pytest

from kafka_zk.broker.metadata.cache import EncodedTopic, MetadataCache, PartitionInfo
from kafka_zk.protocol import uuids
from tests.kafka_zk.broker.conftest import update_metadata

LED = {"controller_epoch": 1, "leader": 0, "leader_epoch": 0, "isr": [0], "replicas": [0]}


def registered_again(request: Any, times: int = 1) -> Any:
    """The request that a broker receives after its ``times``-th new registration."""
    request.broker_epoch = 1 + times
    return request


def test_partitions_add_up_and_topic_ids_are_known_both_ways() -> None:
    """An update replaces only what it names."""
    cache = MetadataCache()
    first, second = uuids.random_topic_id(), uuids.random_topic_id()
    cache.update(update_metadata("a", first, 2, LED))
    cache.update(update_metadata("b", second, 1, LED))
    assert {topic: sorted(partitions) for topic, partitions in cache.topics.items()} == {"a": [0, 1], "b": [0]}
    assert cache.topic_names == {first: "a", second: "b"}


def test_a_topic_made_anew_has_its_new_id_only() -> None:
    """The topic was deleted and created again under the same name, with fewer partitions."""
    cache = MetadataCache()
    old, new = uuids.random_topic_id(), uuids.random_topic_id()
    cache.update(update_metadata("t", old, 3, LED))
    cache.update(update_metadata("t", new, 1, LED))
    assert (cache.topic_ids, cache.topic_names) == ({"t": new}, {new: "t"})
    assert list(cache.topics["t"]) == [0]


def test_a_topic_that_gets_an_id_is_encoded_anew() -> None:
    """The inter.broker.protocol.version was raised; nothing else has changed."""
    cache = MetadataCache()
    cache.update(update_metadata("t", uuids.ZERO, 1, LED))
    cache.encoded["t"] = {"version": EncodedTopic()}
    cache.update(update_metadata("t", uuids.random_topic_id(), 1, LED))
    assert "t" not in cache.encoded


def test_leader_minus_2_deletes() -> None:
    """With its last partition, the topic and its id are deleted."""
    cache = MetadataCache()
    topic_id = uuids.random_topic_id()
    cache.update(update_metadata("t", topic_id, 2, LED))
    cache.update(update_metadata("t", topic_id, 2, {**LED, "leader": -2}))
    assert (cache.topics, cache.topic_ids, cache.topic_names) == ({}, {}, {})


def test_a_broker_that_registered_again_forgets_what_it_is_not_told_anew() -> None:
    """No later update names a topic that was deleted while the broker was away; until the first update everything
    stays.
    """
    cache = MetadataCache()
    kept = uuids.random_topic_id()
    cache.update(update_metadata("deleted", uuids.random_topic_id(), 1, LED))
    cache.update(update_metadata("kept", kept, 1, LED))
    assert sorted(cache.topics) == ["deleted", "kept"]
    cache.update(registered_again(update_metadata("kept", kept, 1, LED)))
    assert (list(cache.topics), cache.topic_names) == (["kept"], {kept: "kept"})


def test_news_of_the_brokers_alone_leave_it_what_it_knew() -> None:
    """A new controller sends the live brokers first, and partitions once it has elected leaders."""
    cache = MetadataCache()
    topic_id = uuids.random_topic_id()
    cache.update(update_metadata("t", topic_id, 3, LED))
    cache.encoded["t"] = {"version": EncodedTopic()}
    cache.update(registered_again(update_metadata("t", topic_id, 0, LED)))
    assert (list(cache.topics["t"]), cache.topic_names) == ([0, 1, 2], {topic_id: "t"})
    cache.update(registered_again(update_metadata("u", uuids.ZERO, 1, LED)))
    assert (list(cache.topics), cache.topic_ids, cache.topic_names, cache.encoded) == (["u"], {}, {}, {})


@pytest.mark.parametrize(
    ("topic", "leader_epoch", "same_id", "is_taken"),
    [("t", 1, True, True), ("t", 0, True, False), ("t", 1, False, False), ("u", 1, True, False)],
    ids=["newer", "the same leader epoch", "another topic of that name", "a topic nobody told of"],
)
def test_a_newer_leader_counts_before_the_update(topic: str, leader_epoch: int, same_id: bool, is_taken: bool) -> None:
    cache = MetadataCache()
    topic_id = uuids.random_topic_id()
    cache.update(update_metadata("t", topic_id, 1, {**LED, "replicas": [0, 1, 2]}))
    cache.topics["t"][0].offline_replicas.append(2)
    cache.encoded["t"] = {"key": EncodedTopic()}
    [encoded] = cache.encoded["t"].values()
    encoded.parts, encoded.chunks = (b"leader 0", b"others"), {0: b"leader 0", 1: b"others"}
    told = PartitionInfo(1, 1, leader_epoch, [0, 1], 7, [0, 1, 2], [])
    cache.new_leader(topic, topic_id if same_id else uuids.random_topic_id(), 0, told)
    assert (cache.partition("t", 0) == told._replace(offline_replicas=[2])) is is_taken
    assert (encoded.parts is None) is is_taken
    assert list(encoded.chunks) == ([1] if is_taken else [0, 1])
    assert list(cache.topics) == ["t"]


def test_what_is_known_already_takes_nothing_away_that_was_encoded() -> None:
    """LeaderAndIsr announced the new leader before UpdateMetadata does."""
    cache = MetadataCache()
    topic_id = uuids.random_topic_id()
    cache.update(update_metadata("t", topic_id, 2, LED))
    cache.new_leader("t", topic_id, 0, PartitionInfo(1, 1, 1, [0, 1], 0, [0, 1], []))
    encoded = cache.encoded.setdefault("t", {}).setdefault("key", EncodedTopic())
    encoded.parts = (b"all",)
    told = {"controller_epoch": 1, "leader": 1, "leader_epoch": 1, "isr": [0, 1], "replicas": [0, 1]}
    cache.update(update_metadata("t", topic_id, 1, told))
    assert encoded.parts is not None
    cache.update(update_metadata("t", topic_id, 1, {**told, "leader": 0, "leader_epoch": 2}))
    assert encoded.parts is None

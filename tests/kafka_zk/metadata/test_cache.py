"""The metadata cache follows the controller's updates."""

from typing import Any

import pytest

from kafka_zk.metadata.cache import EncodedTopic, MetadataCache, PartitionInfo
from kafka_zk.protocol import uuids
from tests.kafka_zk.handlers.conftest import update_metadata

LED = {"controller_epoch": 1, "leader": 0, "leader_epoch": 0, "isr": [0], "replicas": [0]}


def registered_again(request: Any, times: int = 1) -> Any:
    """The request as it is sent to a broker that has registered again so often."""
    request.broker_epoch = 1 + times
    return request


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
    cache.update(registered_again(update_metadata("kept", kept, 1, LED)))
    assert (list(cache.topics), cache.topic_names) == (["kept"], {kept: "kept"})


@pytest.mark.parametrize("has_id", [True, False])
def test_it_keeps_the_partitions_of_a_topic_of_which_it_is_told_a_part(has_id: bool) -> None:
    """A controller that has just taken over tells of the partitions first that it elected leaders for."""
    cache = MetadataCache()
    topic_id = uuids.random_topic_id() if has_id else uuids.ZERO
    cache.update(update_metadata("t", topic_id, 3, LED))
    cache.update(registered_again(update_metadata("t", topic_id, 1, {**LED, "leader": -1, "leader_epoch": 1})))
    assert {number: info.leader for number, info in cache.topics["t"].items()} == {0: -1, 1: 0, 2: 0}


def test_but_not_those_of_another_topic_of_that_name() -> None:
    cache = MetadataCache()
    cache.update(update_metadata("t", uuids.random_topic_id(), 3, LED))
    cache.update(registered_again(update_metadata("t", uuids.random_topic_id(), 1, LED)))
    assert list(cache.topics["t"]) == [0]


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize(("epoch_before", "epoch"), [(0, 0), (5, 0), (5, 3)])
def test_without_ids_leader_epochs_say_that_a_topic_was_made_anew(epoch_before: int, epoch: int, count: int) -> None:
    """Deleted while the broker was away, and created again with fewer partitions."""
    cache = MetadataCache()
    cache.update(update_metadata("t", uuids.ZERO, 4, {**LED, "leader_epoch": epoch_before}))
    cache.update(registered_again(update_metadata("t", None, count, {**LED, "leader_epoch": epoch})))
    assert list(cache.topics["t"]) == list(range(count))


def test_what_waits_ends_with_the_rest_of_the_news() -> None:
    """A part came first; the rest shows that the topic was made anew with two partitions."""
    cache = MetadataCache()
    cache.update(update_metadata("t", uuids.ZERO, 4, LED))
    cache.update(registered_again(update_metadata("t", uuids.ZERO, 1, {**LED, "leader_epoch": 1})))
    assert list(cache.topics["t"]) == [0, 1, 2, 3]
    rest = update_metadata("t", uuids.ZERO, 2, LED)
    del rest.topic_states[0].partition_states[0]
    cache.update(registered_again(rest))
    assert list(cache.topics["t"]) == [0, 1]


def test_a_partition_that_is_added_says_nothing_of_those_before() -> None:
    """It begins at leader epoch 0 in a topic that is as old as ever."""
    cache = MetadataCache()
    cache.update(update_metadata("t", uuids.ZERO, 2, LED))
    added = update_metadata("t", uuids.ZERO, 3, LED)
    del added.topic_states[0].partition_states[:2]
    cache.update(registered_again(added))
    cache.update(registered_again(added))
    assert sorted(cache.topics["t"]) == [0, 1, 2]


def test_nothing_waits_beside_another_topic_of_that_name() -> None:
    """The topic got an id with a newer inter.broker.protocol.version, and was made anew after that."""
    cache = MetadataCache()
    first, second = uuids.random_topic_id(), uuids.random_topic_id()
    cache.update(update_metadata("t", uuids.ZERO, 3, LED))
    newer = {**LED, "leader_epoch": 1}
    for topic_id in (uuids.ZERO, first):
        cache.update(registered_again(update_metadata("t", topic_id, 1, newer)))
        assert list(cache.topics["t"]) == [0, 1, 2]
    cache.update(registered_again(update_metadata("t", second, 2, LED)))
    assert list(cache.topics["t"]) == [0, 1]


def test_a_topic_that_is_deleted_takes_along_what_was_not_told_again() -> None:
    cache = MetadataCache()
    cache.update(update_metadata("t", uuids.ZERO, 3, LED))
    cache.update(registered_again(update_metadata("t", uuids.ZERO, 1, {**LED, "leader_epoch": 1})))
    cache.update(registered_again(update_metadata("t", uuids.ZERO, 1, {**LED, "leader": -2})))
    assert cache.topics == {}


@pytest.mark.parametrize("has_id", [True, False])
def test_one_more_registration_forgets_nothing(has_id: bool) -> None:
    """Of one topic it had been told nothing yet, of the other a part."""
    cache = MetadataCache()
    ids = {topic: uuids.random_topic_id() if has_id else uuids.ZERO for topic in ("nothing", "part")}
    for topic, topic_id in ids.items():
        cache.update(update_metadata(topic, topic_id, 3, LED))
    newer = {**LED, "leader_epoch": 1}
    cache.update(registered_again(update_metadata("part", ids["part"], 1, newer)))
    for topic, topic_id in ids.items():
        cache.update(registered_again(update_metadata(topic, topic_id, 1, newer), times=2))
    assert {topic: sorted(known) for topic, known in cache.topics.items()} == {"nothing": [0, 1, 2], "part": [0, 1, 2]}


def test_what_two_registrations_do_not_tell_again_is_forgotten() -> None:
    """A topic that was deleted while the broker was away is named by no later update."""
    cache = MetadataCache()
    topic_id = uuids.random_topic_id()
    newer = {**LED, "leader_epoch": 1}
    cache.update(update_metadata("t", topic_id, 3, LED))
    for times in (1, 2, 3):
        cache.update(registered_again(update_metadata("u", uuids.ZERO, 1, LED), times))
    cache.update(registered_again(update_metadata("t", topic_id, 1, newer), times=3))
    assert list(cache.topics["t"]) == [0]


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

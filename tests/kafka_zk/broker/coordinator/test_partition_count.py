"""All keys are spread over the same number of partitions, however much of the topic the broker knows."""

import uuid

import pytest

from kafka_zk.broker.coordinator.partition_count import PartitionCount, count_in_zookeeper
from kafka_zk.broker.metadata.cache import MetadataCache, PartitionInfo
from kafka_zk.broker.process.broker import Broker
from kafka_zk.broker.process.opening_logs import StartAbandoned
from kafka_zk.protocol import uuids
from kafka_zk.registry.paths import ensure_persistent_paths
from kafka_zk.registry.topics import TopicRegistry
from kafka_zk.registry.znodes import topics
from kafka_zk.registry.znodes.topics import TopicAssignment
from kafka_zk.sim.world.world import World as Brokers
from tests.registry.world import World

TOPIC = "__consumer_offsets"
FIRST_ID, SECOND_ID = uuid.UUID(int=1), uuid.UUID(int=2)


def tell(metadata: MetadataCache, count: int, topic_id: uuid.UUID | None = FIRST_ID) -> None:
    """Give the broker's metadata this number of partitions."""
    metadata.topics[TOPIC] = {number: PartitionInfo(1, 0, 0, [0], 0, [0], []) for number in range(count)}
    metadata.topic_ids.pop(TOPIC, None)
    if topic_id is not None:
        metadata.topic_ids[TOPIC] = topic_id


def test_the_configured_number_counts_until_there_is_a_topic() -> None:
    metadata = MetadataCache()
    count = PartitionCount(metadata, TOPIC, 50)
    assert count() == 50
    tell(metadata, 3)
    assert count() == 3
    tell(metadata, 4)
    assert count() == 3, "added partitions move no keys"
    metadata.topics.clear()
    assert count() == 3, "in a new session, the topic is announced later"
    tell(metadata, 4, SECOND_ID)
    assert count() == 4, "this is another topic with the same name"


def test_what_zookeeper_has_counts_more_than_a_part_that_is_told_of() -> None:
    metadata = MetadataCache()
    count = PartitionCount(metadata, TOPIC, 50)
    count.found(FIRST_ID, 7)
    assert count() == 7
    tell(metadata, 2)
    assert count() == 7
    tell(metadata, 5, SECOND_ID)
    assert count() == 5


@pytest.mark.parametrize(("found", "told"), [(None, FIRST_ID), (FIRST_ID, None)], ids=["old-topic", "old-controller"])
def test_only_another_id_means_another_topic(found: uuid.UUID | None, told: uuid.UUID | None) -> None:
    """A topic of an old broker may get an id later, and an old controller sends no ids."""
    metadata = MetadataCache()
    count = PartitionCount(metadata, TOPIC, 50)
    count.found(found, 7)
    tell(metadata, 3, told)
    assert count() == 7
    tell(metadata, 4, SECOND_ID)
    assert count() == 4


def test_topics_are_counted_in_zookeeper() -> None:
    world, metadata = World(1), MetadataCache()
    counts = {name: PartitionCount(metadata, name, 50) for name in ("there", "without-id", "broken", "missing")}

    async def play() -> None:
        client = world.clients[0]
        with_id = TopicAssignment({number: [0] for number in range(3)}, uuids.to_text(FIRST_ID))
        await client.create(topics.topic_path("there"), topics.encode_assignment(with_id))
        await client.create(topics.topic_path("without-id"), topics.encode_assignment(TopicAssignment({0: [0]})))
        await client.create(topics.topic_path("broken"), b"{")
        await count_in_zookeeper(TopicRegistry(client), counts.values())

    world.scheduler.run(play())
    assert {name: count() for name, count in counts.items()} == {
        "there": 3, "without-id": 1, "broken": 50, "missing": 50
    }  # fmt: skip


def test_a_broker_that_is_to_stop_meanwhile_does_not_bind(monkeypatch: pytest.MonkeyPatch) -> None:
    bound: list[Broker] = []
    monkeypatch.setattr(Broker, "_bind", bound.append)
    with Brokers(0) as world:
        made = world.broker(0)

        async def told_to_stop(*_: object) -> None:
            assert made.broker is not None
            made.broker._stopping = True

        monkeypatch.setattr("kafka_zk.broker.process.broker.count_in_zookeeper", told_to_stop)
        made.start()
        world.until(lambda: made.start_error is not None)
        assert made.start_error is not None and made.start_error.check(StartAbandoned) and not bound


def test_a_broker_that_starts_counts_the_topics_of_both_coordinators(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker counts them before a controller has sent metadata."""
    monkeypatch.setattr(MetadataCache, "update", lambda *_: None)
    with Brokers(0) as world:
        client = world.zookeeper.client("admin")

        async def create() -> None:
            await ensure_persistent_paths(client)
            for name, size in (("__consumer_offsets", 5), ("__transaction_state", 7)):
                assignment = TopicAssignment({number: [9] for number in range(size)})
                await client.create(topics.topic_path(name), topics.encode_assignment(assignment))

        world.run(create())
        made = world.broker(0)
        made.start()
        world.until(lambda: made.is_started)
        assert made.broker is not None
        services = made.broker.services
        assert (services.coordinator.partition_count(), services.transactions.partition_count()) == (5, 7)

"""Topics in the formats of brokers, tools and old tools."""

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.registry.client.errors import InvalidZnode, NodeExists, NoNode
from kafka_zk.registry.topics import TopicRegistry
from kafka_zk.registry.znodes import topics as znodes
from kafka_zk.registry.znodes.topics import LeaderIsrAndControllerEpoch, TopicAssignment
from tests.registry.world import World

TOPIC_ID = "YTI9vJfzQOepxQr8vcaMoQ"


@pytest.fixture
def world() -> World:
    return World()


def test_creation_writes_config_and_assignment_in_one_multi(world: World) -> None:
    client = world.clients[0]
    registry = TopicRegistry(client)
    world.scheduler.run(registry.create_topic("t", {1: [1], 0: [0]}, TOPIC_ID, {"retention.ms": "1"}))
    assert world.zookeeper.tree.get("/config/topics/t")[0] == b'{"version":1,"config":{"retention.ms":"1"}}'
    assert world.scheduler.run(registry.assignments(["t", "gone"])) == {
        "t": TopicAssignment({0: [0], 1: [1]}, TOPIC_ID)
    }
    assert world.scheduler.run(registry.names()) == ["t"]
    assert client.counts["multi"] == 1


def test_a_topic_that_exists_keeps_its_config(world: World) -> None:
    """Kafka first overwrites the config and then finds that the topic exists; one multi prevents this."""
    registry = TopicRegistry(world.clients[0])
    world.scheduler.run(registry.create_topic("t", {0: [0]}, TOPIC_ID, {"a": "1"}))
    with pytest.raises(NodeExists):
        world.scheduler.run(registry.create_topic("t", {0: [1]}, None, {"a": "2"}))
    assert world.zookeeper.tree.get("/config/topics/t")[0] == b'{"version":1,"config":{"a":"1"}}'


def test_missing_topics_are_found_in_one_round_trip(world: World) -> None:
    """The server first syncs with the leader."""
    client = world.clients[0]
    registry = TopicRegistry(client)
    world.scheduler.run(registry.create_topic("t", {0: [0]}, TOPIC_ID, {}))
    client.counts.clear()
    assert world.scheduler.run(registry.missing(["gone", "t", "gone"])) == {"gone"}
    assert client.counts == {"sync": 1, "exists": 2}


@pytest.mark.parametrize("applied", [True, False])
def test_a_creation_whose_answer_was_lost_happens_once(world: World, applied: bool) -> None:
    """A topic that we created is recognized by its id; any other existing topic is an error."""
    client = world.clients[0]
    registry = TopicRegistry(client)
    client.lose_request(applied=applied)
    world.scheduler.run(registry.create_topic("t", {0: [0]}, TOPIC_ID, {"a": "1"}))
    assert world.scheduler.run(registry.assignments(["t"])) == {"t": TopicAssignment({0: [0]}, TOPIC_ID)}
    client.lose_request(applied=applied)
    with pytest.raises(NodeExists):
        world.scheduler.run(registry.create_topic("t", {0: [0]}, "2GFxDLooQ2i-dgl3mxZxWw", {}))


@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.parametrize("after", [0, 1])
def test_growth_and_deletion_continue_after_a_lost_answer(world: World, applied: bool, after: int) -> None:
    """Any read or write may lose its connection, applied or not. In the end, the request has taken effect."""
    client = world.clients[0]
    registry = TopicRegistry(client)
    world.scheduler.run(registry.create_topic("t", {0: [0]}, TOPIC_ID, {}))
    client.lose_request(after, applied=applied)
    grown = world.scheduler.run(registry.add_partitions("t", {1: [1]}))
    assert grown.partitions == {0: [0], 1: [1]}
    client.lose_request(applied=applied)
    world.scheduler.run(registry.request_deletion("t"))
    assert world.scheduler.run(registry.deletions()) == ["t"]


def test_a_config_that_was_left_behind_is_replaced(world: World) -> None:
    client = world.clients[0]
    world.scheduler.run(client.create("/config/topics/t", b'{"version":1,"config":{"old":"1"}}'))
    world.scheduler.run(TopicRegistry(client).create_topic("t", {0: [0]}, None, {}))
    assert world.zookeeper.tree.get("/config/topics/t")[0] == b'{"version":1,"config":{}}'


def test_the_parents_are_made_where_they_are_absent(world: World) -> None:
    client = world.zookeeper.client("fresh", chroot="/fresh")
    registry = TopicRegistry(client)
    assert world.scheduler.run(registry.names()) == []
    assert world.scheduler.run(registry.deletions()) == []
    world.scheduler.run(registry.create_topic("t", {0: [0]}, None, {}))
    world.scheduler.run(registry.request_deletion("t"))
    assert world.scheduler.run(registry.names()) == ["t"]
    assert world.scheduler.run(registry.deletions()) == ["t"]


def test_concurrent_creators_make_it_once(campaign_seed: int) -> None:
    world = World(4, campaign_seed)
    made: list[int] = []

    async def create(number: int) -> None:
        config = {"by": str(number)}
        topic_id = f"{number}{TOPIC_ID[1:]}"
        try:
            await TopicRegistry(world.clients[number]).create_topic("t", {0: [number]}, topic_id, config)
            made.append(number)
        except NodeExists:
            return

    for number in range(4):
        world.scheduler.start(create(number))
    world.scheduler.run_for(1000)
    assert len(made) == 1
    found = world.scheduler.run(TopicRegistry(world.clients[0]).assignments(["t"]))
    assert found["t"].topic_id == f"{made[0]}{TOPIC_ID[1:]}"
    assert world.zookeeper.tree.get("/config/topics/t")[0] == b'{"version":1,"config":{"by":"%d"}}' % made[0]


def test_concurrent_growth_loses_nothing(world: World) -> None:
    first, second = (TopicRegistry(client) for client in world.clients)
    world.scheduler.run(first.create_topic("t", {0: [0]}, TOPIC_ID, {}))
    growing = [
        world.scheduler.start(first.add_partitions("t", {1: [1]})),
        world.scheduler.start(second.add_partitions("t", {2: [2]})),
    ]
    for work in growing:
        world.scheduler.run(work)
    assert world.scheduler.run(first.assignments(["t"]))["t"] == TopicAssignment({0: [0], 1: [1], 2: [2]}, TOPIC_ID)
    with pytest.raises(NodeExists, match="partitions \\[2\\]"):
        world.scheduler.run(first.add_partitions("t", {2: [0], 3: [0]}))
    with pytest.raises(NoNode):
        world.scheduler.run(first.add_partitions("gone", {0: [0]}))


def test_states_come_with_their_znode_versions(world: World) -> None:
    client = world.clients[0]
    tp = TopicPartition("t", 0)
    data = znodes.encode_state(LeaderIsrAndControllerEpoch(1, [1], 0, 1))
    for path in (
        "/brokers/topics/t",
        znodes.partitions_path("t"),
        znodes.partition_path("t", 0),
        znodes.state_path("t", 0),
    ):
        world.scheduler.run(client.create(path))
    world.scheduler.run(client.set(znodes.state_path("t", 0), data))
    found = world.scheduler.run(TopicRegistry(client).states([tp, TopicPartition("t", 1)]))
    assert found == {tp: LeaderIsrAndControllerEpoch(1, [1], 0, 1, zk_version=1)}


def test_bulk_reads_are_one_round_trip(world: World) -> None:
    """200 topics take as long as one, because all reads are in flight together."""
    client = world.clients[0]
    registry = TopicRegistry(client)
    for number in range(200):
        world.scheduler.start(registry.create_topic(f"t{number}", {0: [0]}, None, {}))
    world.scheduler.run_for(100)
    began_ms = world.scheduler.now_ms
    found = world.scheduler.run(registry.assignments([f"t{number}" for number in range(200)]))
    assert len(found) == 200
    assert world.scheduler.now_ms - began_ms < 10


def test_a_topic_is_watched_through_rewrites_of_old_tools(world: World) -> None:
    """A 0.8 tool writes version 1 without the topic id. None means a deleted or unreadable topic."""
    writer, reader = world.clients
    seen: list[TopicAssignment | None] = []
    world.scheduler.run(TopicRegistry(writer).create_topic("t", {0: [0]}, TOPIC_ID, {}))
    watching = TopicRegistry(reader).watch_assignment("t", seen.append)
    world.scheduler.run_for(100)
    for data in (b'{"version":1,"partitions":{"0":[0],"1":[1]}}', b"?"):
        world.scheduler.run(writer.set("/brokers/topics/t", data))
        world.scheduler.run_for(100)
    world.scheduler.run(writer.delete("/brokers/topics/t"))
    world.scheduler.run_for(100)
    watching.close()
    assert seen == [TopicAssignment({0: [0]}, TOPIC_ID), TopicAssignment({0: [0], 1: [1]}), None, None]


def test_no_partition_is_added_where_an_entry_cannot_be_understood(world: World) -> None:
    """The invalid entry may belong to a partition with records, which would be lost."""
    writer, _ = world.clients
    data = b'{"version":1,"partitions":{"0":[0],"1":"0"}}'
    world.scheduler.run(TopicRegistry(writer).create_topic("t", {0: [0]}, TOPIC_ID, {}))
    world.scheduler.run(writer.set("/brokers/topics/t", data))
    with pytest.raises(InvalidZnode, match="'1' must be a list of integers"):
        world.scheduler.run(TopicRegistry(writer).add_partitions("t", {1: [1]}))
    assert world.scheduler.run(writer.get("/brokers/topics/t"))[0] == data


def test_deletions_are_ordered_once_and_watched(world: World) -> None:
    writer, reader = world.clients
    seen: list[list[str]] = []
    watching = TopicRegistry(reader).watch_deletions(seen.append)
    world.scheduler.run_for(100)
    for _ in range(2):
        world.scheduler.run(TopicRegistry(writer).request_deletion("t"))
        world.scheduler.run_for(100)
    watching.close()
    assert seen == [[], ["t"]]
    assert world.scheduler.run(TopicRegistry(writer).deletions()) == ["t"]

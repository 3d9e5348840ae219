"""A znode that an ACL makes unreadable does not affect other znodes in the same read."""

import pytest
from twisted.logger import LogLevel, capturedLogs

from kafka_zk.base.types import TopicPartition
from kafka_zk.registry import groups, znode_tree
from kafka_zk.registry.brokers import BrokerRegistry, LiveBrokers
from kafka_zk.registry.client.client import Create
from kafka_zk.registry.client.errors import NoAuth
from kafka_zk.registry.client.pipeline import create_with_parents, read_all
from kafka_zk.registry.config import ConfigRegistry
from kafka_zk.registry.consumers import ConsumerRegistry
from kafka_zk.registry.offsets import OffsetRegistry, StoredOffset
from kafka_zk.registry.topics import UNKNOWN_CZXID, TopicRegistry
from kafka_zk.registry.znodes.consumers import ConsumerRegistration
from kafka_zk.registry.znodes.topics import TopicAssignment
from tests.registry.world import World, broker_info


@pytest.fixture
def world() -> World:
    return World()


def hide(world: World, *paths: str) -> None:
    world.zookeeper.tree.hidden.update(paths)


def make(world: World, *paths: str) -> None:
    for path in paths:
        world.scheduler.run(create_with_parents(world.clients[0], Create(path, b"")))


def test_read_all_names_the_hidden_one_and_reads_the_others(world: World) -> None:
    make(world, "/a", "/b")
    hide(world, "/a")
    hidden, found, absent = world.scheduler.run(read_all(world.clients[0], ["/a", "/b", "/c"]))
    assert isinstance(hidden, NoAuth)
    assert found is not None and not isinstance(found, NoAuth) and found[0] == b""
    assert absent is None


def test_configs_leave_out_the_hidden_one_with_one_error_until_it_is_readable(world: World) -> None:
    registry = ConfigRegistry(world.clients[0])
    for topic in ("locked", "open"):
        world.scheduler.run(registry.set_entity("topics", topic, {"a": topic}))
    hide(world, "/config/topics/locked")

    def read() -> dict[str, dict[str, str]]:
        return world.scheduler.run(registry.synced_entities("topics", ["locked", "open", "none"]))

    with capturedLogs() as events:
        assert read() == read() == {"open": {"a": "open"}, "none": {}}
        with pytest.raises(NoAuth, match="/config/topics/locked"):
            world.scheduler.run(registry.entity("topics", "locked"))
    assert len([event for event in events if event["log_level"] is LogLevel.error]) == 1
    assert registry.hidden == {("topics", "locked")}
    world.zookeeper.tree.hidden.clear()
    assert read()["locked"] == {"a": "locked"}
    assert not registry.hidden


def test_a_hidden_change_notification_hides_no_later_one(world: World) -> None:
    registry = ConfigRegistry(world.clients[0])
    seen: list[str] = []
    registry.watch_changes(lambda _, name: seen.append(name))
    hide(world, "/config/changes/config_change_0000000000")
    for topic in ("first", "second"):
        world.scheduler.run(registry.notify("topics", topic))
    world.scheduler.run_for(100)
    assert seen == ["second"]
    assert world.scheduler.run(registry.purge_changes(10**15)) == 2


def test_live_brokers_are_listed_and_watched_beside_a_hidden_one(world: World) -> None:
    registry = BrokerRegistry(world.clients[0], world.clock)
    for broker_id in (0, 1):
        world.scheduler.run(registry.register(broker_info(broker_id)))
    hide(world, "/brokers/ids/0")
    assert list(world.scheduler.run(registry.live())) == [1]
    reported: list[LiveBrokers] = []
    with capturedLogs() as events:
        registry.watch(reported.append)
        world.scheduler.run_for(120_000)
    assert [list(live) for live in reported] == [[1]]
    assert len([event for event in events if event["log_level"] is LogLevel.warn]) == 1
    world.zookeeper.tree.hidden.clear()
    world.scheduler.run_for(60_000)
    assert [list(live) for live in reported] == [[1], [0, 1]]


def test_a_hidden_topic_is_reported_as_one_that_cannot_be_understood(world: World) -> None:
    registry = TopicRegistry(world.clients[0])
    world.scheduler.run(registry.create_topic("t", {0: [0]}, None, {}))
    hide(world, "/brokers/topics/t")
    seen: list[tuple[TopicAssignment | None, int]] = []
    registry.watch_topic("t", lambda assignment, czxid: seen.append((assignment, czxid)))
    world.scheduler.run_for(60_000)
    assert seen == [(None, UNKNOWN_CZXID)]
    world.zookeeper.tree.hidden.clear()
    world.scheduler.run_for(60_000)
    assert seen[-1][0] == TopicAssignment({0: [0]})


def test_groups_and_members_are_listed_beside_hidden_ones(world: World) -> None:
    for member in ("a", "b"):
        registry = ConsumerRegistry(world.clients[0], "g", world.clock)
        world.scheduler.run(registry.register(member, ConsumerRegistration({"t": 1})))
    make(world, "/consumers/h/ids", "/consumers/i/ids")
    hide(world, "/consumers/g/ids", "/consumers/h/ids")
    assert world.scheduler.run(groups.groups(world.clients[0])) == {"g": None, "h": None, "i": 0}
    world.zookeeper.tree.hidden = {"/consumers/g/ids/a"}
    members = world.scheduler.run(ConsumerRegistry(world.clients[0], "g").members())
    assert [(name, dict(each.registration.subscription)) for name, each in members.items()] == [
        ("a", {}),
        ("b", {"t": 1}),
    ]


def test_offsets_are_read_beside_a_hidden_one(world: World) -> None:
    registry = OffsetRegistry(world.clients[0], "g")
    first, second = TopicPartition("t", 0), TopicPartition("t", 1)
    world.scheduler.run(registry.store({first: 7, second: 8}))
    hide(world, "/consumers/g/offsets/t/0")
    stored, hidden = world.scheduler.run(registry.fetch_visible([first, second]))
    assert (stored, list(hidden)) == ({second: StoredOffset(8, 0)}, [first])
    with pytest.raises(NoAuth):  # a caller that continues from offsets must not mistake a hidden one for a missing one
        world.scheduler.run(registry.fetch([first, second]))


def test_the_tree_is_shown_beside_a_hidden_znode(world: World) -> None:
    make(world, "/consumers/g/ids", "/consumers/h/ids")
    hide(world, "/consumers/g")
    nodes = world.scheduler.run(znode_tree.read_tree(world.clients[0], "/consumers"))
    assert [(node.path, node.text) for node in nodes] == [
        ("/consumers", ""),
        ("/consumers/g", znode_tree.HIDDEN_BY_ACL),
        ("/consumers/h", ""),
        ("/consumers/h/ids", ""),
    ]

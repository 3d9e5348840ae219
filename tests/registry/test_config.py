"""Entity configs and change notifications: every change reaches every broker, even if it is announced in an old format.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, cast

import pytest
from twisted.internet.defer import ensureDeferred
from twisted.logger import LogLevel, capturedLogs

from kafka_zk.registry.client.client import RegistryClient
from kafka_zk.registry.client.errors import InvalidZnode, SessionLost
from kafka_zk.registry.config import ConfigRegistry
from kafka_zk.registry.znodes.config import entity_path
from tests.registry.world import World


@pytest.fixture
def world() -> World:
    return World()


def test_configs_are_written_and_read(world: World) -> None:
    registry = ConfigRegistry(world.clients[0])

    async def story() -> None:
        assert await registry.entity("topics", "t") == {}
        await registry.set_entity("topics", "t", {"a": "1"})
        await registry.set_entity("topics", "t", {"b": "2"})
        await registry.set_entity("users", "u/clients/c", {"producer_byte_rate": "1"})
        assert await registry.entities("topics", ["t", "none"]) == {"t": {"b": "2"}, "none": {}}
        assert await registry.entity("users", "u/clients/c") == {"producer_byte_rate": "1"}
        assert await registry.entity_names("users") == ["u"]
        await world.clients[1].delete(entity_path("topics", "t"))
        assert await registry.entity_names("topics") == []

    world.scheduler.run(story())


def test_one_that_cannot_be_understood_hides_no_other(world: World) -> None:
    """An old tool or a person may have written the invalid config. A broker reads the configs of all topics
    together."""
    registry = ConfigRegistry(world.clients[0])

    async def story() -> None:
        await registry.set_entity("topics", "good", {"a": "1"})
        await registry.set_entity("topics", "bad", {})
        await world.clients[0].set("/config/topics/bad", b"?")
        read = await registry.synced_entities("topics", ["bad", "good", "none"])
        assert read == {"bad": {}, "good": {"a": "1"}, "none": {}}

    world.scheduler.run(story())


def test_invalid_content_is_reported_once_with_its_znode_until_it_changes(world: World) -> None:
    """The config is read as empty, and the next change repairs it."""
    registry = ConfigRegistry(world.clients[0])
    told: list[str] = []

    def read_twice() -> None:
        for _ in range(2):
            world.scheduler.run(registry.entity("topics", "t"))

    with capturedLogs() as events:
        for data in (b"?", b'{"version":1}', b'{"version":1,"config":{"a":"1"}}', b"?"):
            world.scheduler.run(registry.set_entity("topics", "t", {}))
            world.scheduler.run(world.clients[0].set("/config/topics/t", data))
            read_twice()
        told = [event["fault"] for event in events if event["log_level"] is LogLevel.error]
    assert [fault.partition(":")[0] for fault in told] == ["/config/topics/t"] * 3
    world.scheduler.run(registry.change_entity("topics", "t", {"b": "2"}))
    assert world.scheduler.run(registry.entity("topics", "t")) == {"b": "2"}


@pytest.mark.parametrize("number", ["2147483647", "9999999999", "99999999999999999999"])
def test_a_notification_with_the_greatest_number_hides_none(world: World, number: str) -> None:
    """A person created the notification; ZooKeeper's own numbers continue from the previous one."""
    writer, reader = world.clients
    seen: list[str] = []
    ConfigRegistry(reader).watch_changes(lambda kind, name: seen.append(name))
    world.scheduler.run(writer.create(f"/config/changes/config_change_{number}", b'"by hand"'))
    world.scheduler.run_for(100)
    world.scheduler.run(ConfigRegistry(writer).notify("topics", "t"))
    world.scheduler.run_for(100)
    assert seen[-1:] == ["t"] and len(seen) == len(set(seen))


def test_configs_are_read_over_a_lost_connection(world: World) -> None:
    """A change is announced only once, so a broker that gave up after a failed read would never learn of it."""
    writer, reader = world.clients
    world.scheduler.run(ConfigRegistry(writer).set_entity("topics", "t", {"a": "1"}))
    read = ensureDeferred(ConfigRegistry(reader).synced_entities("topics", ["t"]))
    names = ensureDeferred(ConfigRegistry(reader).entity_names("topics"))
    reader.disconnect()
    world.scheduler.run_for(1000)
    assert (read.result, names.result) == ({"t": {"a": "1"}}, ["t"])


def test_a_server_that_lags_behind_is_brought_up_to_date(world: World) -> None:
    """A topic is created with its configuration, and the controller, connected to another server, sends LeaderAndIsr.
    No later notification announces the configuration.
    """

    class Lagging:
        """A client of a server that has no data before a sync."""

        is_behind = True

        def __getattr__(self, name: str) -> Any:
            return getattr(world.clients[0], name)

        def sync(self) -> Any:
            self.is_behind = False
            return world.clients[0].sync()

        def get(self, path: str) -> Any:
            return world.clients[0].get("/nothing" if self.is_behind else path)

    registry = ConfigRegistry(cast("RegistryClient", Lagging()))

    async def story() -> None:
        await ConfigRegistry(world.clients[1]).set_entity("topics", "t", {"min.insync.replicas": "2"})
        assert await registry.synced_entities("topics", ["t"]) == {"t": {"min.insync.replicas": "2"}}

    world.scheduler.run(story())


def test_changes_are_told_in_order_old_ones_first_and_old_formats_too(world: World) -> None:
    """The formats are bare strings (0.8), version 1 (0.9) and version 2. An unknown format is skipped."""
    writer, reader = world.clients
    seen: list[tuple[str, str]] = []
    registry = ConfigRegistry(writer)
    for data in (b'"old"', b"?", b'{"version":1,"entity_type":"clients","entity_name":"c"}'):
        world.scheduler.run(writer.create("/config/changes/config_change_", data, sequential=True))
    watching = ConfigRegistry(reader).watch_changes(lambda kind, name: seen.append((kind, name)))
    world.scheduler.run_for(100)
    world.scheduler.run(registry.change_entity("brokers", "<default>", {"x": "1"}))
    for number in range(12):
        world.scheduler.run(registry.change_entity("topics", f"t{number}", {}))
    world.scheduler.run_for(100)
    watching.close()
    assert seen == [
        ("topics", "old"),
        ("clients", "c"),
        ("brokers", "<default>"),
        *(("topics", f"t{number}") for number in range(12)),
    ]


def test_changes_made_during_a_cut_or_a_new_session_are_told_once(world: World) -> None:
    writer, reader = world.clients
    seen: list[str] = []
    registry = ConfigRegistry(writer)
    watching = ConfigRegistry(reader).watch_changes(lambda kind, name: seen.append(name))
    world.scheduler.run_for(100)
    world.scheduler.run(registry.notify("topics", "before"))
    world.scheduler.run_for(100)
    reader.cut()
    world.scheduler.run(registry.notify("topics", "cut"))
    world.scheduler.run_for(1000)
    reader.heal()
    world.scheduler.run_for(500)
    world.zookeeper.expire(reader)
    world.scheduler.run(registry.notify("topics", "expired"))
    world.scheduler.run_for(500)
    watching.close()
    assert seen == ["before", "cut", "expired"]


def test_changes_that_are_purged_before_they_are_read_are_told_of(world: World) -> None:
    """A broker whose clock is ahead deletes notifications immediately."""
    writer, reader = world.clients[:2]
    told: list[str] = []
    ConfigRegistry(reader).watch_changes(lambda kind, name: told.append(name), lambda: told.append("missed"))
    world.scheduler.run_for(100)
    reader.cut()
    world.scheduler.run(ConfigRegistry(writer).notify("users", "u"))
    world.scheduler.run(ConfigRegistry(writer).purge_changes(2**60))
    reader.heal()
    world.scheduler.run_for(1000)
    assert told == ["missed"]


def test_no_change_is_missed_under_losses(campaign_seed: int) -> None:
    world = World(2, campaign_seed)
    writer, reader = world.clients
    seen: list[str] = []
    ConfigRegistry(reader).watch_changes(lambda kind, name: seen.append(name))
    for number in range(30):
        world.scheduler.run(ConfigRegistry(writer).notify("topics", str(number)))
        if world.scheduler.random.random() < 0.3:
            reader.disconnect()
        if world.scheduler.random.random() < 0.1:
            world.zookeeper.expire(reader)
        world.scheduler.run_for(world.scheduler.random.choice([0, 5, 100]))
    world.scheduler.run_for(1000)
    assert seen == [str(number) for number in range(30)]


def test_old_notifications_are_purged(world: World) -> None:
    """Any broker deletes notifications older than 15 minutes; a late watcher starts with the rest."""
    registry = ConfigRegistry(world.clients[0])
    world.scheduler.run(registry.notify("topics", "old"))
    world.scheduler.run_for(16 * 60_000)
    world.scheduler.run(registry.notify("topics", "new"))
    assert world.scheduler.run(registry.purge_changes(int(world.scheduler.now_ms))) == 1
    assert world.zookeeper.tree.children("/config/changes")[0] == ["config_change_0000000001"]


def _with(key: str, present: Mapping[str, str]) -> dict[str, str]:
    return {**present, key: "1"}


def test_two_updates_of_an_entity_both_take_effect(world: World) -> None:
    """The write is conditional: the slower update is repeated on the result of the faster one."""
    registries = [ConfigRegistry(client) for client in world.clients[:2]]

    async def story() -> None:
        updates = [
            ensureDeferred(registry.update_entity("users", "u", partial(_with, key)))
            for key, registry in zip("ab", registries, strict=True)
        ]
        for update in updates:
            await update
        assert await registries[0].entity("users", "u") == {"a": "1", "b": "1"}

    world.scheduler.run(story())


def _become(value: Mapping[str, str], _present: Mapping[str, str]) -> Mapping[str, str]:
    return value


def test_no_update_goes_without_its_announcement(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a broker died between the two, the other brokers would keep a user who was removed."""
    registry = ConfigRegistry(world.clients[0])

    async def dies(*_: Any) -> None:
        raise SessionLost("between the two")

    async def story() -> None:
        monkeypatch.setattr(ConfigRegistry, "notify", dies)
        values: list[dict[str, str]] = [{"a": "1"}, {"a": "2"}, {}]
        for value in values:
            await registry.update_entity("users", "u", partial(_become, value), removes_empty=True)
        assert await registry.entity_names("users") == []
        assert len((await world.clients[0].children("/config/changes"))[0]) == 3

    world.scheduler.run(story())


def test_invalid_content_is_not_overwritten(world: World) -> None:
    registry = ConfigRegistry(world.clients[0])

    async def story() -> None:
        await registry.set_entity("users", "u", {})
        await world.clients[0].set("/config/users/u", b"?")
        with pytest.raises(InvalidZnode, match="/config/users/u"):
            await registry.update_entity("users", "u", lambda present: {**present, "a": "1"})
        assert (await world.clients[0].get("/config/users/u"))[0] == b"?"

    world.scheduler.run(story())

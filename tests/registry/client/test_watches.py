"""Watchers report the newest state after every change, even if connections and sessions are lost."""

import random
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest

from kafka_zk.base.events import Event, EventSource
from kafka_zk.registry.client.client import SessionState
from kafka_zk.registry.client.errors import NoAuth, RegistryError
from kafka_zk.registry.client.events import (
    Reread,
    SessionChanged,
    WatchArmed,
    WatchFired,
    observe_session,
)
from kafka_zk.registry.client.watches import FIRST_RETRY_S, LONGEST_RETRY_S, ChildrenWatcher, DataWatcher
from kafka_zk.sim.zookeeper.client import SimClient
from tests.registry.world import World


@pytest.fixture
def world() -> World:
    return World()


def test_children_are_reported_at_the_start_and_at_every_change(world: World) -> None:
    writer, reader = world.clients
    seen: list[list[str]] = []
    world.scheduler.run(writer.create("/p"))
    ChildrenWatcher(reader, "/p", seen.append)
    world.scheduler.run_for(100)
    for path in ("/p/x", "/p/y"):
        world.scheduler.run(writer.create(path))
        world.scheduler.run_for(100)
    world.scheduler.run(writer.delete("/p/x"))
    world.scheduler.run_for(100)
    assert seen == [[], ["x"], ["x", "y"], ["y"]]


def test_a_burst_is_reported_as_one_change(world: World) -> None:
    """Events coalesce: 20 creations in a row need far fewer reads, and the last read has all of them."""
    writer, reader = world.clients
    seen: list[list[str]] = []
    world.scheduler.run(writer.create("/p"))
    ChildrenWatcher(reader, "/p", seen.append)
    world.scheduler.run_for(100)
    pending = [writer.create(f"/p/{number:02}") for number in range(20)]
    world.scheduler.run_for(100)
    assert all(creation.called for creation in pending)
    assert len(seen[-1]) == 20
    assert len(seen) < 10


def test_a_znode_that_comes_and_goes_is_followed(world: World) -> None:
    """A watcher may start before the znode exists, and continues after its deletion."""
    writer, reader = world.clients
    children: list[list[str]] = []
    data: list[bytes | None] = []
    ChildrenWatcher(reader, "/p", children.append)
    DataWatcher(reader, "/p", lambda value, stat: data.append(value))

    async def live_and_die() -> None:
        await writer.create("/p", b"1")

    world.scheduler.run_for(100)
    for _ in range(2):
        world.scheduler.run(live_and_die())
        world.scheduler.run_for(100)
        world.scheduler.run(writer.delete("/p"))
        world.scheduler.run_for(100)
    assert data == [None, b"1", None, b"1", None]
    assert children[0] == []


def test_a_deleted_and_recreated_znode_counts_as_changed(world: World) -> None:
    """If a broker restarts between two reads, the names are the same, but the zxids differ."""
    writer, reader = world.clients
    names: list[list[str]] = []
    data: list[bytes | None] = []
    world.scheduler.run(writer.create("/p"))
    world.scheduler.run(writer.create("/p/1", b"same"))
    ChildrenWatcher(reader, "/p", names.append)
    DataWatcher(reader, "/p/1", lambda value, stat: data.append(value))
    world.scheduler.run_for(100)
    reader.cut()
    world.scheduler.run(writer.delete("/p/1"))
    world.scheduler.run(writer.create("/p/1", b"same"))
    reader.heal()
    world.scheduler.run_for(500)
    assert names == [["1"], ["1"]]
    assert data == [b"same", b"same"]


def test_a_change_made_during_a_cut_is_seen(world: World) -> None:
    """Watches are lost with the connection (kazoo#151): every reconnect reads again."""
    writer, reader = world.clients
    seen: list[list[str]] = []
    world.scheduler.run(writer.create("/p"))
    ChildrenWatcher(reader, "/p", seen.append)
    world.scheduler.run_for(100)
    reader.cut()
    world.scheduler.run(writer.create("/p/x"))
    world.scheduler.run_for(1000)
    assert seen == [[]]
    reader.heal()
    world.scheduler.run_for(500)
    assert seen == [[], ["x"]]


def test_a_blip_without_a_change_reports_nothing(world: World) -> None:
    _, reader = world.clients
    seen: list[list[str]] = []
    ChildrenWatcher(reader, "/brokers", seen.append)
    world.scheduler.run_for(100)
    reader.disconnect()
    world.scheduler.run_for(500)
    assert reader.state is SessionState.CONNECTED
    assert len(seen) == 1


def test_a_new_session_continues_to_watch(world: World) -> None:
    writer, reader = world.clients
    seen: list[list[str]] = []
    world.scheduler.run(writer.create("/p"))
    ChildrenWatcher(reader, "/p", seen.append)
    world.scheduler.run_for(100)
    world.zookeeper.expire(reader)
    world.scheduler.run_for(500)
    world.scheduler.run(writer.create("/p/x"))
    world.scheduler.run_for(100)
    assert seen == [[], ["x"]]


def test_a_listener_that_fails_does_not_end_the_watch(world: World) -> None:
    writer, reader = world.clients
    seen: list[int] = []

    def listener(names: list[str]) -> None:
        seen.append(len(names))
        raise RuntimeError("a bug of the listener's")

    world.scheduler.run(writer.create("/p"))
    ChildrenWatcher(reader, "/p", listener)
    world.scheduler.run_for(100)
    world.scheduler.run(writer.create("/p/x"))
    world.scheduler.run_for(100)
    assert seen == [0, 1]


def test_nothing_is_reported_after_close(world: World) -> None:
    writer, reader = world.clients
    seen: list[list[str]] = []
    watcher = ChildrenWatcher(reader, "/", seen.append)
    world.scheduler.run_for(100)
    watcher.close()
    world.scheduler.run(writer.create("/p"))
    reader.disconnect()
    world.scheduler.run_for(500)
    assert len(seen) == 1


class Refusing:
    """A client whose first ``count`` reads of children are refused; ``asked_s``: the times of the reads."""

    def __init__(self, client: SimClient, world: World, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
        self.count = count
        self.asked_s: list[float] = []
        self._world, self._children = world, client.children
        monkeypatch.setattr(client, "children", self.children)

    async def children(self, path: str, watch: Any = None) -> Any:
        self.asked_s.append(self._world.clock.seconds())
        if len(self.asked_s) <= self.count:
            raise NoAuth(path)
        return await self._children(path, watch)

    @property
    def waited_s(self) -> list[float]:
        return [round(later - earlier) for earlier, later in pairwise(self.asked_s)]


def test_what_was_refused_is_read_again_on_the_same_connection(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ACL may change, and without a retry the watch would be set only on the next connection."""
    writer, reader = world.clients
    seen: list[list[str]] = []
    world.scheduler.run(writer.create("/p"))
    refusing = Refusing(reader, world, monkeypatch, count=2)
    ChildrenWatcher(reader, "/p", seen.append)
    world.scheduler.run_for(10_000)
    assert refusing.waited_s == [FIRST_RETRY_S, 2 * FIRST_RETRY_S]
    world.scheduler.run(writer.create("/p/x"))
    world.scheduler.run_for(100)
    assert seen == [[], ["x"]]


def test_the_delay_is_bounded_and_is_reset_by_a_success(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    writer, reader = world.clients
    world.scheduler.run(writer.create("/p"))
    refusing = Refusing(reader, world, monkeypatch, count=8)
    ChildrenWatcher(reader, "/p", lambda names: None)
    world.scheduler.run_for(250_000)
    assert refusing.waited_s == [1, 2, 4, 8, 16, LONGEST_RETRY_S, LONGEST_RETRY_S, LONGEST_RETRY_S]
    refusing.count, refusing.asked_s = 2, []
    world.scheduler.run(writer.create("/p/x"))
    world.scheduler.run_for(10_000)
    assert refusing.waited_s == [FIRST_RETRY_S, 2 * FIRST_RETRY_S]


@pytest.mark.parametrize("end", ["close", "disconnect"])
def test_a_read_that_is_not_wanted_any_more_is_not_repeated(
    world: World, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    """A read is not repeated after ``close``, nor when a new connection has read the znode already."""
    refusing = Refusing(world.clients[1], world, monkeypatch, count=1)
    watcher = ChildrenWatcher(world.clients[1], "/", lambda names: None)
    world.scheduler.run_for(100)
    watcher.close() if end == "close" else world.clients[1].disconnect()
    world.scheduler.run_for(60_000)
    assert len(refusing.asked_s) == (1 if end == "close" else 2)


def test_observers_see_each_step(world: World) -> None:
    """The first read arms the watch, the change fires it, and the znode is read again; the zxid is that of the change.
    """
    writer, reader = world.clients
    events: list[Event] = []
    observe_session(reader, EventSource("broker-1", events.append, lambda: 5))
    world.scheduler.run(writer.create("/p"))
    ChildrenWatcher(reader, "/p", lambda names: None, EventSource("broker-1", events.append, lambda: 5))
    world.scheduler.run_for(100)
    world.scheduler.run(writer.create("/p/x"))
    world.scheduler.run_for(100)
    reader.disconnect()
    world.scheduler.run_for(500)
    assert [type(event) for event in events] == [
        *(Reread, WatchArmed, WatchFired, Reread, WatchArmed),
        *(SessionChanged, WatchFired, SessionChanged, Reread, WatchArmed),
    ]
    assert {(event.time_ms, event.actor) for event in events} == {(5, "broker-1")}
    rereads = [event for event in events if isinstance(event, Reread)]
    assert [(event.cause, event.changed) for event in rereads] == [
        ("started", True),
        ("child", True),
        ("connected", False),
    ]
    assert rereads[1].zxid > rereads[0].zxid


def test_watchers_converge_under_any_faults(campaign_seed: int) -> None:
    """Writes, cuts, expiries and pauses are random. In the end, the last report equals the tree."""
    world = World(seed=campaign_seed, loss_probability=0.02)
    writer, reader = world.clients
    rng = random.Random(campaign_seed)
    names: list[list[str]] = []
    data: list[bytes | None] = []
    ChildrenWatcher(reader, "/p", names.append)
    DataWatcher(reader, "/p/3", lambda value, stat: data.append(value))

    async def write(client: SimClient) -> None:
        path, data = f"/p/{rng.randrange(5)}", b"%d" % rng.randrange(1000)
        creating, deleting = rng.random() < 0.5, rng.random() < 0.4
        with suppress(RegistryError):
            await client.create("/p")
        with suppress(RegistryError):
            await (client.create(path, data) if creating else client.set(path, data))
        with suppress(RegistryError):
            await (client.delete(path) if deleting else client.exists(path))

    for _ in range(60):
        world.scheduler.start(write(writer))
        fault = rng.random()
        if fault < 0.05:
            world.zookeeper.expire(reader)
        elif fault < 0.15:
            reader.disconnect()
        elif fault < 0.2:
            reader.pause()
        else:
            reader.resume()
        world.scheduler.run_for(rng.choice([1, 10, 200]))
    reader.resume()
    world.zookeeper.loss_probability = 0
    world.scheduler.run_for(20_000)
    tree = world.zookeeper.tree
    assert names[-1] == (tree.children("/p")[0] if tree.exists("/p") else [])
    assert data[-1] == (tree.get("/p/3")[0] if tree.exists("/p/3") else None)

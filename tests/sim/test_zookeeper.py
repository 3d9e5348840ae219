"""The in-memory ZooKeeper keeps the promises of the real one.

``tests/registry/client/test_client_simulated.py`` compares them.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from kafka_zk.registry.client.client import Check, Create, Delete, EventType, SessionState, SetData, WatchedEvent
from kafka_zk.registry.client.errors import (
    BadVersion,
    ConnectionLoss,
    MultiFailed,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    RegistryError,
    SessionLost,
)
from kafka_zk.registry.client.pipeline import outcomes, results
from kafka_zk.sim.machine.scheduler import Scheduler, Stuck
from kafka_zk.sim.zookeeper.client import SimClient
from kafka_zk.sim.zookeeper.zookeeper import SimZooKeeper

World = tuple[Scheduler, SimZooKeeper, SimClient, SimClient]


@pytest.fixture
def world() -> World:
    scheduler = Scheduler(7)
    zookeeper = SimZooKeeper(scheduler.clock, 7)
    return scheduler, zookeeper, zookeeper.client("a"), zookeeper.client("b")


def test_versions_and_zxids(world: World) -> None:
    """Each write moves mzxid and version; a child moves the parent's pzxid and cversion, not its mzxid."""
    scheduler, _, client, _ = world

    async def story() -> None:
        await client.create("/p", b"1")
        created = await client.exists("/p")
        changed = await client.set("/p", b"22", 0)
        await client.create("/p/c")
        await client.delete("/p/c")
        data, after = await client.get("/p")
        assert created is not None
        assert (data, after.version, after.data_length) == (b"22", 1, 2)
        assert (created.version, created.czxid) == (0, created.mzxid)
        assert (changed.czxid, changed.mzxid > changed.czxid) == (created.czxid, True)
        assert (after.mzxid, after.cversion, after.num_children) == (changed.mzxid, 2, 0)
        assert after.pzxid > changed.mzxid

    scheduler.run(story())


def test_outcomes_of_single_operations(world: World) -> None:
    scheduler, _, client, _ = world

    async def story() -> list[object]:
        await results([client.create("/p"), client.create("/p/c"), client.create("/e", ephemeral=True)])
        attempts: list[Awaitable[object]] = [
            client.create("/p"),
            client.create("/n/c"),
            client.create("/e/c"),
            client.set("/p", b"", 5),
            client.set("/n", b""),
            client.delete("/p"),
            client.delete("/p", 5),
            client.delete("/n"),
            client.get("/n"),
            client.children("/n"),
        ]
        return [type(outcome) for outcome in await outcomes(attempts)]

    assert scheduler.run(story()) == [
        NodeExists,
        NoNode,
        NoChildrenForEphemerals,
        BadVersion,
        NoNode,
        NotEmpty,
        BadVersion,
        NoNode,
        NoNode,
        NoNode,
    ]


def test_sequence_numbers_count_creations_and_survive_deletions(world: World) -> None:
    scheduler, _, client, _ = world

    async def story() -> str:
        await client.create("/p")
        await client.create("/p/other")
        first = await client.create("/p/n-", sequential=True)
        await client.delete(first)
        return await client.create("/p/n-", sequential=True)

    assert scheduler.run(story()) == "/p/n-0000000002"


def test_a_multi_is_all_or_nothing(world: World) -> None:
    """The error names the failing operation; earlier ones are undone, including the sequence counter."""
    scheduler, zookeeper, client, _ = world

    async def story() -> None:
        await client.create("/p", b"old")
        with pytest.raises(MultiFailed) as failed:
            await client.multi([Create("/p/n-", sequential=True), SetData("/p", b"new"), Delete("/gone"), Create("/q")])
        assert (failed.value.index, type(failed.value.cause)) == (2, NoNode)
        assert (await client.get("/p"))[0] == b"old"
        made = await client.multi([Create("/p/n-", sequential=True), Check("/p", 0), Delete("/p/n-0000000000")])
        assert made == ["/p/n-0000000000", None, None]

    scheduler.run(story())
    assert zookeeper.tree.paths() == ["/", "/p"]


def test_watches_are_one_shot_and_seen_before_the_answer_that_shows_the_change(world: World) -> None:
    scheduler, _, writer, reader = world
    seen: list[object] = []

    async def story() -> None:
        await writer.create("/p", b"0")
        await reader.get("/p", seen.append)
        await writer.set("/p", b"1")
        await writer.set("/p", b"2")
        data, _ = await reader.get("/p")
        seen.append(data)

    scheduler.run(story())
    assert seen == [WatchedEvent(EventType.CHANGED, "/p"), b"2"]


def test_which_watch_sees_what(world: World) -> None:
    """exists watches absent znodes, child watches report creations and deletions, and a deletion fires data and child
    watches.
    """
    scheduler, _, writer, reader = world
    seen: list[WatchedEvent] = []

    async def story() -> None:
        assert await reader.exists("/p", seen.append) is None
        with pytest.raises(NoNode):
            await reader.get("/p", seen.append)
        await writer.create("/p")
        await reader.children("/p", seen.append)
        await writer.set("/p", b"no matter to a child watch")
        await writer.create("/p/c")
        await reader.children("/p", seen.append)
        await reader.get("/p/c", seen.append)
        await writer.multi([Delete("/p/c"), Delete("/p")])
        await reader.exists("/p")

    scheduler.run(story())
    assert seen == [
        WatchedEvent(EventType.CREATED, "/p"),
        WatchedEvent(EventType.CHILD, "/p"),
        WatchedEvent(EventType.DELETED, "/p/c"),
        WatchedEvent(EventType.CHILD, "/p"),
    ]


def test_requests_of_one_client_are_applied_in_order(world: World) -> None:
    """The requests are pipelined, and the second relies on the first."""
    scheduler, _, client, _ = world
    assert scheduler.run(results([client.create("/p"), client.create("/p/c"), client.create("/p/c/d")])) == [
        "/p",
        "/p/c",
        "/p/c/d",
    ]


def test_an_expired_session_takes_its_ephemerals_and_a_new_one_follows(world: World) -> None:
    scheduler, zookeeper, victim, witness = world
    states: list[SessionState] = []
    seen: list[WatchedEvent] = []
    victim.add_session_listener(states.append)
    scheduler.run(victim.create("/e", ephemeral=True))
    scheduler.run(witness.exists("/e", seen.append))
    old_session = victim.session_id
    zookeeper.expire(victim)
    scheduler.run_for(500)
    assert states == [SessionState.SUSPENDED, SessionState.LOST, SessionState.CONNECTED]
    assert seen == [WatchedEvent(EventType.DELETED, "/e")]
    assert victim.session_id not in (None, old_session)


def test_a_blip_keeps_session_and_ephemerals_and_drops_watches(world: World) -> None:
    scheduler, _, client, other = world
    states: list[SessionState] = []
    seen: list[WatchedEvent] = []
    client.add_session_listener(states.append)
    scheduler.run(client.create("/e", ephemeral=True))
    scheduler.run(client.children("/", seen.append))
    session = client.session_id
    client.cut()
    scheduler.run(other.create("/missed"))
    scheduler.run_for(3000)
    client.heal()
    scheduler.run_for(500)
    assert states == [SessionState.SUSPENDED, SessionState.CONNECTED]
    assert seen == [WatchedEvent(EventType.NONE, "/")]
    assert client.session_id == session
    assert scheduler.run(client.exists("/e")) is not None


def test_a_lost_answer_leaves_the_outcome_unknown(world: World) -> None:
    """The error is ConnectionLoss, whether the operation was carried out or not."""
    scheduler, _, client, _ = world
    for path, applied in (("/yes", True), ("/no", False)):
        client.lose_request(applied=applied)
        with pytest.raises(ConnectionLoss):
            scheduler.run(client.create(path))
        scheduler.run_until(lambda: client.state is SessionState.CONNECTED)
    assert scheduler.run(client.exists("/yes")) is not None
    assert scheduler.run(client.exists("/no")) is None


def test_operations_without_a_connection_fail_at_once(world: World) -> None:
    scheduler, _, client, _ = world
    client.cut()
    with pytest.raises(ConnectionLoss):
        scheduler.run(client.get("/"))
    client.heal()
    scheduler.run_for(500)
    scheduler.run(client.close())
    with pytest.raises(SessionLost):
        scheduler.run(client.get("/"))


def test_closing_removes_ephemerals_at_once(world: World) -> None:
    scheduler, zookeeper, client, _ = world
    scheduler.run(client.create("/e", ephemeral=True))
    scheduler.run(client.close())
    assert zookeeper.tree.exists("/e") is None
    assert len(zookeeper.sessions) == 1


def test_a_paused_process_loses_its_lease_before_its_session(world: World) -> None:
    scheduler, zookeeper, client, _ = world
    scheduler.run(client.create("/e", ephemeral=True))
    assert client.lease_held()
    client.pause()
    scheduler.run_for(4100)
    assert not client.lease_held()
    assert zookeeper.tree.exists("/e") is not None
    scheduler.run_for(2500)
    assert zookeeper.tree.exists("/e") is None
    assert client.state is SessionState.CONNECTED  # the client does not know yet
    client.resume()
    scheduler.run_for(500)
    assert client.lease_held()


def test_only_what_the_leader_answers_renews_the_lease(world: World) -> None:
    """As with the real client, a follower answers reads itself. The client's own heartbeats are suppressed here."""
    scheduler, _, client, _ = world
    client.has_heartbeats = False
    scheduler.run_for(4100)
    assert not client.lease_held()
    reads: list[Awaitable[object]] = [client.get("/"), client.exists("/"), client.children("/")]
    scheduler.run(results(reads))
    assert not client.lease_held()
    scheduler.run(client.sync())
    assert client.lease_held()
    writes: list[Callable[[], Deferred[Any]]] = [
        lambda: client.create("/p"), lambda: client.set("/p", b""), lambda: client.delete("/p"),
    ]  # fmt: skip
    for write in writes:
        scheduler.run_for(4100)
        scheduler.run(client.sync())
        scheduler.run_for(3900)
        scheduler.run(write())
        scheduler.run_for(200)
        assert client.lease_held()


def test_a_silent_cut_is_found_out_and_the_lease_ends_in_time(world: World) -> None:
    scheduler, _, client, _ = world
    scheduler.run_for(1300)
    client.cut(silent=True)
    states: list[SessionState] = []
    client.add_session_listener(states.append)
    scheduler.run_for(3900)
    assert states == []
    scheduler.run_for(200)
    assert states == [SessionState.SUSPENDED]
    assert not client.lease_held()


def test_a_stopped_server_expires_nobody(world: World) -> None:
    scheduler, zookeeper, client, _ = world
    session = client.session_id
    zookeeper.stop()
    scheduler.run_for(60_000)
    assert client.state is SessionState.SUSPENDED
    zookeeper.start()
    scheduler.run_for(2000)
    assert (client.state, client.session_id) == (SessionState.CONNECTED, session)


def test_a_chroot_is_made_and_hidden() -> None:
    scheduler = Scheduler()
    zookeeper = SimZooKeeper(scheduler.clock)
    client = zookeeper.client("a", chroot="/x/y")
    seen: list[WatchedEvent] = []
    scheduler.run(client.children("/", seen.append))
    assert scheduler.run(client.create("/p")) == "/p"
    assert scheduler.run(client.multi([Create("/q")])) == ["/q"]
    assert zookeeper.tree.paths() == ["/", "/x", "/x/y", "/x/y/p", "/x/y/q"]
    assert seen == [WatchedEvent(EventType.CHILD, "/")]


def test_the_same_seed_gives_the_same_history() -> None:
    """Two clients race for 50 znodes; the winners depend only on the seed."""

    def history(seed: int) -> list[tuple[str, int]]:
        scheduler = Scheduler(seed)
        zookeeper = SimZooKeeper(scheduler.clock, seed, loss_probability=0.02)
        clients = [zookeeper.client("a"), zookeeper.client("b")]
        won: list[tuple[str, int]] = []

        async def race(client: SimClient) -> None:
            for number in range(50):
                try:
                    await client.create(f"/n{number}")
                    won.append((client.name, number))
                except RegistryError:
                    continue

        for client in clients:
            scheduler.start(race(client))
        scheduler.run_for(2000)
        return won

    assert history(1) == history(1)
    assert history(1) != history(2)


def test_what_never_happens_is_reported_with_the_seed() -> None:
    with pytest.raises(Stuck, match="seed 3"):
        Scheduler(3).run_until(lambda: False, limit_ms=10)

"""The Twisted client against a real ZooKeeper: operations, order, closing, chroot, packet limit, rate."""

import time
from collections.abc import Awaitable, Callable, Iterator

import pytest
from twisted.internet.defer import ensureDeferred

from kafka_zk.embedded.proxy import TcpProxy
from kafka_zk.registry.brokers import BrokerRegistry
from kafka_zk.registry.client.client import Check, Create, Delete, EventType, SessionState, SetData, WatchedEvent
from kafka_zk.registry.client.errors import (
    BadVersion,
    ConnectionTimeout,
    InvalidConnectString,
    MultiFailed,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    RequestTooLarge,
    SessionLost,
)
from kafka_zk.registry.client.kazoo_twisted import KazooTwistedClient
from kafka_zk.registry.client.pipeline import outcomes, read_all, results
from kafka_zk.registry.controller import ControllerRegistry, Elected, Lost
from kafka_zk.registry.paths import ensure_persistent_paths
from kafka_zk.registry.unclean_starts import read_unclean_starts
from kafka_zk.registry.znodes.unclean_start import UNCLEAN_STARTS
from kafka_zk.testing.zookeeper import Chroot
from tests.registry.client.test_pipeline import data_of
from tests.registry.twisted_lab import SESSION_TIMEOUT_MS, Lab, deferred_in_thread, opened
from tests.registry.world import broker_info

pytestmark = pytest.mark.integration


@pytest.fixture
def lab(zookeeper: Chroot) -> Iterator[Lab]:
    yield from opened(zookeeper)


def test_many_znodes_are_read_by_one_request(lab: Lab) -> None:
    """The result for each znode is that of ``get``: data, empty data or null; absent znodes have none."""

    async def story() -> None:
        client = await lab.client()
        contents = {"/p": b"1", "/empty": b"", "/null": None, "/e": b"2"}
        await results(client.create(path, data, ephemeral=path == "/e") for path, data in contents.items())
        found = await client.get_all(["/absent", *contents, "/p/absent"])
        assert found == [None, *await results(client.get(path) for path in contents), None]
        assert [data_of(entry) for entry in found] == [None, b"1", b"", None, b"2", None]
        assert await client.get_all([]) == []
        paths = [*contents, "/absent"] * 250
        assert await read_all(client, paths) == [*found[1:5], None] * 250

    lab.run(story)


def test_every_operation_and_its_outcomes(lab: Lab) -> None:
    async def story() -> None:
        client = await lab.client()
        assert client.state is SessionState.CONNECTED
        assert client.lease_held()
        assert client.session_timeout_ms == SESSION_TIMEOUT_MS
        assert await client.create("/p", b"1") == "/p"
        assert await client.create("/p/s-", sequential=True) == "/p/s-0000000000"
        await client.create("/e", ephemeral=True)
        data, stat = await client.get("/p")
        assert (data, stat.version, stat.num_children) == (b"1", 0, 1)
        owner = await client.exists("/e")
        assert owner is not None
        assert owner.ephemeral_owner == client.session_id
        assert (await client.set("/p", b"2", 0)).version == 1
        assert (await client.children("/"))[0] == ["e", "p"]
        attempts: list[Awaitable[object]] = [
            client.create("/p"),
            client.create("/n/c"),
            client.create("/e/c"),
            client.set("/p", b"", 7),
            client.delete("/p"),
            client.get("/n"),
            client.children("/n"),
        ]
        assert [type(outcome) for outcome in await outcomes(attempts)] == [
            NodeExists,
            NoNode,
            NoChildrenForEphemerals,
            BadVersion,
            NotEmpty,
            NoNode,
            NoNode,
        ]
        assert await client.exists("/n") is None
        await client.delete("/p/s-0000000000", 0)

    lab.run(story)


def test_multi_is_all_or_nothing_and_names_the_operation_that_failed(lab: Lab) -> None:
    async def story() -> None:
        client = await lab.client()
        made = await client.multi([Create("/x", b"1"), SetData("/x", b"2", 0), Check("/x", 1), Create("/y")])
        assert (made[0], made[2], made[3]) == ("/x", None, "/y")
        assert await client.multi([]) == []
        with pytest.raises(MultiFailed) as failed:
            await client.multi([Delete("/y"), SetData("/x", b"3", 9), Delete("/x")])
        assert (failed.value.index, type(failed.value.cause)) == (1, BadVersion)
        assert (await client.children("/"))[0] == ["x", "y"]

    lab.run(story)


def test_a_watch_event_comes_before_the_answer_that_shows_the_change(lab: Lab) -> None:
    """kazoo uses separate threads for watch events and responses; here they share one queue. The test repeats this 200
    times."""

    async def story() -> None:
        writer, reader = await lab.client(), await lab.client()
        await writer.create("/p", b"0")
        seen: list[WatchedEvent] = []
        for number in range(1, 201):
            data, _ = await reader.get("/p", seen.append)
            writing = writer.set("/p", b"%d" % number)
            while data != b"%d" % number:
                data, _ = await reader.get("/p")
            assert len(seen) == number
            await writing
        assert set(seen) == {WatchedEvent(EventType.CHANGED, "/p")}

    lab.run(story)


def test_a_request_above_the_packet_limit_is_refused_and_the_connection_lives(lab: Lab) -> None:
    async def story() -> None:
        client = await lab.client(session_timeout_ms=4000)  # a busy machine needs some time for 1 MB
        states: list[SessionState] = []
        client.add_session_listener(states.append)
        attempts: list[Awaitable[object]] = [
            client.create("/big", b"x" * 1_048_576),
            client.multi([Create(f"/n{number}", b"x" * 600_000) for number in range(2)]),
            client.create("/fits", b"x" * 1_000_000),
        ]
        settled = await outcomes(attempts)
        assert [type(outcome) for outcome in settled[:2]] == [RequestTooLarge, RequestTooLarge]
        assert "above ZooKeeper's limit" in str(settled[0])
        assert settled[2] == "/fits"
        assert states == []

    lab.run(story)


def test_closing_ends_the_session_immediately_after_all_sent_requests(lab: Lab) -> None:
    async def story() -> None:
        client, other = await lab.client(), await lab.client()
        await client.create("/e", ephemeral=True)
        last = client.create("/last")
        await client.close()
        assert await last == "/last"
        assert await other.exists("/e") is None
        assert await other.exists("/last") is not None
        with pytest.raises(SessionLost):
            await client.get("/")
        await client.close()

    lab.run(story)


def test_a_chroot_is_created_and_hidden(lab: Lab, zookeeper: Chroot) -> None:
    """Watches, multis and sequential names use paths below the chroot. A trailing slash has no effect."""

    async def story() -> None:
        client = await lab.client(f"{lab.connect_string}/deep/down/")
        outside = await lab.client()
        seen: list[WatchedEvent] = []
        await client.children("/", seen.append)
        assert await client.create("/s-", sequential=True) == "/s-0000000000"
        assert await client.multi([Create("/m")]) == ["/m"]
        assert (await outside.children("/deep/down"))[0] == ["m", "s-0000000000"]
        assert seen == [WatchedEvent(EventType.CHILD, "/")]

    lab.run(story)


def test_an_unreachable_server_is_one_sentence(lab: Lab) -> None:
    async def story() -> str:
        client = KazooTwistedClient(lab.thread.reactor, "127.0.0.1:1", 1000, connection_timeout_ms=300)
        with pytest.raises(ConnectionTimeout) as failed:
            await client.start()
        return str(failed.value)

    sentence = lab.run(story)
    assert sentence.startswith("no ZooKeeper server at 127.0.0.1:1 could be reached within 300 ms")
    assert "refused" in sentence
    with pytest.raises(InvalidConnectString):
        KazooTwistedClient(lab.thread.reactor, "h1/c,h2/c", 1000)


def test_pipelined_creations_do_not_wait_for_each_other(
    lab: Lab, zookeeper: Chroot, make_proxy: Callable[[str, int], TcpProxy]
) -> None:
    """500 creations over a slow connection. One after another, they would take at least 20 s (two delays each)."""
    proxy = make_proxy("127.0.0.1", zookeeper.server.port)

    async def story() -> float:
        client = await lab.client(proxy.address + zookeeper.path)
        proxy.delay_s = 0.02
        began = time.monotonic()
        await results([client.create(f"/n{number:03}", b"x" * 100) for number in range(500)])
        duration = time.monotonic() - began
        proxy.delay_s = 0.0
        assert len((await client.children("/"))[0]) == 500
        return duration

    assert lab.run(story) < 500 * 2 * 0.02 / 2


def test_brokers_and_controller_on_the_real_server(lab: Lab, expire_session: Callable[[int], None]) -> None:
    """Brokers register and elect a controller, which then expires: the next one is elected, and the expired one
    registers with a new broker epoch.
    """

    async def story() -> None:
        first, second = await lab.client(), await lab.client()
        await ensure_persistent_paths(first)
        epoch = await BrokerRegistry(first, lab.thread.reactor).register(broker_info(0))
        assert await ControllerRegistry(first).elect(0) == Elected(1, 1)
        assert await ControllerRegistry(second).elect(1) == Lost(0)
        session_id = first.session_id
        await deferred_in_thread(lab, expire_session, session_id)
        await lab.until(lambda: first.state is SessionState.CONNECTED and first.session_id != session_id)
        assert await ControllerRegistry(second).elect(1) == Elected(2, 2)
        assert await BrokerRegistry(first, lab.thread.reactor).register(broker_info(0)) > epoch

    lab.run(story)


def test_an_unclean_start_and_the_registration_are_one_write_on_the_real_server(
    lab: Lab, expire_session: Callable[[int], None]
) -> None:
    """An old session's registration makes both fail. The announcement outlives the session that wrote it."""

    async def story() -> None:
        ghost, reborn, watcher = await lab.client(), await lab.client(), await lab.client()
        await ensure_persistent_paths(ghost)
        await BrokerRegistry(ghost, lab.thread.reactor).register(broker_info(0))
        registering = ensureDeferred(
            BrokerRegistry(reborn, lab.thread.reactor).register(broker_info(0), unclean_start=True)
        )
        while await watcher.exists(UNCLEAN_STARTS) is None:
            await lab.sleep(0.01)
        await ghost.close()
        epoch = await registering
        ((path,),) = (await read_unclean_starts(watcher)).values()
        stat = await watcher.exists(path)
        assert stat is not None and (stat.czxid, stat.mzxid, stat.ephemeral_owner) == (epoch, epoch, 0)
        await deferred_in_thread(lab, expire_session, reborn.session_id)
        await lab.until(lambda: reborn.state is SessionState.CONNECTED)
        assert await read_unclean_starts(watcher) == {0: [path]}

    lab.run(story)

"""The Twisted client against a real ZooKeeper: order, sessions, lease, cuts, restarts, chroot, packet limit, rate."""

import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

from kafka_zk.client.reactor_thread import ReactorThread, reactor_thread
from kafka_zk.embedded.zookeeper import EmbeddedZooKeeper
from kafka_zk.testing.proxy import TcpProxy
from kafka_zk.testing.zookeeper import Chroot
from registry.brokers import BrokerRegistry
from registry.client import Check, Create, Delete, EventType, SessionState, SetData, WatchedEvent
from registry.controller import ControllerRegistry, Elected, Lost
from registry.errors import (
    BadVersion,
    ConnectionLoss,
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
from registry.kazoo_twisted import KazooTwistedClient
from registry.paths import ensure_persistent_paths
from registry.pipeline import outcomes, results
from registry.watches import ChildrenWatcher
from tests.registry.world import broker_info

pytestmark = pytest.mark.integration

T = TypeVar("T")
SESSION_TIMEOUT_MS = 2000
LIMIT_S = 60


class Lab:
    """Runs coroutines on the reactor's thread; closes the clients that it made."""

    def __init__(self, thread: ReactorThread, connect_string: str) -> None:
        self.thread = thread
        self.connect_string = connect_string
        self.clients: list[KazooTwistedClient] = []

    def run(self, function: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return self.thread.call(function, timeout_s=LIMIT_S)

    async def client(
        self, connect_string: str | None = None, session_timeout_ms: int = SESSION_TIMEOUT_MS
    ) -> KazooTwistedClient:
        client = KazooTwistedClient(
            self.thread.reactor,
            connect_string or self.connect_string,
            session_timeout_ms,
            connection_timeout_ms=LIMIT_S * 1000,
        )
        self.clients.append(client)
        await client.start()
        return client

    async def sleep(self, seconds: float) -> None:
        await deferLater(self.thread.reactor, seconds)

    async def until(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + LIMIT_S
        while not condition():
            assert time.monotonic() < deadline, "it did not happen"
            await self.sleep(0.01)

    async def close(self) -> None:
        for client in self.clients:
            await client.close()


@pytest.fixture
def lab(zookeeper: Chroot) -> Iterator[Lab]:
    lab = Lab(reactor_thread(), zookeeper.connect_string)
    yield lab
    lab.run(lab.close)


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
    """kazoo hands watches and answers to two threads; here they share one queue. 200 times in a row."""

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
        client = await lab.client()
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


def test_an_expired_session_is_followed_by_a_new_one(lab: Lab, expire_session: Callable[[int], None]) -> None:
    """SUSPENDED, LOST, CONNECTED; ephemerals gone, another session id, what was under way failed, watches told."""

    async def story() -> None:
        client, other = await lab.client(), await lab.client()
        states: list[tuple[SessionState, int | None]] = []
        client.add_session_listener(lambda state: states.append((state, client.session_id)))
        await client.create("/e", ephemeral=True)
        seen: list[WatchedEvent] = []
        await client.exists("/e", seen.append)
        old = client.session_id
        assert old is not None
        lab.thread.reactor.callInThread(expire_session, old)
        await lab.until(lambda: states and states[-1][0] is SessionState.CONNECTED)
        assert [state for state, _ in states] == [
            SessionState.SUSPENDED,
            SessionState.LOST,
            SessionState.CONNECTED,
        ]
        assert states[1][1] is None
        assert states[2][1] not in (None, old)
        assert client.lease_held()
        assert await client.exists("/e") is None
        assert seen[0].path == "/e"
        await client.create("/e", ephemeral=True)
        stat = await other.exists("/e")
        assert stat is not None
        assert stat.ephemeral_owner == client.session_id

    lab.run(story)


def test_fifty_expiries_in_a_row(lab: Lab, expire_session: Callable[[int], None]) -> None:
    """KAFKA-8532: no deadlock; one live session at the end."""

    async def story() -> None:
        client = await lab.client()
        seen = {client.session_id}
        for _ in range(50):
            await deferred_in_thread(lab, expire_session, client.session_id)
            await lab.until(lambda: client.state is SessionState.CONNECTED and client.session_id not in seen)
            seen.add(client.session_id)
        assert len(seen) == 51
        await client.create("/alive", ephemeral=True)

    lab.run(story)


def deferred_in_thread(lab: Lab, function: Callable[..., None], *args: Any) -> "Deferred[None]":
    done: Deferred[None] = Deferred()

    def work() -> None:
        function(*args)
        lab.thread.reactor.callFromThread(done.callback, None)

    lab.thread.reactor.callInThread(work)
    return done


def test_a_blip_shorter_than_the_session_loses_nothing(
    lab: Lab, zookeeper: Chroot, make_proxy: Callable[[str, int], TcpProxy]
) -> None:
    """No LOST, same session, ephemerals there, what was under way failed; a change made meanwhile is seen."""
    proxy = make_proxy("127.0.0.1", zookeeper.server.port)

    async def story() -> None:
        client = await lab.client(proxy.address + zookeeper.path)
        other = await lab.client()
        await client.create("/e", ephemeral=True)
        names: list[list[str]] = []
        ChildrenWatcher(client, "/", names.append)
        await lab.until(lambda: names)
        states: list[SessionState] = []
        client.add_session_listener(states.append)
        session_id = client.session_id
        proxy.freeze()
        under_way = client.get("/e")
        proxy.cut()
        await other.create("/missed")
        with pytest.raises(ConnectionLoss):
            await under_way
        await lab.until(lambda: states == [SessionState.SUSPENDED])
        with pytest.raises(ConnectionLoss):
            await client.get("/e")
        assert client.session_id == session_id
        proxy.restore()
        await lab.until(lambda: states[-1] is SessionState.CONNECTED)
        assert states == [SessionState.SUSPENDED, SessionState.CONNECTED]
        assert (client.session_id, client.lease_held()) == (session_id, True)
        assert await client.exists("/e") is not None
        await lab.until(lambda: len(names) == 2)
        assert names == [["e"], ["e", "missed"]]

    lab.run(story)


def test_a_silent_network_ends_the_lease_then_the_connection_then_the_session(
    lab: Lab, zookeeper: Chroot, make_proxy: Callable[[str, int], TcpProxy]
) -> None:
    """Packets vanish: the lease ends before the server can give the ephemerals away."""
    proxy = make_proxy("127.0.0.1", zookeeper.server.port)

    async def story() -> None:
        client = await lab.client(proxy.address + zookeeper.path)
        other = await lab.client()
        await client.create("/e", ephemeral=True)
        states: list[SessionState] = []
        client.add_session_listener(states.append)
        gone_while_held: list[bool] = []
        await other.exists("/e", lambda event: gone_while_held.append(client.lease_held()))
        proxy.freeze()
        await lab.until(lambda: not client.lease_held())
        await lab.until(lambda: states == [SessionState.SUSPENDED])
        await lab.until(lambda: gone_while_held)
        assert gone_while_held == [False]
        proxy.restore()
        await lab.until(lambda: states[-1] is SessionState.CONNECTED)
        assert states == [SessionState.SUSPENDED, SessionState.LOST, SessionState.CONNECTED]

    lab.run(story)


def test_a_server_that_stops_answering_ends_the_lease(
    lab: Lab, make_zookeeper: Callable[[], EmbeddedZooKeeper]
) -> None:
    """SIGSTOP of the server; going on, it has expired nobody (its own clock stood still, too)."""
    server = make_zookeeper()

    async def story() -> None:
        client = await lab.client(server.connect_string)
        await client.create("/e", ephemeral=True)
        session_id = client.session_id
        server.pause()
        await lab.until(lambda: not client.lease_held())
        server.resume()
        await lab.until(lambda: client.state is SessionState.CONNECTED and client.lease_held())
        if client.session_id == session_id:
            assert await client.exists("/e") is not None

    lab.run(story)


def test_a_server_restart_keeps_sessions(lab: Lab, tmp_path: Path) -> None:
    """With sessions that outlast the restart on a busy machine, too."""

    async def story() -> None:
        client = await lab.client(server.connect_string, session_timeout_ms=20_000)
        states: list[SessionState] = []
        client.add_session_listener(states.append)
        await client.create("/e", ephemeral=True)
        session_id = client.session_id
        await deferred_in_thread(lab, server.restart)
        await lab.until(lambda: states and states[-1] is SessionState.CONNECTED)
        assert SessionState.LOST not in states
        assert client.session_id == session_id
        assert await client.exists("/e") is not None
        await client.close()

    with EmbeddedZooKeeper(tmp_path, tick_time_ms=1000, force_sync=False) as server:
        lab.run(story)


def test_closing_ends_the_session_at_once_after_all_that_was_sent(lab: Lab) -> None:
    async def story() -> None:
        client, other = await lab.client(), await lab.client()
        await client.create("/e", ephemeral=True)
        last = client.create("/last")
        began = time.monotonic()
        await client.close()
        assert time.monotonic() - began < SESSION_TIMEOUT_MS / 1000
        assert await last == "/last"
        assert await other.exists("/e") is None
        assert await other.exists("/last") is not None
        with pytest.raises(SessionLost):
            await client.get("/")
        await client.close()

    lab.run(story)


def test_a_chroot_is_made_and_hidden(lab: Lab, zookeeper: Chroot) -> None:
    """Watches, multis and sequential names all speak of paths below it; a trailing slash does no harm."""

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
    """500 creations over a slow line, of which each alone would take two delays: 20 s at least."""
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
    """Register, elect, expire: the next one is elected, the expired one registers with a new broker epoch."""

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

"""The Twisted client against a real ZooKeeper: sessions and their ends, the lease, cuts, restarts."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kafka_zk.embedded.proxy import TcpProxy
from kafka_zk.embedded.zookeeper import EmbeddedZooKeeper
from kafka_zk.registry.client.client import SessionState, WatchedEvent
from kafka_zk.registry.client.errors import ConnectionLoss
from kafka_zk.registry.client.watches import ChildrenWatcher
from kafka_zk.testing.zookeeper import Chroot
from tests.registry.twisted_lab import LIMIT_S, Lab, deferred_in_thread, opened

pytestmark = pytest.mark.integration


@pytest.fixture
def lab(zookeeper: Chroot) -> Iterator[Lab]:
    yield from opened(zookeeper)


def test_an_expired_session_is_followed_by_a_new_one(lab: Lab, expire_session: Callable[[int], None]) -> None:
    """The states are SUSPENDED, LOST, CONNECTED. Ephemerals are gone, the session id is new, requests in progress fail,
    and watches fire."""

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
    """KAFKA-8532: there is no deadlock, and one live session at the end."""

    async def story() -> None:
        client = await lab.client()
        seen = {client.session_id}
        for _ in range(50):
            await deferred_in_thread(lab, expire_session, client.session_id)
            await lab.until(lambda: client.state is SessionState.CONNECTED and client.session_id not in seen)
            seen.add(client.session_id)
        assert len(seen) == 51
        await client.create("/alive", ephemeral=True)

    lab.run(story, limit_s=5 * LIMIT_S)


def test_a_blip_shorter_than_the_session_loses_nothing(
    lab: Lab, zookeeper: Chroot, make_proxy: Callable[[str, int], TcpProxy]
) -> None:
    """The session and its ephemerals survive without LOST. Requests in progress fail, and a change during the blip is
    seen.
    """
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
    """Packets are dropped: the lease ends before the server can delete the ephemerals."""
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
    """The server is paused with SIGSTOP. When it continues, it has expired no session, because its own clock stood
    still."""
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
    """The session timeout is long enough for a restart on a busy machine."""

    async def story() -> None:
        client = await lab.client(server.connect_string, session_timeout_ms=60_000)
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

    with EmbeddedZooKeeper(tmp_path, tick_time_ms=3000, force_sync=False) as server:
        lab.run(story)


def test_a_server_that_was_away_longer_than_the_session_gives_it_back(lab: Lab, tmp_path: Path) -> None:
    """No server expires sessions during that time. The client opens a spare session, but does not need it.

    Once the spare is connected, the client waits half the session timeout for the old session: 3 s here, because a
    server that has just started on a busy machine responds late.
    """

    async def story() -> None:
        client = await lab.client(server.connect_string, session_timeout_ms=6000)
        await client.create("/e", ephemeral=True)
        states: list[SessionState] = []
        client.add_session_listener(states.append)
        session_id = client.session_id
        await deferred_in_thread(lab, server.stop)
        await lab.until(lambda: client._spare is not None)
        await deferred_in_thread(lab, server.start)
        await lab.until(lambda: states[-1] is SessionState.CONNECTED)
        assert states == [SessionState.SUSPENDED, SessionState.CONNECTED]
        assert client.session_id == session_id
        assert await client.exists("/e") is not None
        await lab.until(lambda: client._spare is None)
        await client.close()

    with EmbeddedZooKeeper(tmp_path, tick_time_ms=1000, force_sync=False) as server:
        lab.run(story)

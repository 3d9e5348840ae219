"""A process whose reactor is blocked loses its session, although kazoo's thread still runs
(registry/client/pulse.py)."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from kafka_zk.embedded.proxy import TcpProxy
from kafka_zk.registry.client.client import RegistryClient, SessionState
from kafka_zk.registry.client.kazoo_blocking import run_blocking
from kafka_zk.registry.client.kazoo_twisted import KazooTwistedClient
from kafka_zk.registry.client.pulse import Pulse
from kafka_zk.testing.plugin import MakeZkClient
from kafka_zk.testing.zookeeper import Chroot
from tests.integration.processes import wait_for
from tests.registry.twisted_lab import Lab, opened


@pytest.fixture
def lab(zookeeper: Chroot) -> Iterator[Lab]:
    yield from opened(zookeeper)


@pytest.fixture
def other(make_zk_client: MakeZkClient) -> RegistryClient:
    """A client in the test's own thread."""
    return make_zk_client()


@contextmanager
def frozen(lab: Lab) -> Iterator[None]:
    """Block the reactor inside the ``with`` block."""
    reached, thaw = threading.Event(), threading.Event()

    def stand_still() -> None:
        reached.set()
        thaw.wait()

    lab.thread.reactor.callFromThread(stand_still)
    reached.wait()
    try:
        yield
    finally:
        thaw.set()


def exists(client: RegistryClient, path: str) -> bool:
    async def look() -> bool:
        return await client.exists(path) is not None

    return run_blocking(look())


def owner(lab: Lab, connect_string: str | None = None) -> tuple[KazooTwistedClient, list[SessionState]]:
    """A client with an ephemeral ``/e``, and its states from then on."""
    states: list[SessionState] = []

    async def make() -> KazooTwistedClient:
        client = await lab.client(connect_string)
        await client.create("/e", ephemeral=True)
        client.add_session_listener(states.append)
        return client

    return lab.run(make), states


def has_a_new_session(lab: Lab, client: KazooTwistedClient, states: list[SessionState]) -> None:
    async def story() -> None:
        await lab.until(lambda: states and states[-1] is SessionState.CONNECTED)
        await client.create("/e", ephemeral=True)

    lab.run(story)
    assert SessionState.LOST in states


@pytest.mark.integration
def test_a_frozen_reactor_loses_its_session_and_gets_a_new_one_when_it_thaws(lab: Lab, other: RegistryClient) -> None:
    client, states = owner(lab)
    with frozen(lab):
        wait_for(lambda: not exists(other, "/e"), "the end of the session")
    has_a_new_session(lab, client, states)


@pytest.mark.integration
def test_a_frozen_reactor_does_not_resume_its_session_by_connecting_again(
    lab: Lab, zookeeper: Chroot, other: RegistryClient, make_proxy: Callable[[str, int], TcpProxy]
) -> None:
    """If it did, a connection that breaks more often than the session times out would keep the session alive
    indefinitely.
    """
    proxy = make_proxy("127.0.0.1", zookeeper.server.port)
    client, states = owner(lab, proxy.address + zookeeper.path)

    def gone() -> bool:
        proxy.drop_connections()
        return not exists(other, "/e")

    with frozen(lab):
        wait_for(gone, "the end of the session")
    has_a_new_session(lab, client, states)


@pytest.mark.integration
def test_a_pause_within_the_session_loses_nothing(lab: Lab, other: RegistryClient) -> None:
    """The reactor runs again before the session times out."""
    client, states = owner(lab)
    pulse = client._session._kazoo.pulse  # type: ignore[union-attr]
    with frozen(lab):
        wait_for(lambda: not pulse.beats, "the last ping")
    wait_for(lambda: pulse.beats, "the next turn")

    async def look() -> None:
        await client.get("/e")

    lab.run(look)
    assert states == []


def test_a_pulse_beats_until_the_last_ping_and_again_after_the_owners_turn() -> None:
    posted: list[Callable[[], None]] = []
    pulse = Pulse(posted.append)
    assert [pulse.beats] == [True]
    assert posted == [], "no thread wakes up before there is something to report"
    pulse.told()
    assert [pulse.beats] == [False]
    assert len(posted) == 1
    posted.pop()()
    assert pulse.beats


def test_a_client_without_a_loop_lives_by_kazoos_thread() -> None:
    pulse = Pulse(None)
    pulse.told()
    assert pulse.beats

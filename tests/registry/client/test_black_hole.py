"""If one server in the connection string drops packets, connecting to it takes its share of the session timeout, but
the session survives."""

import random
from collections.abc import Callable, Iterator
from functools import partial

import pytest

from kafka_zk.embedded.proxy import TcpProxy
from kafka_zk.registry.client.client import SessionState
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.testing.zookeeper import Chroot
from tests.black_hole import black_hole
from tests.registry.twisted_lab import Lab, opened

pytestmark = pytest.mark.integration

BREAKS = 6
SESSION_TIMEOUT_MS = 3000


@pytest.fixture
def hole() -> Iterator[str]:
    with black_hole() as address:
        yield address


@pytest.fixture
def lab(zookeeper: Chroot) -> Iterator[Lab]:
    yield from opened(zookeeper)


@pytest.fixture
def in_the_order_of_the_string(monkeypatch: pytest.MonkeyPatch) -> None:
    """kazoo shuffles the servers; half of the orders begin with the dead one."""
    monkeypatch.setattr(random, "shuffle", lambda listed: None)


@pytest.mark.usefixtures("in_the_order_of_the_string")
def test_a_tool_connects_within_its_connection_timeout(zookeeper: Chroot, hole: str) -> None:
    """The session timeout does not matter, because the tool waits for its first connection."""
    client = KazooBlockingClient(f"{hole},{zookeeper.connect_string}", 10_000, connection_timeout_ms=2000)
    with client:
        assert run_blocking(client.exists("/")) is not None


def resumed(states: list[SessionState], before: int) -> bool:
    return len(states) > before and states[-1] is SessionState.CONNECTED


@pytest.mark.usefixtures("in_the_order_of_the_string")
def test_every_broken_connection_is_resumed_in_the_same_session(
    lab: Lab, zookeeper: Chroot, hole: str, make_proxy: Callable[[str, int], TcpProxy]
) -> None:
    proxy = make_proxy("127.0.0.1", zookeeper.server.port)
    host_port, _, chroot = zookeeper.connect_string.partition("/")
    connect_string = f"{hole},{proxy.address},{host_port}/{chroot}"

    async def story() -> None:
        client = await lab.client(connect_string, SESSION_TIMEOUT_MS)
        sessions = [client.session_id]
        states: list[SessionState] = []
        client.add_session_listener(states.append)
        while states.count(SessionState.CONNECTED) < BREAKS:
            assert client._session is not None
            states_before = len(states)
            client._session.drop_connection()
            await lab.until(partial(resumed, states, states_before))
            sessions.append(client.session_id)
        assert states == [SessionState.SUSPENDED, SessionState.CONNECTED] * BREAKS
        assert len(set(sessions)) == 1

    lab.run(story)

"""Only responses to requests that went through ZooKeeper's leader renew the lease, because the leader expires sessions.
"""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from kazoo.protocol.states import ZnodeStat as KazooStat

from kafka_zk.registry.client.client import Delete, SessionState
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient

Ask = Callable[[KazooBlockingClient], Awaitable[Any]]
STAT = KazooStat(*range(11))


class _Answer:
    """A completed result, like kazoo's async results."""

    exception = None

    def __init__(self, value: Any) -> None:
        self.value = value

    def successful(self) -> bool:
        return True


class _Answering:
    """Stands for KazooSession: responds to every request immediately."""

    session_timeout_ms = 6000

    def __init__(self, value: Any) -> None:
        self._value = value

    def ask(self, start: Callable[[Any], Any], answered: Callable[[Any], None]) -> None:
        answered(_Answer(self._value))


@pytest.mark.parametrize(
    ("ask", "value", "renews"),
    [
        (lambda client: client.get("/x"), (b"", STAT), False),
        (lambda client: client.exists("/x"), STAT, False),
        (lambda client: client.children("/x"), ([], STAT), False),
        (lambda client: client.create("/x"), "/x", True),
        (lambda client: client.set("/x", b""), STAT, True),
        (lambda client: client.delete("/x"), None, True),
        (lambda client: client.multi([Delete("/x")]), [True], True),
        (lambda client: client.sync(), None, True),
        (lambda client: client._heartbeat(), None, True),
    ],
)
def test_reads_do_not_renew_the_lease(ask: Ask, value: Any, renews: bool) -> None:
    """A follower that is cut off from the leader still responds to reads for some time, although the session may
    already have expired.
    """
    client = KazooBlockingClient("h:1", 6000, clock_ms=lambda: 1000.0)
    client._session, client._state = _Answering(value), SessionState.CONNECTED  # type: ignore[assignment]
    outcome: Any = ask(client)
    outcome.get()
    assert client.lease_held() == renews


def test_requests_of_the_user_are_counted_and_heartbeats_are_not() -> None:
    client = KazooBlockingClient("h:1", 6000, clock_ms=lambda: 1000.0)
    client._session, client._state = _Answering(None), SessionState.CONNECTED  # type: ignore[assignment]
    requests: list[Ask] = [
        lambda client: client.sync(),
        lambda client: client._heartbeat(),
        lambda client: client.delete("/x"),
        lambda client: client.multi([]),
    ]
    for ask in requests:
        outcome: Any = ask(client)
        outcome.get()
    assert client.request_count == 2

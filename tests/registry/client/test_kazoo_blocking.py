"""The blocking client against a real ZooKeeper: it runs the same registries without a reactor, and can be created
repeatedly."""

import threading
from collections.abc import Awaitable, Callable, Sequence

import pytest
from twisted.internet.defer import Deferred

from kafka_zk.base.types import TopicPartition
from kafka_zk.embedded.proxy import TcpProxy
from kafka_zk.registry.brokers import BrokerRegistry
from kafka_zk.registry.client.client import Create, Operation, RegistryClient, SessionState, WatchedEvent, ZnodeStat
from kafka_zk.registry.client.errors import ConnectionTimeout, MultiFailed, NodeExists, SessionLost
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.registry.client.pipeline import results
from kafka_zk.registry.owners import Claim, Claimed, OwnerRegistry
from kafka_zk.registry.topics import TopicRegistry
from kafka_zk.testing.zookeeper import Chroot

pytestmark = pytest.mark.integration


def test_registries_run_to_their_end_without_a_reactor(zk_client: RegistryClient) -> None:
    registry = TopicRegistry(zk_client)
    run_blocking(registry.create_topic("t", {0: [0]}, None, {}))
    assert run_blocking(registry.names()) == ["t"]
    assert run_blocking(BrokerRegistry(zk_client).live()) == {}
    with pytest.raises(NodeExists):
        run_blocking(registry.create_topic("t", {0: [0]}, None, {}))


def test_operations_are_sent_at_once_and_awaited_later(zk_client: RegistryClient) -> None:
    async def story() -> None:
        pending = [zk_client.create(f"/n{number}") for number in range(500)]
        assert await results(pending) == [f"/n{number}" for number in range(500)]
        with pytest.raises(MultiFailed):
            await zk_client.multi([Create("/n0")])

    run_blocking(story())


def test_many_clients_after_and_beside_each_other(zookeeper: Chroot) -> None:
    """All threads end with their clients."""
    before = threading.active_count()
    for round_number in range(5):
        with (
            KazooBlockingClient(zookeeper.connect_string, 4000) as first,
            KazooBlockingClient(zookeeper.connect_string, 4000) as second,
        ):
            run_blocking(_create(first, f"/n{round_number}"))
            assert run_blocking(_exists(second, f"/n{round_number}"))
        with pytest.raises(SessionLost):
            run_blocking(_exists(first, "/"))
    assert threading.active_count() <= before + 1


def test_callbacks_run_on_the_callers_thread(zookeeper: Chroot) -> None:
    seen: list[tuple[WatchedEvent, threading.Thread]] = []

    async def watch(client: RegistryClient) -> None:
        await client.exists("/p", lambda event: seen.append((event, threading.current_thread())))

    with (
        KazooBlockingClient(zookeeper.connect_string, 4000) as writer,
        KazooBlockingClient(zookeeper.connect_string, 4000) as reader,
    ):
        run_blocking(watch(reader))
        run_blocking(_create(writer, "/p"))
        while not seen:
            reader.process(10)
    assert [thread for _, thread in seen] == [threading.current_thread()]


def test_an_operation_waits_for_the_connection_to_come_back(
    zookeeper: Chroot, make_proxy: Callable[[str, int], TcpProxy]
) -> None:
    proxy = make_proxy("127.0.0.1", zookeeper.server.port)
    states: list[SessionState] = []
    with KazooBlockingClient(proxy.address + zookeeper.path, 4000) as client:
        client.add_session_listener(states.append)
        proxy.drop_connections()
        while not states:
            client.process(10)
        assert run_blocking(_exists(client, "/"))
        assert states == [SessionState.SUSPENDED, SessionState.CONNECTED]


class _Unlucky(KazooBlockingClient):
    """A client that loses its connection at the first multi."""

    proxy: TcpProxy | None = None

    def multi(self, operations: Sequence[Operation]) -> Awaitable[list[str | ZnodeStat | None]]:
        proxy, self.proxy = self.proxy, None
        if proxy is not None:
            proxy.drop_connections()
        return super().multi(operations)


def test_a_claim_whose_connection_breaks_waits_and_finds_out(
    zookeeper: Chroot, make_proxy: Callable[[str, int], TcpProxy]
) -> None:
    """The coroutine waits for the connection between two operations, as any registry coroutine may."""
    proxy = make_proxy("127.0.0.1", zookeeper.server.port)
    client = _Unlucky(proxy.address + zookeeper.path, 4000)
    with client:
        client.proxy = proxy
        claimed = run_blocking(OwnerRegistry(client, "g").claim([Claim(TopicPartition("t", 0), "g_a-0")]))
        assert isinstance(claimed[TopicPartition("t", 0)], Claimed)
        assert client.proxy is None


def test_a_zookeeper_that_stays_away_is_waited_for_no_longer_than_the_connection_timeout(
    zookeeper: Chroot, make_proxy: Callable[[str, int], TcpProxy]
) -> None:
    """The error is one sentence, whether an operation or a coroutine between two operations waits for the
    connection."""
    proxy = make_proxy("127.0.0.1", zookeeper.server.port)
    with KazooBlockingClient(proxy.address + zookeeper.path, 4000, connection_timeout_ms=300) as client:
        states: list[SessionState] = []
        client.add_session_listener(states.append)
        proxy.cut()
        while not states:
            client.process(10)
        for attempt in (_exists(client, "/"), _connected(client)):
            with pytest.raises(ConnectionTimeout, match="could be reached within 300 ms"):
                run_blocking(attempt)


def test_an_unreachable_server_is_one_sentence() -> None:
    client = KazooBlockingClient("127.0.0.1:1/x", 1000, connection_timeout_ms=200)
    with pytest.raises(ConnectionTimeout, match=r"no ZooKeeper server at 127\.0\.0\.1:1 could be reached"):
        client.start()


def test_awaiting_something_else_is_refused() -> None:
    async def story() -> None:
        await Deferred()

    with pytest.raises(RuntimeError, match="not an operation of a blocking client"):
        run_blocking(story())


async def _create(client: RegistryClient, path: str) -> str:
    return await client.create(path)


async def _connected(client: RegistryClient) -> None:
    await client.connected()


async def _exists(client: RegistryClient, path: str) -> bool:
    return await client.exists(path) is not None

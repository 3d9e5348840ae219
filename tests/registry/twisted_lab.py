"""Twisted clients of a real ZooKeeper, run from a test's thread."""

import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, TypeVar

from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

from kafka_zk.clients.connection.reactor_thread import ReactorThread, reactor_thread
from kafka_zk.registry.client.kazoo_twisted import KazooTwistedClient
from kafka_zk.testing.zookeeper import Chroot

T = TypeVar("T")
SESSION_TIMEOUT_MS = 2000
LIMIT_S = 60


class Lab:
    """Runs coroutines on the reactor thread, and closes the clients that it created."""

    def __init__(self, thread: ReactorThread, connect_string: str) -> None:
        self.thread = thread
        self.connect_string = connect_string
        self.clients: list[KazooTwistedClient] = []

    def run(self, function: Callable[[], Coroutine[Any, Any, T]], limit_s: float = LIMIT_S) -> T:
        return self.thread.call(function, timeout_s=limit_s)

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
            assert time.monotonic() < deadline, "the condition never became true"
            await self.sleep(0.01)

    async def close(self) -> None:
        for client in self.clients:
            await client.close()


def deferred_in_thread(lab: Lab, function: Callable[..., object], *args: Any) -> "Deferred[None]":
    done: Deferred[None] = Deferred()

    def work() -> None:
        function(*args)
        lab.thread.reactor.callFromThread(done.callback, None)

    lab.thread.reactor.callInThread(work)
    return done


def opened(zookeeper: Chroot) -> Iterator[Lab]:
    """Yields a lab, for a fixture."""
    lab = Lab(reactor_thread(), zookeeper.connect_string)
    yield lab
    lab.run(lab.close)

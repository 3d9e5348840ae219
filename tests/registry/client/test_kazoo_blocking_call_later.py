"""A blocking client runs its delayed calls while its thread waits. test_watches.py tests the other clients."""

import pytest

from kafka_zk.registry.client import kazoo_blocking
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient


class Waiting:
    """A clock that stands still until the client waits, and the event that the client waits for, which never comes."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def clear(self) -> None:
        pass

    def set(self) -> None:
        pass

    def wait(self, seconds: float | None) -> None:
        assert seconds is not None, "the client would wait forever"
        self.now_s += seconds


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> Waiting:
    waiting = Waiting()
    monkeypatch.setattr(kazoo_blocking, "monotonic_s", lambda: waiting.now_s)
    return waiting


def blocking_client(waiting: Waiting) -> KazooBlockingClient:
    client = KazooBlockingClient("127.0.0.1:1")
    client._arrived = waiting  # type: ignore[assignment]
    return client


def test_a_waiting_thread_makes_the_calls_that_are_due_in_their_order(waiting: Waiting) -> None:
    client = blocking_client(waiting)
    called: list[tuple[int, float]] = []

    def note(number: int) -> None:
        called.append((number, waiting.now_s))

    client.call_later(2, lambda: note(2))
    client.call_later(1, lambda: note(1))
    cancel = client.call_later(0, lambda: note(0))
    cancel()
    client.call_later(3, lambda: client._post(lambda: note(3)))
    assert not called
    client._work_until(lambda: len(called) == 3, 30_000)
    assert called == [(1, 101), (2, 102), (3, 103)]
    cancel()


def test_waiting_ends_in_time_though_something_is_due_after_it(waiting: Waiting) -> None:
    client = blocking_client(waiting)
    client.call_later(3600, lambda: pytest.fail("called too early"))
    client.process(1000)
    assert waiting.now_s == 101

"""What is called later by a blocking client is called while its thread waits; see test_watches.py for the others."""

from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient

DEADLINE_MS = 30_000


def test_a_waiting_thread_makes_the_calls_that_are_due_in_their_order() -> None:
    client = KazooBlockingClient("127.0.0.1:1")
    called: list[int] = []
    client.call_later(0.02, lambda: called.append(2))
    client.call_later(0.01, lambda: called.append(1))
    cancel = client.call_later(0, lambda: called.append(0))
    cancel()
    client.call_later(0.03, lambda: client._post(lambda: called.append(3)))
    assert not called
    client._work_until(lambda: called[-1:] == [3], DEADLINE_MS)
    assert called == [1, 2, 3]
    cancel()


def test_waiting_ends_in_time_though_something_is_due_after_it() -> None:
    client = KazooBlockingClient("127.0.0.1:1")
    client.call_later(3600, lambda: None)
    client.process(1)

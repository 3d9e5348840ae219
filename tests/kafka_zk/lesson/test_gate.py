"""Watches wait at the gate."""

import time
from typing import Any

from kafka_zk.lesson.gate import Fire, Gate, GatedClient
from kafka_zk.registry.client import EventType, WatchedEvent

CHILD = WatchedEvent(EventType.CHILD, "/a")


class FakeClient:
    def __init__(self) -> None:
        self.watches: list[Any] = []

    def get(self, path: str, watch: Any = None) -> Any:
        self.watches.append(watch)

    children = exists = get


def test_fires_are_told_one_by_one_and_passed_on_in_order() -> None:
    """Nothing is passed on before it was told; at the end none waits."""
    log: list[str] = []
    gate = Gate(lambda fire: log.append(f"told {fire.member}"), lambda deliver: deliver())
    for name in ("a", "b"):
        gate.arrived(Fire(name, CHILD, lambda name=name: log.append(f"passed {name}")))  # type: ignore[misc]
    assert log == []
    assert gate.open_until(lambda: True, time.monotonic() + 60)
    assert log == ["told a", "passed a", "told b", "passed b"]


def test_an_open_gate_lets_pass_unseen() -> None:
    """And what is no fire, the end of a connection, passes always."""
    passed: list[str] = []
    gate = Gate(lambda fire: passed.append("told"), lambda deliver: deliver())
    gate.arrived(Fire("a", WatchedEvent(EventType.NONE, ""), lambda: passed.append("lost")))
    gate.closed = False
    gate.arrived(Fire("a", CHILD, lambda: passed.append("fired")))
    assert passed == ["lost", "fired"]


def test_it_does_not_wait_for_ever() -> None:
    """False when the clock was faster."""
    assert not Gate(lambda fire: None, lambda deliver: deliver()).open_until(lambda: False, time.monotonic() - 1)


def test_every_watch_of_a_client_goes_through() -> None:
    """Reads without a watch stay so; all reads are counted."""
    inner, seen = FakeClient(), []
    gate = Gate(lambda fire: seen.append(fire.member), lambda deliver: deliver())
    client = GatedClient(inner, "anna", gate)  # type: ignore[arg-type]
    fired: list[WatchedEvent] = []
    for read in (client.get, client.children, client.exists):
        read("/a")
        read("/a", fired.append)
    assert client.request_count == 6
    assert [watch is None for watch in inner.watches] == [True, False] * 3
    for watch in inner.watches[1::2]:
        watch(CHILD)
    assert fired == [] and gate.open_until(lambda: True, time.monotonic() + 60)
    assert fired == [CHILD] * 3 and seen == ["anna"] * 3

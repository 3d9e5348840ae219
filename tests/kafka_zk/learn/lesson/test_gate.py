"""Watches wait at the gate."""

import time
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from kafka_zk.clients.connection.waiting import run
from kafka_zk.learn.lesson.clock import LessonClock
from kafka_zk.learn.lesson.errors import ChapterLeft
from kafka_zk.learn.lesson.gate import Fire, Gate, GatedClient
from kafka_zk.registry.client.client import EventType, WatchedEvent
from kafka_zk.registry.client.errors import NoNode

CHILD = WatchedEvent(EventType.CHILD, "/a")


class FakeClient:
    def __init__(self) -> None:
        self.watches: list[Any] = []
        self.answers: list[Deferred[Any]] = []

    def get(self, path: str, watch: Any = None) -> Any:
        self.watches.append(watch)
        self.answers.append(Deferred())
        return self.answers[-1]

    children = exists = get


def made_gate(tell: Any = lambda fires: None) -> Gate:
    return Gate(tell, lambda deliver: deliver(), LessonClock(lambda: 0))


def test_fires_that_come_together_are_told_together_and_passed_on_in_order() -> None:
    """No event is passed on before it was shown; at the end none waits."""
    log: list[str] = []
    gate = made_gate(lambda fires: log.append(f"told {' '.join(fire.member for fire in fires)}"))
    for name in ("a", "b"):
        gate.arrived(Fire(name, CHILD, lambda name=name: log.append(f"passed {name}")))  # type: ignore[misc]
    assert log == []
    assert gate.open_until(lambda: True, time.monotonic() + 60)
    assert log == ["told a b", "passed a", "passed b"]


def test_the_clock_stands_still_while_a_fire_waits() -> None:
    """The clock stops when the event arrives and resumes when it is passed on: the reader's time is not the group's
    silence.
    """
    now = [1_000]
    clock = LessonClock(lambda: now[0])
    told: list[int] = []

    def read(fires: list[Fire]) -> None:
        now[0] += 3_836
        told.append(clock.lesson_ms(now[0]))

    gate = Gate(read, lambda deliver: deliver(), clock)
    gate.arrived(Fire("a", CHILD, lambda: None))
    assert gate.open_until(lambda: True, time.monotonic() + 60)
    assert told == [1_000] and clock.lesson_ms(now[0] + 7) == 1_007


def test_a_reader_who_leaves_in_the_midst_lets_them_pass() -> None:
    """If the gate kept the watches, their members would wait forever."""
    passed: list[str] = []

    def leave(fires: list[Fire]) -> None:
        raise ChapterLeft(None)

    gate = made_gate(leave)
    for name in ("a", "b"):
        gate.arrived(Fire(name, CHILD, lambda name=name: passed.append(name)))  # type: ignore[misc]
    with pytest.raises(ChapterLeft):
        gate.open_until(lambda: True, time.monotonic() + 60)
    gate.arrived(Fire("c", CHILD, lambda: passed.append("c")))
    gate.release()
    assert passed == ["a", "b", "c"]


def test_an_open_gate_lets_pass_unseen() -> None:
    """An event that is not a watch, such as the end of a connection, always passes."""
    passed: list[str] = []
    gate = made_gate(lambda fires: passed.append("told"))
    gate.arrived(Fire("a", WatchedEvent(EventType.NONE, ""), lambda: passed.append("lost")))
    gate.closed = False
    gate.arrived(Fire("a", CHILD, lambda: passed.append("fired")))
    assert passed == ["lost", "fired"]


def test_it_does_not_wait_for_ever() -> None:
    """The result is False when the timeout is over."""
    assert not made_gate().open_until(lambda: False, time.monotonic() - 1)


def test_every_watch_of_a_client_goes_through() -> None:
    """Reads without a watch are not changed."""
    inner, seen = FakeClient(), list[str]()
    gate = made_gate(lambda fires: seen.extend(fire.member for fire in fires))
    client = GatedClient(inner, "anna", gate, Clock())  # type: ignore[arg-type]
    fired: list[WatchedEvent] = []
    for read in (client.get, client.children, client.exists):
        read("/a")
        read("/a", fired.append)
    assert [watch is None for watch in inner.watches] == [True, False] * 3
    for watch in inner.watches[1::2]:
        watch(CHILD)
    assert fired == [] and gate.open_until(lambda: True, time.monotonic() + 60)
    assert fired == [CHILD] * 3 and seen == ["anna"] * 3


def test_a_far_zookeeper_answers_late() -> None:
    """Results, errors and watches are delayed by the same time."""
    inner, clock, gate = FakeClient(), Clock(), made_gate()
    gate.closed, gate.delay_s = False, 0.5
    client = GatedClient(inner, "anna", gate, clock)  # type: ignore[arg-type]
    log: list[object] = []

    async def read(path: str) -> None:
        try:
            log.append(await client.get(path, log.append))
        except NoNode:
            log.append("no node")

    for path in ("/a", "/b"):
        run(read(path))
    inner.answers[0].callback("data")
    inner.answers[1].errback(NoNode("/b"))
    inner.watches[0](CHILD)
    clock.advance(0.4)
    assert log == []
    clock.advance(0.2)
    assert log == ["data", "no node", CHILD]

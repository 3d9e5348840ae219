"""Denials are logged once in Kafka's format, always counted, and summarised."""

from collections.abc import Iterator
from typing import Any, cast

import pytest
from twisted.internet.task import Clock
from twisted.logger import ILogObserver, formatEvent, globalLogPublisher

from kafka_zk.base.events import Event, EventSource
from kafka_zk.broker.security import denials
from kafka_zk.broker.security.authorizer import CLUSTER, Operation, Resource, topic
from kafka_zk.broker.security.denials import LOGGER, SUMMARY_S, Denials
from kafka_zk.broker.security.events import Denied
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.protocol.request import RequestContext

BOB = RequestContext("PLAINTEXT", "PLAINTEXT", "User:bob", "127.0.0.1", 1, "test", api_key=int(ApiKey.METADATA))
LINE = (
    "Principal = User:bob is Denied Operation = Describe from host = 127.0.0.1 on resource = Topic:LITERAL:secret for "
    "request = Metadata with resourceRefCount = 1"
)


@pytest.fixture
def lines() -> Iterator[list[tuple[str, str]]]:
    """The logger and text of every log line."""
    found: list[tuple[str, str]] = []

    def observe(event: dict[str, Any]) -> None:
        found.append((event["log_namespace"], formatEvent(event)))

    globalLogPublisher.addObserver(cast(ILogObserver, observe))
    yield found
    globalLogPublisher.removeObserver(cast(ILogObserver, observe))


def test_the_first_is_logged_and_those_that_repeat_it_are_summarised(lines: list[tuple[str, str]]) -> None:
    clock = Clock()
    denied = Denials(clock)
    for _ in range(1_000):
        assert denied.add(BOB, Operation.DESCRIBE, topic("secret")) is False
    assert lines == [(LOGGER, LINE)]
    clock.advance(SUMMARY_S)
    assert lines[1:] == [(LOGGER, f"{LINE}, 999 more times in {SUMMARY_S} s")]
    assert denied.count == 1_000
    denied.add(BOB, Operation.DESCRIBE, topic("secret"))
    clock.advance(2 * SUMMARY_S)
    assert lines[2:] == [(LOGGER, LINE)] and not clock.getDelayedCalls(), "a denial without repetitions has no summary"


def test_a_client_that_asks_for_a_million_names_does_not_fill_the_log(
    lines: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(denials, "MOST_KINDS", 10)
    clock = Clock()
    denied = Denials(clock)
    for number in range(1_000):
        denied.add(BOB, Operation.DESCRIBE, topic(f"t{number}"))
    assert len(lines) == 10
    clock.advance(SUMMARY_S)
    assert lines[10:] == [(LOGGER, f"990 other denials in {SUMMARY_S} s")]


def test_observers_hear_of_the_first_and_of_how_many_repeated_it() -> None:
    clock, told = Clock(), list[Event]()
    denied = Denials(clock, EventSource("broker-0", told.append, lambda: 7))
    denied.explain = lambda principal, host, operation, resource: f"nobody lets {principal}"
    for _ in range(3):
        denied.add(BOB, Operation.DESCRIBE, topic("secret"))
    asked = ("User:bob", "127.0.0.1", "Describe", "Topic secret", "Metadata")
    assert told == [Denied(7, "broker-0", "nobody lets User:bob", 0, *asked, 1)]
    clock.advance(SUMMARY_S)
    assert told[1:] == [Denied(7, "broker-0", "nobody lets User:bob", 0, *asked, 2)]


def test_observers_hear_of_few_names_of_a_million(monkeypatch: pytest.MonkeyPatch) -> None:
    """The authorizer explains only the denials that observers receive."""
    monkeypatch.setattr(denials, "MOST_TOLD", 10)
    clock, told, explained = Clock(), list[Event](), list[str]()

    def explain(principal: str, host: str, operation: Operation, resource: Resource) -> str:
        explained.append(resource.name)
        return "no"

    denied = Denials(clock, EventSource("broker-0", told.append))
    denied.explain = explain
    for _ in range(2):
        for number in range(1_000):
            denied.add(BOB, Operation.DESCRIBE, topic(f"t{number}"))
    assert len(told) == len(explained) == 10
    clock.advance(SUMMARY_S)
    assert len(told) == len(explained) == 20 and set(explained) == {f"t{number}" for number in range(10)}


def test_explanations_that_take_long_let_others_have_their_turn() -> None:
    """A resource may have thousands of ACLs, so explanations are spread over several turns."""
    clock, order = Clock(), list[str]()

    def explain(principal: str, host: str, operation: Operation, resource: Resource) -> str:
        clock.callLater(0, order.append, "others")
        clock.rightNow += 0.01
        return "no"

    denied = Denials(clock, EventSource("broker-0", lambda event: order.append(event.cause)))
    denied.explain = explain
    for number in range(3):
        denied.add(BOB, Operation.DESCRIBE, topic(f"t{number}"))
        denied.add(BOB, Operation.DESCRIBE, topic(f"t{number}"))
    clock.advance(1)
    order.clear()
    clock.advance(SUMMARY_S)
    assert order == ["no", "others", "no", "others", "no", "others"]


def test_a_name_cannot_forge_a_line(lines: list[tuple[str, str]]) -> None:
    """Clients choose names; they are logged on one line and shortened."""
    Denials(Clock()).add(BOB, Operation.READ, topic("t\nPrincipal = User:root" + "x" * 1_000))
    ((_, text),) = lines
    assert "\n" not in text and "t\\nPrincipal" in text and len(text) < 600


def test_a_broker_that_may_not_act_is_told_of(lines: list[tuple[str, str]]) -> None:
    """The denial is logged once, because the cluster does not work then, and its administrator reads the log."""
    denied = Denials(Clock())
    for _ in range(3):
        denied.add(BOB, Operation.CLUSTER_ACTION, CLUSTER)
    (hint,) = [text for logger, text in lines if logger != LOGGER]
    assert "add User:bob to super.users" in hint


def test_an_authorizer_that_fails_does_not_fill_the_log(lines: list[tuple[str, str]]) -> None:
    """The log has the first traceback of each minute, and the number of failures."""
    clock = Clock()
    denied = Denials(clock)
    for minute in range(2):
        for _ in range(1_000):
            try:
                raise KeyError("user")
            except KeyError:
                denied.failed((Operation.READ, topic("t")))
        texts = [text for _, text in lines[2 * minute :]]
        assert len(texts) == 1 and "the authorizer failed" in texts[0]
        clock.advance(SUMMARY_S)
        assert lines[-1][1] == f"the authorizer failed 999 more times in {SUMMARY_S} s"
    clock.advance(SUMMARY_S)
    assert len(lines) == 4 and not clock.getDelayedCalls()

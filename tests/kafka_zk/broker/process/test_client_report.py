"""Events about connected and throttled clients: they come only after a change, and their size is bounded."""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from twisted.internet.task import Clock

from kafka_zk.base.events import Event, EventSource
from kafka_zk.base.rate import QuotaWindow
from kafka_zk.broker.process import client_report
from kafka_zk.broker.process.client_report import INTERVAL_MS, ClientReport
from kafka_zk.broker.process.events import ClientsSeen, ConnectedClient, ThrottledClient
from kafka_zk.broker.quota.client_quotas import ClientQuotas
from kafka_zk.broker.quota.enforcement import Enforcement
from kafka_zk.protocol.request import RequestContext


class Lab:
    """One listener whose connections the test sets."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.told: list[ClientsSeen] = []
        self.contexts: list[RequestContext] = []
        self.quotas = Enforcement(ClientQuotas(QuotaWindow(), QuotaWindow()), cast(Any, self.clock))
        events = EventSource("broker-0", self._told, lambda: 0)
        self.report = ClientReport(events, self.clock, [cast(Any, self)], self.quotas)
        self.report.start()
        self.report.start()

    def _told(self, event: Event) -> None:
        assert isinstance(event, ClientsSeen)
        self.told.append(event)

    @property
    def connections(self) -> list[Any]:
        return [SimpleNamespace(context=each) for each in self.contexts]

    def connect(self, principal: str, host: str = "10.0.0.1", protocol: str = "SASL_SSL") -> None:
        self.contexts.append(RequestContext("CLIENTS", protocol, principal, host, 1, "c"))

    def look(self) -> list[ClientsSeen]:
        """The events of the next interval."""
        before = len(self.told)
        self.clock.advance(INTERVAL_MS / 1000)
        return self.told[before:]


def test_connections_are_counted_by_principal_and_host_and_told_when_they_change() -> None:
    lab = Lab()
    [seen] = lab.look()  # the first event replaces what the broker reported before it restarted
    assert (seen.clients, seen.throttled, seen.left_out) == ((), (), 0)
    assert lab.look() == []
    for host in ("10.0.0.1", "10.0.0.1", "10.0.0.2"):
        lab.connect("User:alice", host)
    lab.connect("User:ANONYMOUS")  # this client has not logged in yet
    [seen] = lab.look()
    assert seen.clients == (
        ConnectedClient("User:alice", "10.0.0.1", "CLIENTS", "SASL_SSL", 2),
        ConnectedClient("User:alice", "10.0.0.2", "CLIENTS", "SASL_SSL", 1),
    )
    assert (seen.throttled, seen.left_out) == ((), 0)
    assert lab.look() == []
    lab.contexts.clear()
    lab.connect("User:ANONYMOUS", protocol="PLAINTEXT")
    assert [[each.principal for each in seen.clients] for seen in lab.look()] == [["User:ANONYMOUS"]]
    lab.report.stop()
    assert not lab.clock.getDelayedCalls()


def test_who_is_throttled_is_told_with_the_bound_until_it_is_forgotten() -> None:
    lab = Lab()
    lab.quotas.quotas.set("users", "alice", {"producer_byte_rate": "1000"})
    bucket = lab.quotas.quotas.of("User:alice", "app", 0).produce
    assert bucket is not None
    bucket.throttles.add(bucket.add(50_000, 0), 0)
    [seen] = lab.look()
    [throttled] = seen.throttled
    assert throttled._replace(used=0, throttle_ms=0) == ThrottledClient("producer_byte_rate", "alice", "", 0, 1_000, 0)
    assert throttled.used > 1_000 and throttled.throttle_ms > 0
    lab.clock.advance(120)
    assert lab.told[-1].throttled == ()


def test_it_is_told_again_for_who_has_not_heard_it() -> None:
    """The event repeats for a page that was opened later, or a recording whose first part is lost."""
    lab = Lab()
    lab.connect("User:alice")
    [seen] = lab.look()
    looks = [lab.look() for _ in range(60_000 // INTERVAL_MS)]
    assert looks[:-1] == [[]] * (len(looks) - 1) and looks[-1] == [seen]
    assert lab.look() == []


def test_a_flood_of_connections_and_names_is_told_in_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_report, "MOST_CONNECTIONS", 10)
    monkeypatch.setattr(client_report, "MOST_CLIENTS", 4)
    lab = Lab()
    for number in range(20):
        lab.connect(f"User:{number}" + "x" * 1_000)
    [seen] = lab.look()
    assert (len(seen.clients), seen.left_out) == (4, 16)
    assert all(len(each.principal) == client_report.LONGEST_NAME + 1 for each in seen.clients)

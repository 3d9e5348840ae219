"""The cost of scrapes does not grow with their number."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Metric
from twisted.internet.task import Clock
from twisted.internet.testing import MemoryReactorClock
from twisted.web.test.requesthelper import DummyRequest

from kafka_zk.network.metrics_page import CACHED_S, MetricsPage, listen


class Counting:
    """A collector that counts its calls."""

    count = 0

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        self.count += 1
        metric = Metric("asked", "", "gauge")
        metric.add_sample("asked", {}, self.count)
        yield metric


def test_two_hundred_scrapes_in_a_second_collect_once() -> None:
    clock, collector, registry = Clock(), Counting(), CollectorRegistry()
    registry.register(collector)
    metrics = MetricsPage(registry, clock)
    texts = {metrics.render_GET(DummyRequest([])) for _ in range(200)}
    assert (len(texts), collector.count) == (1, 1)
    clock.advance(CACHED_S)
    assert b"asked 2.0" in metrics.render_GET(DummyRequest([]))


def test_it_listens_on_the_given_address_only() -> None:
    reactor = MemoryReactorClock()
    listen(reactor, CollectorRegistry(), 9464, "127.0.0.1")
    ((port, _, _, interface),) = reactor.tcpServers
    assert (port, interface) == (9464, "127.0.0.1")

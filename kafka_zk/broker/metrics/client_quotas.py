"""Metrics of client quotas and throttles, named like Kafka's MBeans (kafka.server:type=Produce,user=,client-id=).

Clients choose their ids, so only the MOST_OWNERS most recently active owners per kind of quota are shown. A throttle
time is an average of the last 30 to 60 s. Source: ClientQuotaManager.scala, ConnectionQuotas in SocketServer.scala@3.9.
"""

from collections.abc import Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from kafka_zk.broker.quota.enforcement import Enforcement
from kafka_zk.broker.quota.quota_table import QuotaKey
from kafka_zk.network.connection_rates import ConnectionRates

MOST_OWNERS = 500

_LABELS = ["user", "client_id"]
_NAMES = {
    QuotaKey.PRODUCE: ("produce", "byte_rate", "Bytes of Produce requests a second."),
    QuotaKey.FETCH: ("fetch", "byte_rate", "Bytes of Fetch responses a second."),
    QuotaKey.REQUEST: ("request", "request_time", "Percent of a thread that requests use."),
    QuotaKey.MUTATION: ("controllermutation", "tokens", "Partitions that may be created or deleted at once."),
}


def client_quota_metrics(enforcement: Enforcement) -> Iterator[Metric]:
    now_ms = enforcement.now_ms()
    usages = enforcement.quotas.usage(now_ms, MOST_OWNERS)
    for key, (kind, name, text) in _NAMES.items():
        values = GaugeMetricFamily(f"kafka_server_{kind}_{name}", text, labels=_LABELS)
        throttles = GaugeMetricFamily(f"kafka_server_{kind}_throttle_time", "Average throttle in ms.", labels=_LABELS)
        for usage in usages:
            if usage.key is key:
                values.add_metric(list(usage.owner), usage.value)
                throttles.add_metric(list(usage.owner), usage.throttle_ms)
        yield values
        yield throttles
    text = "Partitions created or deleted per second."
    rates = GaugeMetricFamily("kafka_server_controllermutation_mutation_rate", text, labels=_LABELS)
    for usage in usages:
        if usage.key is QuotaKey.MUTATION:
            rates.add_metric(list(usage.owner), usage.mutation_rate)
    yield rates
    yield GaugeMetricFamily(
        "kafka_server_request_exempt_request_time",
        "Percentage of a thread that requests of brokers use.",
        enforcement.exempt_time.per_second(now_ms),
    )


def connection_rate_metrics(rates: ConnectionRates, listeners: Sequence[str], now_ms: float) -> Iterator[Metric]:
    """Connection rates, and throttles of listeners and addresses."""
    name = "kafka_server_socket_server_metrics_"
    accepted = GaugeMetricFamily(name + "connection_accept_rate", "Connections a second.", labels=["listener"])
    for listener in listeners:
        accepted.add_metric([listener], rates.accept_rate(listener, now_ms))
    yield accepted
    for prefix, throttled in (("", rates.throttled_ms), ("ip_", rates.address_throttled_ms)):
        times = CounterMetricFamily(
            f"{name}{prefix}connection_accept_throttle_time_ms", "Total throttle time in ms.", labels=["listener"]
        )
        for listener in listeners:
            times.add_metric([listener], throttled.get(listener, (0, 0))[1])
        yield times

"""Metrics of the logins at each listener (``kafka.server:type=socket-server-metrics``).

Source: Selector.SelectorMetrics, SocketServer.scala@3.9.
"""

from collections.abc import Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from kafka_zk.broker.security.login_stats import LoginStats

_COUNTERS = {
    "successful_authentication": ("successful", "Connections that have logged in."),
    "failed_authentication": ("failed", "Connections that could not log in, over TLS or SASL."),
    "successful_authentication_no_reauth": (
        "without_reauthentication", "Logged-in connections of clients that are too old to reauthenticate."
    ),
    "successful_reauthentication": ("reauthentications", "Times that a client logged in again."),
    "failed_reauthentication": ("failed_reauthentications", "Times that a client could not log in again."),
}  # fmt: skip


def login_metrics(logins: Mapping[str, LoginStats]) -> Iterator[Metric]:
    """The counters of logins. ``logins``: listener -> its counts, for listeners with TLS or SASL."""
    name = "kafka_server_socket_server_metrics_"
    for suffix, (attribute, text) in _COUNTERS.items():
        counter = CounterMetricFamily(name + suffix, text, labels=["listener"])
        for listener, stats in logins.items():
            counter.add_metric([listener], getattr(stats, attribute))
        yield counter
    text = "Connections closed because their session had ended."
    expired = GaugeMetricFamily(name + "expired_connections_killed_count", text, labels=["listener"])
    text = "Latency of recent reauthentications in ms."
    average = GaugeMetricFamily(name + "reauthentication_latency_avg", text, labels=["listener"])
    longest = GaugeMetricFamily(name + "reauthentication_latency_max", text, labels=["listener"])
    for listener, stats in logins.items():
        expired.add_metric([listener], stats.expired)
        if stats.latency_ms is not None:
            average.add_metric([listener], stats.latency_ms[0])
            longest.add_metric([listener], stats.latency_ms[1])
    yield from (expired, average, longest)

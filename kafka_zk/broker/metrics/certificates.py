"""Metrics of the listeners' certificates. Kafka has no such metric."""

from collections.abc import Iterator, Mapping, Sequence

from prometheus_client.core import GaugeMetricFamily, Metric


def certificate_metrics(days_left: Mapping[str, Sequence[tuple[str, float]]]) -> Iterator[Metric]:
    """The gauge of days until expiry. ``days_left``: listener -> (subject, days) of its certificates."""
    days = GaugeMetricFamily(
        "kafka_zk_certificate_days_left",
        "Days until a certificate expires; negative once it has.",
        labels=["listener", "subject"],
    )
    for listener, shown in days_left.items():
        for subject, left in shown:
            days.add_metric([listener, subject], left)
    yield days

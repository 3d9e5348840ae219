"""Prometheus metrics of the validity of certificates."""

from kafka_zk.broker.metrics.certificates import certificate_metrics


def test_each_certificate_of_each_listener_has_its_days() -> None:
    shown = {"SSL": [("CN=broker", 12.5), ("CN=authority", 3000.0)], "SASL_SSL": [("CN=broker", -1.0)]}
    (metric,) = certificate_metrics(shown)
    assert metric.name == "kafka_zk_certificate_days_left"
    assert [(sample.labels["listener"], sample.labels["subject"], sample.value) for sample in metric.samples] == [
        ("SSL", "CN=broker", 12.5),
        ("SSL", "CN=authority", 3000.0),
        ("SASL_SSL", "CN=broker", -1.0),
    ]

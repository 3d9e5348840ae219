"""The metrics of logins under Kafka's names."""

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.registry import Collector

from kafka_zk.broker.metrics.logins import login_metrics
from kafka_zk.broker.security.login_stats import LoginStats


def test_every_count_is_shown_by_listener() -> None:
    stats = LoginStats(lambda: 0.0)
    stats.logged_in()
    stats.login_failed()
    stats.reauthenticated(7.0)
    stats.login_failed(again=True)
    stats.expired += 1

    class Logins(Collector):
        def collect(self):  # type: ignore[no-untyped-def]
            return login_metrics({"SASL_SSL": stats})

    registry = CollectorRegistry()
    registry.register(Logins())
    name, label = "kafka_server_socket_server_metrics_", '{listener="SASL_SSL"}'
    shown = dict(line.rsplit(" ", 1) for line in generate_latest(registry).decode().splitlines() if line[0] != "#")
    assert shown == {
        f"{name}successful_authentication_total{label}": "1.0",
        f"{name}failed_authentication_total{label}": "1.0",
        f"{name}successful_authentication_no_reauth_total{label}": "1.0",
        f"{name}successful_reauthentication_total{label}": "1.0",
        f"{name}failed_reauthentication_total{label}": "1.0",
        f"{name}expired_connections_killed_count{label}": "1.0",
        f"{name}reauthentication_latency_avg{label}": "7.0",
        f"{name}reauthentication_latency_max{label}": "7.0",
    }

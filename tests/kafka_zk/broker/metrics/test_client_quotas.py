"""Metrics of quotas under Kafka's names."""

from twisted.internet.task import Clock

from kafka_zk.base.rate import QuotaWindow
from kafka_zk.broker.metrics.client_quotas import MOST_OWNERS, client_quota_metrics, connection_rate_metrics
from kafka_zk.broker.quota.client_quotas import ClientQuotas
from kafka_zk.broker.quota.enforcement import Enforcement
from kafka_zk.network.connection_rates import ConnectionRates

Samples = dict[tuple[str, ...], float]


def samples(enforcement: Enforcement) -> Samples:
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in client_quota_metrics(enforcement)
        for sample in family.samples
    }


def test_rates_tokens_and_throttles_are_those_of_kafkas_mbeans() -> None:
    enforcement = Enforcement(ClientQuotas(QuotaWindow(), QuotaWindow()), Clock())
    quotas = enforcement.quotas
    quotas.set("users", "a%40b", {"producer_byte_rate": "1000", "controller_mutation_rate": "2.0"})
    quotas.set("clients", "c", {"consumer_byte_rate": "1000"})
    buckets = quotas.of("User:a@b", "c", 0)
    assert buckets.produce is not None and buckets.mutation is not None and buckets.fetch is not None
    buckets.produce.throttles.add(buckets.produce.add(20_000, 0), 0)
    buckets.mutation.take(30, 0)
    buckets.fetch.admit(5_000, 0)
    found = samples(enforcement)
    assert found == {
        ("kafka_server_produce_byte_rate", "a%40b", ""): 2_000,
        ("kafka_server_produce_throttle_time", "a%40b", ""): 10_000,
        ("kafka_server_fetch_byte_rate", "", "c"): 500,
        ("kafka_server_fetch_throttle_time", "", "c"): 0,
        ("kafka_server_controllermutation_tokens", "a%40b", ""): -8,
        ("kafka_server_controllermutation_throttle_time", "a%40b", ""): 0,
        ("kafka_server_controllermutation_mutation_rate", "a%40b", ""): 3,
        ("kafka_server_request_exempt_request_time",): 0,
    }


def test_client_ids_without_end_do_not_fill_the_answer() -> None:
    enforcement = Enforcement(ClientQuotas(QuotaWindow(), QuotaWindow()), Clock())
    enforcement.quotas.set("clients", "<default>", {"producer_byte_rate": "1000"})
    for number in range(3 * MOST_OWNERS):
        enforcement.quotas.of("User:u", str(number), 0)
    assert len(samples(enforcement)) == 2 * MOST_OWNERS + 1


def test_connections_are_counted_by_listener() -> None:
    rates = ConnectionRates()
    rates.set_limits(1, {})
    for _ in range(20):
        rates.accepted("L", 0, is_protected=False)
    found = {
        (sample.name, sample.labels["listener"]): sample.value
        for family in connection_rate_metrics(rates, ["L", "M"], 0)
        for sample in family.samples
    }
    name = "kafka_server_socket_server_metrics_"
    assert found[name + "connection_accept_rate", "L"] == 2
    assert found[name + "connection_accept_rate", "M"] == 0
    assert found[name + "connection_accept_throttle_time_ms_total", "L"] == 10_000
    assert found[name + "ip_connection_accept_throttle_time_ms_total", "L"] == 0

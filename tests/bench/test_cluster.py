"""The bench of clusters: every combination of producers is a row, consumers read from the right broker, and the table
shows ratios.
"""

from io import StringIO

import pytest
from rich.console import Console

from tests.bench.cluster import table
from tests.bench.cluster_rows import CONSUMERS, FILLED, FOLLOWER, LEADER, MEMORY, P99, PRODUCERS, RACKS, check_server
from tests.bench.workloads import BenchFailed, Client
from tests.peers.targets import APACHE_KAFKA, KAFKA_ZK


def test_every_combination_of_producers_is_a_row_of_its_own() -> None:
    assert len({row.name for row in PRODUCERS}) == len({row.title for row in PRODUCERS}) == 2**4
    assert {row.config["acks"] for row in PRODUCERS} == {"1", "all"}


def test_librdkafka_gets_no_setting_that_only_java_knows() -> None:
    for row in PRODUCERS:
        assert ("buffer.memory" in row.config) is (row.client is Client.JAVA_PRODUCER)


def test_both_clients_read_from_the_leader_and_from_a_follower_what_was_filled() -> None:
    assert {(row.workload.client, row.server) for row in CONSUMERS} == {
        (client, broker)
        for client in (Client.JAVA_CONSUMER, Client.LIBRDKAFKA_CONSUMERS)
        for broker in (LEADER, FOLLOWER)
    }
    assert len({row.workload.name for row in CONSUMERS}) == len({row.workload.title for row in CONSUMERS}) == 4
    for row in CONSUMERS:
        assert row.workload.config == {"client.rack": RACKS[row.server]}
        assert row.workload.partitions == FILLED.partitions
        assert 0 < (row.workload.records or 0) <= (FILLED.records or 0)


def test_a_row_whose_records_came_from_another_broker_fails() -> None:
    """The few bytes of other brokers are metadata, and responses that name the broker to read from."""
    row = next(row for row in CONSUMERS if row.server == FOLLOWER)
    check_server(row, [4_000, 100, 101_000], 100_000)
    for sent in ([101_000, 0, 0], [50_500, 0, 50_500], [4_000, 0, 90_000], [0, 10_000, 101_000]):
        with pytest.raises(BenchFailed, match="should have come from broker 2"):
            check_server(row, sent, 100_000)


def test_the_table_has_ratios_of_the_pairs_in_the_figures_units() -> None:
    samples = {
        ("end to end", P99.name): {APACHE_KAFKA: [10.0, 20.0], KAFKA_ZK: [2.0, 8.0]},
        ("idle", MEMORY.name): {APACHE_KAFKA: [1200e6], KAFKA_ZK: [150e6]},
    }
    console = Console(width=160, record=True, file=StringIO())
    console.print(table(samples, 2))
    text = console.export_text()
    assert "0.30 (0.20–0.40)" in text and "≤ 0.5" in text
    assert "1,200" in text and "150" in text and "0.12" in text

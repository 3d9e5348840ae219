"""The bench of clusters: every combination of producers is a row, and its table shows ratios."""

from io import StringIO

from rich.console import Console

from tests.bench.cluster import table
from tests.bench.cluster_rows import MEMORY, P99, PRODUCERS
from tests.bench.workloads import Client
from tests.peers.targets import APACHE_KAFKA, KAFKA_ZK


def test_every_combination_of_producers_is_a_row_of_its_own() -> None:
    assert len({row.name for row in PRODUCERS}) == len({row.title for row in PRODUCERS}) == 2**4
    assert {row.config["acks"] for row in PRODUCERS} == {"1", "all"}


def test_librdkafka_gets_no_setting_that_only_java_knows() -> None:
    for row in PRODUCERS:
        assert ("buffer.memory" in row.config) is (row.client is Client.JAVA_PRODUCER)


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

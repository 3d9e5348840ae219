"""The rows of the benchmark: all rows that the issue requires exist, and each can be run and read."""

from __future__ import annotations

import pytest

from tests.bench.rounds import Plan
from tests.bench.workloads import MANY, SOURCES, WORKLOADS, Beside, Client, Kind, Workload


def _names(**wanted: object) -> set[str]:
    return {row.name for row in WORKLOADS if all(getattr(row, key) == value for key, value in wanted.items())}


def test_every_dimension_has_its_rows() -> None:
    """There are one and many clients, both directions, three batch sizes, two record sizes, lz4, sendfile and copies,
    latency.
    """
    assert _names(partitions=MANY, client=Client.LIBRDKAFKA_PRODUCERS) and _names(
        partitions=MANY, client=Client.LIBRDKAFKA_CONSUMERS
    )
    assert {row.config.get("batch.size") for row in WORKLOADS} >= {"0", "16384", "262144"}
    assert {row.config.get("compression.type") for row in (*WORKLOADS, *SOURCES.values())} == {None, "lz4"}
    assert {row.record_size_bytes for row in WORKLOADS if row.reads} == {100, 1000}
    assert {row.record_size_bytes for row in WORKLOADS if not row.reads} == {100, 1000}
    assert _names(client=Client.JAVA_ROUND_TRIP) and _names(beside=Beside.TOPICS)


def test_names_are_unique_and_sources_exist() -> None:
    assert len({row.name for row in WORKLOADS}) == len(WORKLOADS)
    assert all(row.source in SOURCES for row in WORKLOADS if row.reads)


def test_the_headline_has_throughput_and_latency() -> None:
    assert {row.kind for row in WORKLOADS if row.headline} == set(Kind)


@pytest.mark.parametrize("row", [row for row in WORKLOADS if row.source is not None], ids=lambda row: row.name)
def test_a_consumer_reads_exactly_what_was_filled(row: Workload) -> None:
    """With a wrong number of records, a run would end early or wait indefinitely."""
    plan = Plan(WORKLOADS, rounds=5, warmup_rounds=1, records=12_345, client_cores=None)
    assert row.source is not None
    source = SOURCES[row.source]
    assert plan.records_of(row) == plan.records_of(source)
    assert row.partitions == source.partitions
    assert plan.records_of(row) % row.partitions == 0

"""The arithmetic of the benchmark: medians, paired ratios, missing brokers."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.bench import measure, report
from tests.bench.rounds import Sample
from tests.bench.workloads import WORKLOADS, Outcome
from tests.peers.targets import APACHE_KAFKA, KAFKA_ZK

_WORKLOAD = WORKLOADS[0]


def _sample(target: str, number: int, seconds: float, cpu_s: float = 1.0) -> Sample:
    outcome = Outcome(records=1_000_000, payload_bytes=1_000_000_000, seconds=seconds, p99_latency_ms=5.0)
    return Sample(
        _WORKLOAD.name, target, number, outcome, cpu_s, client_cpu_s=1.0, other_brokers_cpu_s=0.0, strangers_cpu_s=0.0
    )


def _figure(samples: list[Sample], name: str) -> report.Comparison:
    return next(figure for figure in report.compare_workload(_WORKLOAD, samples) if figure.name == name)


def test_ratio_is_the_median_of_the_pairs_not_the_ratio_of_the_medians() -> None:
    """A slow minute affects both runs of a pair, so pairs are compared with each other."""
    kafka = [_sample(APACHE_KAFKA, number, seconds) for number, seconds in enumerate((10.0, 20.0, 40.0))]
    ours = [_sample(KAFKA_ZK, number, seconds) for number, seconds in enumerate((20.0, 20.0, 20.0))]
    throughput = _figure(kafka + ours, "throughput")
    assert throughput.kafka == pytest.approx(50.0)
    assert throughput.ours == pytest.approx(50.0)
    assert throughput.ratio == pytest.approx(1.0)
    assert throughput.ratio_range == pytest.approx((0.5, 2.0))
    assert _figure(kafka[:2] + ours[:2], "throughput").ratio == pytest.approx(0.75)


def test_cpu_is_counted_per_gigabyte_of_record_values() -> None:
    """The run moved 1 GB with 3 CPU seconds."""
    assert _figure([_sample(APACHE_KAFKA, 0, 10.0, cpu_s=3.0)], "broker CPU").kafka == pytest.approx(3.0)


def test_a_broker_that_did_not_run_leaves_a_gap_not_a_number() -> None:
    """With `--target apache-kafka` there is no figure of ours and no ratio."""
    throughput = _figure([_sample(APACHE_KAFKA, 0, 10.0)], "throughput")
    assert throughput.ours is None
    assert throughput.ratio is None


def test_cpu_time_of_a_child_process_counts() -> None:
    """A broker's helper processes are part of the broker, while they run and afterwards."""
    before_s = measure.cpu_seconds(os.getpid())
    subprocess.run([sys.executable, "-c", "sum(i * i for i in range(1_000_000))"], check=True)
    assert measure.cpu_seconds(os.getpid()) > before_s


def test_memory_of_this_process_is_plausible() -> None:
    """Resident memory is more than its anonymous part, and at most its peak."""
    memory = measure.memory(os.getpid())
    assert 0 < memory.anonymous_bytes < memory.resident_bytes
    assert memory.resident_bytes < 10 * memory.peak_bytes

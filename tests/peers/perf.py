"""kafka-producer-perf-test (org.apache.kafka.tools.ProducerPerformance): its command line and its summary."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

MAIN_CLASS = "org.apache.kafka.tools.ProducerPerformance"
FULL_SPEED = -1
_SUMMARY = re.compile(
    r"^(?P<records>\d+) records sent, (?P<rate>[\d.]+) records/sec \((?P<mb>[\d.]+) MB/sec\), (?P<avg>[\d.]+) ms avg "
    r"latency, (?P<max>[\d.]+) ms max latency, (?P<p50>\d+) ms 50th, (?P<p95>\d+) ms 95th, (?P<p99>\d+) ms 99th, "
    r"(?P<p999>\d+) ms 99.9th\.$",
    re.MULTILINE,
)


class Summary(NamedTuple):
    """The last line of the tool. Latencies are from send() to the acknowledgement."""

    records: int
    records_per_second: float
    average_latency_ms: float
    p50_latency_ms: int
    p99_latency_ms: int
    p999_latency_ms: int


def arguments(
    bootstrap: str,
    topic: str,
    records: int,
    payload: list[str],
    config: Mapping[str, str] | None = None,
    rate: int = FULL_SPEED,
) -> list[str]:
    """Command-line arguments that 3.9.1 and 4.3.0 both accept; `payload` is --record-size N or --payload-monotonic,
    `rate` records per second."""
    properties = [f"{key}={value}" for key, value in {"bootstrap.servers": bootstrap, **(config or {})}.items()]
    what = ["--topic", topic, "--num-records", str(records), "--throughput", str(rate), *payload]
    return [*what, "--producer-props", *properties]


def summary(output: str) -> Summary:
    """Parse the tool's output. Raises: ValueError if there is no summary line."""
    found = [match for match in _SUMMARY.finditer(output)]
    if not found:
        raise ValueError(f"kafka-producer-perf-test printed no summary:\n{output[-2000:]}")
    last = found[-1]
    return Summary(
        int(last["records"]),
        float(last["rate"]),
        float(last["avg"]),
        int(last["p50"]),
        int(last["p99"]),
        int(last["p999"]),
    )

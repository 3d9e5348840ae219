"""The rows of the benchmark: what one client does to one broker, and how it is run.

Every workload uses the same foreign client against both brokers: Kafka 3.9.1's kafka-producer-perf-test, a Java
consumer by assigned partitions (tests/peers/java/AssignConsumerPerformance.java, needs no group), and kcat.
Latencies are those of a producer at full speed, so they hold the time in its own queue.
To add a row, add a `Workload` to `WORKLOADS`.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from tests.peers import jars, java, perf
from tests.peers.processes import pinned
from tests.peers.targets import Target

_CLIENT_TIMEOUT_S = 600
#: kafka-producer-perf-test.sh and kafka-consumer-perf-test.sh@3.9 set this heap.
_CLIENT_JVM_FLAGS = ("-Xmx512M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")


class Client(StrEnum):
    """Which program drives the load."""

    JAVA_PRODUCER = "kafka-producer-perf-test"
    JAVA_CONSUMER = "Java consumer (assign)"
    LIBRDKAFKA_CONSUMER = "kcat"


class BenchFailed(Exception):
    """A client failed or moved fewer records than it should; the whole run is void."""


@dataclass(frozen=True)
class Workload:
    """One row. `share` scales the number of records of a run for rows that are slow or fast by nature."""

    name: str
    title: str
    client: Client
    record_size_bytes: int = 1000
    share: float = 1.0
    partitions: int = 1
    config: Mapping[str, str] = field(default_factory=dict)

    @property
    def produces(self) -> bool:
        return self.client is Client.JAVA_PRODUCER


class Outcome(NamedTuple):
    """What the client reports of one run; latencies only from the producer."""

    records: int
    payload_bytes: int
    seconds: float
    p50_latency_ms: float | None = None
    p99_latency_ms: float | None = None


#: How the data that the consumers read was written.
FILL = Workload(
    "fill", "fill", Client.JAVA_PRODUCER, share=2.0, config={"batch.size": "16384", "linger.ms": "10", "acks": "1"}
)

WORKLOADS = (
    Workload(
        "produce-16k",
        "produce, 16 KB batches",
        Client.JAVA_PRODUCER,
        config={"batch.size": "16384", "linger.ms": "10"},
    ),
    Workload(
        "produce-256k",
        "produce, 256 KB batches",
        Client.JAVA_PRODUCER,
        share=2.0,
        config={"batch.size": "262144", "linger.ms": "10", "buffer.memory": "67108864"},
    ),
    Workload(
        "produce-1",
        "produce, 1 record a request",
        Client.JAVA_PRODUCER,
        share=0.1,
        config={"batch.size": "0", "linger.ms": "0"},
    ),
    Workload("consume", "consume, Java", Client.JAVA_CONSUMER, share=2.0),
    Workload("consume-librdkafka", "consume, librdkafka", Client.LIBRDKAFKA_CONSUMER, share=2.0),
)


def run(workload: Workload, target: Target, topic: str, records: int, client_cores: str | None = None) -> Outcome:
    """Run one client to its end. Raises: BenchFailed."""
    runners = {
        Client.JAVA_PRODUCER: _produce,
        Client.JAVA_CONSUMER: _consume_java,
        Client.LIBRDKAFKA_CONSUMER: _consume_librdkafka,
    }
    outcome = runners[workload.client](workload, target, topic, records, client_cores)
    if outcome.records != records:
        raise BenchFailed(f"{workload.name} on {target.name}: {outcome.records} records instead of {records}")
    return outcome


def _produce(workload: Workload, target: Target, topic: str, records: int, cores: str | None) -> Outcome:
    payload = ["--record-size", str(workload.record_size_bytes)]
    arguments = perf.arguments(target.bootstrap, topic, records, payload, workload.config)
    output = _client(java.driver_command(jars.ORACLE_VERSION, perf.MAIN_CLASS, arguments, _CLIENT_JVM_FLAGS), cores)
    found = perf.summary(output)
    if target.end_offset(topic, 0) == 0:
        raise BenchFailed(f"{workload.name} on {target.name}: nothing was written; the client said:\n{output}")
    seconds = found.records / found.records_per_second
    size = found.records * workload.record_size_bytes
    return Outcome(found.records, size, seconds, found.p50_latency_ms, found.p99_latency_ms)


def _consume_java(workload: Workload, target: Target, topic: str, records: int, cores: str | None) -> Outcome:
    arguments = [target.bootstrap, topic, str(workload.partitions), str(records)]
    arguments += [f"{key}={value}" for key, value in workload.config.items()]
    command = java.driver_command(jars.ORACLE_VERSION, "AssignConsumerPerformance", arguments, _CLIENT_JVM_FLAGS)
    found, size, elapsed_ms = map(int, _client(command, cores).split())
    # The consumer stops at the end of a poll, so it may have seen a few records more.
    return Outcome(min(found, records), size, elapsed_ms / 1000)


def _consume_librdkafka(workload: Workload, target: Target, topic: str, records: int, cores: str | None) -> Outcome:
    where = ["-b", target.bootstrap, "-t", topic, "-p", "0", "-o", "beginning", "-c", str(records)]
    started_s = time.monotonic()
    output = _client(["kcat", "-C", "-q", *where, "-f", "%o\n"], cores)
    seconds = time.monotonic() - started_s
    found = output.count("\n")
    return Outcome(found, found * workload.record_size_bytes, seconds)


def _client(command: list[str], cores: str | None) -> str:
    try:
        done = subprocess.run(
            pinned(command, cores), capture_output=True, text=True, check=False, timeout=_CLIENT_TIMEOUT_S
        )
    except subprocess.TimeoutExpired as late:
        raise BenchFailed(f"client still runs after {_CLIENT_TIMEOUT_S} s") from late
    if done.returncode != 0:
        raise BenchFailed(f"client ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout

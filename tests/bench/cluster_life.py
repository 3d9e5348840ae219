"""One cluster of three brokers under measurement: writes and reads of clients, and the return of a follower."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import confluent_kafka.admin

from tests.bench import measure
from tests.bench.clients import await_records, run
from tests.bench.cluster_rows import (
    BROKERS,
    CPU_PER_GB,
    CPU_SECONDS,
    FILLED,
    FILLING,
    LEADER,
    MB_PER_S,
    MEMORY,
    P50,
    P99,
    SECONDS,
    Figure,
    Reading,
    check_server,
)
from tests.bench.workloads import MANY, Kind, Outcome, Workload
from tests.peers.processes import wait_until
from tests.peers.targets import Target

Measured = Mapping[Figure, float]

_AWAY = 1  # the broker that is stopped
_SETTLE_S = 3.0
_IN_SYNC_TIMEOUT_S = 600.0
_BYTES_PER_MB = 1_000_000


class ClusterLife:
    """``cores`` is a taskset list for restarted brokers; ``scale`` multiplies the number of records."""

    def __init__(self, target: Target, cores: str | None, scale: float) -> None:
        self._target = target
        self._cores = cores
        self._scale = scale
        self._topics = 0
        self._filled: str | None = None
        self._admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": target.bootstrap, "log_level": 0})

    def run(self, workload: Workload) -> Measured:
        """Run one row on a topic of its own. Raises: BenchFailed, TimeoutError."""
        records = self._records(workload.records or 0, workload.partitions)
        topic = self._create(workload.partitions)
        before_s = self._cpu_s()
        outcome = run(workload, self._target, topic, records)
        if workload.kind is Kind.THROUGHPUT:
            await_records(self._target, topic, workload.partitions, records)
        cpu_s = self._cpu_s() - before_s
        self._target.delete_topic(topic)
        if workload.kind is Kind.LATENCY and outcome.p99_latency_ms is not None:
            return {P50: outcome.p50_latency_ms or 0.0, P99: outcome.p99_latency_ms}
        return _throughput(outcome, cpu_s)

    def read(self, reading: Reading) -> Measured:
        """Run one row of consumers, on a topic that is filled once. Raises: BenchFailed, also if records came from
        another broker; TimeoutError.
        """
        if self._filled is None:
            self._filled = self._fill()
        before, before_s = self._written_bytes(), self._cpu_s()
        records = self._records(reading.workload.records or 0, MANY)
        outcome = run(reading.workload, self._target, self._filled, records)
        cpu_s = self._cpu_s() - before_s
        sent = [now - earlier for now, earlier in zip(self._written_bytes(), before, strict=True)]
        check_server(reading, sent, outcome.payload_bytes)
        return _throughput(outcome, cpu_s)

    def _fill(self) -> str:
        topic = "bench-filled"
        others = [broker for broker in range(BROKERS) if broker != LEADER]
        self._target.create_assigned_topic(topic, [[LEADER, *others]] * MANY)
        self._await_full_isr(topic, MANY)
        records = self._records(FILLED.records or 0, MANY)
        run(FILLED, self._target, topic, records)
        await_records(self._target, topic, MANY, records)
        time.sleep(_SETTLE_S)  # then followers have the high watermark, too
        return topic

    def catch_up(self, size_mb: int) -> Measured:
        """Stop a broker, write to the others, and restart it. Measures the time from the start of its process until it
        is in every ISR, and the CPU time of all brokers for that. Raises: BenchFailed, ProcessFailed, TimeoutError.
        """
        topic = self._create(FILLING.partitions)
        self._target.stop_broker(_AWAY)
        records = size_mb * _BYTES_PER_MB // FILLING.record_size_bytes
        run(FILLING, self._target, topic, records)
        before_s = self._cpu_s()  # excludes the stopped broker
        self._target.start_broker(_AWAY, self._cores)
        self._await_full_isr(topic, FILLING.partitions)
        seconds = time.monotonic() - self._target.brokers[_AWAY].started_s
        cpu_s = self._cpu_s() - before_s
        self._target.delete_topic(topic)
        return {SECONDS: seconds, CPU_SECONDS: cpu_s}

    def memory(self) -> Measured:
        """Resident memory, after some idle seconds."""
        time.sleep(_SETTLE_S)
        return {MEMORY: float(sum(measure.memory(broker.pid).resident_bytes for broker in self._target.brokers))}

    def _records(self, records: int, partitions: int) -> int:
        """The number of records, scaled and divisible by the number of partitions."""
        return max(1, round(records * self._scale / partitions)) * partitions

    def _cpu_s(self) -> float:
        return sum(measure.cpu_seconds(broker.pid) for broker in self._target.brokers)

    def _written_bytes(self) -> list[int]:
        return [measure.written_bytes(broker.pid) for broker in self._target.brokers]

    def _create(self, partitions: int) -> str:
        self._topics += 1
        topic = f"bench-{self._topics}"
        self._target.create_topic(topic, partitions=partitions, replication_factor=BROKERS)
        self._await_full_isr(topic, partitions)
        return topic

    def _await_full_isr(self, topic: str, partitions: int) -> None:
        wait_until(self._is_in_sync(topic, partitions), _IN_SYNC_TIMEOUT_S, f"all replicas of {topic} in sync")

    def _is_in_sync(self, topic: str, partitions: int) -> Callable[[], bool]:
        def is_in_sync() -> bool:
            found = self._admin.list_topics(topic, timeout=30).topics[topic].partitions
            return len(found) == partitions and all(len(each.isrs) == BROKERS for each in found.values())

        return is_in_sync


def _throughput(outcome: Outcome, cpu_s: float) -> Measured:
    return {
        MB_PER_S: outcome.payload_bytes / outcome.seconds / _BYTES_PER_MB,
        CPU_PER_GB: cpu_s / (outcome.payload_bytes / 1e9),
    }

"""Runs the clients of one workload to their end."""

from __future__ import annotations

import subprocess
import tempfile
import time
from pathlib import Path

from kafka_zk.embedded.process import tied
from tests.bench.workloads import QUIET_RATE, BenchFailed, Client, Kind, Outcome, Workload
from tests.peers import jars, java, perf
from tests.peers.processes import pinned, wait_until
from tests.peers.targets import Target

_TIMEOUT_S = 600
_REPLICATION_TIMEOUT_S = 30
#: kafka-producer-perf-test.sh and kafka-consumer-perf-test.sh@3.9 set this heap.
_JVM_FLAGS = ("-Xmx512M", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")


def run(workload: Workload, target: Target, topic: str, records: int, cores: str | None = None) -> Outcome:
    """Run the clients to their end; `cores` is a taskset list for them. Raises: BenchFailed."""
    runners = {
        Client.JAVA_PRODUCER: _produce,
        Client.JAVA_CONSUMER: _consume,
        Client.JAVA_ROUND_TRIP: _round_trips,
        Client.LIBRDKAFKA_PRODUCERS: _produce_by_kcat,
        Client.LIBRDKAFKA_CONSUMERS: _consume_by_kcat,
    }
    outcome = runners[workload.client](workload, target, topic, records, cores)
    if outcome.records != records:
        raise BenchFailed(f"{workload.name} on {target.name}: {outcome.records} records instead of {records}")
    return outcome


def _produce(workload: Workload, target: Target, topic: str, records: int, cores: str | None) -> Outcome:
    payload = ["--record-size", str(workload.record_size_bytes)]
    rate = QUIET_RATE if workload.kind is Kind.LATENCY else perf.FULL_SPEED
    arguments = perf.arguments(target.bootstrap, topic, records, payload, workload.config, rate)
    output = _java(perf.MAIN_CLASS, arguments, cores)
    found = perf.summary(output)
    try:
        wait_until(lambda: target.end_offset(topic, 0) > 0, _REPLICATION_TIMEOUT_S, "records in the first partition")
    except TimeoutError as late:
        raise BenchFailed(f"{workload.name} on {target.name}: {late}; the client said:\n{output}") from late
    seconds = found.records / found.records_per_second
    size = found.records * workload.record_size_bytes
    latencies = (found.p50_latency_ms, found.p99_latency_ms, found.p999_latency_ms)
    return Outcome(found.records, size, seconds, *latencies)


def _consume(workload: Workload, target: Target, topic: str, records: int, cores: str | None) -> Outcome:
    arguments = [target.bootstrap, topic, str(workload.partitions), str(records)]
    arguments += [f"{key}={value}" for key, value in workload.config.items()]
    found, size, elapsed_ms = map(int, _java("AssignConsumerPerformance", arguments, cores).split())
    # the consumer stops at the end of a poll, so it may have read slightly more records
    return Outcome(min(found, records), size, elapsed_ms / 1000)


def _round_trips(workload: Workload, target: Target, topic: str, records: int, cores: str | None) -> Outcome:
    arguments = [target.bootstrap, topic, str(records), str(workload.record_size_bytes)]
    elapsed_ms, *micros = map(int, _java("RoundTrips", arguments, cores).split())
    return Outcome(records, records * workload.record_size_bytes, elapsed_ms / 1000, *(each / 1000 for each in micros))


def _produce_by_kcat(workload: Workload, target: Target, topic: str, records: int, cores: str | None) -> Outcome:
    each = records // workload.partitions
    line = "".join(chr(ord("a") + position % 26) for position in range(workload.record_size_bytes)) + "\n"
    options = [f"-X{key}={value}" for key, value in workload.config.items()]
    with tempfile.TemporaryDirectory(prefix="kafka-zk-bench-") as folder:
        lines = Path(folder) / "lines"
        lines.write_text(line * each)
        seconds = _kcats(
            [
                ["kcat", "-P", "-q", "-b", target.bootstrap, "-t", topic, "-p", str(number), *options, "-l", str(lines)]
                for number in range(workload.partitions)
            ],
            cores,
        )[1]
    await_records(target, topic, workload.partitions, each * workload.partitions)
    return Outcome(each * workload.partitions, each * workload.partitions * workload.record_size_bytes, seconds)


def await_records(target: Target, topic: str, partitions: int, records: int) -> None:
    """Wait until the followers have all ``records``: producers with acks=1 do not wait for them. Raises: BenchFailed.
    """

    def have_all() -> bool:
        return sum(target.end_offset(topic, number) for number in range(partitions)) == records

    try:
        wait_until(have_all, _REPLICATION_TIMEOUT_S, f"{records} records in {topic} of {target.name}")
    except TimeoutError as late:
        raise BenchFailed(str(late)) from late


def _consume_by_kcat(workload: Workload, target: Target, topic: str, records: int, cores: str | None) -> Outcome:
    where = ["-b", target.bootstrap, "-t", topic, "-o", "beginning", "-e"]
    where += [f"-X{key}={value}" for key, value in workload.config.items()]
    outputs, seconds = _kcats(
        [["kcat", "-C", "-q", *where, "-p", str(number), "-f%o\n"] for number in range(workload.partitions)], cores
    )
    found = sum(output.count(b"\n") for output in outputs)
    return Outcome(found, found * workload.record_size_bytes, seconds)


def _kcats(commands: list[list[str]], cores: str | None) -> tuple[list[bytes], float]:
    """Run the commands side by side; returns the output of each, and the seconds until the last one ended."""
    with tempfile.TemporaryDirectory(prefix="kafka-zk-bench-") as folder:
        outputs = [Path(folder) / str(number) for number in range(len(commands))]
        started_s = time.monotonic()
        running = []
        for command, output in zip(commands, outputs, strict=True):
            with output.open("wb") as stream:
                running.append(subprocess.Popen(tied(pinned(command, cores)), stdout=stream))
        try:
            codes = [process.wait(_TIMEOUT_S) for process in running]
        except subprocess.TimeoutExpired as late:
            raise BenchFailed(f"kcat still runs after {_TIMEOUT_S} s") from late
        finally:
            for process in running:
                process.kill()
        seconds = time.monotonic() - started_s
        if any(codes):
            raise BenchFailed(f"kcat ended with {codes}")
        return [output.read_bytes() for output in outputs], seconds


def _java(main_class: str, arguments: list[str], cores: str | None) -> str:
    command = tied(pinned(java.driver_command(jars.ORACLE_VERSION, main_class, arguments, _JVM_FLAGS), cores))
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S)
    except subprocess.TimeoutExpired as late:
        raise BenchFailed(f"client still runs after {_TIMEOUT_S} s") from late
    if done.returncode != 0:
        raise BenchFailed(f"client ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout

"""`python -m tests.bench.profile`: the time that our broker spends in each function under one workload.

cprofile measures Python functions (and slows them down: compare shares, not seconds); perf samples the machine code of
the interpreter, the C libraries and the kernel.
"""

from __future__ import annotations

import os
import pstats
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import click

from kafka_zk.embedded.ports import free_port
from tests.bench import measure, servers
from tests.bench.clients import run
from tests.bench.workloads import SOURCES, WORKLOADS, Workload
from tests.peers import apache_kafka, jars, java, targets, wire_probe
from tests.peers.processes import ServerProcess, pinned

_START_TIMEOUT_S = 60
_NAMES = [workload.name for workload in WORKLOADS]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--workload", "name", type=click.Choice(_NAMES), default="produce-16k", show_default=True)
@click.option("--tool", type=click.Choice(["cprofile", "perf"]), default="cprofile", show_default=True)
@click.option("--records", type=click.IntRange(1), default=100_000, show_default=True)
@click.option("--top", type=click.IntRange(1), default=40, show_default=True, help="Functions to print.")
@click.option("--sort", type=click.Choice(["tottime", "cumtime", "ncalls"]), default="tottime", show_default=True)
@click.option("--pin", "cores", metavar="LIST", help="Cores of the broker.")
def main(name: str, tool: str, records: int, top: int, sort: str, cores: str | None) -> None:
    """Run one workload against a profiled kafka-zk broker and print its top functions."""
    java.compiled(jars.ORACLE_VERSION)
    workload = next(each for each in WORKLOADS if each.name == name)
    data = jars.REPOSITORY_ROOT / "target" / "profile" / f"run-{time.time_ns()}"
    zookeeper = apache_kafka.start_zookeeper(data / "zookeeper")
    try:
        target = _start(data, zookeeper.connect_string, tool, cores)
        try:
            _load(target, workload, records, data if tool == "perf" else None)
        finally:
            target.brokers[0].stop()
    finally:
        zookeeper.stop()
        shutil.rmtree(data / "logs", ignore_errors=True)
    if tool == "cprofile":
        click.echo("of the whole process, start and waiting (epoll) included:")
        pstats.Stats(str(data / "broker.pstats")).sort_stats(sort).print_stats(top)
    else:
        _print_perf(data, top)


def _start(data: Path, zookeeper: str, tool: str, cores: str | None) -> targets.Target:
    """Start one kafka-zk broker, under cProfile if ``tool`` says so."""
    port = free_port()
    target = targets.Target(targets.KAFKA_ZK, f"{zookeeper}/profile", [port], [data / "logs"])
    target.log_dirs[0].mkdir(parents=True)
    properties = apache_kafka.server_properties(0, port, target.log_dirs[0], target.zookeeper, servers.OVERRIDES)
    command = targets.kafka_zk_command(apache_kafka.write_properties(data / "server.properties", properties))
    if tool == "cprofile":
        command = [sys.executable, "-m", "cProfile", "-o", str(data / "broker.pstats"), *command[1:]]
    broker = ServerProcess(targets.KAFKA_ZK, pinned(command, cores), data / "broker.out")
    target.brokers.append(broker)
    broker.wait_ready(lambda: wire_probe.is_ready(port), _START_TIMEOUT_S)
    return target


def _load(target: targets.Target, workload: Workload, records: int, perf_data: Path | None) -> None:
    """Fill the topic if the workload reads, then run the workload, with perf attached only to the run itself."""
    topic = "profiled"
    target.create_topic(topic, partitions=workload.partitions)
    if workload.source is not None:
        run(SOURCES[workload.source], target, topic, records)
    pid = target.brokers[0].pid
    before_s = measure.cpu_seconds(pid)
    recorder = None
    if perf_data:
        command = ["perf", "record", "-q", "-g", "-F", "999", "-p", str(pid), "-o", str(perf_data / "perf.data")]
        recorder = subprocess.Popen(command)
    outcome = run(workload, target, topic, records)
    cpu_s = measure.cpu_seconds(pid) - before_s
    if recorder:
        os.kill(recorder.pid, signal.SIGINT)
        recorder.wait()
    rate = outcome.records / outcome.seconds
    click.echo(f"{workload.title}: {rate:,.0f} records/s, broker CPU {cpu_s:.2f} s for {records:,} records")


def _print_perf(data: Path, top: int) -> None:
    command = ["perf", "report", "--stdio", "--no-children", "-g", "none", "-i", str(data / "perf.data")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rows = [line for line in done.stdout.splitlines() if line.strip() and not line.startswith("#")]
    click.echo("\n".join(rows[:top]))


if __name__ == "__main__":
    main()

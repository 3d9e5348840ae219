"""`python -m tests.bench.system_calls`: the system calls of both brokers, and the bytes that these copy, per MB of
records.

``strace -f`` is attached to each broker while a client of `make bench` runs, after a warm-up run. Unlike times, these
counts hardly depend on the load of the machine. Bytes are counted where a call copies between a process and the kernel
(read, recvfrom, write, pwrite64, sendto, …); ``sendfile`` and memory-mapped files copy none there.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from pathlib import Path

import click

from tests.bench import servers
from tests.bench.clients import run
from tests.bench.system_calls.trace import Calls, parse, row
from tests.bench.workloads import SOURCES, WORKLOADS, Workload
from tests.peers import apache_kafka, jars, java, targets

_DEFAULT_ROWS = ("produce-16k", "produce-256k", "consume")
_NAMES = [workload.name for workload in WORKLOADS]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--rows", "chosen", type=click.Choice(_NAMES), multiple=True, default=_DEFAULT_ROWS, show_default=True)
@click.option("--target", "names", type=click.Choice(targets.NAMES), multiple=True, default=targets.NAMES)
@click.option("--records", type=click.IntRange(1), default=30_000, show_default=True, help="Records of 1,000 bytes.")
def main(chosen: tuple[str, ...], names: tuple[str, ...], records: int) -> None:
    """Count the system calls of each broker under each workload."""
    if shutil.which("strace") is None:
        raise click.ClickException("strace is missing; install its package, for example: apt-get install strace")
    java.compiled(jars.ORACLE_VERSION)
    data = jars.REPOSITORY_ROOT / "target" / "system-calls" / f"run-{time.time_ns()}"
    zookeeper = apache_kafka.start_zookeeper(data / "zookeeper")
    click.echo("| row | broker | system calls per MB | copied bytes per byte | calls per MB |\n|---|---|---:|---:|---|")
    try:
        for name in names:
            target = targets.start(name, zookeeper.connect_string, data / name, overrides=servers.OVERRIDES)
            try:
                for workload in (each for each in WORKLOADS if each.name in chosen):
                    payload_bytes, calls = _traced(target, workload, records, data / f"{name}-{workload.name}")
                    click.echo(row(name, workload.name, calls, payload_bytes))
            finally:
                target.stop()
    finally:
        zookeeper.stop()
        shutil.rmtree(data)


def _traced(target: targets.Target, workload: Workload, records: int, trace: Path) -> tuple[int, Calls]:
    topic = f"traced-{workload.name}"
    target.create_topic(topic, partitions=workload.partitions)
    run(SOURCES[workload.source] if workload.source is not None else workload, target, topic, records)
    command = ["strace", "-f", "-q", "-e", "signal=none", "-s", "0", "-o", str(trace), "-p", str(target.brokers[0].pid)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tracer:
        outcome = run(workload, target, topic, records)
        tracer.send_signal(signal.SIGINT)
        tracer.communicate()
    with trace.open() as lines:
        return outcome.payload_bytes, parse(lines)


if __name__ == "__main__":
    main()

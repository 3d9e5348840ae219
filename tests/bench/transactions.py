"""`python -m tests.bench.transactions`: what transactions cost Apache Kafka 3.9.1 and kafka-zk, in alternating pairs.

One broker of each kind stays up, or as many as each partition has replicas; the first round of each is a warm-up. The
memory of ids is measured last.
"""

from __future__ import annotations

import shutil
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

import click
from rich.console import Console

from tests.bench import machine, report
from tests.bench.groups import Samples, table
from tests.bench.partition_wire import Refused
from tests.bench.transaction_life import FIGURES, Transactions, overrides
from tests.peers import apache_kafka, jars, requirements, targets
from tests.peers.processes import ProcessFailed
from tests.peers.targets import Target

PARTS = ("commits", "reads", "ids")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True, help="Pairs of measured runs.")
@click.option("--part", "parts", type=click.Choice(PARTS), multiple=True, help="Only this part.")
@click.option("--target", "names", type=click.Choice(targets.NAMES), multiple=True, help="Only this broker.")
@click.option("--pin", "cores", metavar="LIST", default="0,1", show_default=True, help="Cores of the brokers.")
@click.option("--scale", type=click.FloatRange(0.001, 1), default=1.0, show_default=True, help="How much of it all.")
@click.option(
    "--replication-factor", type=click.IntRange(1, 3), default=1, show_default=True, help="Also how many brokers."
)
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write all numbers here.")
def main(
    rounds: int,
    parts: Sequence[str],
    names: Sequence[str],
    cores: str,
    scale: float,
    replication_factor: int,
    json_path: Path | None,
) -> None:
    """Compare what transactions, their readers and transactional ids cost both brokers."""
    console = Console(width=max(Console().width, 120))
    folder = jars.REPOSITORY_ROOT / "target" / "bench" / f"transactions-{time.time_ns()}"
    try:
        requirements.require(kcat=False)
        samples = measured(
            folder, names or targets.NAMES, parts or PARTS, rounds, cores, scale, replication_factor,
            lambda line: console.print(line, style="dim", highlight=False),
        )  # fmt: skip
    except (requirements.MissingPeerTools, jars.JarsNotResolved, ProcessFailed, Refused, TimeoutError) as failure:
        raise click.ClickException(str(failure)) from failure
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    console.print(table(samples, rounds, scale, f"transactions, RF {replication_factor}", FIGURES))
    if json_path:
        facts = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            **machine.commit(),
            "machine": machine.describe(),
            "rounds": rounds,
            "broker_cores": cores,
            "scale": scale,
            "replication_factor": replication_factor,
            "server_properties": apache_kafka.server_properties(
                0, 0, Path("DATA"), "ZOOKEEPER", overrides(replication_factor)
            ),
            "kafka_version": jars.ORACLE_VERSION,
            "kafka_jvm_flags": list(apache_kafka.BROKER_JVM_FLAGS),
        }
        report.write_json(json_path, facts | {"samples": samples})
        console.print(f"all numbers: {json_path}")


def measured(
    folder: Path,
    names: Sequence[str],
    parts: Sequence[str],
    rounds: int,
    cores: str,
    scale: float,
    replication_factor: int,
    progress: Callable[[str], None],
) -> Samples:
    """Everything, by figure and target. Raises: ProcessFailed, Refused, TimeoutError."""
    samples: Samples = defaultdict(lambda: defaultdict(list))
    zookeeper = apache_kafka.start_zookeeper(folder / "zookeeper")
    up: dict[str, Target] = {}
    try:
        for name in names:
            up[name] = targets.start(
                name, zookeeper.connect_string, folder / name, broker_count=replication_factor,
                overrides=overrides(replication_factor), cores=cores,
            )  # fmt: skip
        its = {name: Transactions(target, scale) for name, target in up.items()}
        for name, transactions in its.items():
            for key, value in transactions.prepare().items():
                samples[key][name].append(value)
        for part in (part for part in PARTS if part in parts):
            for number in range(0 if part == "ids" else -1, 1 if part == "ids" else rounds):
                for name in names if number % 2 == 0 else reversed(names):
                    found = getattr(its[name], part)(number)
                    label = "warm-up" if number < 0 else f"round {number + 1}/{rounds}"
                    told = ", ".join(f"{key} {value / FIGURES[key].divisor:,.3g}" for key, value in found.items())
                    progress(f"{label} {name}: {told}")
                    for key, value in found.items() if number >= 0 else ():
                        samples[key][name].append(value)
    finally:
        for target in up.values():
            target.stop()
        zookeeper.stop()
    return {key: dict(by_name) for key, by_name in samples.items()}


if __name__ == "__main__":
    main()

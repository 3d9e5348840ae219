"""`python -m tests.bench.consumer`: Python consumers side by side on one broker, and offset commits.

Ours (a group in ZooKeeper, offsets in ZooKeeper), kafka-python and confluent-kafka (groups in the broker) read the same
topic of the same Apache Kafka 3.9.1 from its beginning, in processes of their own, in an order that changes each round.
Then each client commits offsets as fast as it can, of 1, 100 and 1,000 partitions at a time, and waits for every
commit.
"""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from confluent_kafka import Producer
from rich.console import Console
from rich.table import Table

from tests.bench import machine
from tests.bench.report import write_json
from tests.peers import apache_kafka, jars, requirements, targets
from tests.peers.processes import ProcessFailed

CLIENTS = ("ours", "kafka-python", "confluent-kafka")
_FULL_ROUNDS, _FULL_RECORDS, _COMMIT_S = 5, 500_000, 3.0
_QUICK_ROUNDS, _QUICK_RECORDS, _QUICK_COMMIT_S = 1, 50_000, 1.0
_READ_PARTITIONS = 4
_COMMIT_PARTITIONS = (1, 100, 1000)
_TIMEOUT_S = 300
#: A thousand partitions need a thousand folders, which take a busy machine some time.
_CREATE_TIMEOUT_S = 120
_OVERRIDES = {"offsets.topic.num.partitions": "1", "auto.create.topics.enable": "false"}

Rows = dict[str, dict[str, list[dict[str, float]]]]
"""Row -> client -> the figures of each round."""


class ClientFailed(Exception):
    """A client's process ended with an error; the text is its output."""


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--rounds", type=click.IntRange(1), help=f"Measured rounds [{_FULL_ROUNDS}].")
@click.option("--records", type=click.IntRange(1000), help=f"Records of 100 bytes to read [{_FULL_RECORDS}].")
@click.option("--client", "clients", type=click.Choice(CLIENTS), multiple=True, help="Only these.")
@click.option("--quick", is_flag=True, help="One short round: a smoke test, no proof.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write all numbers here.")
def main(
    rounds: int | None, records: int | None, clients: tuple[str, ...], quick: bool, json_path: Path | None
) -> None:
    """Read and commit with every client; print rates and ratios ours/other."""
    console = Console(width=max(Console().width, 120))
    folder = jars.REPOSITORY_ROOT / "target" / "bench" / f"consumer-{time.time_ns()}"
    plan = (
        rounds or (_QUICK_ROUNDS if quick else _FULL_ROUNDS),
        records or (_QUICK_RECORDS if quick else _FULL_RECORDS),
    )
    try:
        requirements.require(kcat=False)
        zookeeper = apache_kafka.start_zookeeper(folder / "zookeeper")
        try:
            found = _with_cluster(zookeeper, folder, clients or CLIENTS, *plan, _QUICK_COMMIT_S if quick else _COMMIT_S)
        finally:
            zookeeper.stop()
    except (requirements.MissingPeerTools, jars.JarsNotResolved, ProcessFailed, ClientFailed) as failure:
        raise click.ClickException(str(failure)) from failure
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    _print(console, found)
    if json_path:
        facts = {**machine.commit(), "machine": machine.describe(), "rounds": plan[0], "records": plan[1]}
        write_json(json_path, {**facts, "rows": found})


def _with_cluster(
    zookeeper: apache_kafka.ZooKeeper, folder: Path, clients: Sequence[str], rounds: int, records: int, commit_s: float
) -> Rows:
    cluster = targets.start(targets.APACHE_KAFKA, zookeeper.connect_string, folder, overrides=_OVERRIDES)
    rows: Rows = defaultdict(lambda: defaultdict(list))
    try:
        cluster.create_topic("read", partitions=_READ_PARTITIONS)
        cluster.create_topic("commit", partitions=max(_COMMIT_PARTITIONS), timeout_s=_CREATE_TIMEOUT_S)
        _fill(cluster.bootstrap, "read", records)
        for number in range(rounds):
            order = clients if number % 2 == 0 else tuple(reversed(clients))
            for client in order:
                group = f"{client}-{number}"
                where = (cluster.bootstrap, cluster.zookeeper)
                rows["read, records of 100 bytes"][client].append(_run("read", client, *where, "read", group, records))
                for partitions in _COMMIT_PARTITIONS:
                    rows[f"commit, {partitions:,} partitions at a time"][client].append(
                        _run("commit", client, *where, "commit", f"{group}-{partitions}", partitions, commit_s)
                    )
    finally:
        cluster.stop()
    return rows


def _fill(bootstrap: str, topic: str, records: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "log_level": 3})
    for number in range(records):
        while True:
            try:
                producer.produce(topic, b"x" * 100, partition=number % _READ_PARTITIONS)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush(_TIMEOUT_S)


def _run(*arguments: object) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.bench.consumer_process", *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S, cwd=jars.REPOSITORY_ROOT
    )
    if done.returncode != 0:
        raise ClientFailed(f"{' '.join(command[2:])} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    answer: dict[str, float] = json.loads(done.stdout)
    return answer


def _print(console: Console, rows: Rows) -> None:
    table = Table(title="a second of one Python process: medians; ratios ours / other are medians of each round's pair")
    for heading in ("what", "client", "a second", "of CPU", "ratio", "of CPU"):
        table.add_column(heading, justify="left" if heading in ("what", "client") else "right")
    for row, by_client in rows.items():
        for client, rounds in by_client.items():
            cells = [f"{_median(rounds, clock):,.0f}" for clock in ("seconds", "cpu_s")]
            ratios = [_ratio(by_client, client, clock) for clock in ("seconds", "cpu_s")]
            table.add_row(row, client, *cells, *ratios)
    console.print(table)


def _rate(found: dict[str, float], clock: str) -> float:
    return found["count"] / max(found[clock], 1e-3)


def _median(rounds: Sequence[dict[str, float]], clock: str) -> float:
    return statistics.median(_rate(each, clock) for each in rounds)


def _ratio(by_client: dict[str, list[dict[str, Any]]], client: str, clock: str) -> str:
    if client == "ours" or "ours" not in by_client:
        return ""
    pairs = zip(by_client["ours"], by_client[client], strict=True)
    return f"{statistics.median(_rate(ours, clock) / _rate(other, clock) for ours, other in pairs):.2f}"


if __name__ == "__main__":
    main()

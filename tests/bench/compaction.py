"""Kafka's log cleaner and ours on the same folders: MB/s, MB per CPU second, memory, and producers beside them.

Apache Kafka 3.9.1 cleans all folders in one broker that has cleaned another one before. Our cleaner runs with the
native module and in Python, for each folder in a process that is like a broker's helper. CPU time is counted in several
ways, see ``Cleaned`` in ``compaction_runs``; the table shows all of them.

The second part sends one record after the other to each broker, during the cleaning of the folders and without it.

    python -m tests.bench.compaction --mb 160 --json docs/bench/bench-compaction.json
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.table import Table

from kafka_zk.base.types import TopicPartition
from kafka_zk.native.loading import NEVER, REQUIRE
from kafka_zk.storage.records.compression import Compression
from tests.bench import machine
from tests.bench.compaction_runs import Beside, Cleaned, clean_by_kafka, clean_by_ours, measure_beside
from tests.peers import apache_kafka
from tests.peers.logs.compaction_brokers import log_dir_of
from tests.peers.logs.compaction_folders import HOUR_MS, Folder, copied
from tests.peers.logs.made_logs import Content, pack_batch
from tests.peers.targets import APACHE_KAFKA, KAFKA_ZK

MB = 1_000_000
BATCH_BYTES = 16_000
WARM_UP = "warm-up"


class Row(NamedTuple):
    """A folder: the kind of its records, and the percentage of them that later records replace."""

    record_bytes: int
    duplicate_percent: int
    codec: Compression

    @property
    def name(self) -> str:
        return f"{self.record_bytes}-{self.duplicate_percent}-{self.codec.name}"


ROWS = [
    Row(record_bytes, percent, codec)
    for record_bytes in (1000, 100)
    for percent in (10, 90)
    for codec in (Compression.none, Compression.lz4)
]


def make(row: Row, log_dir: Path, size_bytes: int) -> Folder:
    """Make a log whose segments have an eighth of its size; half of each value is random, so that lz4 has some work.

    The topic's config keeps brokers from cleaning the log until it is altered.
    """
    topic = f"bench-{row.name}"
    path = log_dir / f"{topic}-0"
    path.mkdir(parents=True)
    segment_bytes = max(size_bytes // 8, 4 * BATCH_BYTES)
    config = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "1.0",
        "segment.bytes": str(segment_bytes),
        "index.interval.bytes": "4096",
        "delete.retention.ms": str(24 * HOUR_MS),
        "file.delete.delay.ms": "0",
    }
    offset = active_offset = 0
    batches = _batches(row, size_bytes)
    for number in range(9):
        active_offset, size = offset, 0
        with (path / f"{offset:020}.log").open("wb") as file:
            while size < (segment_bytes - 2 * BATCH_BYTES if number < 8 else 1):
                contents = next(batches)
                data = pack_batch(offset, list(enumerate(contents)), len(contents) - 1, row.codec)
                size += file.write(data)
                offset += len(contents)
    return Folder(TopicPartition(topic, 0), path, config, None, active_offset, {})


def _batches(row: Row, size_bytes: int) -> Iterator[list[Content]]:
    rng = random.Random(row.name)
    keys = max(1, size_bytes // row.record_bytes * (100 - row.duplicate_percent) // 100)
    first_ms = int(time.time() * 1000) - HOUR_MS
    half = row.record_bytes // 2
    while True:
        yield [
            Content(first_ms, b"key-%012d" % rng.randrange(keys), rng.randbytes(half - 16) + b"." * half)
            for _ in range(BATCH_BYTES // row.record_bytes)
        ]


def cleanings_by_ours(made: Sequence[Folder], root: Path) -> Iterator[Cleaned]:
    for folder in made:
        for how, choice in (("ours, native", REQUIRE), ("ours", NEVER)):
            copies = [copied(folder, root / f"{folder.tp.topic}-{choice}-{number}") for number in range(2)]
            yield clean_by_ours(copies, how, choice)


def cleanings_by_kafka(made: Sequence[Folder], root: Path, zookeeper: str, cores: str | None) -> Iterator[Cleaned]:
    log_dir = log_dir_of(root)
    log_dir.mkdir(parents=True)
    first = copied(made[0], root / "first")
    first.path.rename(log_dir / f"{WARM_UP}-0")
    warm_up = first._replace(tp=TopicPartition(WARM_UP, 0), path=log_dir / f"{WARM_UP}-0")
    folders = [warm_up, *(copied(each, log_dir) for each in made)]
    return clean_by_kafka(folders, root, zookeeper, cores)


def told(cleaned: Cleaned) -> Cleaned:
    """Print each result at once, because a run takes minutes."""
    print(cleaned, file=sys.stderr)
    return cleaned


def report(cleanings: Sequence[Cleaned], besides: Sequence[Beside]) -> None:
    console = Console(width=150)
    table = Table(title="cleaning; ours / Kafka's in brackets")
    for column in (
        "record bytes, % replaced, codec", "cleaner", "MB", "MB/s",
        "MB per CPU s: helper, cleaner thread", "from its start, all of the broker", "helper, loaded", "peak MB",
    ):  # fmt: skip
        table.add_column(column, justify="left" if column == "cleaner" else "right")
    kafkas = {each.row: each for each in cleanings if each.cleaner == "kafka"}
    for each in sorted(cleanings, key=lambda each: (each.row, each.cleaner)):
        kafka = kafkas.get(each.row, each)  # without Kafka's cleaning, there is no ratio
        table.add_row(
            each.row, each.cleaner, f"{each.size_bytes / MB:.0f}", f"{each.size_bytes / MB / each.elapsed_s:.0f}",
            _rate(each, each.cpu_s, kafka, kafka.cpu_s), _rate(each, each.all_cpu_s, kafka, kafka.all_cpu_s),
            _rate(each, each.again_cpu_s, kafka, kafka.cpu_s) if each.again_cpu_s else "–",
            f"{each.peak_bytes / MB:.0f}" if each.peak_bytes else "–",
        )  # fmt: skip
    console.print(table)
    table = Table(title="one record after the other beside a cleaning, ms")
    for column in ("broker", "records", "p50 cleaning", "p99 cleaning", "p50 idle", "p99 idle", "p99 ratio", "peak MB"):
        table.add_column(column, justify="right")
    for beside in besides:
        values = beside[2:6]  # the latencies
        table.add_row(
            beside.broker, str(beside.sent), *(f"{value:.2f}" for value in values),
            f"{beside.cleaning_p99 / beside.idle_p99:.2f}", f"{beside.peak_bytes / MB:.0f}",
        )  # fmt: skip
    console.print(table)


def _rate(each: Cleaned, cpu_s: float, kafka: Cleaned, kafka_cpu_s: float) -> str:
    """MB per CPU second, and its ratio to Kafka's."""
    rate = each.size_bytes / MB / max(cpu_s, 0.01)
    kafka_rate = kafka.size_bytes / MB / max(kafka_cpu_s, 0.01)
    return f"{rate:.0f}" if each is kafka else f"{rate:.0f} ({rate / kafka_rate:.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.compaction", description=__doc__)
    parser.add_argument("--mb", type=int, default=160, help="size of each folder before it is cleaned")
    parser.add_argument("--rows", default="", help="only rows whose name contains this, such as 1000-10-none")
    parser.add_argument("--parts", default="ours,kafka,beside", help="what to run: some of ours, kafka and beside")
    parser.add_argument("--cores", help="the brokers' CPU cores, as taskset takes them")
    parser.add_argument("--json", type=Path, help="also write all figures, with commit and machine")
    options = parser.parse_args()
    parts = options.parts.split(",")
    with tempfile.TemporaryDirectory(prefix="bench-compaction-") as name:
        root = Path(name)
        rows = [row for row in ROWS if options.rows in row.name]
        zookeeper = apache_kafka.start_zookeeper(root / "zookeeper")
        try:
            made = [make(row, root / "made", options.mb * MB) for row in rows]
            cleanings: list[Cleaned] = []
            if "ours" in parts:
                cleanings += map(told, cleanings_by_ours(made, root))
            if "kafka" in parts:
                by_kafka = cleanings_by_kafka(made, root / "kafka", zookeeper.connect_string, options.cores)
                cleanings += map(told, by_kafka)
            besides = [
                measure_beside(broker, made, root / broker, zookeeper.connect_string, options.cores)
                for broker in (APACHE_KAFKA, KAFKA_ZK)
                if "beside" in parts
            ]
        finally:
            zookeeper.stop()
    report(cleanings, besides)
    if options.json:
        figures = {"cleanings": [each._asdict() for each in cleanings], "beside": [each._asdict() for each in besides]}
        about = {"machine": machine.describe(), **machine.commit(), "mb": options.mb}
        options.json.write_text(json.dumps({**about, **figures}, indent=1) + "\n")


if __name__ == "__main__":
    main()

"""Kafka's log cleaner and ours on the same folders: MB/s, MB per CPU second, memory, and producers beside them.

Each folder is cleaned once by Apache Kafka 3.9.1, one after the other in one broker, and twice by ours: with compiled
loops (numba, their loading included) and in the interpreter. Kafka's time is what its log tells, its CPU time that of
its cleaner thread; what the JVM's compiler and garbage collector take beside it is not counted. Ours is the time of a
process of its own, its start left out; memory is that of the whole process.

The second part sends one record after the other to each broker while it cleans, and as many afterwards.

    python -m tests.bench.compaction --mb 160 --json docs/bench-compaction.json
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
from rich.console import Console
from rich.table import Table

from kafka_zk.storage import cleaner
from kafka_zk.storage.cleaner import CleanerConfig
from kafka_zk.storage.compression import Compression
from kafka_zk.storage.log_to_clean import Cleaning, look_at
from kafka_zk.storage.types import TopicPartition
from tests.bench import machine, measure
from tests.peers import apache_kafka
from tests.peers.compaction_brokers import is_clean, log_dir_of, start_on
from tests.peers.compaction_folders import HOUR_MS, Folder, copied, open_log
from tests.peers.made_logs import Content, pack_batch
from tests.peers.processes import wait_until
from tests.peers.targets import APACHE_KAFKA, KAFKA_ZK, Target

MB = 1_000_000
BATCH_BYTES = 16_000
BUFFER_BYTES = 128 * 1024 * 1024
SAMPLES_MOST = 100_000
ROLL_S = 1800
_CLEANED = re.compile(
    rb"cleaned log ([\w-]+) \(dirty section = .*?\n\t([\d,.]+) MB of log processed in ([\d,.]+) seconds", re.DOTALL
)
_OVERRIDES = {
    "log.retention.ms": "-1",
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.dedupe.buffer.size": str(BUFFER_BYTES),
}


class Row(NamedTuple):
    """A folder: what its records are, and how many percent of them are replaced by later ones."""

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


class Cleaned(NamedTuple):
    """One cleaning of a folder; ``peak_bytes`` of memory, None if other folders were cleaned before in the process."""

    row: str
    cleaner: str
    size_bytes: int
    elapsed_s: float
    cpu_s: float
    peak_bytes: int | None


class Beside(NamedTuple):
    """Latencies of single records to a broker while it cleans and then, in ms; memory in bytes while it cleans."""

    broker: str
    count: int
    cleaning_p50: float
    cleaning_p99: float
    idle_p50: float
    idle_p99: float
    peak_bytes: int


def make(row: Row, log_dir: Path, size_bytes: int) -> Folder:
    """Segments of an eighth of the size; half of each value is random, so that lz4 has something to do."""
    topic = f"bench-{row.name}"
    path = log_dir / f"{topic}-0"
    path.mkdir(parents=True)
    segment_bytes = max(size_bytes // 8, 4 * BATCH_BYTES)
    config = {
        "cleanup.policy": "compact",
        "min.cleanable.dirty.ratio": "0.0",
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


def clean_by_ours(folder: Folder, name: str, *, is_compiled: bool) -> Cleaned:
    """In a process of its own, as a broker's helper: ``clean_in_this_process`` tells on stdout."""
    command = [sys.executable, "-m", "tests.bench.compaction", "--clean", str(folder.path)]
    given = json.dumps({"config": folder.config, "topic": folder.tp.topic, "compiled": is_compiled})
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=True, timeout=ROLL_S)
    told = json.loads(done.stdout)
    return Cleaned(folder.tp.topic.removeprefix("bench-"), name, **told)


def clean_in_this_process(path: Path) -> None:
    """Clean a folder described on stdin, and print what that took."""
    given = json.load(sys.stdin)
    cleaner.KERNEL_BYTES = 0 if given["compiled"] else sys.maxsize
    folder = Folder(TopicPartition(given["topic"], 0), path, given["config"], None, 0, {})
    now_ms = int(time.time() * 1000)
    log = open_log(folder, now_ms)
    cleaning = Cleaning(look_at(log, now_ms), CleanerConfig(dedupe_buffer_bytes=BUFFER_BYTES), now_ms)
    size_bytes = sum(segment.size_bytes for segment in cleaning.work.segments)
    before_s, began_s = time.process_time(), time.monotonic()
    cleaning.work.run(lambda segment: None)
    elapsed_s, cpu_s = time.monotonic() - began_s, time.process_time() - before_s
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"size_bytes": size_bytes, "elapsed_s": elapsed_s, "cpu_s": cpu_s, "peak_bytes": peak_bytes}))


def clean_by_kafka(folders: Sequence[Folder], root: Path, zookeeper: str, cores: str | None) -> list[Cleaned]:
    """All folders in one broker; its log says which is done when, and its cleaner thread's CPU time is read then."""
    target = start_on(APACHE_KAFKA, zookeeper, root, "bench-compaction-kafka", folders, _OVERRIDES, cores)
    found: dict[str, Cleaned] = {}
    cpu_s = 0.0
    try:
        deadline_s = time.monotonic() + ROLL_S
        while len(found) < len(folders):
            if time.monotonic() > deadline_s:
                raise TimeoutError("Kafka's cleaner is not done")
            now_s = _thread_cpu_s(target.brokers[0].pid)
            for name, megabytes, seconds in _CLEANED.findall(target.brokers[0].output.read_bytes()):
                row = name.decode().removeprefix("bench-").removesuffix("-0")
                if row not in found and name.startswith(b"bench-"):
                    # Kafka's MB are 2**20 bytes.
                    size_bytes = int(float(megabytes.replace(b",", b"")) * 2**20)
                    elapsed_s = float(seconds.replace(b",", b""))
                    found[row] = Cleaned(row, "kafka", size_bytes, elapsed_s, now_s - cpu_s, None)
                    cpu_s = now_s
            time.sleep(0.02)
    finally:
        target.stop()
    return list(found.values())


def _thread_cpu_s(pid: int) -> float:
    """CPU time of a JVM's threads that clean logs."""
    ticks = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        name, _, rest = (task / "stat").read_text().rpartition(")")
        if "(kafka-log-clean" in name:
            ticks += sum(map(int, rest.split()[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def measure_beside(name: str, made: Folder, root: Path, zookeeper: str, cores: str | None) -> Beside:
    """Send to another topic of the broker, first while it cleans and then when it has."""
    log_dir = log_dir_of(root)
    log_dir.mkdir(parents=True)
    folder = copied(made, log_dir)
    target = start_on(name, zookeeper, root, f"bench-compaction-beside-{name}", [folder], _OVERRIDES, cores)
    try:
        send = _Sender(target)
        peak_bytes = 0

        def is_cleaning() -> bool:
            nonlocal peak_bytes
            peak_bytes = max(peak_bytes, measure.memory(target.brokers[0].pid).peak_bytes)
            return not is_clean(log_dir, [folder])

        during = send.latencies_ms(SAMPLES_MOST, is_cleaning)
        wait_until(lambda: is_clean(log_dir, [folder]), ROLL_S, "the cleaning")
        after = send.latencies_ms(max(len(during), 500), lambda: True)
        assert target.end_offset("beside", 0) == len(during) + len(after)
        return Beside(
            name, len(during), _at(during, 0.5), _at(during, 0.99), _at(after, 0.5), _at(after, 0.99), peak_bytes
        )
    finally:
        target.stop()


class _Sender:
    """One record of 1 KB after the other, each when the last one was acknowledged."""

    def __init__(self, target: Target) -> None:
        config = {"bootstrap.servers": target.bootstrap, "linger.ms": 0, "acks": "1", "log_level": 0}
        target.create_topic("beside")
        wait_until(lambda: self._is_led(target), 60, "a leader")
        self._producer = confluent_kafka.Producer(config)

    @staticmethod
    def _is_led(target: Target) -> bool:
        try:
            return target.end_offset("beside", 0) == 0
        except confluent_kafka.KafkaException:
            return False

    def latencies_ms(self, most: int, goes_on: Any) -> list[float]:
        found: list[float] = []
        while len(found) < most and (len(found) % 50 or goes_on()):
            began_s = time.perf_counter()
            self._producer.produce("beside", b"x" * 1000, on_delivery=_check)
            self._producer.flush(30)
            found.append((time.perf_counter() - began_s) * 1000)
        return found


def _check(error: confluent_kafka.KafkaError | None, _message: confluent_kafka.Message) -> None:
    if error is not None:
        raise confluent_kafka.KafkaException(error)


def _at(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] if values else float("nan")


def report(cleanings: Sequence[Cleaned], besides: Sequence[Beside]) -> None:
    console = Console(width=130)
    table = Table(title="cleaning")
    for column in ("record bytes, % replaced, codec", "cleaner", "MB", "MB/s", "MB per CPU s", "to Kafka's", "peak MB"):
        table.add_column(column, justify="left" if column in ("cleaner",) else "right")
    kafkas = {each.row: each for each in cleanings if each.cleaner == "kafka"}
    for each in sorted(cleanings, key=lambda each: (each.row, each.cleaner)):
        rate = each.size_bytes / MB / max(each.cpu_s, 0.01)
        kafka = kafkas.get(each.row)
        ratio = f"{rate / (kafka.size_bytes / MB / max(kafka.cpu_s, 0.01)):.2f}" if kafka else "–"
        peak = f"{each.peak_bytes / MB:.0f}" if each.peak_bytes else "–"
        megabytes = each.size_bytes / MB
        table.add_row(
            each.row, each.cleaner, f"{megabytes:.0f}", f"{megabytes / each.elapsed_s:.0f}", f"{rate:.0f}", ratio, peak
        )
    console.print(table)
    table = Table(title="one record after the other beside a cleaning, ms")
    for column in ("broker", "records", "p50 cleaning", "p99 cleaning", "p50 idle", "p99 idle", "p99 ratio", "peak MB"):
        table.add_column(column, justify="right")
    for each_of in besides:
        values = each_of[2:6]  # the latencies
        table.add_row(
            each_of.broker, str(each_of.count), *(f"{value:.2f}" for value in values),
            f"{each_of.cleaning_p99 / each_of.idle_p99:.2f}", f"{each_of.peak_bytes / MB:.0f}",
        )  # fmt: skip
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.compaction", description=__doc__)
    parser.add_argument("--mb", type=int, default=160, help="size of each folder before it is cleaned")
    parser.add_argument("--rows", default="", help="only rows whose name contains this, such as 1000-10-none")
    parser.add_argument("--cores", help="the brokers' CPU cores, as taskset takes them")
    parser.add_argument("--json", type=Path, help="also write all figures, with commit and machine")
    parser.add_argument("--clean", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.clean:
        clean_in_this_process(options.clean)
        return
    with tempfile.TemporaryDirectory(prefix="bench-compaction-") as name:
        root = Path(name)
        rows = [row for row in ROWS if options.rows in row.name]
        zookeeper = apache_kafka.start_zookeeper(root / "zookeeper")
        try:
            made = [make(row, root / "made", options.mb * MB) for row in rows]
            cleanings = []
            for number, folder in enumerate(made):
                for how, is_compiled in (("ours, numba", True), ("ours", False)):
                    copy = copied(folder, root / f"ours-{number}-{is_compiled}")
                    cleanings.append(clean_by_ours(copy, how, is_compiled=is_compiled))
            log_dir = log_dir_of(root / "kafka")
            log_dir.mkdir(parents=True)
            copies = [copied(each, log_dir) for each in made]
            cleanings += clean_by_kafka(copies, root / "kafka", zookeeper.connect_string, options.cores)
            besides = [
                measure_beside(broker, made[0], root / broker, zookeeper.connect_string, options.cores)
                for broker in (APACHE_KAFKA, KAFKA_ZK)
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

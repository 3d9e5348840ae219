"""One cleaning of a folder by Apache Kafka and by our cleaner, its cost, and a producer beside it."""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import confluent_kafka
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from kafka_zk.native.loading import VARIABLE
from kafka_zk.storage.cleaner.cleaner import CleanerConfig, CleanWork
from kafka_zk.storage.cleaner.log_to_clean import Cleaning, examine
from tests.bench import measure
from tests.peers.logs.compaction_brokers import is_clean, log_dir_of, start_on
from tests.peers.logs.compaction_folders import Folder, copied, open_log
from tests.peers.processes import wait_until
from tests.peers.targets import APACHE_KAFKA, Target

BUFFER_BYTES = 128 * 1024 * 1024
OVERRIDES = {
    "log.retention.ms": "-1",
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.dedupe.buffer.size": str(BUFFER_BYTES),
}
ROLL_S = 1800
SAMPLES_MOST = 100_000
_IDLE_S = 10
_SETTLING_S = 2
"""The JVM's compiler and garbage collector finish the work that a cleaning caused within this time."""
_CLEANED = re.compile(
    rb"cleaned log ([\w-]+) \(dirty section = .*?\n\t([\d,.]+) MB of log processed in ([\d,.]+) seconds", re.DOTALL
)


class Cleaned(NamedTuple):
    """One cleaning of a folder.

    ``cpu_s``: CPU time of Kafka's cleaner thread, or of our helper. ``all_cpu_s``: CPU time of Kafka's broker during
    the cleaning and shortly after it, without its idle use, or of our helper including its start. ``again_cpu_s``: CPU
    time of a second cleaning of the same folder in the same helper, None if there was none. ``peak_bytes``: peak
    memory, None for Kafka, whose heap belongs to the whole broker.
    """

    row: str
    cleaner: str
    size_bytes: int
    elapsed_s: float
    cpu_s: float
    all_cpu_s: float
    again_cpu_s: float | None
    peak_bytes: int | None


class Beside(NamedTuple):
    """Latencies of single records to a broker during a cleaning, and before and after it, in ms; memory in bytes."""

    broker: str
    sent: int
    cleaning_p50: float
    cleaning_p99: float
    idle_p50: float
    idle_p99: float
    peak_bytes: int


def row_of(folder: Folder) -> str:
    return folder.tp.topic.removeprefix("bench-")


def clean_by_ours(copies: Sequence[Folder], name: str, choice: str) -> Cleaned:
    """Clean a copy of a folder, or two copies one after the other, in a process that is like a broker's helper.

    ``choice``: a value of KAFKA_ZK_NATIVE for the native module.
    """
    os.sync()
    works = [_work(copy) for copy in copies]
    command = [sys.executable, "-m", "tests.bench.compaction_child"]
    environ = {**os.environ, VARIABLE: choice}
    done = subprocess.run(
        command, input=pickle.dumps(works), capture_output=True, check=True, timeout=ROLL_S, env=environ
    )
    told = json.loads(done.stdout)
    first, *again = told["works"]
    return Cleaned(
        row_of(copies[0]),
        name,
        first["size_bytes"],
        first["elapsed_s"],
        first["cpu_s"],
        told["start_s"] + first["cpu_s"],
        again[0]["cpu_s"] if again else None,
        first["peak_bytes"],
    )


def _work(folder: Folder) -> CleanWork:
    now_ms = int(time.time() * 1000)
    log = open_log(folder, now_ms)
    work = Cleaning(examine(log, now_ms), CleanerConfig(dedupe_buffer_bytes=BUFFER_BYTES), now_ms).work
    log.close()
    return work


def clean_by_kafka(folders: Sequence[Folder], root: Path, zookeeper: str, cores: str | None) -> Iterator[Cleaned]:
    """Clean the folders one after the other in one broker, of which the first is a warm-up; altering a topic's config
    starts its cleaning.
    """
    target = start_on(APACHE_KAFKA, zookeeper, root, "bench-compaction-kafka", folders, OVERRIDES, cores)
    try:
        pid = target.brokers[0].pid
        time.sleep(_IDLE_S)  # it has only just started
        idle_cpu_s, idle_from_s = measure.cpu_seconds(pid), time.monotonic()
        time.sleep(_IDLE_S)
        idle_share = (measure.cpu_seconds(pid) - idle_cpu_s) / (time.monotonic() - idle_from_s)
        for folder in folders:
            os.sync()
            yield _clean_by_kafka(target, folder, idle_share)
    finally:
        target.stop()


def _clean_by_kafka(target: Target, folder: Folder, idle_share: float) -> Cleaned:
    broker = target.brokers[0]
    all_s, thread_s, began_s = measure.cpu_seconds(broker.pid), _thread_cpu_s(broker.pid), time.monotonic()
    let_clean(target, folder)
    name = f"{folder.tp.topic}-0".encode()
    found: list[tuple[bytes, bytes]] = []

    def is_told() -> bool:
        told = _CLEANED.findall(broker.output.read_bytes())
        found[:] = [(size, seconds) for of, size, seconds in told if of == name]
        return bool(found)

    wait_until(is_told, ROLL_S, f"the cleaning of {folder.tp.topic}")
    thread_s = _thread_cpu_s(broker.pid) - thread_s
    time.sleep(_SETTLING_S)
    all_s = measure.cpu_seconds(broker.pid) - all_s - idle_share * (time.monotonic() - began_s)
    size, elapsed_s = (float(number.replace(b",", b"")) for number in found[0])
    size_bytes = int(size * 2**20)  # Kafka prints MiB
    return Cleaned(row_of(folder), "kafka", size_bytes, elapsed_s, thread_s, all_s, None, None)


def let_clean(target: Target, folder: Folder) -> None:
    """Let the broker clean a folder that its topic's config has protected."""
    entry = ConfigEntry("min.cleanable.dirty.ratio", "0.0", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, folder.tp.topic, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": target.bootstrap, "log_level": 3})
    for altered in admin.incremental_alter_configs([resource]).values():
        altered.result(60)


def _thread_cpu_s(pid: int) -> float:
    """CPU time of a JVM's cleaner threads. Source: sched-stats.rst of Linux, /proc/PID/schedstat, in ns."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        if (task / "comm").read_text().startswith("kafka-log-clean"):
            total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


def measure_beside(name: str, made: Sequence[Folder], root: Path, zookeeper: str, cores: str | None) -> Beside:
    """Send to another topic of the broker before, during and after the cleaning of all folders."""
    log_dir = log_dir_of(root)
    log_dir.mkdir(parents=True)
    folders = [copied(each, log_dir) for each in made]
    os.sync()
    target = start_on(name, zookeeper, root, f"bench-compaction-beside-{name}", folders, OVERRIDES, cores)
    try:
        send = _Sender(target)
        peak_bytes = 0

        def is_cleaning() -> bool:
            nonlocal peak_bytes
            peak_bytes = max(peak_bytes, measure.memory(target.brokers[0].pid).peak_bytes)
            return not is_clean(log_dir, folders)

        def while_idle() -> list[float]:
            """Send for a few seconds, with the same checks from time to time as during the cleaning."""
            until_s = time.monotonic() + _IDLE_S
            return send.latencies_ms(lambda: (is_cleaning() or True) and time.monotonic() < until_s)

        while_idle()  # meanwhile, the JVM warms up
        idle = while_idle()
        for folder in folders:
            let_clean(target, folder)
        during = send.latencies_ms(is_cleaning)
        wait_until(lambda: is_clean(log_dir, folders), ROLL_S, "the cleaning")
        time.sleep(_SETTLING_S)
        idle += while_idle()
        assert target.end_offset("beside", 0) == send.count
        return Beside(name, len(during), at(during, 0.5), at(during, 0.99), at(idle, 0.5), at(idle, 0.99), peak_bytes)
    finally:
        target.stop()


class _Sender:
    """Sends records of 1 KB, each after the acknowledgement of the previous one; ``count`` is their number so far."""

    def __init__(self, target: Target) -> None:
        config: dict[str, Any] = {"bootstrap.servers": target.bootstrap, "linger.ms": 0, "acks": "1", "log_level": 0}
        target.create_topic("beside")
        wait_until(lambda: self._is_led(target), 60, "a leader")
        self._producer = confluent_kafka.Producer(config)
        self.count = 0

    @staticmethod
    def _is_led(target: Target) -> bool:
        try:
            return target.end_offset("beside", 0) == 0
        except confluent_kafka.KafkaException:
            return False

    def latencies_ms(self, goes_on: Callable[[], bool]) -> list[float]:
        """The latencies of records that are sent for as long as ``goes_on`` returns True."""
        found: list[float] = []
        while len(found) < SAMPLES_MOST and (len(found) % 200 or goes_on()):
            began_s = time.perf_counter()
            self._producer.produce("beside", b"x" * 1000, on_delivery=_check)
            self._producer.flush(30)
            found.append((time.perf_counter() - began_s) * 1000)
        self.count += len(found)
        return found


def _check(error: confluent_kafka.KafkaError | None, _message: confluent_kafka.Message) -> None:
    if error is not None:
        raise confluent_kafka.KafkaException(error)


def at(values: Sequence[float], share: float) -> float:
    """The percentile ``share``; NaN if there are no values."""
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] if values else float("nan")

"""The measured life of one broker with N partitions: created, listed, written to, restarted, killed, deleted."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from kafka_zk.embedded.session_expiry import expire_session
from kafka_zk.registry.client.kazoo_blocking import run_blocking
from kafka_zk.registry.znodes.brokers import broker_path
from kafka_zk.storage.records.record_batch import RecordBatchBuilder
from kafka_zk.testing.clients import blocking_client
from tests.bench import measure
from tests.bench.partition_wire import Wire
from tests.peers import apache_kafka, targets
from tests.peers.processes import ServerProcess
from tests.peers.targets import Target

_SAMPLE_COUNT = 20
_PAUSE_S = 0.005
_IDLE_S = 5.0
_TIMEOUT_S = 600.0
_PRODUCE_WIDTH = 500
_TOPIC = "many"

#: Deleted folders stay until the bench is over: for minutes after files were removed, ext4 checks each of their inodes
#: before it allocates another one (``recently_deleted``), which would slow down the next life's creation.
OVERRIDES = {
    "log.segment.delete.delay.ms": str(24 * 60 * 60 * 1000),
    "auto.create.topics.enable": "false",
}


@dataclass(frozen=True)
class Figure:
    """A measured figure, its unit and divisor, and the target for the ratio ours/Kafka."""

    name: str
    unit: str
    divisor: float = 1.0
    target: float | None = None


FIGURES = {
    "create_s": Figure("creation, until every partition answers ListOffsets", "s", target=0.2),
    "create_cpu_s": Figure("creation, CPU of the broker", "s"),
    "create_wait_ms": Figure("creation, longest wait of a small request", "ms"),
    "metadata_ms": Figure("Metadata of all partitions, median of 5", "ms"),
    "produce_s": Figure("one record to each partition", "s"),
    "stop_s": Figure("clean stop", "s"),
    "clean_start_s": Figure("start after it, until every partition answers", "s", target=1.0),
    "restart_s": Figure("clean restart, both together", "s", target=1.0),
    "idle_cpu": Figure("CPU idle", "% of a core", 0.01),
    "idle_wait_ms": Figure("idle, longest wait of a small request", "ms"),
    "crash_start_s": Figure("start after kill -9, until every partition answers", "s", target=1.0),
    "delete_s": Figure("deletion, until the topic is gone from Metadata", "s"),
    "empty_rss_bytes": Figure("memory without partitions", "MB", 1e6),
    "created_rss_bytes": Figure("memory after creation", "MB", 1e6),
    "started_rss_bytes": Figure("memory after a clean start", "MB", 1e6),
    "deleted_rss_bytes": Figure("memory after deletion", "MB", 1e6),
    "partition_bytes": Figure("memory per idle partition (clean start)", "KB", 1e3),
    "created_descriptors": Figure("descriptors after creation", ""),
    "produced_descriptors": Figure("descriptors after a record to each", ""),
    "started_descriptors": Figure("descriptors after a clean start", ""),
}
"""The figures by their key in a measured life, in the order of the table."""

Measured = dict[str, float]


class Life:
    """One broker in a chroot and a folder of its own, from its first start to its end."""

    def __init__(
        self, name: str, zookeeper: apache_kafka.ZooKeeper, folder: Path, partitions: int, cores: str | None
    ) -> None:
        self._name = name
        self._zookeeper = zookeeper
        self._folder = folder
        self._partitions = range(partitions)
        self._cores = cores
        self._measured: Measured = {}
        self._target: Target | None = None

    def run(self, progress: Callable[[str], None]) -> Measured:
        """Run all steps. Raises: ProcessFailed, Refused, OSError, TimeoutError."""
        try:
            for step in (self._create, self._use, self._restart, self._idle, self._kill, self._delete):
                before = set(self._measured)
                step()
                news = {key: value for key, value in self._measured.items() if key not in before}
                progress(f"{self._name} {len(self._partitions)}: {_texts(news)}")
            return self._measured
        finally:
            if self._target is not None:
                self._broker.kill()

    # -- steps --

    def _create(self) -> None:
        self._start()
        self._measured["empty_rss_bytes"] = self._settled_rss()
        cpu_s = measure.cpu_seconds(self._broker.pid)
        begun_s = time.monotonic()
        with self._wire() as admin:
            admin.send_create([_TOPIC], len(self._partitions), int(_TIMEOUT_S * 1000))
            self._measured["create_wait_ms"] = self._until_all_answer()
            self._measured["create_s"] = time.monotonic() - begun_s
            admin.receive_create()
        self._measured["create_cpu_s"] = measure.cpu_seconds(self._broker.pid) - cpu_s
        self._measured["created_rss_bytes"] = self._settled_rss()
        self._measured["created_descriptors"] = self._descriptors()

    def _use(self) -> None:
        builder = RecordBatchBuilder()
        builder.append(int(time.time() * 1000), None, b"x" * 100)
        batch = bytes(builder.build())
        with self._wire() as wire:
            self._measured["metadata_ms"] = statistics.median(_timed_ms(wire.metadata) for _ in range(5))
            begun_s = time.monotonic()
            for first in self._partitions[::_PRODUCE_WIDTH]:
                wire.produce(_TOPIC, self._partitions[first : first + _PRODUCE_WIDTH], batch)
            self._measured["produce_s"] = time.monotonic() - begun_s
        self._measured["produced_descriptors"] = self._descriptors()

    def _restart(self) -> None:
        begun_s = time.monotonic()
        self._broker.stop(_TIMEOUT_S)
        self._measured["stop_s"] = time.monotonic() - begun_s
        self._start()
        self._until_all_answer()
        self._measured["clean_start_s"] = time.monotonic() - self._broker.started_s
        self._measured["restart_s"] = self._measured["stop_s"] + self._measured["clean_start_s"]

    def _idle(self) -> None:
        rss = self._measured["started_rss_bytes"] = self._settled_rss()
        self._measured["partition_bytes"] = (rss - self._measured["empty_rss_bytes"]) / len(self._partitions)
        self._measured["started_descriptors"] = self._descriptors()
        cpu_s = measure.cpu_seconds(self._broker.pid)
        begun_s = time.monotonic()
        longest_ms = 0.0
        with self._wire() as wire:
            while time.monotonic() < begun_s + _IDLE_S:
                longest_ms = max(longest_ms, wire.ping_ms())
                time.sleep(_PAUSE_S)
        used_s = measure.cpu_seconds(self._broker.pid) - cpu_s
        self._measured["idle_wait_ms"] = longest_ms
        self._measured["idle_cpu"] = used_s / _IDLE_S

    def _kill(self) -> None:
        """Expires the session that outlives the broker, because its length is a setting, not a cost."""
        with blocking_client(self._chroot) as client:

            async def holder() -> int:
                stat = await client.exists(broker_path(0))
                return stat.ephemeral_owner if stat else 0

            session_id = run_blocking(holder())
            self._broker.kill()
        host, _, port = self._zookeeper.connect_string.partition(":")
        expire_session(host, int(port), session_id)
        self._start()
        self._until_all_answer()
        self._measured["crash_start_s"] = time.monotonic() - self._broker.started_s

    def _delete(self) -> None:
        with self._wire() as wire:
            begun_s = time.monotonic()
            while _TOPIC.encode() not in wire.metadata():  # Kafka's broker serves before it knows all topics
                _pause(begun_s)
            begun_s = time.monotonic()
            wire.delete(_TOPIC, int(_TIMEOUT_S * 1000))
            while _TOPIC.encode() in wire.metadata():
                _pause(begun_s)
        self._measured["delete_s"] = time.monotonic() - begun_s
        while not all(folder.name.endswith("-delete") for folder in self._only.log_dirs[0].glob(f"{_TOPIC}-*")):
            _pause(begun_s)
        self._measured["deleted_rss_bytes"] = self._settled_rss()

    # -- parts of steps --

    @property
    def _chroot(self) -> str:
        return f"{self._zookeeper.connect_string}/{self._folder.name}"

    @property
    def _only(self) -> Target:
        assert self._target is not None, "the broker was not started"
        return self._target

    @property
    def _broker(self) -> ServerProcess:
        return self._only.brokers[0]

    def _start(self) -> None:
        self._target = targets.start(
            self._name,
            self._zookeeper.connect_string,
            self._folder,
            overrides=OVERRIDES,
            cores=self._cores,
            chroot=self._folder.name,
            timeout_s=_TIMEOUT_S,
        )

    def _wire(self) -> Wire:
        return Wire(self._only.ports[0])

    def _until_all_answer(self) -> float:
        """Wait until every partition responds to ListOffsets. Returns the longest wait of a small request until then,
        in ms.

        A few evenly spread partitions are polled first, so that the polling itself costs the broker nothing.
        """
        begun_s = time.monotonic()
        longest_ms = 0.0
        left = list(self._partitions)
        with self._wire() as wire:
            while left:
                sample = left[:: max(1, len(left) // _SAMPLE_COUNT)]
                asked_s = time.monotonic()
                waiting = wire.unanswered(_TOPIC, sample)
                longest_ms = max(longest_ms, (time.monotonic() - asked_s) * 1000)
                if waiting:
                    _pause(begun_s)
                else:
                    left = wire.unanswered(_TOPIC, left)
        return longest_ms

    def _settled_rss(self) -> float:
        time.sleep(2.0)
        return float(measure.memory(self._broker.pid).resident_bytes)

    def _descriptors(self) -> float:
        return float(measure.descriptor_count(self._broker.pid))


def _pause(begun_s: float) -> None:
    if time.monotonic() > begun_s + _TIMEOUT_S:
        raise TimeoutError(f"not within {_TIMEOUT_S:g} s")
    time.sleep(_PAUSE_S)


def _timed_ms(work: Callable[[], object]) -> float:
    begun_s = time.perf_counter()
    work()
    return (time.perf_counter() - begun_s) * 1000


def _texts(measured: Measured) -> str:
    return ", ".join(f"{key} {value / FIGURES[key].divisor:,.3g}" for key, value in measured.items())

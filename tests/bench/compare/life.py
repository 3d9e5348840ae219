"""One life of a cluster under measurement: start, creation, deaths, stops and restarts, with a number of partitions.

All times are seconds of the wall clock. A topic is led once the surviving brokers report a live leader for every
partition, and this leader serves it.
"""

from __future__ import annotations

import statistics
import struct
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic

from kafka_zk.embedded.errors import EmbeddedError
from kafka_zk.protocol.api_keys import ApiKey
from kafka_zk.registry.client.errors import RegistryError
from tests.bench import measure
from tests.bench.compare.load import Load
from tests.bench.compare.sent import since
from tests.bench.compare.systems import BROKERS, System
from tests.bench.compare.written import Written
from tests.bench.partition_wire import Wire
from tests.peers import java
from tests.peers.processes import ProcessFailed, wait_until

TOPIC = "compared"
LOADED = 12
"""The number of partitions that a producer writes to during a life. They are from all parts of the topic, because the
first ones may change first.
"""
CREATED_AT_ONCE = 5_000
"""A larger topic is created with this number of partitions and then grown in steps of the same number, because KRaft
refuses a request that needs more than 10,000 records, one of which is the topic's own.
"""
STEPS = ("start", "create", "metadata", "kill", "supervised", "stop", "rolling")
_TIMEOUT_S = 600.0
_POLL_S = 0.05
_SETTLE_S = 3.0
_PREFERRED_EVERYWHERE = struct.pack(">bii", 0, -1, 60_000)  # ElectLeaders v1: preferred, all partitions, timeout in ms

Figures = dict[str, float]
FAILURES = (java.JavaFailed, EmbeddedError, ProcessFailed, KafkaException, RegistryError, TimeoutError, OSError)
"""The exceptions that end a life when its system fails."""


class Life:
    """``steps``: a selection of ``STEPS``; start and create always run. ``figures``: the figures so far."""

    def __init__(self, system: System, partitions: int, steps: Iterable[str]) -> None:
        self._system = system
        self._partitions = range(partitions)
        self._steps = [step for step in STEPS if step in steps]
        self.figures: Figures = {}

    def run(self) -> None:
        """Run all steps. Raises: those of ``FAILURES``; JarsNotResolved."""
        self._system.prepare()
        self._start()
        self._create()
        if "metadata" in self._steps:
            self._metadata()
        with self._load() as load:
            for step, work in self._broken().items():
                if step in self._steps:
                    work(load)

    def _broken(self) -> dict[str, Callable[[Load], None]]:
        steps: dict[str, Callable[[Load], None]] = {"kill": lambda load: self._kill("kill", load, supervised=False)}
        if self._system.can_be_supervised:
            steps["supervised"] = lambda load: self._kill("supervised", load, supervised=True)
        return {**steps, "stop": self._stop, "rolling": self._roll}

    # -- steps --

    def _start(self) -> None:
        self.figures["start_s"] = self._system.start()
        time.sleep(_SETTLE_S)
        self.figures["empty_memory_mb"] = self._memory_mb()

    def _create(self) -> None:
        count = len(self._partitions)
        before, cpu_s, begun_s = self._counts(), self._cpu_s(), time.monotonic()
        admin = AdminClient({"bootstrap.servers": self._system.bootstrap, "log_level": 0})
        new = NewTopic(TOPIC, min(count, CREATED_AT_ONCE), BROKERS)
        created = admin.create_topics([new], operation_timeout=_TIMEOUT_S, request_timeout=_TIMEOUT_S)[TOPIC]
        for size in [*range(2 * CREATED_AT_ONCE, count, CREATED_AT_ONCE), count] if count > CREATED_AT_ONCE else []:
            created.result(_TIMEOUT_S)
            grown = NewPartitions(TOPIC, size)
            created = admin.create_partitions([grown], operation_timeout=_TIMEOUT_S, request_timeout=_TIMEOUT_S)[TOPIC]
        self._until_led(range(BROKERS), created=created)
        self.figures["create_s"] = time.monotonic() - begun_s
        created.result(_TIMEOUT_S)
        self._until_in_sync()
        self.figures["create_cpu_s"] = self._cpu_s() - cpu_s
        self._count("create", before)
        time.sleep(_SETTLE_S)
        self.figures["memory_mb"] = self._memory_mb()
        before_s = self._cpu_s()
        time.sleep(_SETTLE_S)
        self.figures["idle_cpu_percent"] = (self._cpu_s() - before_s) / _SETTLE_S * 100

    def _metadata(self) -> None:
        with Wire(self._system.ports[0]) as wire:
            times = []
            for _ in range(5):
                begun_s = time.monotonic()
                answer = wire.metadata()
                times.append(time.monotonic() - begun_s)
        self.figures["metadata_ms"] = statistics.median(times) * 1000
        self.figures["metadata_kb"] = len(answer) / 1000

    def _kill(self, name: str, load: Load, *, supervised: bool) -> None:
        """Kill the broker that is the controller and leads a third of the partitions, and restart it afterwards."""
        system = self._system
        victim, before = system.controller(), self._counts()
        survivors = [broker_id for broker_id in range(BROKERS) if broker_id != victim]
        load.calm()
        leaders = system.leaders(survivors[0], TOPIC)
        if leaders is None:
            raise TimeoutError(f"broker {survivors[0]} does not answer")
        killed = system.kill_broker(victim, supervised=supervised)
        fenced = self._until_fenced(victim, killed)
        self._until_led(survivors, [partition for partition, leader in leaders.items() if leader == victim])
        led = time.time()
        self.figures |= {f"{name}_s": led - killed, f"{name}_beyond_s": max(0.0, led - fenced)}
        time.sleep(_SETTLE_S)
        self.figures[f"{name}_gap_s"] = load.gap()
        self._count(name, before)
        begun_s = time.monotonic()
        system.start_broker(victim)
        self._until_in_sync()
        self.figures[f"{name}_return_s"] = time.monotonic() - begun_s
        self.figures[f"{name}_return_gap_s"] = load.calm()

    def _stop(self, load: Load) -> None:
        """Stop a broker that is not the controller and leads many partitions, after the preferred leaders lead again.
        """
        system = self._system
        self._prefer()
        victim, before = (system.controller() + 1) % BROKERS, self._counts()
        load.calm()
        load.metadata_count()
        self.figures["stop_exit_s"] = system.stop_broker(victim)
        time.sleep(_SETTLE_S)
        self.figures["stop_gap_s"] = load.gap()
        self.figures["stop_metadata"] = load.metadata_count()
        self._count("stop", before)
        system.start_broker(victim)
        self._until_in_sync()

    def _roll(self, load: Load) -> None:
        self._prefer()
        load.calm()
        begun_s = time.monotonic()
        stopped, started = [], []
        for broker_id in range(BROKERS):
            self._system.stop_broker(broker_id)
            stopped.append(load.gap())
            self._system.start_broker(broker_id)
            self._until_in_sync()
            started.append(load.gap())
        seconds = time.monotonic() - begun_s
        longest = {"rolling_gap_s": max(stopped + started), "rolling_stop_gap_s": max(stopped)}
        self.figures |= {"rolling_s": seconds, "rolling_start_gap_s": max(started), **longest}

    # -- waits --

    def _until_led(
        self, alive: Iterable[int], moved: Collection[int] | None = None, created: Future[None] | None = None
    ) -> None:
        """``moved``: the partitions whose leader may have changed; all others were served throughout (None: no
        partition has been served yet). Raises the exception of ``created``, which creates the partitions.
        """
        alive = list(alive)
        asked = self._partitions if moved is None else moved

        def is_led() -> bool:
            if created is not None and created.done():
                created.result()
            return self._is_led(alive, asked)

        wait_until(is_led, _TIMEOUT_S, "a leader for each partition", interval_s=_POLL_S)

    def _is_led(self, alive: list[int], moved: Iterable[int]) -> bool:
        leaders: dict[int, int] | None = None
        for asked in alive:
            leaders = self._system.leaders(asked, TOPIC)
            if leaders is None or any(leaders.get(partition) not in alive for partition in self._partitions):
                return False
        assert leaders is not None
        led: dict[int, list[int]] = {}
        for partition in moved:
            led.setdefault(leaders[partition], []).append(partition)
        return all(self._system.serves(leader, TOPIC, partitions) for leader, partitions in led.items())

    def _until_in_sync(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._system.bootstrap, "log_level": 0})

        def in_sync() -> bool:
            found = admin.list_topics(TOPIC, timeout=60).topics[TOPIC].partitions
            return len(found) == len(self._partitions) and all(len(each.isrs) == BROKERS for each in found.values())

        wait_until(in_sync, _TIMEOUT_S, "all replicas in sync", interval_s=0.2)

    def _until_fenced(self, victim: int, killed: float) -> float:
        """The time at which the cluster considered the victim dead."""
        fenced: list[float] = []

        def is_fenced() -> bool:
            if (at := self._system.fenced_at(victim, killed)) is not None:
                fenced.append(at)
            return bool(fenced)

        wait_until(is_fenced, _TIMEOUT_S, "the end of the session", interval_s=0.01)
        return fenced[0]

    def _prefer(self) -> None:
        """Elect the leaders of the creation again, so that each broker leads a third."""
        with Wire(self._system.ports[max(0, self._system.controller())]) as wire:
            wire.send(ApiKey.ELECT_LEADERS, 1, _PREFERRED_EVERYWHERE)
            wire.receive()
        self._until_led(range(BROKERS))

    # -- costs --

    @contextmanager
    def _load(self) -> Iterator[Load]:
        with Load(self._system.bootstrap, TOPIC, loaded(self._partitions)) as load:
            yield load

    def _pids(self) -> list[int]:
        keeper = self._system.keeper_pid
        return [*self._system.pids, *([keeper] if keeper is not None else [])]

    def _memory_mb(self) -> float:
        """The memory of the brokers and of ZooKeeper."""
        return sum(measure.memory(pid).resident_bytes for pid in self._pids()) / 1e6

    def _cpu_s(self) -> float:
        return sum(measure.cpu_seconds(pid) for pid in self._pids())

    def _counts(self) -> tuple[Written, dict[int, int] | None]:
        return self._system.written(), self._system.sent()

    def _count(self, name: str, before: tuple[Written, dict[int, int] | None]) -> None:
        """Count the writes, and the requests to the brokers that lived throughout."""
        (written, sent), (written_before, sent_before) = self._counts(), before
        counts = written.since(written_before)
        named = {"writes": counts.writes, "changes": counts.changes, "requests": counts.requests, "bytes": counts.bytes}
        self.figures |= {f"{name}_{what}": float(count) for what, count in named.items() if count is not None}
        if sent is not None and sent_before is not None:
            self.figures[f"{name}_sent"] = float(since(sent, sent_before))


def loaded(partitions: Sequence[int]) -> Sequence[int]:
    """LOADED of the partitions at equal distances, or all if there are fewer."""
    count = min(LOADED, len(partitions))
    return [partitions[index * len(partitions) // count] for index in range(count)]

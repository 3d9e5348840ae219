"""The brokers under comparison: one ZooKeeper, one broker of each kind, the same server.properties and cores."""

from __future__ import annotations

import re
import shutil
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench import measure
from tests.peers import apache_kafka, targets
from tests.peers.jars import REPOSITORY_ROOT

_SETTLE_S = 3.0
_NATIVE_CALLS = "the native module completed calls"
_COUNT = re.compile(r"(\w+)=(\d+)")

#: Settings beyond Kafka's config/server.properties: deleted topics free their disk space at once.
OVERRIDES = {"log.segment.delete.delay.ms": "1000", "auto.create.topics.enable": "false"}


@dataclass
class Server:
    """A broker under measurement, with the cost of its start and of its idle time."""

    target: targets.Target
    start_seconds: list[float]
    idle_memory: measure.Memory
    idle_cpu_share: float

    @property
    def pid(self) -> int:
        return self.target.brokers[0].pid

    @property
    def median_start_s(self) -> float:
        return statistics.median(self.start_seconds)


@dataclass
class Servers:
    """All brokers of a run. `data` is removed at the end."""

    zookeeper: apache_kafka.ZooKeeper
    data: Path
    cores: str | None
    by_name: dict[str, Server]

    def stop(self) -> Counter[str]:
        """Stop everything and remove the data. Returns the number of calls of each native function of ours."""
        for server in self.by_name.values():
            server.target.stop()
        self.zookeeper.stop()
        ours = self.by_name.get(targets.KAFKA_ZK)
        calls = native_calls("" if ours is None else ours.target.brokers[0].output.read_text())
        shutil.rmtree(self.data)
        return calls


def native_calls(log: str) -> Counter[str]:
    """The calls that a broker logs when it stops, summed over several runs."""
    calls: Counter[str] = Counter()
    for line in log.splitlines():
        if _NATIVE_CALLS in line:
            calls.update({name: int(count) for name, count in _COUNT.findall(line.partition(_NATIVE_CALLS)[2])})
    return calls


def start_all(names: Sequence[str], *, cores: str | None, starts: int) -> Servers:
    """Start ZooKeeper and one broker of each name.

    Each broker is started `starts` times, in turn and while no other broker runs, to measure the time from the start of
    its process to its first complete Metadata response. Then all brokers stay up, and each is measured while idle.
    """
    data = REPOSITORY_ROOT / "target" / "bench" / f"run-{time.time_ns()}"
    zookeeper = apache_kafka.start_zookeeper(data / "zookeeper")
    seconds: dict[str, list[float]] = {name: [] for name in names}
    by_name: dict[str, Server] = {}
    try:
        for number in range(starts):
            for name in names if number % 2 == 0 else list(reversed(names)):
                folder = data / f"start-{number}" / name
                target = targets.start(name, zookeeper.connect_string, folder, overrides=OVERRIDES, cores=cores)
                seconds[name].append(time.monotonic() - target.brokers[0].started_s)
                target.stop()
        for name in names:
            target = targets.start(name, zookeeper.connect_string, data / name, overrides=OVERRIDES, cores=cores)
            by_name[name] = _looked_at_while_idle(target, seconds[name])
    except BaseException:
        Servers(zookeeper, data, cores, by_name).stop()
        raise
    return Servers(zookeeper, data, cores, by_name)


def _looked_at_while_idle(target: targets.Target, start_seconds: list[float]) -> Server:
    """The memory and CPU of a broker that has just started and has no clients."""
    pid = target.brokers[0].pid
    time.sleep(_SETTLE_S)
    before_s = measure.cpu_seconds(pid)
    time.sleep(_SETTLE_S)
    idle_cpu_share = (measure.cpu_seconds(pid) - before_s) / _SETTLE_S
    return Server(target, start_seconds, measure.memory(pid), idle_cpu_share)

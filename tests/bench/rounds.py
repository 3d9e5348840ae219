"""Alternating pairs of runs: in each round, every workload runs on each broker, and the order changes every round."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tests.bench import measure
from tests.bench.clients import run
from tests.bench.creating import topics_created
from tests.bench.servers import Server, Servers
from tests.bench.workloads import SOURCES, Beside, Outcome, Workload
from tests.peers.targets import Target

_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class Sample:
    """One measured run of one workload on one broker."""

    workload: str
    target: str
    round: int
    outcome: Outcome
    broker_cpu_s: float
    client_cpu_s: float
    #: CPU time of the other, idle brokers over the same time, which shows whether they disturbed the run.
    other_brokers_cpu_s: float
    #: CPU time of everything else on the machine (ZooKeeper, kernel threads, others), which shows whether it was quiet.
    strangers_cpu_s: float

    @property
    def mb_per_s(self) -> float:
        return self.outcome.payload_bytes / self.outcome.seconds / 1e6

    @property
    def records_per_s(self) -> float:
        return self.outcome.records / self.outcome.seconds

    @property
    def cpu_s_per_gb(self) -> float:
        return self.broker_cpu_s / (self.outcome.payload_bytes / 1e9)


@dataclass(frozen=True)
class Plan:
    """The number and size of the runs."""

    workloads: Sequence[Workload]
    rounds: int
    warmup_rounds: int
    records: int
    client_cores: str | None

    def records_of(self, workload: Workload) -> int:
        """The number of records, divisible by the workload's number of partitions."""
        if workload.records is not None:
            return workload.records
        each = max(1, round(self.records * workload.share / workload.partitions))
        return each * workload.partitions


def run_all(servers: Servers, plan: Plan, progress: Callable[[str], None], loaded: Callable[[], None]) -> list[Sample]:
    """Run all rounds; the samples of warm-up rounds are discarded. `loaded` is called before the rows that change the
    brokers, which run last. Raises: BenchFailed.
    """
    _fill(servers, plan, progress)
    samples = _rounds(servers, plan, [row for row in plan.workloads if not row.comes_last], progress)
    loaded()
    for workload in plan.workloads:
        if workload.beside is not Beside.NOTHING:
            samples += _pair(servers, workload, plan, 0, progress, "once")
    return samples


def _rounds(
    servers: Servers, plan: Plan, workloads: Sequence[Workload], progress: Callable[[str], None]
) -> list[Sample]:
    samples = []
    for number in range(-plan.warmup_rounds, plan.rounds):
        label = "warm-up" if number < 0 else f"round {number + 1}/{plan.rounds}"
        for workload in workloads:
            pair = _pair(servers, workload, plan, number, progress, label)
            samples += pair if number >= 0 else []
    return samples


def _fill(servers: Servers, plan: Plan, progress: Callable[[str], None]) -> None:
    """Write the topics that consumers read later."""
    for name in sorted({workload.source for workload in plan.workloads if workload.source is not None}):
        for server in servers.by_name.values():
            progress(f"filling topic {name} on {server.target.name}")
            server.target.create_topic(name, partitions=SOURCES[name].partitions)
            run(SOURCES[name], server.target, name, plan.records_of(SOURCES[name]), plan.client_cores)


def _pair(
    servers: Servers, workload: Workload, plan: Plan, number: int, progress: Callable[[str], None], label: str
) -> list[Sample]:
    """One run on each broker."""
    samples = []
    names = list(servers.by_name)
    for name in names if number % 2 == 0 else reversed(names):
        sample = _measured(servers, name, workload, plan, number)
        progress(f"{label} {workload.title} {name}: {sample.mb_per_s:.1f} MB/s")
        samples.append(sample)
    return samples


def _measured(servers: Servers, name: str, workload: Workload, plan: Plan, number: int) -> Sample:
    """One run on a fresh topic (producers) or the filled one (consumers), after dirty pages were written out.

    The data that consumers read are in the page cache then: where the kernel drops pages that were not used for some
    minutes, the run would measure the disk instead.
    """
    server = servers.by_name[name]
    others = [other for other in servers.by_name.values() if other is not server]
    topic = workload.source
    if topic is None:
        topic = f"bench-{workload.name}-{time.time_ns()}"
        server.target.create_topic(topic, partitions=workload.partitions)
    os.sync()
    if workload.source is not None:
        _read_log(server.target, topic)
    with _beside(workload, server):
        before = _cpu([server]), _client_cpu(), _cpu(others), measure.machine_cpu_seconds()
        outcome = run(workload, server.target, topic, plan.records_of(workload), plan.client_cores)
        after = _cpu([server]), _client_cpu(), _cpu(others), measure.machine_cpu_seconds()
    broker_s, client_s, others_s, machine_s = (end - start for start, end in zip(before, after, strict=True))
    strangers_s = max(0.0, machine_s - broker_s - client_s - others_s)
    sample = Sample(workload.name, name, number, outcome, broker_s, client_s, others_s, strangers_s)
    if not workload.reads:
        server.target.delete_topic(topic)
    return sample


def _read_log(target: Target, topic: str) -> None:
    """Bring a topic's segments into the page cache."""
    for path in sorted(target.log_dirs[0].glob(f"{topic}-*/*.log")):
        with path.open("rb", buffering=0) as log:
            while log.read(_CHUNK_BYTES):
                pass


@contextmanager
def _beside(workload: Workload, server: Server) -> Iterator[None]:
    if workload.beside is Beside.TOPICS:
        with topics_created(server.target):
            yield
    else:
        yield


def _cpu(servers: Sequence[Server]) -> float:
    return sum(measure.cpu_seconds(server.pid) for server in servers)


def _client_cpu() -> float:
    """CPU seconds of all clients that have ended so far."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime

"""An extraction on a real ZooKeeper, with records and files in memory, which a test can kill at any point."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pytest

from kafka_zk.base.types import TopicPartition
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.registry.offsets import OffsetRegistry
from kafka_zk.spark_jobs.extraction.dead_letters import DeadLetter
from kafka_zk.spark_jobs.extraction.job import ExtractionRun
from kafka_zk.spark_jobs.extraction.manifest import Manifest
from kafka_zk.spark_jobs.extraction.planning import Extraction, Report
from kafka_zk.spark_jobs.extraction.read_tasks import ReadTasks
from kafka_zk.spark_jobs.extraction.steps import Phase, Step
from kafka_zk.spark_jobs.extraction.table_formats import is_table
from kafka_zk.spark_jobs.extraction.undecodable import Staged
from kafka_zk.spark_jobs.waiting import Note
from kafka_zk.testing.plugin import MakeZkClient

T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)
Point = tuple[Step, Phase]


class Killed(BaseException):
    """Raised where the process is killed, so that nothing after this point happens, not even clean-up."""


class Log:
    """Stands for the brokers and knows the end offset of each partition. The timestamp of a record is its offset."""

    bootstrap_servers = "h:1"

    def __init__(self) -> None:
        self.ends = {T0: 30, T1: 20}

    @property
    def brokers(self) -> "Log":
        return self

    def offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        found = {-2: dict.fromkeys(self.ends, 0), -1: self.ends}
        return {tp: found[spec][tp] if spec in found else self._at(tp, spec) for tp, spec in wanted.items()}

    def _at(self, tp: TopicPartition, time_ms: int) -> int:
        return time_ms if time_ms < self.ends[tp] else -1

    log_offsets = offsets

    def log_ends(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self.ends[tp] for tp in tps}

    def partitions(self) -> list[TopicPartition]:
        return sorted(self.ends)


class Disk:
    """The target. ``folders``: name -> records, also of staging folders. ``table``: plan -> records; None: fenced."""

    cores = 2

    def __init__(self) -> None:
        self.folders: dict[str, list[tuple[TopicPartition, int]]] = {}
        self.table: dict[tuple[str, int], list[tuple[TopicPartition, int]] | None] = {}
        self.staged: list[str] = []
        self.while_staging: Callable[[], None] = lambda: None
        self.check_disjoint: Callable[[Manifest], None] = lambda _: None
        self.undecodable_count = 0

    def qualified(self, folder: str) -> str:
        return f"file:{folder}"

    def stage(self, manifest: Manifest, tasks: ReadTasks, bootstrap_servers: str) -> Staged:
        records = [(each.tp, offset) for ranges in tasks.ranges for each in ranges
                   for offset in range(each.from_offset, each.until_offset)]  # fmt: skip
        assert manifest.staging not in self.folders, "an attempt writes into a folder of its own"
        self.folders[manifest.staging] = records[: len(records) // 2]
        self.staged.append(manifest.staging)
        self.while_staging()
        self.folders[manifest.staging] = records
        return Staged(len(records), len(records), self.undecodable_count, "offset 0 of t-0")

    def undecodable(self, tasks: ReadTasks, bootstrap_servers: str) -> Iterator[DeadLetter]:
        raise AssertionError("no run here has a dead letter topic")

    def published(self, manifest: Manifest) -> str:
        return manifest.name

    def is_published(self, manifest: Manifest) -> bool:
        return manifest.name in self.folders

    def in_table(self, manifest: Manifest) -> bool:
        return self.table.get((manifest.writer, manifest.sequence)) is not None

    def is_fenced(self, manifest: Manifest) -> bool:
        return self.table.get((manifest.writer, manifest.sequence), ()) is None

    def fence(self, manifest: Manifest) -> bool:
        if is_table(manifest.format):
            self.table.setdefault((manifest.writer, manifest.sequence), None)
        return self.in_table(manifest)

    def publish(self, manifest: Manifest) -> None:
        if is_table(manifest.format):
            self.table.setdefault((manifest.writer, manifest.sequence), self.folders[manifest.staging])
        elif not self.is_published(manifest):
            self.folders[manifest.name] = self.folders.pop(manifest.staging)

    def discard(self, manifest: Manifest) -> None:
        self.folders.pop(manifest.staging, None)

    def records(self) -> list[tuple[TopicPartition, int]]:
        shown = [found for name, found in self.folders.items() if not name.startswith("_")]
        shown += [found for found in self.table.values() if found is not None]
        return sorted(record for found in shown for record in found)


class World:
    """One group, one topic and one target for complete and killed runs."""

    def __init__(self, make_zk_client: MakeZkClient, format: str = "parquet") -> None:
        self.format = format
        self._make_client = make_zk_client
        self.log, self.disk = Log(), Disk()
        self.group = f"g{next(_numbers)}"
        self.client = self.new_client()

    def new_client(self) -> KazooBlockingClient:
        client = self._make_client()
        assert isinstance(client, KazooBlockingClient)
        return client

    def run(
        self, observe: Callable[[Step, Phase], None] = lambda *_: None, note: Note = lambda _: None, **options: Any
    ) -> Report:
        """Run once. Raises the run's errors. The session ends with the run; that of a killed process ends later."""
        client = self.new_client()
        asked = {"format": self.format, **options}
        extraction = Extraction(zookeeper="z", group=self.group, topics=("t",), target="/lake", **asked)
        try:
            return run_blocking(ExtractionRun(extraction, client, self.log, self.disk, observe, note).run())
        finally:
            client.close()

    def killed_at(self, point: Point, **options: Any) -> None:
        """Kill a run at ``point``. Each later point kills it again, so that its clean-up has no effect."""
        dead = False

        def observe(step: Step, phase: Phase) -> None:
            nonlocal dead
            dead = dead or (step, phase) == point
            if dead:
                raise Killed

        with pytest.raises(Killed):
            self.run(observe, **options)

    def offsets(self) -> dict[TopicPartition, int]:
        stored = run_blocking(OffsetRegistry(self.client, self.group).fetch([T0, T1]))
        return {tp: each.offset for tp, each in stored.items()}

    def check(self, *, complete: bool = True) -> None:
        """Check that the target has each record once, up to the committed offsets."""
        offsets = self.offsets()
        assert self.disk.records() == [(tp, offset) for tp in (T0, T1) for offset in range(max(0, offsets.get(tp, 0)))]
        if complete:
            assert offsets == self.log.ends


_numbers = itertools.count(1)


@pytest.fixture
def world(make_zk_client: MakeZkClient) -> World:
    return World(make_zk_client)

"""A run of the extraction in the simulated world: drivers that share a group die, pause and resume; the judge looks for
lost and duplicate records.

The protocol is the product's own (``spark_jobs/extraction/job.py``, ``hold.py``, ``range_folders.py``); A growing log
and a lake in memory replace the brokers and Spark. ``play_extraction(seed)`` runs all of it. The seed chooses the
target: one whose folders are renamed, one whose files are copied, or a table. Tests:
tests/sim/extraction/test_extraction.py.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from random import Random
from typing import Any

from twisted.internet.defer import Deferred, ensureDeferred

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.waiting import sleep
from kafka_zk.registry.client.client import SessionState, Watch
from kafka_zk.registry.client.errors import ConnectionTimeout, RegistryError
from kafka_zk.registry.znodes import consumers
from kafka_zk.sim.campaign.faults import KINDS
from kafka_zk.sim.campaign.plan import Fault, FaultsInForce, drawn
from kafka_zk.sim.campaign.run import FAULTS_MS, LIVENESS_MS, PATIENCE_MS, Outcome
from kafka_zk.sim.machine.process import Process
from kafka_zk.sim.machine.scheduler import Stuck
from kafka_zk.sim.world.history import Happened, History
from kafka_zk.sim.world.world import SESSION_TIMEOUT_MS, World
from kafka_zk.sim.zookeeper.client import SimClient
from kafka_zk.sim.zookeeper.zookeeper import SimZooKeeper
from kafka_zk.spark_jobs.errors import ForeignCommit, GroupBusy
from kafka_zk.spark_jobs.extraction import manifest as manifests
from kafka_zk.spark_jobs.extraction.job import ExtractionRun
from kafka_zk.spark_jobs.extraction.planning import Extraction
from kafka_zk.spark_jobs.extraction.steps import Phase, Step
from kafka_zk.spark_jobs.extraction.table_formats import DELTA, is_table
from tests.sim.extraction.memory_lake import MemoryLake, Store, faults, gaps

GROUP = "lake"
TPS = tuple(TopicPartition("t", number) for number in range(3))
TARGETS = (("file:/lake", "parquet"), ("s3a://bucket/lake", "parquet"), ("file:/table", DELTA))
OTHER_TARGET = 0.2
"""Probability that a run has another target, to which the previous run's leftovers do not belong."""
DRIVERS = ("driver-1", "driver-2", "driver-3")
EXTRACTION_FAULTS = (
    "kill-member", "pause-member", "pause-member", "expire", "disconnect", "lose-request", "cut-zookeeper",
    "stop-zookeeper",
)  # fmt: skip
MORE_FAULTS = 3
"""Number of drawn plans that are combined into one, because rounds are short and faults must hit them."""
THINKS_S = 0.1
DIES_AT_A_FILE = 0.1
"""Probability that a run is killed before one of its operations on files."""
SAMPLE_MS = 100


class Killed(Exception):
    """Ends the work of a killed process."""


class BlockingClient(SimClient):
    """A driver's client of ZooKeeper, which waits for a connection as ``KazooBlockingClient`` does.

    The driver waits up to THINKS_S before each request, like a driver that waits for Spark.
    """

    def __init__(self, server: SimZooKeeper, process: Process, random: Random) -> None:
        super().__init__(server, process.name, SESSION_TIMEOUT_MS, "")
        self._process = process
        self._random = random
        self._sends_s = 0.0

    def _submit(self, kind: str, path: str, run: Callable[..., Any], watch: Watch | None = None) -> "Deferred[Any]":
        if not self._process.is_alive:
            raise GeneratorExit  # ends its coroutines, whose ``finally`` blocks may run late
        now_s = self._process.seconds()
        self._sends_s = max(self._sends_s, now_s + self._random.uniform(0, THINKS_S))
        thought: Deferred[None] = Deferred()
        self._process.callLater(self._sends_s - now_s, thought.callback, None)
        connected = thought.addCallback(lambda _: self._when_connected(path))
        return connected.addCallback(lambda _: super(BlockingClient, self)._submit(kind, path, run, watch))

    def _when_connected(self, path: str) -> "Deferred[None]":
        """Wait for a connection. Fails with ConnectionTimeout."""
        waiting: Deferred[None] = Deferred()
        if self._closed or self.state is SessionState.CONNECTED:
            waiting.callback(None)
            return waiting

        def changed(state: SessionState) -> None:
            if state is SessionState.CONNECTED:
                timer.cancel()
                remove()
                waiting.callback(None)

        def too_late() -> None:
            remove()
            waiting.errback(ConnectionTimeout(path))

        timer = self._process.callLater(SESSION_TIMEOUT_MS / 1000, too_late)
        remove = self.add_session_listener(changed)
        return waiting


class Log:
    """An ``extraction.job.Cluster`` that consists of the end offsets of partitions."""

    bootstrap_servers = "broker:9092"

    def __init__(self) -> None:
        self.ends = dict.fromkeys(TPS, 0)

    @property
    def brokers(self) -> "Log":
        return self

    def offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {tp: 0 if spec == -2 else self.ends[tp] for tp, spec in wanted.items()}

    def log_ends(self, tps: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return {tp: self.ends[tp] for tp in tps}

    def log_offsets(self, wanted: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return self.offsets(wanted)

    def partitions(self) -> list[TopicPartition]:
        return sorted(self.ends)


class ProcessMachine:
    """The ``extraction.job.Machine`` of a simulated process."""

    def __init__(self, process: Process, random: Random) -> None:
        self._process = process
        self.random = random
        self.wall_ms = process.wall_ms
        self.seconds = process.seconds

    async def wait(self, duration_ms: float) -> None:
        await sleep(self._process, duration_ms / 1000)


class Driver:
    """A process that repeatedly extracts new records; the faults call it a member."""

    def __init__(self, play: "ExtractionPlay", name: str, number: int) -> None:
        self.name = name
        self._play = play
        self._random = Random(f"{play.world.seed} {name} {number} choices")
        self.process = play.world.process(f"{name}-{number}")
        self.client: SimClient | None = None
        self.is_over = False
        self._left: int | None = None
        """Number of operations on files before the driver dies; None: it does not die."""
        self.process.callLater(0, lambda: ensureDeferred(self._live()).addErrback(self._raised))

    async def _live(self) -> None:
        while True:
            await sleep(self.process, self._random.uniform(0.1, 2))
            server = self._play.world.zookeeper
            client = self.client = BlockingClient(server, self.process, self._random)
            server.clients.append(client)
            client.attach(*server.open_session(client))
            try:
                await self._extract(client)
            except (GroupBusy, ForeignCommit, RegistryError) as error:
                self._play.note(f"{self.name}: {type(error).__name__}: {error}")
            await client.close()

    async def _extract(self, client: SimClient) -> None:
        play, random = self._play, self._random
        self._left = random.randint(0, 20) if not play.is_peaceful and random.random() < DIES_AT_A_FILE else None
        target = play.targets[not play.is_peaceful and random.random() < OTHER_TARGET]
        lake = MemoryLake(play.store, target, GROUP, self._operate)
        asked = Extraction(
            zookeeper="simulated:2181", group=GROUP, topics=("t",), target=target, format=play.format,
            max_records=random.choice((None, 3, 20)), max_records_per_task=random.choice((None, 2)),
            wait_ms=random.choice((0, 20_000)), session_timeout_ms=SESSION_TIMEOUT_MS,
        )  # fmt: skip
        machine = ProcessMachine(self.process, random)
        run = ExtractionRun(asked, client, play.log, lake, self._observe, machine=machine)
        report = await run.run()
        if report.published:
            play.note(f"{self.name}: {report.records} records, an earlier run left {report.recovered}")

    def _observe(self, step: Step, phase: Phase) -> None:
        if phase is Phase.BEGIN and self.process.is_alive:
            self._play.note(f"{self.name}: {step.name}")

    def _operate(self) -> None:
        """Called before each change of a file. Raises Killed."""
        if self._left == 0:
            self._play.note(f"{self.name} dies at a file")
            self.kill()
            raise Killed
        if self._left is not None:
            self._left -= 1

    def _raised(self, failure: Any) -> None:
        if self.process.is_alive:
            self._play.world.failed(failure)

    def pause(self) -> None:
        self.process.pause()
        if self.client is not None:
            self.client.pause()

    def resume(self) -> None:
        self.process.resume()
        if self.process.is_alive and self.client is not None:
            self.client.resume()

    def kill(self) -> None:
        self.is_over = True
        self.process.kill()
        if self.client is not None:
            self.client.pause()


class ExtractionPlay:
    """The state of a run; faults act on it as on a ``campaign.Run``."""

    def __init__(self, seed: int, plan: Sequence[Fault] | None, kinds: Iterable[str]) -> None:
        self.world = World(seed)
        self.history = History()
        self.random = Random(f"{seed} faults")
        target, self.format = TARGETS[seed % len(TARGETS)]
        self.targets = (target, f"{target}-of-others")
        self.store = Store()
        self.log = Log()
        self.members: dict[str, Driver] = {}
        self.broken: list[str] = []
        self.is_peaceful = False
        self._lives = 0
        self._in_force = FaultsInForce()
        drawing = Random(f"{seed} extraction plan")
        own = [drawn(drawing, (), DRIVERS, (), FAULTS_MS, tuple(kinds)) for _ in range(MORE_FAULTS)]
        self.plan = sorted(each for some in own for each in some) if plan is None else sorted(plan)

    def note(self, text: str) -> None:
        self.history.add(Happened(self.world.now_ms, text))

    # -- called by faults -----------------------------------------------------------------------------------------

    def client_of(self, name: str) -> SimClient | None:
        member = self.members[name]
        return None if member.is_over else member.client

    def kill_member(self, name: str) -> None:
        self.members[name].kill()

    def replace_member(self, name: str) -> None:
        """Replace a process that has ended by a new one."""
        if self.members[name].is_over:
            self.world.graves.append(self.members[name])
            self.start(name)

    # -- phases ---------------------------------------------------------------------------------------------------

    def start(self, name: str) -> None:
        self._lives += 1
        self.members[name] = Driver(self, name, self._lives)

    def begin(self) -> None:
        for name in DRIVERS:
            self.start(name)
        clock = self.world.scheduler.clock
        for fault in self.plan:
            clock.callLater(fault.at_ms / 1000, self._do, fault)
        self._grow()
        self._sample()

    def _do(self, fault: Fault) -> None:
        if self.is_peaceful:
            return
        self.note(str(fault))
        run: Any = self
        self._in_force.begin(self.world.scheduler.clock, fault, KINDS[fault.kind](run, fault.target))

    def _grow(self) -> None:
        """Append records, and replace drivers that died during an operation on a file."""
        if self.is_peaceful:
            return
        self.log.ends[self.random.choice(TPS)] += self.random.randint(1, 5)
        if self.random.random() < 0.1:
            for name in DRIVERS:
                self.replace_member(name)
        self.world.scheduler.clock.callLater(self.random.uniform(0.1, 1), self._grow)

    def _sample(self) -> None:
        found = faults(self.store.shown(self.targets), self.offsets(), leads=is_table(self.format))
        self.broken += [f"{self.world.now_ms:.3f}: {each}" for each in found]
        if not self.broken:
            self.world.scheduler.clock.callLater(SAMPLE_MS / 1000, self._sample)

    def offsets(self) -> dict[TopicPartition, int]:
        """The group's offsets in ZooKeeper."""
        tree = self.world.zookeeper.tree
        paths = {tp: consumers.offset_path(GROUP, *tp) for tp in TPS}
        return {tp: int(tree.get(path)[0] or b"0") for tp, path in paths.items() if tree.exists(path) is not None}

    def make_peace(self) -> None:
        self.is_peaceful = True
        self._in_force.end_all()
        if not self.world.zookeeper.running:
            self.world.zookeeper.start()
        for name in DRIVERS:
            self.replace_member(name)
        self.note("peace")

    def settle(self) -> None:
        """Raises Stuck if records are not extracted, or a manifest is not finished, after LIVENESS_MS."""
        self.world.until(lambda: self.broken or (self.offsets() == self.log.ends and self._is_finished()), LIVENESS_MS)
        self.world.run_for(PATIENCE_MS)
        self.broken += gaps(self.store.shown(self.targets), self.log.ends)

    def _is_finished(self) -> bool:
        path, tree = manifests.path(GROUP), self.world.zookeeper.tree
        return tree.exists(path) is not None and not manifests.decode(path, tree.get(path)[0]).unfinished


def play_extraction(
    seed: int, plan: Sequence[Fault] | None = None, kinds: Iterable[str] = EXTRACTION_FAULTS
) -> Outcome:
    """Play one run. ``plan``: faults instead of those that the seed draws from ``kinds``."""
    play = ExtractionPlay(seed, plan, kinds)
    outcome = Outcome(seed, play.plan, history=play.history)
    with play.world as world:
        try:
            play.begin()
            world.run_for(FAULTS_MS)
            play.make_peace()
            play.settle()
        except Stuck as error:
            outcome.violations.append(f"{type(error).__name__}: the extraction makes no progress: {error}")
        outcome.simulated_ms = world.now_ms
        for name in DRIVERS:
            play.members[name].kill()
    outcome.violations += play.broken
    outcome.violations += [f"unexpected: {failure}" for failure in world.failures]
    return outcome

"""The simulated world: unmodified brokers on a simulated clock, network, disk and ZooKeeper, in one process.

All randomness comes from the seed, and all time from the scheduler. A world is a context manager, because its disk
replaces the operating system's files while it runs. ``failures`` collects exceptions of processes and unhandled errors
of Deferreds.
"""

import gc
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import cache, partial
from random import Random
from types import CoroutineType
from typing import Any, cast

from twisted.internet.defer import Deferred, ensureDeferred
from twisted.logger import ILogObserver, LogEvent, globalLogPublisher
from twisted.python.failure import Failure

from kafka_zk.base.events import Event
from kafka_zk.broker.config.kafka_config import KafkaConfig
from kafka_zk.broker.process.broker import Broker
from kafka_zk.broker.process.machine import Machine
from kafka_zk.network.client import Connect, connect
from kafka_zk.sim.machine.disk import SimDisk
from kafka_zk.sim.machine.helpers import SimHelpers
from kafka_zk.sim.machine.network import SimNetwork
from kafka_zk.sim.machine.object_store import SimObjectStore
from kafka_zk.sim.machine.process import Process
from kafka_zk.sim.machine.scheduler import Scheduler
from kafka_zk.sim.zookeeper.client import SimClient
from kafka_zk.sim.zookeeper.zookeeper import SimZooKeeper
from kafka_zk.storage.files import files

EPOCH_MS = 1_700_000_000_000
PORT = 9092
SESSION_TIMEOUT_MS = 6_000


class SimBroker:
    """A broker with one folder, one id, and at most one process at a time."""

    def __init__(self, world: "World", broker_id: int, properties: Mapping[str, str]) -> None:
        self.world = world
        self.broker_id = broker_id
        self.name = f"broker-{broker_id}"
        self.folder = f"/{self.name}"
        self.properties = {
            "broker.id": str(broker_id),
            "listeners": f"PLAINTEXT://{self.name}:{PORT}",
            "log.dirs": f"{self.folder}/data",
            "zookeeper.connect": "simulated:2181",
            **properties,
        }
        self.starts = 0
        self.process: Process | None = None
        self.client: SimClient | None = None
        self.broker: Broker | None = None
        self.is_started = False
        self.start_error: Failure | None = None
        self.gave_up = False
        self.power_lost: Callable[[], None] = lambda: None

    @property
    def has_given_up(self) -> bool:
        """The broker ended on its own, because it could not start or continue."""
        return not self.is_alive and self.gave_up

    @property
    def is_alive(self) -> bool:
        return self.process is not None and self.process.is_alive

    def start(self) -> None:
        """``is_started`` becomes True when the broker serves."""
        assert not self.is_alive, f"{self.name} runs"
        self.starts += 1
        self.world.graves += [self.broker, self.client]
        process = self.process = self.world.process(self.name)
        self.client = self.world.zookeeper.client(self.name, session_timeout_ms=SESSION_TIMEOUT_MS)
        config, _ = KafkaConfig.from_properties(self.properties)
        self.is_started = False
        self.gave_up = False
        self.start_error = None
        helpers = SimHelpers(process, Random(f"{self.world.seed} {self.name} {self.starts} helpers"))
        machine = Machine(
            process,
            process,
            process.run_in_thread,
            self.world.object_store.threads(process),
            helpers.when_readable,
            Random(f"{self.world.seed} {self.name} {self.starts}"),
            self.world.connect_from(process),
            self.world.network.open_port(process),
            helpers.start,
        )
        broker = self.broker = Broker(machine, config, self.client, self._gave_up, observe=self.world.observed)
        process.callLater(0, self._begin, broker)

    def _begin(self, broker: Broker) -> None:
        ensureDeferred(broker.start()).addCallbacks(self._serves, self._failed_to_start)

    def _serves(self, _: object) -> None:
        self.is_started = True

    def _failed_to_start(self, failure: Failure) -> None:
        self.start_error = failure
        self.world.note(f"{self.name} cannot start: {failure.getErrorMessage()}")
        self.gave_up = True
        self.kill()

    def _gave_up(self, reason: str) -> None:
        self.world.note(f"{self.name} gives up: {reason}")
        self.gave_up = True
        self.kill()

    def stop(self) -> "Deferred[None]":
        assert self.broker is not None
        return ensureDeferred(self.broker.stop()).addCallback(lambda _: self.kill())

    def kill(self) -> None:
        """Act like SIGKILL: the page cache and the kernel's half of the connections survive."""
        if self.is_alive:
            self._end()
            self.world.network.killed(self._process)

    def lose_power(self) -> None:
        """Lose all unsynced data, without notifying peers."""
        if self.is_alive:
            self._end()
            self.world.network.lost_power(self._process)
        self.world.disk.lose_power(self.folder, self.world.random)
        self.power_lost()

    def pause(self) -> None:
        self._process.pause()
        self._client.pause()

    def resume(self) -> None:
        if self.is_alive:
            self._process.resume()
        if self.is_alive:  # otherwise resuming has ended the process
            self._client.resume()

    def _end(self) -> None:
        self.is_started = False
        self._process.kill()
        self._client.pause()
        self.world.disk.close_all(self.folder)

    @property
    def _process(self) -> Process:
        assert self.process is not None, f"{self.name} was never started"
        return self.process

    @property
    def _client(self) -> SimClient:
        assert self.client is not None, f"{self.name} was never started"
        return self.client


@cache
def _freeze_what_was_imported() -> None:
    """Exempt imported objects from garbage collection, which would dominate a run of one second."""
    gc.freeze()


class World:
    """``observe``: receives every event of every broker."""

    def __init__(self, seed: int, observe: Callable[[Event], None] = lambda event: None) -> None:
        self.seed = seed
        self.scheduler = Scheduler(seed)
        self.random = Random(f"{seed} world")
        self.disk = SimDisk(self._wall_ms)
        self.network = SimNetwork(self.scheduler, Random(f"{seed} network"))
        self.object_store = SimObjectStore(self.scheduler.clock, Random(f"{seed} object store"), self._wall_ms)
        self.zookeeper = SimZooKeeper(self.scheduler.clock, seed)
        self.brokers: dict[int, SimBroker] = {}
        self.failures: list[str] = []
        self.graves: list[object] = []  # objects of killed processes, kept until the end: see Process.kill
        self.notes: list[str] = []
        self._observe = observe
        self._is_over = False
        self._stack = ExitStack()

    def __enter__(self) -> "World":
        _freeze_what_was_imported()
        while gc.collect():  # end the coroutines of the previous world first
            pass
        if gc.isenabled():
            gc.disable()  # a collection would run ``finally`` blocks of killed processes at random times
            self._stack.callback(gc.enable)
        self._stack.enter_context(files.use(self.disk))
        observer = cast(ILogObserver, self._logged)
        globalLogPublisher.addObserver(observer)
        self._stack.callback(globalLogPublisher.removeObserver, observer)
        return self

    def __exit__(self, *_: object) -> None:
        coroutines = [each for each in gc.get_objects() if isinstance(each, CoroutineType)]
        gc.collect()  # reports unhandled errors of Deferreds; ``coroutines`` keeps the coroutines alive
        self._is_over = True  # the coroutines end when the collector is enabled again, outside of the run
        self._stack.close()
        self.end()
        del coroutines

    # -- what is in it --------------------------------------------------------------------------------------------

    def broker(self, broker_id: int, **properties: str) -> SimBroker:
        """Create a broker with an empty disk, without starting it. In the names of properties ``_`` stands for
        ``.``.
        """
        given = {key.replace("_", "."): value for key, value in properties.items()}
        made = self.brokers[broker_id] = SimBroker(self, broker_id, given)
        self.disk.make_directory(made.folder)
        return made

    def process(self, name: str) -> Process:
        made = Process(name, self.scheduler, Random(f"{self.seed} {name}"), self.failed, EPOCH_MS)
        self.graves.append(made)
        return made

    def connect_from(self, process: Process) -> Connect:
        connected: Connect = partial(connect, connector=self.network.connector(process))
        return connected

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{broker.name}:{PORT}" for broker in self.brokers.values())

    # -- time -----------------------------------------------------------------------------------------------------

    @property
    def now_ms(self) -> float:
        return self.scheduler.now_ms

    def _wall_ms(self) -> int:
        return EPOCH_MS + int(self.scheduler.now_ms)

    def run(self, work: Any, limit_ms: float = 60_000) -> Any:
        """Returns the result or raises its failure."""
        return self.scheduler.run(work, limit_ms)

    def run_for(self, duration_ms: float) -> None:
        self.scheduler.run_for(duration_ms)

    def until(self, condition: Callable[[], object], limit_ms: float = 60_000) -> None:
        """Raises Stuck after ``limit_ms``."""
        self.scheduler.run_until(condition, limit_ms)

    def start_all(self) -> None:
        for broker in self.brokers.values():
            broker.start()
        self.until(lambda: all(broker.is_started for broker in self.brokers.values()))

    def end(self) -> None:
        for broker in self.brokers.values():
            broker.kill()
        for client in self.zookeeper.clients:
            client.pause()

    # -- records and failures -------------------------------------------------------------------------------------

    def note(self, text: str) -> None:
        self.notes.append(f"{self.scheduler.now_ms:.3f} {text}")

    def observed(self, event: Event) -> None:
        if not self._is_over:
            self._observe(event)

    def failed(self, failure: Failure) -> None:
        """Handle an uncaught failure of the run."""
        if not self._is_over:
            self.failures.append(f"{self.scheduler.now_ms:.3f} {failure.getTraceback()}")

    def _logged(self, event: LogEvent) -> None:
        failure = event.get("log_failure")
        if failure is not None:
            self.failures.append(f"{self.scheduler.now_ms:.3f} {failure.getTraceback()}")

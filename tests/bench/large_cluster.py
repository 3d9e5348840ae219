"""`python -m tests.bench.large_cluster`: three kafka-zk brokers with tens of thousands of partitions.

They are created in topics of some thousands, because the assignment of a topic is one znode of at most 1 MB. Then the
controller is killed under a supervisor and restarted, and a broker stops cleanly and restarts. No client writes. A step
is over when every live broker reports to clients a live leader for each partition that can have one.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import click
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kafka_zk.embedded.probe import ask_leaders
from tests.bench import measure
from tests.bench.compare.life import FAILURES
from tests.bench.compare.systems import BROKERS, HOST, OURS, SYSTEMS, System
from tests.peers import jars
from tests.peers.processes import wait_until

_TIMEOUT_S = 900.0
_POLL_S = 0.2
_IDLE_S = 5.0

Tell = Callable[[str], None]


class LargeCluster:
    """``tell`` gets the result of each step: seconds, and CPU seconds and MB of each process, with ZooKeeper's last."""

    def __init__(self, system: System, topics: int, partitions: int, replication_factor: int, tell: Tell) -> None:
        self._system = system
        self._topics = [NewTopic(f"large-{number}", partitions, replication_factor) for number in range(topics)]
        self._partitions = topics * partitions
        self._is_replicated = replication_factor > 1
        self._tell = tell

    def run(self) -> None:
        """Raises: EmbeddedError, ProcessFailed, KafkaException, RegistryError, TimeoutError, OSError."""
        system = self._system
        system.prepare()
        system.start()
        with self._step(f"{self._partitions:,} partitions are created"):
            self._create()
        with self._step(f"{_IDLE_S:g} s in which nothing happens"):
            time.sleep(_IDLE_S)
        victim = system.controller()
        with self._step("the controller is killed under a supervisor"):
            system.kill_broker(victim, supervised=True)
            self._until_told(set(range(BROKERS)) - {victim})
        with self._step("it starts again"):
            system.start_broker(victim)
            self._until_told(range(BROKERS))
        stopped = (system.controller() + 1) % BROKERS
        with self._step("another broker stops cleanly"):
            system.stop_broker(stopped)
            self._until_told(set(range(BROKERS)) - {stopped})
        with self._step("it starts again"):
            system.start_broker(stopped)
            self._until_told(range(BROKERS))

    def _create(self) -> None:
        admin = AdminClient({"bootstrap.servers": self._system.bootstrap, "log_level": 0})
        for topic in self._topics:
            [created] = admin.create_topics(
                [topic], operation_timeout=_TIMEOUT_S, request_timeout=_TIMEOUT_S
            ).values()
            created.result(_TIMEOUT_S)
        self._until_told(range(BROKERS))

    def _until_told(self, alive: Iterable[int]) -> None:
        asked = sorted(alive)
        wait_until(lambda: self._is_told(asked), _TIMEOUT_S, "all partitions told of", interval_s=_POLL_S)

    def _is_told(self, alive: list[int]) -> bool:
        """Whether all live brokers report all leaders. Partitions whose only replica is dead have no leader."""
        wanted = self._partitions if self._is_replicated or len(alive) == BROKERS else 0
        for broker_id in alive:
            leaders = ask_leaders(HOST, self._system.ports[broker_id])
            if leaders is None or len(leaders) < wanted or not set(leaders.values()) <= set(alive):
                return False
        return True

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        before, begun_s = self._cpu_s(), time.monotonic()
        yield
        seconds, after = time.monotonic() - begun_s, self._cpu_s()
        cpu = ", ".join(f"{used - before.get(pid, 0):.2f}" for pid, used in after.items())
        memory = ", ".join(f"{measure.memory(pid).resident_bytes / 1e6:.0f}" for pid in after)
        self._tell(f"{name}: {seconds:.2f} s, CPU {cpu} s, memory {memory} MB")

    def _cpu_s(self) -> dict[int, float]:
        keeper = self._system.keeper_pid
        pids = [*self._system.pids, *([] if keeper is None else [keeper])]
        return {pid: measure.cpu_seconds(pid) for pid in pids}


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--topics", type=click.IntRange(1), default=10, show_default=True)
@click.option("--partitions", type=click.IntRange(1, 50_000), default=5_000, show_default=True, help="Of each topic.")
@click.option("--replication-factor", type=click.IntRange(1, BROKERS), default=1, show_default=True)
@click.option("--pin", "cores", metavar="LIST", help="Cores of brokers and ZooKeeper.  [default: all]")
def main(topics: int, partitions: int, replication_factor: int, cores: str | None) -> None:
    """Creation, deaths, a clean stop and starts of a large cluster on one machine."""
    folder = jars.REPOSITORY_ROOT / "target" / "bench" / f"large-{time.time_ns()}"
    system = SYSTEMS[OURS](folder, cores)
    try:
        LargeCluster(system, topics, partitions, replication_factor, click.echo).run()
    except (*FAILURES, jars.JarsNotResolved) as failure:
        raise click.ClickException(f"{type(failure).__name__}: {failure}") from failure
    finally:
        system.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()

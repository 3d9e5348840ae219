"""One machine with a ZooKeeper and a broker loses power: cuts of one run, each of which is started and judged."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from kafka_zk.embedded.broker import BrokerProcess
from kafka_zk.embedded.cluster import wait_ready
from kafka_zk.embedded.errors import EmbeddedError
from kafka_zk.embedded.ports import free_ports
from kafka_zk.embedded.zookeeper import EmbeddedZooKeeper
from tests.power import judges, reader, servers
from tests.power.disks import Image, Machine, Pool
from tests.power.history import Mark, Topic
from tests.power.judges import Violation
from tests.power.topics import SINGLE, broker_properties
from tests.power.upheavals import Upheavals, create
from tests.power.verdict import Verdict
from tests.power.workload import Workload

_RUN_UP_S = 3
_BROKER_ID = 0


class Cut(NamedTuple):
    image: Image
    mark: Mark


class SingleMachine:
    """The run of one seed on one file system. In runs of an even seed the internal topics are flushed, too, so that
    confirmed transactions and offsets must be there after the cut."""

    def __init__(self, pool: Pool, filesystem: str, kind: str, seed: int) -> None:
        self.name = f"{filesystem} single {kind} seed {seed}"
        self._kind = kind
        self._random = random.Random(seed)
        self._seed = seed
        self._folder = pool.folder / f"broker-of-{seed}"
        self._machine = Machine(pool, f"single-{seed}", filesystem)
        self._ports = free_ports(2)
        self._flushes = seed % 2 == 0
        self._topics: list[Topic] = list(SINGLE)

    def play(self, cuts: int) -> Iterator[Verdict]:
        """Write, cut the power that often at moments of chance, then judge each cut."""
        with ExitStack() as cleanup:
            cleanup.callback(self._machine.unmount)
            self._machine.mount()
            taken = self._run(cuts)
            self._machine.unmount()
            for number, cut in enumerate(taken):
                started_s = time.monotonic()
                violations = self._judge(cut)
                yield Verdict(f"{self.name} cut {number}", time.monotonic() - started_s, violations)
                cut.image.delete()

    # --- the life before the cuts -------------------------------------------------------------------------------------

    def _servers(self) -> tuple[EmbeddedZooKeeper, BrokerProcess]:
        port, zookeeper_port = self._ports
        zookeeper = servers.zookeeper(self._machine.volumes[0] / "zookeeper", zookeeper_port)
        interval_ms = self._random.choice((500, 2_000, 60_000))
        properties = broker_properties(1, flushes=self._flushes, checkpoint_interval_ms=interval_ms)
        connect = f"127.0.0.1:{zookeeper_port}"
        broker = servers.broker(self._kind, self._folder, _BROKER_ID, port, self._log_dirs, connect, properties)
        return zookeeper, broker

    @property
    def _log_dirs(self) -> list[Path]:
        return [volume / "logs" for volume in self._machine.volumes]

    def _run(self, cuts: int) -> list[Cut]:
        zookeeper, broker = self._servers()
        with ExitStack() as running:
            running.callback(zookeeper.kill_if_started)
            running.callback(broker.kill)
            zookeeper.start()
            broker.start()
            wait_ready([broker])
            client = running.enter_context(servers.admin(broker.bootstrap))
            create(client, SINGLE, [[_BROKER_ID]])
            workload = Workload(broker.bootstrap, SINGLE, self._seed)
            upheavals = Upheavals(client, workload, self._random, _BROKER_ID, self._log_dirs)
            workload.start()
            taken = self._cut_often(cuts, workload, upheavals)
            workload.end()
            self._topics += upheavals.fresh
            self._history = workload.history
            return taken

    def _cut_often(self, cuts: int, workload: Workload, upheavals: Upheavals) -> list[Cut]:
        time.sleep(_RUN_UP_S)
        taken = []
        for number in range(cuts):
            upheavals.step()
            time.sleep(self._random.uniform(0.1, 1.5))
            mark = workload.history.mark()
            taken.append(Cut(self._machine.cut(f"cut-{self._seed}-{number}"), mark))
            workload.check()
        return taken

    # --- the life after one -------------------------------------------------------------------------------------------

    def _judge(self, cut: Cut) -> list[Violation]:
        self._machine.mount(cut.image)
        topics = [topic for topic in self._topics if topic.name in cut.mark.acknowledged]
        zookeeper, broker = self._servers()
        shutil.rmtree(self._folder, ignore_errors=True)
        with ExitStack() as running:
            running.callback(self._machine.unmount)
            running.callback(zookeeper.kill_if_started)
            running.callback(broker.kill)
            try:
                self._start(zookeeper, broker)
                servers.wait_for_leaders(broker, [topic.name for topic in topics])
                transactions = reader.take_over(broker.bootstrap)
                found = reader.read(broker.bootstrap, topics)
                violations = judges.judge(topics, self._history, cut.mark, found, durable=self._flushes)
                reader.append(broker.bootstrap, topics, transactions)
            except (servers.NotServing, reader.NotReadable, EmbeddedError) as error:
                return [Violation(judges.START, "-", str(error))]
            except reader.NotAppendable as error:
                return [Violation(judges.APPEND, "-", str(error))]
            return violations

    def _start(self, zookeeper: EmbeddedZooKeeper, broker: BrokerProcess) -> None:
        """Ours starts beside ZooKeeper and waits until the registration of its life before is gone; Kafka's ends if it
        finds that."""
        before_ms = time.time() * 1000
        if self._kind == servers.OURS:
            broker.start()
        zookeeper.start()
        servers.forget_dead(zookeeper.connect_string, [_BROKER_ID], before_ms)
        if self._kind == servers.KAFKA:
            broker.start()

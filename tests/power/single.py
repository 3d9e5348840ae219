"""One machine with a ZooKeeper and a broker loses power. After each cut of a run, the cluster is started and judged."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from confluent_kafka import Producer

from tests.power import evidence, judges, reader, servers
from tests.power.disks import Image, Pool
from tests.power.history import Mark, Topic
from tests.power.host import BROKER_ID, Host
from tests.power.judges import Violation
from tests.power.topics import SINGLE
from tests.power.upheavals import Upheavals, create
from tests.power.verdict import Verdict
from tests.power.workload import Workload

_RUN_UP_S = 3


class Cut(NamedTuple):
    image: Image
    mark: Mark


class SingleMachine:
    """The run of one seed on one file system. In runs of an even seed the internal topics are flushed, too, so that
    confirmed transactions and offsets must be there after the cut."""

    def __init__(self, pool: Pool, filesystem: str, kind: str, seed: int) -> None:
        self._name = f"{filesystem} single {kind} seed {seed}"
        self._random = random.Random(seed)
        self._seed = seed
        self._flushes = seed % 2 == 0
        self._host = Host(pool, f"single-{seed}", filesystem, kind, self._random, flushes=self._flushes)
        self._topics: list[Topic] = list(SINGLE)

    def play(self, cuts: int) -> Iterator[Verdict]:
        """Write, cut the power ``cuts`` times at random moments, then judge each cut."""
        for number, cut in enumerate(self._run(cuts)):
            started_s = time.monotonic()
            violations = self._judge(cut)
            yield Verdict(f"{self._name} cut {number}", time.monotonic() - started_s, violations)
            cut.image.delete()

    def _run(self, cuts: int) -> list[Cut]:
        """Run the cluster before the cuts."""
        with self._host.running() as broker, servers.admin(broker.bootstrap) as client:
            create(client, SINGLE, [[BROKER_ID]])
            workload = Workload(broker.bootstrap, SINGLE, self._seed)
            upheavals = Upheavals(client, workload, self._random, BROKER_ID, self._host.log_dirs)
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
            image = self._host.machine.cut(f"cut-{self._seed}-{number}")
            taken.append(Cut(image, mark._replace(asked=len(workload.history.asked))))
            workload.check()
        return taken

    def _judge(self, cut: Cut) -> list[Violation]:
        """Start the cluster after a cut, and judge it."""
        topics = [topic for topic in self._topics if topic.name in cut.mark.acknowledged]
        try:
            with self._host.running(cut.image) as broker:
                servers.wait_for_leaders(broker, [topic.name for topic in topics])
                transactions = reader.take_over(broker.bootstrap)
                found = reader.read(broker.bootstrap, topics)
                violations = judges.judge(topics, self._history, cut.mark, found, durable=self._flushes)
                violations += self._append(broker.bootstrap, topics, transactions)
                if violations:
                    violations.append(Violation(judges.LOG, "-", evidence.log_tail(broker.process)))
                return violations
        except (servers.NotServing, reader.NotReadable) as error:
            return [Violation(judges.START, "-", evidence.text_of(error))]
        except reader.NotAppendable as error:
            return [Violation(judges.APPEND, "-", evidence.text_of(error))]

    @staticmethod
    def _append(bootstrap: str, topics: Sequence[Topic], transactions: Producer) -> list[Violation]:
        try:
            reader.append(bootstrap, topics, transactions)
        except reader.NotAppendable as error:
            return [Violation(judges.APPEND, "-", str(error))]
        return []

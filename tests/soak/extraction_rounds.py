"""Extractions from transactional producers into Parquet, while both are killed: the rounds, and their judge.

In each round, an extraction is killed at a step, while four programs append in transactions and abort some of them.
Before that, one of the programs may be killed, or paused while its successor works. To the judge of the transaction
campaign, Parquet is a reader like any other.
"""

import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kafka_zk.embedded.cluster import EmbeddedCluster
from tests.integration.spark.extraction_process import DRIVER
from tests.integration.spark.killed_extraction import KILL_POINTS, PARTITIONS, Deck, IntoParquet
from tests.peers.processes import wait_until
from tests.sim.transaction_judge import Observed, faults, summary
from tests.soak.readers import OurSource
from tests.soak.transaction_client import now_ns
from tests.soak.transaction_programs import (
    READ_COMMITTED,
    Program,
    TransactionReader,
    end_transactions,
    final,
    history,
)

PRODUCERS = {"e0": "ours", "e1": "ours", "e2": "librdkafka", "e3": "librdkafka"}
TOPIC = "transactions-to-parquet"
NOTHING, KILL, ZOMBIE = "nothing", "is killed", "stands still, and a successor begins"
_RECORDS = 20
"""Minimum number of records committed between two extractions."""
_END_S = 90


class ExtractionRounds:
    def __init__(self, cluster: EmbeddedCluster, folder: Path, seed: int) -> None:
        self._bootstrap = cluster.bootstrap
        self._seed = seed
        self._chance = random.Random(seed)
        self._points = Deck(KILL_POINTS, self._chance)
        self._extraction = IntoParquet(cluster, folder, TOPIC)
        self._clients = folder / "clients"
        self._programs: list[Program] = []
        self._reader = TransactionReader(OurSource(self._bootstrap, TOPIC, PARTITIONS, READ_COMMITTED))
        self._extracted: dict[tuple[int, int, str], int] = {}

    def run(self, rounds: int) -> None:
        self._reader.start()
        try:
            with self._extraction.java_is_shared():  # started first, because the programs would slow its start
                for producer, library in PRODUCERS.items():
                    program = Program(self._clients, self._bootstrap, TOPIC, PARTITIONS, producer, library)
                    self._programs.append(program)
                for number in range(rounds):
                    self._round(f"round {number + 1} of {rounds}, seed {self._seed}")
                self._judge()
        finally:
            self._reader.end()
            for program in self._programs:
                program.kill_all()

    def _round(self, name: str) -> None:
        began_s = time.monotonic()
        self._wait_for_records()
        program, what = self._chance.choice(self._programs), self._chance.choice((NOTHING, KILL, ZOMBIE))
        point = self._points.draw()
        with self._disturbed(program, what):
            self._extraction.kill(point, DRIVER)
        self._look()
        took_s = time.monotonic() - began_s
        print(f"{name}: driver at {point}; {program.producer}: {what}; {took_s:.1f} s", flush=True)

    def _wait_for_records(self) -> None:
        wanted = len(self._reader.observed) + _RECORDS

        def are_there() -> bool:
            for program in self._programs:
                program.revive()
            return len(self._reader.observed) >= wanted

        wait_until(are_there, _END_S, f"{_RECORDS} committed records", interval_s=0.1)

    @contextmanager
    def _disturbed(self, program: Program, what: str) -> Iterator[None]:
        paused = program.pause() if what == ZOMBIE else None
        if what == KILL:
            program.kill()
        if what != NOTHING:
            program.begin()
        try:
            yield
        finally:
            if paused is not None:
                os.kill(paused, signal.SIGCONT)

    def _look(self) -> None:
        """Read the Parquet files. Check that earlier records are still there, and that no record is there twice."""
        records, now = self._extraction.records(), now_ns()
        assert len(set(records)) == len(records), "something is there twice"
        assert self._extracted.keys() <= set(records), "something is gone"
        self._extracted = {record: self._extracted.get(record, now) for record in records}

    def _judge(self) -> None:
        for program in self._programs:
            program.ask_to_end()
        found = [fault for program in self._programs for fault in program.ended(_END_S)]
        end_transactions(self._bootstrap, PRODUCERS)
        records, ends, open_at = final(self._bootstrap, TOPIC, PARTITIONS)
        assert not open_at, f"transactions are open at the end: {open_at}"
        self._extraction.recover()
        self._look()
        committed = [(partition, *record) for partition, given in records.items() for record in given]
        assert self._extraction.records() == sorted(committed), "Parquet has not what is committed"
        wait_until(lambda: len(self._reader.observed) == sum(map(len, records.values())), _END_S, "all to be read")
        self._reader.stop()
        parquet = [Observed(*record, at_ns) for record, at_ns in self._extracted.items()]
        observed = {self._reader.name: self._reader.observed, "Parquet": parquet}
        told = history(self._bootstrap, TOPIC, self._programs, observed, records)
        print(summary(told), flush=True)
        found += [*self._reader.failed, *faults(told)]
        assert not found, "\n".join(found)
        assert self._extraction.stored() == ends, "the group's offsets are not at the end"

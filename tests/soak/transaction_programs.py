"""Programs with transactions that are killed and replaced, readers of committed records, and the judge's input."""

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from kafka_zk.base import types
from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.consumer.blocking_reader import BlockingReader
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.embedded.process import tied
from tests.peers.processes import wait_until
from tests.sim.transaction_judge import History, Observed, transactions_of
from tests.soak import transaction_client
from tests.soak.readers import Given, Reader, Source
from tests.soak.replicated_cluster import START_S

READ_COMMITTED = "read_committed"


class TransactionReader(Reader):
    """Remembers the committed records, and when it received them."""

    def __init__(self, source: Source) -> None:
        self.observed: list[Observed] = []
        super().__init__(source)

    def _observe(self, given: Given) -> None:
        self.observed.append(Observed(*given[:2], given.value.decode(), transaction_client.now_ns()))


class Program:
    """One producer's *lives*: processes that replace each other, each with a journal."""

    def __init__(
        self, folder: Path, bootstrap: str, topic: str, partitions: int, producer: str, library: str
    ) -> None:
        self.producer = producer
        self._folder, self._bootstrap, self._library = folder, bootstrap, library
        self._topic, self._partitions = topic, partitions
        self._lives: list[subprocess.Popen[bytes]] = []
        folder.mkdir(parents=True, exist_ok=True)
        self.begin()

    def begin(self) -> None:
        """Start the next life, whatever the state of the previous one."""
        life = len(self._lives)
        command = transaction_client.command(
            self._library, self._bootstrap, self._topic, self._partitions, self.producer, life,
            str(self._journal(life)),
        )  # fmt: skip
        with (self._folder / f"{self.producer}-{life}.out").open("wb") as output:
            self._lives.append(
                subprocess.Popen(tied(command), stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT)
            )

    def revive(self) -> None:
        """Start a life if the last one has ended."""
        if self._lives[-1].poll() is not None:
            self.begin()

    def kill(self) -> None:
        self._lives[-1].kill()
        self._lives[-1].wait()

    def kill_all(self) -> None:
        """Kill all lives, including paused ones."""
        for process in self._lives:
            process.kill()
            process.wait()

    def pause(self) -> int:
        """Pause the last life. Returns its process id."""
        pid = self._lives[-1].pid
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
        return pid

    def ask_to_end(self) -> None:
        """Ask the lives to finish their work and end."""
        for process in self._lives:
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()

    def ended(self, timeout_s: float) -> list[str]:
        """Wait for all lives. Returns a description of each that does not end or fails."""
        stuck = []
        for life, process in enumerate(self._lives):
            try:
                process.wait(timeout_s)
            except subprocess.TimeoutExpired:
                stuck.append(f"{self.producer}/{life} does not end: {self._events(life)[-3:]}")
                process.kill()
                process.wait()
            output = (self._folder / f"{self.producer}-{life}.out").read_text(errors="replace")
            if "Traceback" in output:
                stuck.append(f"{self.producer}/{life}: {output[-2000:]}")
        return stuck

    def journals(self) -> dict[str, list[Any]]:
        return {f"{self.producer}/{life}": self._events(life) for life in range(len(self._lives))}

    def _journal(self, life: int) -> Path:
        return self._folder / f"{self.producer}-{life}.journal"

    def _events(self, life: int) -> list[Any]:
        journal = self._journal(life)
        return [json.loads(line) for line in journal.read_text().splitlines()] if journal.exists() else []


def end_transactions(bootstrap: str, producers: Iterable[str]) -> None:
    """End the transactions that clients left open, as a successor does."""
    for producer in producers:
        with BlockingProducer(bootstrap_servers=bootstrap, transactional_id=producer) as successor:
            successor.init_transactions()


class Final(NamedTuple):
    """``records``: (offset, value) by partition, as a reader gets them. ``open_at``: (last stable offset, end) of the
    partitions where those differ."""

    records: dict[int, list[tuple[int, str]]]
    ends: dict[types.TopicPartition, int]
    open_at: dict[int, tuple[int, int]]


def final(bootstrap: str, topic: str, partitions: int) -> Final:
    """The committed records after all programs have ended."""
    tps = [types.TopicPartition(topic, number) for number in range(partitions)]
    records: dict[int, list[tuple[int, str]]] = {number: [] for number in range(partitions)}
    with BlockingReader(bootstrap_servers=bootstrap) as plain:
        ends = plain.end_offsets(tps)
    with BlockingReader(bootstrap_servers=bootstrap, isolation_level=READ_COMMITTED) as reader:
        with contextlib.suppress(TimeoutError):
            wait_until(lambda: reader.end_offsets(tps) == ends, START_S, "the end of all", interval_s=0.2)
        stable = reader.end_offsets(tps)
        reader.assign(dict.fromkeys(tps, "earliest"))
        for batch in reader.batches(stable):
            for record in batch:
                records[record.partition].append((record.offset, record.value.decode()))
    open_at = {tp.partition: (stable[tp], ends[tp]) for tp in tps if stable[tp] != ends[tp]}
    return Final(records, ends, open_at)


def history(
    bootstrap: str,
    topic: str,
    programs: Sequence[Program],
    observed: Mapping[str, Sequence[Observed]],
    records: Mapping[int, Sequence[tuple[int, str]]],
) -> History:
    """The judge's input: the programs' journals, what each reader received, the final records, and the programs'
    offsets."""
    tps = [types.TopicPartition(topic, number) for number in records]
    journals = {name: events for program in programs for name, events in program.journals().items()}
    with BlockingAdmin(bootstrap_servers=bootstrap) as admin:
        committed = {
            program.producer: {
                tp.partition: offset for tp, offset in admin.groups.stable_offsets(program.producer, tps).items()
            }
            for program in programs
        }
    return History(transactions_of(journals), observed, records, committed)

"""Programs with transactions on a replicated topic, and a seed that says what happens to the brokers and to them."""

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition

from kafka_zk.client.blocking_admin import BlockingAdmin
from kafka_zk.consumer.blocking_reader import BlockingReader
from kafka_zk.embedded.process import tied
from kafka_zk.producer.blocking import BlockingProducer
from kafka_zk.sim.transaction_judge import History, Observed, faults, summary, transactions_of
from kafka_zk.storage import types
from tests.peers.processes import wait_until
from tests.soak import transaction_client
from tests.soak.replicated_cluster import SESSION_TIMEOUT_S, START_S
from tests.soak.replication_clients import ClientThread
from tests.soak.replication_history import election_faults
from tests.soak.replication_rounds import PARTITIONS, ROLES, TOPIC, Fault, ReplicationRounds

PROPERTIES: Mapping[str, str] = MappingProxyType({
    "offsets.topic.num.partitions": "4",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "3",
})  # fmt: skip
"""Of brokers, beside those of the campaign of replication."""

PRODUCERS = {"p0": "ours", "p1": "ours", "p2": "librdkafka", "p3": "librdkafka"}
"""By transactional id, with the library of each."""

NOTHING, KILL_CLIENT, ZOMBIE = "nothing", "kill", "pause, and a successor begins"
_TO_CLIENTS = (NOTHING, KILL_CLIENT, ZOMBIE)
_METADATA_MS = 300
_END_S = 90


class TransactionReader(ClientThread):
    """Reads what is committed, all partitions from their start."""

    def __init__(self) -> None:
        self.observed: list[Observed] = []
        super().__init__()

    def _observe(self, partition: int, offset: int, value: bytes | None) -> None:
        self.observed.append(Observed(partition, offset, (value or b"").decode(), transaction_client.now_ns()))


class LibrdkafkaReader(TransactionReader):
    name = "librdkafka's reader"

    def __init__(self, bootstrap: str) -> None:
        super().__init__()
        self._consumer = Consumer({
            "bootstrap.servers": bootstrap, "log_level": 0, "group.id": "none", "enable.auto.commit": False,
            "auto.offset.reset": "error", "topic.metadata.refresh.interval.ms": _METADATA_MS,
            "isolation.level": "read_committed", "fetch.wait.max.ms": 100, "socket.timeout.ms": 10000,
        })  # fmt: skip
        self._consumer.assign([TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)])

    def _run(self) -> None:
        while not self._ends.is_set():
            for message in self._consumer.consume(500, 0.1):
                error, partition, offset = message.error(), message.partition(), message.offset()
                if error is None:
                    assert partition is not None and offset is not None
                    self._observe(partition, offset, message.value())
                elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                    self.failed.append(f"{self.name}: {error}")
        self._consumer.close()


class OurReader(TransactionReader):
    name = "our reader"

    def __init__(self, bootstrap: str) -> None:
        super().__init__()
        self._reader = BlockingReader(
            bootstrap_servers=bootstrap, isolation_level="read_committed", auto_offset_reset="none",
            retry_backoff_ms=50, request_timeout_ms=10_000,
        )  # fmt: skip

    def _run(self) -> None:
        self._reader.assign({types.TopicPartition(TOPIC, number): 0 for number in range(PARTITIONS)})
        while not self._ends.is_set():
            for record in self._reader.poll(100):
                self._observe(record.partition, record.offset, record.value)
        self._reader.close()


class Program:
    """The lives of one producer: programs that follow each other, each with a journal."""

    def __init__(self, folder: Path, bootstrap: str, producer: str, library: str) -> None:
        self.producer = producer
        self._folder, self._bootstrap, self._library = folder, bootstrap, library
        self._lives: list[subprocess.Popen[bytes]] = []
        folder.mkdir(parents=True, exist_ok=True)
        self.begin()

    def begin(self) -> None:
        """The next life, whatever became of the one before."""
        life = len(self._lives)
        command = transaction_client.command(
            self._library, self._bootstrap, TOPIC, PARTITIONS, self.producer, life, str(self._journal(life))
        )
        with (self._folder / f"{self.producer}-{life}.out").open("wb") as output:
            self._lives.append(
                subprocess.Popen(tied(command), stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT)
            )

    def revive(self) -> None:
        """Begin a life if the last one is over."""
        if self._lives[-1].poll() is not None:
            self.begin()

    def kill(self) -> None:
        self._lives[-1].kill()
        self._lives[-1].wait()

    def pause(self) -> int:
        """Returns who is paused."""
        pid = self._lives[-1].pid
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
        return pid

    def ask_to_end(self) -> None:
        """Let the lives end what they are doing."""
        for process in self._lives:
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()

    def ended(self, timeout_s: float) -> list[str]:
        """Wait for them; who does not end was stuck."""
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


class TransactionRounds(ReplicationRounds):
    """The campaign."""

    kind = "transactions"
    roles = (*ROLES, "coordinator", "coordinator")

    def _make_clients(self) -> None:
        bootstrap = self._cluster.bootstrap
        self.observers: list[TransactionReader] = [LibrdkafkaReader(bootstrap), OurReader(bootstrap)]
        self.clients += self.observers
        folder = self._cluster.folder / "clients"
        self.programs = [Program(folder, bootstrap, producer, library) for producer, library in PRODUCERS.items()]

    @property
    def acknowledged_count(self) -> int:
        """Of records that every reader was given."""
        return min(len(reader.observed) for reader in self.observers)

    def wait_acknowledged(self, count: int, timeout_s: float = _END_S) -> None:
        """So many more; a program that was fenced meanwhile has a successor."""
        wanted = self.acknowledged_count + count

        def is_acknowledged() -> bool:
            for program in self.programs:
                program.revive()
            return self.acknowledged_count >= wanted

        wait_until(is_acknowledged, timeout_s, f"{count} more committed records", interval_s=0.2)

    def play(self, chosen: Any, *, at_once: bool = False) -> None:
        """Beside what happens to brokers, something may happen to one client."""
        what, program = self._random.choice(_TO_CLIENTS), self._random.choice(self.programs)
        paused_s = SESSION_TIMEOUT_S * self._random.uniform(0.2, 2)
        self._say(f"{what}: {program.producer}")
        if what == KILL_CLIENT:
            program.kill()
        zombie = program.pause() if what == ZOMBIE else None
        if what != NOTHING:
            program.begin()
        super().play([*chosen, *([_Paused(zombie, paused_s)] if zombie else [])], at_once=at_once)

    def judge(self, timeout_s: float = _END_S) -> list[str]:
        """End all transactions, read all that counts, and say what was wrong."""
        self._say("the end:")
        for program in self.programs:
            program.ask_to_end()
        found = [fault for program in self.programs for fault in program.ended(timeout_s)]
        self._say("    clients have ended")
        self._end_transactions()
        final, stable = self._final()
        if stable:
            found.append(f"transactions are open at the end: {stable}")
        count = sum(map(len, final.values()))

        def is_read() -> bool:
            return self.acknowledged_count >= count and self._is_replicated()

        with contextlib.suppress(TimeoutError):
            wait_until(is_read, timeout_s, "all read", interval_s=0.2)
        for reader in self.observers:
            reader.stop()
            found += reader.failed
            if len(reader.observed) != count:
                found.append(f"{reader.name} was given {len(reader.observed)} of {count} records")
        if not self._is_replicated():
            found.append("the replicas differ")
        self._say("    all is read")
        history = self._history(final)
        self._say(summary(history))
        elections = election_faults(
            TOPIC, self._cluster.zookeeper_writes(),
            leaders_write_isr=self._cluster.leaders_write_isr,
        )  # fmt: skip
        found += [*self.late, *faults(history), *elections, *self._cluster.complaints()]
        return [*found, self.story()] if found else []

    def _end_transactions(self) -> None:
        """What clients left open, as a successor does it."""
        for producer in PRODUCERS:
            with BlockingProducer(bootstrap_servers=self._cluster.bootstrap, transactional_id=producer) as successor:
                successor.init_transactions()

    def _final(self) -> tuple[dict[int, list[tuple[int, str]]], dict[int, tuple[int, int]]]:
        """What a reader is given now, and the partitions whose last stable offset is not their end."""
        tps = [types.TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        final: dict[int, list[tuple[int, str]]] = {number: [] for number in range(PARTITIONS)}
        servers = {"bootstrap_servers": self._cluster.bootstrap}
        with BlockingReader(**servers) as plain:
            ends = plain.end_offsets(tps)
        with BlockingReader(**servers, isolation_level="read_committed") as reader:
            with contextlib.suppress(TimeoutError):
                wait_until(lambda: reader.end_offsets(tps) == ends, START_S, "the end of all", interval_s=0.2)
            stable = reader.end_offsets(tps)
            reader.assign(dict.fromkeys(tps, "earliest"))
            for records in reader.batches(stable):
                for record in records:
                    final[record.partition].append((record.offset, record.value.decode()))
        open_at = {tp.partition: (stable[tp], ends[tp]) for tp in tps if stable[tp] != ends[tp]}
        return final, open_at

    def _history(self, final: dict[int, list[tuple[int, str]]]) -> History:
        tps = [types.TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        journals = {name: events for program in self.programs for name, events in program.journals().items()}
        with BlockingAdmin(bootstrap_servers=self._cluster.bootstrap) as admin:
            committed = {
                producer: {tp.partition: offset for tp, offset in admin.groups.stable_offsets(producer, tps).items()}
                for producer in PRODUCERS
            }
        return History(
            transactions_of(journals), {reader.name: reader.observed for reader in self.observers}, final, committed
        )

    def close(self) -> None:
        """End the clients."""
        super().close()
        for program in self.programs:
            with contextlib.suppress(ProcessLookupError):
                program.kill()


class _Paused(Fault):
    """A client that stands still, while its successor works."""

    def __init__(self, pid: int, seconds: float) -> None:
        self.action = ZOMBIE
        self._pid, self._seconds = pid, seconds

    def __str__(self) -> str:
        return f"a zombie of {self._seconds:.1f} s"

    @property
    def ends_session(self) -> bool:
        return False

    def begin(self) -> None:
        """It stands still already."""

    def end(self, *, at_once: bool) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGCONT)

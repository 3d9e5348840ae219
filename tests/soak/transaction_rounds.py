"""Programs with transactions on a replicated topic, and a seed that chooses the faults of brokers and programs."""

import contextlib
import os
import signal
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from tests.peers.processes import wait_until
from tests.sim.transaction_judge import faults, summary
from tests.soak.readers import LibrdkafkaSource, OurSource
from tests.soak.replicated_cluster import SESSION_TIMEOUT_S
from tests.soak.replication_history import election_faults
from tests.soak.replication_rounds import PARTITIONS, ROLES, TOPIC, Fault, ReplicationRounds
from tests.soak.transaction_programs import (
    READ_COMMITTED,
    Program,
    TransactionReader,
    end_transactions,
    final,
    history,
)

PROPERTIES: Mapping[str, str] = MappingProxyType({
    "offsets.topic.num.partitions": "4",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": "4",
    "transaction.state.log.replication.factor": "3",
})  # fmt: skip
"""Broker properties, in addition to those of the replication campaign."""

PRODUCERS = {"p0": "ours", "p1": "ours", "p2": "librdkafka", "p3": "librdkafka"}
"""Transactional id -> library."""

NOTHING, KILL_CLIENT, ZOMBIE = "nothing", "kill", "pause, and a successor begins"
_TO_CLIENTS = (NOTHING, KILL_CLIENT, ZOMBIE)
_END_S = 90


class TransactionRounds(ReplicationRounds):
    """The campaign."""

    kind = "transactions"
    roles = (*ROLES, "coordinator", "coordinator")

    def _make_clients(self) -> None:
        bootstrap = self._cluster.bootstrap
        self.observers: list[TransactionReader] = [
            TransactionReader(source(bootstrap, TOPIC, PARTITIONS, READ_COMMITTED))
            for source in (LibrdkafkaSource, OurSource)
        ]
        self.clients += self.observers
        folder = self._cluster.folder / "clients"
        self.programs = [
            Program(folder, bootstrap, TOPIC, PARTITIONS, producer, library) for producer, library in PRODUCERS.items()
        ]

    @property
    def acknowledged_count(self) -> int:
        """Number of records that every reader received."""
        return min(len(reader.observed) for reader in self.observers)

    def wait_acknowledged(self, count: int, timeout_s: float = _END_S) -> None:
        """Wait for ``count`` more acknowledged records; a fenced program gets a successor."""
        wanted = self.acknowledged_count + count

        def is_acknowledged() -> bool:
            for program in self.programs:
                program.revive()
            return self.acknowledged_count >= wanted

        wait_until(is_acknowledged, timeout_s, f"{count} more committed records", interval_s=0.2)

    def _written(self) -> set[int]:
        return {each.partition for each in self.observers[0].observed}

    def play(self, chosen: Any, *, at_once: bool = False) -> None:
        """In addition to the faults of brokers, one client may fail."""
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
        """End all transactions, read all committed records, and return the violations."""
        self._say("the end:")
        for program in self.programs:
            program.ask_to_end()
        found = [fault for program in self.programs for fault in program.ended(timeout_s)]
        self._say("    clients have ended")
        bootstrap = self._cluster.bootstrap
        end_transactions(bootstrap, PRODUCERS)
        records, _, open_at = final(bootstrap, TOPIC, PARTITIONS)
        if open_at:
            found.append(f"transactions are open at the end: {open_at}")
        count = sum(map(len, records.values()))

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
        observed = {reader.name: reader.observed for reader in self.observers}
        told = history(bootstrap, TOPIC, self.programs, observed, records)
        self._say(summary(told))
        elections = election_faults(
            TOPIC, self._cluster.zookeeper_writes(),
            leaders_write_isr=self._cluster.leaders_write_isr,
        )  # fmt: skip
        found += [*self.late, *faults(told), *elections, *self._cluster.complaints()]
        return [*found, self.story()] if found else []

    def close(self) -> None:
        """End the clients."""
        super().close()
        for program in self.programs:
            program.kill_all()


class _Paused(Fault):
    """A client that is paused while its successor works."""

    def __init__(self, pid: int, seconds: float) -> None:
        self.action = ZOMBIE
        self._pid, self._seconds = pid, seconds

    def __str__(self) -> str:
        return f"a zombie of {self._seconds:.1f} s"

    @property
    def ends_session(self) -> bool:
        return False

    def begin(self) -> None:
        """Does nothing: the client is already paused."""

    def end(self, *, at_once: bool) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGCONT)

"""One of three brokers' machines loses power, returns, joins the ISR and leads: no acknowledged record may be lost.

All topics have three replicas and min.insync.replicas=2, producers use acks=all, and no topic is flushed. The clients
continue to write while the machine is away. Rounds of one run share the cluster, so the machine leads when it loses
power again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack

from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

from kafka_zk.embedded.broker import BrokerProcess
from kafka_zk.embedded.cluster import wait_ready
from kafka_zk.embedded.errors import EmbeddedError
from kafka_zk.embedded.ports import free_ports
from tests.power import evidence, judges, reader, servers
from tests.power.disks import Machine, Pool
from tests.power.judges import Violation
from tests.power.topics import REPLICATED, broker_properties
from tests.power.upheavals import Upheavals, create
from tests.power.verdict import Verdict
from tests.power.workload import ClientFailed, Workload

_BROKERS = 3
_VICTIM = 2
"""The broker whose machine loses power; it is the first replica of every topic."""
_RETURN_S = 60
_POLL_S = 0.1
_ALL = ((2, 0, 1), (2, 1, 0))
_REASSIGNED = ((2, 0, 1), (0, 1), (1, 0, 2), (2, 1))


class Minority:
    """The run of one seed on one file system, which holds the victim's log directories."""

    def __init__(self, pool: Pool, filesystem: str, kind: str, seed: int) -> None:
        self.name = f"{filesystem} minority {kind} seed {seed}"
        self._kind = kind
        self._random = random.Random(seed)
        self._seed = seed
        self._folder = pool.folder / f"minority-{seed}"
        self._machine = Machine(pool, f"victim-{seed}", filesystem)
        self._log_dirs = [volume / "logs" for volume in self._machine.volumes]
        zookeeper_port, *self._ports = free_ports(1 + _BROKERS)
        self._zookeeper = servers.zookeeper(self._folder / "zookeeper", zookeeper_port)
        interval_ms = self._random.choice((500, 2_000, 60_000))
        properties = broker_properties(_BROKERS, flushes=False, checkpoint_interval_ms=interval_ms)
        self._brokers = [self._broker(number, properties) for number in range(_BROKERS)]

    def _broker(self, number: int, properties: Mapping[str, str]) -> BrokerProcess:
        folder = self._folder / f"broker-{number}"
        log_dirs = self._log_dirs if number == _VICTIM else [folder / "one", folder / "two"]
        connect = self._zookeeper.connect_string
        return servers.broker(self._kind, folder, number, self._ports[number], log_dirs, connect, properties)

    @property
    def _bootstrap(self) -> str:
        return ",".join(broker.bootstrap for broker in self._brokers)

    def play(self, rounds: int) -> Iterator[Verdict]:
        """Rounds of writing, a loss of power, and the judges. A round with violations is the last one."""
        with ExitStack() as running:
            running.callback(self._machine.unmount)
            self._machine.mount()
            running.callback(self._zookeeper.kill_if_started)
            self._zookeeper.start()
            for broker in self._brokers:
                running.callback(broker.kill)
                broker.start()
            wait_ready(self._brokers)
            client = running.enter_context(servers.admin(self._bootstrap))
            create(client, REPLICATED, _ALL)
            workload = Workload(self._bootstrap, REPLICATED, self._seed)
            running.callback(workload.abandon)
            workload.start()
            self._lead_all()
            upheavals = Upheavals(client, workload, self._random, _VICTIM, self._log_dirs, _REASSIGNED)
            for number in range(rounds):
                started_s = time.monotonic()
                violations = self._round(number, client, workload, upheavals)
                yield Verdict(f"{self.name} cut {number}", time.monotonic() - started_s, violations)
                if violations:
                    break

    def _round(
        self, number: int, client: KafkaAdminClient, workload: Workload, upheavals: Upheavals
    ) -> list[Violation]:
        try:
            for _ in range(3):
                time.sleep(self._random.uniform(0.2, 1.2))
                upheavals.step()
            self._lose_power(number)
            self._return()
            self._lead_all()
            workload.hold()
            found = reader.read(self._bootstrap, REPLICATED)
            violations = judges.judge(REPLICATED, workload.history, workload.history.mark(), found, durable=True)
            workload.release()
        except (servers.NotServing, reader.NotReadable, EmbeddedError) as error:
            return [self._explained(judges.START, error)]
        except ClientFailed as error:
            return [self._explained(judges.APPEND, error)]
        if violations:
            violations += [Violation(judges.LOG, "-", evidence.log_tail(broker.process)) for broker in self._brokers]
        return violations

    def _explained(self, judge: str, error: Exception) -> Violation:
        """A violation with evidence. It is the last one of a run, because our brokers end after writing their
        stacks.
        """
        return Violation(judge, "-", f"{error}\n{evidence.of(self._brokers, self._zookeeper)}")

    def _lose_power(self, number: int) -> None:
        """The victim runs and acknowledges records for an instant after the image of its disk was taken: the other
        brokers have these records.
        """
        victim, used = self._brokers[_VICTIM], self._machine.image
        image = self._machine.cut(f"cut-{self._seed}-{number}")
        victim.kill()
        self._machine.unmount()
        used.delete()
        self._machine.mount(image)

    def _return(self) -> None:
        """Start the victim soon, or after the others have led and cleaned for a while."""
        before_ms = time.time() * 1000
        if self._random.random() < 0.5:
            time.sleep(self._random.uniform(0, 2))
        servers.forget_dead(self._zookeeper.connect_string, [_VICTIM], before_ms)
        self._brokers[_VICTIM].start()
        wait_ready(self._brokers)

    def _lead_all(self) -> None:
        """Wait until the victim is in each ISR and leads all partitions. Raises: NotServing."""
        deadline_s = time.monotonic() + _RETURN_S
        missing: object = "anything"
        while missing:
            if time.monotonic() > deadline_s:
                raise servers.NotServing(f"broker {_VICTIM} does not lead all within {_RETURN_S} s: {missing}")
            if not self._brokers[_VICTIM].alive:
                raise servers.NotServing(self._brokers[_VICTIM].process.describe_end())
            time.sleep(_POLL_S)
            try:
                with servers.admin(self._bootstrap) as client:
                    self._prefer_victim(client)
                    seen = servers.leaders_seen(client)
                    missing = [each for each in seen.items() if each[1][0] != _VICTIM or len(each[1][1]) < _BROKERS]
            except KafkaError as error:
                missing = error

    def _prefer_victim(self, client: KafkaAdminClient) -> None:
        """Make the victim the first of three replicas of each partition, and the leader where it can be."""
        topics = client.describe_topics()
        moved = {
            (topic["name"], each["partition_index"]): [_VICTIM, *(i for i in range(_BROKERS) if i != _VICTIM)]
            for topic in topics
            for each in topic["partitions"]
            if each["replica_nodes"][0] != _VICTIM or len(each["replica_nodes"]) < _BROKERS
        }
        if moved:
            client.alter_partition_reassignments({servers.partition(*where): to for where, to in moved.items()})
        led_by_others = {
            topic["name"]: [each["partition_index"] for each in topic["partitions"] if each["leader_id"] != _VICTIM]
            for topic in topics
        }
        wanted = {name: numbers for name, numbers in led_by_others.items() if numbers}
        if wanted:
            client.elect_leaders(0, wanted, raise_errors=False)

"""The replication campaign: a replicated topic under load, and a seed that chooses the faults of its brokers."""

import contextlib
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kafka_zk.broker.transaction.state_topic import TRANSACTION_STATE_TOPIC
from tests.peers.processes import wait_until
from tests.sim import played
from tests.soak import replication_clients
from tests.soak.client_thread import ClientThread
from tests.soak.replicated_cluster import SESSION_TIMEOUT_S, START_S, Broker, ReplicatedCluster
from tests.soak.replication_history import Evidence, faults, summary

TOPIC = "replicated"
PARTITIONS = 4
REPLICAS = 3
ISR_FULL_S = 30.0
MACHINE_S = 10.0
"""Additional time until all partitions have leaders, on a machine with other work."""

KILL, STOP = "kill", "stop"
PAUSE, LONG_PAUSE = "pause", "pause beyond the session"
CUT, LONG_CUT = "cut from ZooKeeper", "cut from ZooKeeper beyond the session"
ONE_WAY = "cut from another broker"
ACTIONS = (KILL, KILL, STOP, PAUSE, LONG_PAUSE, CUT, LONG_CUT, ONE_WAY, ONE_WAY)
ROLES = ("leader", "follower", "controller")

_TWO_AT_ONCE = 0.25
_END_S = 120
_CREATED_S = 10
_SESSIONS = {PAUSE: (0.2, 0.5), CUT: (0.2, 0.5), ONE_WAY: (0.1, 2)}
"""Duration of faults, in session timeouts: a session survives the short ones, and ISRs shrink during the long ones."""


Cluster = TypeVar("Cluster", bound=ReplicatedCluster)


class Fault:
    """A fault of a broker; call ``begin``, then ``end``."""

    def __init__(self, action: str, victim: Broker, other: Broker, cluster: ReplicatedCluster, seconds: float) -> None:
        self.action, self.victim = action, victim
        self._other, self._cluster, self._seconds = other, cluster, seconds

    def __str__(self) -> str:
        to = f" {self._other.broker_id}" if self.action == ONE_WAY else ""
        return f"{self.action}{to}: broker {self.victim.broker_id}, {self._seconds:.1f} s"

    @property
    def ends_session(self) -> bool:
        return self.action in (KILL, STOP, LONG_PAUSE, LONG_CUT)

    def begin(self) -> None:
        victim = self.victim
        begins: dict[str, Callable[[], None]] = {
            KILL: victim.kill, STOP: victim.stop, PAUSE: victim.pause, LONG_PAUSE: victim.pause,
            CUT: victim.to_zookeeper.cut, LONG_CUT: victim.to_zookeeper.cut,
            ONE_WAY: lambda: self._other.door.close_for(victim.broker_id),
        }  # fmt: skip
        begins[self.action]()

    def hold(self, since_s: float) -> None:
        """Wait until the fault has lasted long enough; concurrent faults last concurrently."""
        threading.Event().wait(max(0.0, since_s + self._seconds - time.monotonic()))

    def end(self, *, at_once: bool) -> None:
        """End the fault. ``at_once``: restart a killed broker even if its old session may still exist."""
        victim = self.victim
        at_once = at_once and self.action == KILL and victim.kind.restarts_at_once
        if self.ends_session and not at_once:
            self._wait_expired()
        ends: dict[str, Callable[[], object]] = {
            KILL: victim.start, STOP: victim.start, PAUSE: victim.resume, LONG_PAUSE: victim.resume,
            CUT: victim.to_zookeeper.restore, LONG_CUT: victim.to_zookeeper.restore,
            ONE_WAY: lambda: self._other.door.open_for(victim.broker_id),
        }  # fmt: skip
        ends[self.action]()

    def _wait_expired(self) -> None:
        number = self.victim.broker_id
        what = f"the end of the session of broker {number}"
        wait_until(lambda: number not in self._cluster.registered(), START_S, what)


class ReplicationRounds:
    """The campaign. ``librdkafka``: additional configuration of its producer.

    ``late``: recoveries that took too long. ``led_s``, ``full_s``: the durations until all partitions had leaders and
    full ISRs.
    """

    kind = "replication"
    """The campaign's name in the record of played rounds."""
    replicas = REPLICAS
    config: Mapping[str, str] = MappingProxyType({})
    """The topic's configuration."""
    librdkafka: Mapping[str, Any] = MappingProxyType({})
    fault: type[Fault] = Fault
    actions: Sequence[str] = ACTIONS
    roles: Sequence[str] = ROLES
    machine_s = MACHINE_S
    isr_full_s = ISR_FULL_S

    def __init__(self, cluster: ReplicatedCluster, seed: int) -> None:
        self.late: list[str] = []
        self.led_s: list[float] = []
        self.full_s: list[float] = []
        self.seed = seed
        self.brokers = ", ".join(each.kind.name for each in cluster.brokers)
        self._story = [f"seed {seed}, brokers: {self.brokers}"]
        self._cluster = cluster
        self._random = random.Random(seed)
        self._begin_s = time.monotonic()
        self._create_topic()
        self.clients: list[ClientThread] = []
        self._make_clients()
        for client in self.clients:
            client.start()
        try:
            self._wait_for_all_replicas()
        except BaseException:
            self.close()
            raise

    def _make_clients(self) -> None:
        self.senders = replication_clients.senders(self._cluster.bootstrap, TOPIC, PARTITIONS, self.librdkafka)
        self.readers = replication_clients.readers(self._cluster.bootstrap, TOPIC, PARTITIONS)
        self.clients += [*self.senders, *self.readers]

    def _create_topic(self) -> None:
        def is_known() -> bool:  # a client that asks too early retries only after minutes
            try:
                metadata = admin.list_topics(timeout=_END_S)
            except KafkaException:  # a Kafka broker that is starting does not even know itself
                return False
            return metadata.controller_id >= 0 and len(metadata.brokers) == len(self._cluster.brokers)

        admin = AdminClient({"bootstrap.servers": self._cluster.bootstrap, "log_level": 0})
        askers = []  # kept, so that none is freed while its request is in progress
        topic = NewTopic(TOPIC, PARTITIONS, self.replicas, config=dict(self.config))

        def is_created() -> bool:
            asker = AdminClient({"bootstrap.servers": self._cluster.bootstrap, "log_level": 0})
            askers.append(asker)
            (created,) = asker.create_topics([topic]).values()
            try:
                created.result(_CREATED_S)
            except TimeoutError:  # its broker knew no controller yet, and it retries only after minutes
                return False
            except KafkaException as error:
                code = error.args[0].code()
                if code == KafkaError.NOT_CONTROLLER:  # the partition has moved, and not every broker knows that yet
                    return False
                if code != KafkaError.TOPIC_ALREADY_EXISTS:
                    raise
            return True

        wait_until(is_known, _END_S, "all brokers to be known")
        wait_until(is_created, _END_S, "a topic", interval_s=0.2)

    @property
    def acknowledged_count(self) -> int:
        return sum(len(sender.acknowledged) for sender in self.senders)

    def wait_acknowledged(self, count: int, timeout_s: float = _END_S) -> None:
        """Wait for ``count`` more acknowledged records."""
        wanted = self.acknowledged_count + count
        wait_until(lambda: self.acknowledged_count >= wanted, timeout_s, f"{count} more acknowledgements")

    def _wait_for_all_replicas(self) -> None:
        """Wait until each broker hosts its replicas: ISRs are full, and acknowledged records are on all of them. A
        Kafka broker whose session ends before that is useless until it is restarted (docs/how-to/mixed-cluster.md)."""

        self.wait_acknowledged(100)
        wait_until(lambda: len(self._written()) == PARTITIONS, _END_S, "acknowledgements of every partition")
        self.wait_full(_END_S)

    def _written(self) -> set[int]:
        """The partitions in which a record was acknowledged."""
        return {each.partition for sender in self.senders for each in sender.acknowledged}

    def wait_led(self, gone: Sequence[int], timeout_s: float) -> None:
        """Wait until every partition has a leader that is not one of ``gone``, or has none because no other replica was
        in sync.

        Raises: TimeoutError.
        """
        def is_led() -> bool:
            states = self._cluster.states(TOPIC)
            able = self._cluster.registered() - set(gone)
            return len(states) == PARTITIONS and all(
                state.leader in able or (state.leader < 0 and state.isr <= set(gone)) for state in states.values()
            )

        wait_until(is_led, timeout_s, "a leader of every partition")

    def wait_full(self, timeout_s: float) -> None:
        """Wait until every ISR has all replicas. Raises: TimeoutError."""
        def is_full() -> bool:
            states = self._cluster.states(TOPIC)
            return len(states) == PARTITIONS and all(
                state.leader >= 0 and len(state.isr) == self.replicas for state in states.values()
            )

        wait_until(is_full, timeout_s, "all replicas in sync")

    def wait_registered(self) -> None:
        wait_until(lambda: self._cluster.registered() == set(self._cluster.ids), START_S, "all brokers to register")

    def run(self, rounds: int) -> None:
        """Run the seed's rounds. Raises: TimeoutError if the cluster does not recover at all."""
        for number in range(rounds):
            try:
                self._round(number)
            except TimeoutError as late:
                raise TimeoutError(f"{late}\n{self.story()}\n{self._cluster.states(TOPIC)}") from late

    def _round(self, number: int) -> None:
        chosen = self._choose()
        at_once = self._random.random() < 0.5
        self._say(f"round {number}, controller {self._cluster.controller()}:")
        self.play(chosen, at_once=at_once)

    def play(self, chosen: Sequence[Fault], *, at_once: bool = False) -> None:
        """Cause these faults concurrently, and wait until the cluster has recovered; late recoveries are added to
        ``late``."""
        self._say("; ".join(map(str, chosen)))
        begun_s = time.monotonic()
        for fault in chosen:
            fault.begin()
        if len(chosen) == 1 and chosen[0].ends_session:
            self._measure_led(chosen[0], begun_s)
        since_s = time.monotonic()
        for fault in chosen:
            fault.hold(since_s)
        for fault in chosen:
            fault.end(at_once=at_once)
        ended_s = time.monotonic()
        self.wait_registered()
        self._say(f"    over after {ended_s - begun_s:.1f} s, all registered {time.monotonic() - ended_s:.1f} s later")
        self._measure_full()
        served_s = time.monotonic()
        self.wait_acknowledged(50)
        self._say(f"    clients went on within {time.monotonic() - served_s:.1f} s")

    def _choose(self) -> list[Fault]:
        count = 2 if self._random.random() < _TWO_AT_ONCE else 1
        victims: list[Broker] = []
        chosen = []
        for _ in range(count):
            action = self._random.choice(self.actions)
            victim = self._victim(self._random.choice(self.roles), victims)
            victims.append(victim)
            other = self._random.choice([each for each in self._cluster.brokers if each is not victim])
            seconds = SESSION_TIMEOUT_S * self._random.uniform(*_SESSIONS.get(action, (0, 1)))
            chosen.append(self.fault(action, victim, other, self._cluster, seconds))
        return chosen

    def _victim(self, role: str, taken: Sequence[Broker]) -> Broker:
        state = self._cluster.states(TOPIC)[self._random.randrange(PARTITIONS)]
        controller = self._cluster.controller()
        ids = {
            "leader": {state.leader},
            "follower": state.isr - {state.leader, controller},
            "controller": {controller},
            "coordinator": {each.leader for each in self._cluster.states(TRANSACTION_STATE_TOPIC).values()},
        }[role]
        free = [each for each in self._cluster.brokers if each not in taken]
        return self._random.choice([each for each in free if each.broker_id in ids] or free)

    def _measure_led(self, fault: Fault, begun_s: float) -> None:
        self.wait_led([fault.victim.broker_id], START_S)
        took_s = time.monotonic() - begun_s
        self.led_s.append(took_s)
        self._say(f"    led after {took_s:.1f} s")
        if took_s > SESSION_TIMEOUT_S + 1 + self.machine_s:
            self.late.append(f"after {fault} everything was led only after {took_s:.1f} s")

    def _measure_full(self) -> None:
        begun_s = time.monotonic()
        with contextlib.suppress(TimeoutError):
            self.wait_full(self.isr_full_s)
        took_s = time.monotonic() - begun_s
        self.full_s.append(took_s)
        self._say(f"    ISR full after {took_s:.1f} s")
        if took_s > self.isr_full_s:
            self.late.append(f"not all replicas in sync within {self.isr_full_s} s: {self._cluster.states(TOPIC)}")
            self.wait_full(START_S)

    def judge(self, timeout_s: float = _END_S) -> list[str]:
        """Stop writing, wait until all records are replicated and read, at most ``timeout_s``, and return the
        violations."""
        for sender in self.senders:
            sender.stop()
        with contextlib.suppress(TimeoutError):  # the judge then reports what is missing
            wait_until(lambda: self._is_replicated() and self._is_read(), timeout_s, "everything read", interval_s=0.2)
        for reader in self.readers:
            reader.stop()
        evidence = self._evidence()
        self._say(summary(evidence))
        found = [*self.late, *faults(evidence), *self._cluster.complaints()]
        return [*found, self.story(), *self._cluster.recent_output()] if found else []

    def _logs(self) -> dict[int, dict[int, bytes]]:
        """The logs of the brokers that have a replica."""
        return {
            number: {
                each.broker_id: each.log(TOPIC, number)
                for each in self._cluster.brokers
                if (each.log_dir / f"{TOPIC}-{number}").is_dir()
            }
            for number in range(PARTITIONS)
        }

    def _is_replicated(self) -> bool:
        return all(len(set(replicas.values())) == 1 for replicas in self._logs().values())

    def _is_read(self) -> bool:
        count = sum(len(sent) for sender in self.senders for sent in sender.sent.values())
        return all(sum(map(len, reader.read.values())) >= count for reader in self.readers)

    def _evidence(self) -> Evidence:
        return Evidence(
            TOPIC,
            {sender.name: sender.sent for sender in self.senders},
            [each for sender in self.senders for each in sender.acknowledged],
            [failure for client in self.clients for failure in client.failed],
            {reader.name: reader.read for reader in self.readers},
            self._logs(),
            self._cluster.zookeeper_writes(),
            self._cluster.leaders_write_isr,
        )

    def _say(self, line: str) -> None:
        self._story.append(f"{time.monotonic() - self._begin_s:6.1f} {line}")

    def story(self) -> str:
        """A report of the faults, and of the cluster's recovery times."""
        return "\n".join(self._story)

    def close(self) -> None:
        """End the clients."""
        for client in self.clients:
            client.end()


def play_campaign(make: Callable[[Cluster], ReplicationRounds], rounds: int, cluster: Cluster) -> None:
    """Start new brokers, run ``rounds`` rounds on them, and return the verdict.

    With KAFKA_ZK_RECORD_ROUNDS=1 in the environment the rounds are recorded in tests/sim/played.txt.

    Raises: AssertionError with the violations.
    """
    played.commit()  # the repository's HEAD may change while the brokers start
    with cluster:
        campaign = make(cluster)
        kind = f"{campaign.kind}, rounds of real processes, {rounds} a seed ({campaign.brokers})"
        with played.campaign(kind, campaign.seed):
            try:
                campaign.run(rounds)
                found = campaign.judge()
            finally:
                campaign.close()
            print(campaign.story())
            assert not found, "\n".join(found)

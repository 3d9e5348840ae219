"""The stage of a scenario: a world with its brokers, its clients by name, and their history.

``verbs`` act on it, and ``conditions`` examine it. A ``StageError`` tells the scenario's author what is impossible.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kafka_zk.base.events import Event
from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.admin.admin import NewTopic
from kafka_zk.clients.connection.errors import KafkaError
from kafka_zk.clients.consumer.reader import Reader
from kafka_zk.registry.client.errors import RegistryError
from kafka_zk.registry.znodes import consumers as znodes
from kafka_zk.registry.znodes.topics import TOPICS
from kafka_zk.sim.campaign.run import BROKER, LIVENESS_MS
from kafka_zk.sim.judges import broker_group, transactions
from kafka_zk.sim.judges import cluster as judges
from kafka_zk.sim.machine.scheduler import Stuck
from kafka_zk.sim.world.clients import (
    BROKER_GROUP,
    GROUP,
    SimBrokerMember,
    SimGroupMember,
    SimMember,
    SimProducer,
    SimTransactionalProducer,
    make_admin,
    watch_offsets,
)
from kafka_zk.sim.world.history import Began, Found, History, Lifted, Sent
from kafka_zk.sim.world.world import SimBroker, World
from kafka_zk.sim.zookeeper.client import SimClient
from kafka_zk.sim.zookeeper.server import ServerBackup

READ_MS = 20_000
"""Maximum time in which the judges read a partition."""
ADMIN_MS = 3_000
"""Maximum time for a broker's response to an admin client."""
_TOOL_SESSION_MS = 600_000
_BROKER = {
    **BROKER,
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


class StageError(Exception):
    """An action is impossible, or a condition did not become true in time. The message is one sentence."""


class Stage:
    """Use a stage inside ``with stage.world:``."""

    def __init__(self, seed: int) -> None:
        self.history = History()
        self.world = World(seed, self._observed)
        self.members: dict[str, SimGroupMember] = {}
        self.joined: Counter[str] = Counter()
        self.producers: dict[str, SimProducer] = {}
        self.backup: ServerBackup | None = None
        self.to_be_read: set[str] = set()
        self.logs: dict[TopicPartition, list[Found]] = {}
        self.committed: dict[TopicPartition, list[Found]] = {}
        self._reads_before = 0
        self._reads_allowed: int | None = None
        self._admin: Any = None
        self._tool: SimClient | None = None

    # -- names ----------------------------------------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        return [broker.name for broker in self.world.brokers.values()] + [*self.members, *self.producers]

    def broker(self, name: str) -> SimBroker:
        """Raises StageError if no broker has this name."""
        for broker in self.world.brokers.values():
            if broker.name == name:
                return broker
        raise StageError(f"no broker is called {name}; there are: {self._listed(self.world.brokers.values())}")

    def process(self, name: str) -> SimBroker | SimGroupMember:
        """Raises StageError if the name is unknown or a producer's."""
        if name in self.members:
            return self.members[name]
        if name in self.producers:
            raise StageError(f"{name} is a producer: only brokers and members can be paused or killed")
        if name not in self.names:
            raise StageError(f"unknown name {name}; there are: {', '.join(self.names) or 'none yet'}")
        return self.broker(name)

    def client(self, name: str) -> SimClient:
        """The ZooKeeper client of a broker or member. Raises StageError if it has no client."""
        client = self.process(name).client
        if client is None:
            raise StageError(f"{name} has no session with ZooKeeper")
        return client

    def member(self, name: str) -> SimGroupMember:
        """Raises StageError if no member has this name."""
        if name not in self.members:
            raise StageError(f"no member is called {name}; there are: {', '.join(self.members) or 'none yet'}")
        return self.members[name]

    @property
    def tool(self) -> SimClient:
        """The ZooKeeper client of an admin tool, with a long session."""
        if self._tool is None:
            self._tool = self.world.zookeeper.client("tool", session_timeout_ms=_TOOL_SESSION_MS)
        return self._tool

    @staticmethod
    def _listed(brokers: Any) -> str:
        return ", ".join(broker.name for broker in brokers) or "none yet"

    # -- actions --------------------------------------------------------------------------------------------------

    def start_brokers(self, count: int) -> None:
        """Start brokers in sequence, so that the first is the controller. Raises StageError."""
        if self.world.brokers:
            raise StageError("the brokers have already been started")
        if not 1 <= count <= 9:
            raise StageError(f"{count} brokers: must be 1 to 9")
        for number in range(1, count + 1):
            self.world.broker(number, **{key.replace(".", "_"): value for key, value in _BROKER.items()}).start()
            self.until(f"broker-{number} starts", lambda: all(each.is_started for each in self.world.brokers.values()))
        self.world.run_for(500)

    def create_topic(
        self, topic: str, partition_count: int, brokers: Sequence[str] = (), configs: Mapping[str, str] | None = None
    ) -> None:
        """``brokers``: the replicas of each partition, the preferred leader first; if empty, the cluster chooses."""
        replicas = [self.broker(broker).broker_id for broker in brokers]
        wanted = NewTopic(topic, partition_count, 1, configs or {})
        if replicas:
            assignment = dict.fromkeys(range(partition_count), replicas)
            wanted = NewTopic(topic, configs=configs or {}, assignment=assignment)
        self.wait_for(self.admin().create_topics([wanted]))
        partitions = [TopicPartition(topic, number) for number in range(partition_count)]
        watch_offsets(self.world, self.tool, partitions, self.history)

    def produce(self, name: str, tp: TopicPartition, values: list[str]) -> None:
        if name not in self.producers:
            self.producers[name] = SimProducer(self.world, name, list, self.history)
            self.producers[name].is_stopping = True  # the producer sends only the scenario's records
        for value in values:
            self.producers[name].send(tp, f"{name}:{value}")

    def transactional(self, name: str) -> SimTransactionalProducer:
        """The producer of this name, new if there is none. Raises StageError if it uses no transactions."""
        producer = self.producers.get(name)
        if producer is None:
            producer = self.producers[name] = SimTransactionalProducer(self.world, name, self.history)
            producer.is_stopping = True  # the producer sends only the scenario's records
        if not isinstance(producer, SimTransactionalProducer):
            raise StageError(f"{name} has sent records without a transaction before")
        return producer

    def join(self, name: str, make: Callable[[], SimGroupMember]) -> None:
        """Raises StageError if it is already a member."""
        if name in self.members and not self.members[name].is_over:
            raise StageError(f"{name} is already a member")
        if name in self.members:
            self.world.graves.append(self.members[name])
        self.joined[name] += 1
        self.members[name] = make()

    def admin(self) -> Any:
        if not self.world.brokers:
            raise StageError('there is no broker yet: "brokers 3" starts some')
        if self._admin is None:
            self._admin = make_admin(self.world, self.world.process("admin"), request_timeout_ms=ADMIN_MS)
        return self._admin

    # -- time -----------------------------------------------------------------------------------------------------

    def wait_for(self, work: Any, limit_ms: float = LIVENESS_MS) -> Any:
        """Raises StageError if ``work`` fails or is not done in time."""
        try:
            return self.world.run(work, limit_ms)
        except (KafkaError, RegistryError, Stuck) as error:
            raise StageError(str(error) or type(error).__name__) from None

    def until(self, what: str, condition: Callable[[], object], limit_ms: float = LIVENESS_MS) -> None:
        """Raises StageError after ``limit_ms``."""
        try:
            self.world.until(condition, limit_ms)
        except Stuck:
            raise StageError(f"did not happen within {limit_ms / 1000:g} s: {what}") from None

    # -- judges ---------------------------------------------------------------------------------------------------

    def allow_reads(self, count: int) -> None:
        self._reads_before, self._reads_allowed = self._reads_of_registrations(), count

    def _reads_of_registrations(self) -> int:
        ids = znodes.ids_path(GROUP)
        reads = self.world.zookeeper.reads
        return sum(count for path, count in reads.items() if path == ids or path.startswith(f"{ids}/"))

    def _too_many_reads(self) -> list[str]:
        if self._reads_allowed is None:
            return []
        made = self._reads_of_registrations() - self._reads_before
        if made <= self._reads_allowed:
            return []
        return [f"the group read registrations {made} times, although {self._reads_allowed} reads are enough"]

    def _ends(self) -> dict[TopicPartition, int]:
        """The ends of the partitions that must be read completely."""
        return {tp: found[-1].offset + 1 for tp, found in self.logs.items() if tp.topic in self.to_be_read and found}

    def violations(self) -> list[str]:
        """The judges' findings at this moment. Afterwards, ``logs`` has the records that the judges have read, and, if
        there were transactions, ``committed`` has those that readers of committed records get.
        """
        facts = self.history.facts
        logs = self.logs = {}
        self.committed = {}
        broken = []
        has_transactions = any(isinstance(fact, Began) for fact in facts)
        for tp in self._partitions():
            try:
                logs[tp] = self.world.run(self._read(tp), READ_MS)
                if has_transactions:
                    self.committed[tp] = self.world.run(self._read(tp, "read_committed"), READ_MS)
            except Stuck:
                broken.append(f"{tp} cannot be read: no broker serves it for {READ_MS / 1000:g} s")
            except KafkaError as error:
                broken.append(f"{tp} cannot be read: {error}")
        topics = {tp.topic for tp in logs}
        broken += judges.records(facts, logs, topics) + judges.seen(facts, logs, topics)
        broken += transactions.violations(facts, self.committed)
        broken += judges.controllers(facts) + judges.epochs(facts)
        broken += judges.group(facts, self._ends())
        broken += self._too_many_reads()
        broken += broker_group.generations(facts, BROKER_GROUP, [])
        return broken + [f"an error that nobody handled: {failure}" for failure in self.world.failures]

    def _partitions(self) -> list[TopicPartition]:
        tree = self.world.zookeeper.tree
        topics = tree.children(TOPICS)[0] if tree.exists(TOPICS) is not None else []
        written = {fact.tp for fact in self.history.facts if isinstance(fact, Sent)}
        return sorted(tp for tp in written if tp.topic in topics)

    async def _read(self, tp: TopicPartition, isolation_level: str = "read_uncommitted") -> list[Found]:
        process = self.world.process("reader")
        reader = Reader(
            process,
            connect=self.world.connect_from(process),
            bootstrap_servers=self.world.bootstrap,
            request_timeout_ms=READ_MS // 2,
            isolation_level=isolation_level,
        )
        try:
            ends = await reader.end_offsets([tp])
            reader.assign({tp: "earliest"})
            found: list[Found] = []
            async for records in reader.batches(ends):
                found += [Found(record.tp, record.offset, (record.value or b"").decode()) for record in records]
            return found
        finally:
            await reader.close()

    def _observed(self, event: Event) -> None:
        self.history.add(Lifted(self.world.now_ms, event.actor, event))


def zookeeper_member(stage: Stage, name: str, topic: str) -> SimMember:
    return SimMember(stage.world, name, topic, stage.history, stage.joined[name])


def broker_member(stage: Stage, name: str, topic: str) -> SimBrokerMember:
    return SimBrokerMember(stage.world, name, topic, stage.history, "range")

"""A run of transactions: in the world of replicated partitions, programs append and read in transactions; they are
killed, paused and replaced by successors. Then come peace, and the judges of transactions and of replication.

``play_transactional(seed)`` runs all of it. Tests: tests/sim/test_transactional.py.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from random import Random
from types import MappingProxyType
from typing import Any

from twisted.internet.defer import ensureDeferred

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.errors import ClientClosed, KafkaError, KafkaTimeoutError
from kafka_zk.clients.connection.waiting import sleep
from kafka_zk.clients.consumer.reader import Reader
from kafka_zk.clients.consumer.records import ConsumerRecord
from kafka_zk.clients.producer.errors import TransactionAbortable, TransactionAborted
from kafka_zk.clients.producer.producer import Producer
from kafka_zk.sim.campaign.plan import Fault
from kafka_zk.sim.campaign.run import FAULTS_MS, LIVENESS_MS, PATIENCE_MS, Outcome
from kafka_zk.sim.machine.process import Process
from kafka_zk.sim.world.clients import make_admin
from kafka_zk.sim.world.history import Found
from kafka_zk.sim.world.world import World
from tests.sim import transaction_judge
from tests.sim.replicated import BROKER, REPLICATION_FAULTS, TOPICS, ReplicatedRun, play_run
from tests.sim.transaction_judge import History, Observed, transactions_of

PROPERTIES: Mapping[str, str] = MappingProxyType({
    **BROKER,
    "log.flush.interval.messages": "1",
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "3",
})  # fmt: skip
TRANSACTED = "transacted"
TRANSACTED_PARTITIONS = 2
PRODUCERS = ("p1", "p2", "p3")
TIMEOUT_MS = 5_000
"""The timeout of a transaction."""
ABORTS = 0.25
SLEEPS_TOO_LONG = 0.03
HAPPENS_S = (3.0, 10.0)
"""Time between two faults of clients."""
PAUSES_S = (0.0, 0.0, 0.1, 0.4, 1.0)
"""Pauses between two transactions of a producer; transactions are most of a run's work."""
_COMMIT_TRIES_S = 20


class Life:
    """One life of a producer: transactions at random until it is stopped, fenced or killed. ``events`` is its journal,
    as ``transactions_of`` reads it."""

    def __init__(self, world: World, producer: str, number: int) -> None:
        self.name = f"{producer}-{number}"
        self.events: list[dict[str, Any]] = []
        self.is_over = self.is_stopping = False
        self.process: Process = world.process(self.name)
        self._world = world
        self._random = Random(f"{world.seed} {self.name} choices")
        self._numbers = 0
        options: dict[str, Any] = {"connect": world.connect_from(self.process)}
        self._admin = make_admin(world, self.process)
        options |= {"bootstrap_servers": world.bootstrap, "request_timeout_ms": 5_000}
        self._group = producer
        self._producer = Producer(
            self.process, clock=self.process, transactional_id=producer, transaction_timeout_ms=TIMEOUT_MS,
            delivery_timeout_ms=30_000, max_block_ms=_COMMIT_TRIES_S * 1000, **options,
        )  # fmt: skip
        self._reader = Reader(self.process, isolation_level="read_committed", auto_offset_reset="none", **options)
        self._tps = transacted()
        self.process.callLater(0, lambda: ensureDeferred(self._live()).addErrback(world.failed))

    def kill(self) -> None:
        self.is_over = True
        self.process.kill()
        self._world.network.killed(self.process)

    def _note(self, event: str, **fields: Any) -> None:
        self.events.append({"event": event, "at": now_ns(self._world), **fields})

    async def _live(self) -> None:
        try:
            begun_ns = now_ns(self._world)
            await self._until_known(self._producer.init_transactions)
            self._note("init", **{"from": begun_ns})
            found = await self._admin.groups.stable_offsets(self._group, self._tps)
            positions = {tp: max(offset, 0) for tp, offset in found.items()}
            self._reader.assign(positions)
            while not self.is_stopping:
                positions = await self._transaction(positions)
                await sleep(self.process, self._random.choice(PAUSES_S))
        except (KafkaError, ClientClosed) as error:
            self._note("failed", what=repr(error))
        self.kill()

    async def _until_known(self, ask: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                return await ask()
            except KafkaTimeoutError:
                self._note("again")

    async def _transaction(self, positions: dict[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Run one transaction. Returns the positions after it: the old ones if it was aborted."""
        self._note("begin")
        self._producer.begin_transaction()
        try:
            reached = await self._work(positions)
            if self._random.random() >= ABORTS:
                self._note("commit")
                await self._until_known(self._producer.commit_transaction)
                self._note("committed")
                return reached
        except (TransactionAbortable, TransactionAborted):
            pass
        await self._until_known(self._producer.abort_transaction)
        self._note("aborted")
        self._reader.assign(positions)
        return positions

    async def _work(self, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        polled = await self._reader.poll(100)
        reached = {tp: await self._reader.position(tp) for tp in self._tps}
        for tp, position in reached.items():
            if position > positions[tp]:
                records = [(each.offset, text(each)) for each in polled if each.tp == tp]
                self._note("read", partition=tp.partition, to=position, records=records, **{"from": positions[tp]})
        for _ in range(self._random.randint(1, 3)):
            await self._append(self._random.randint(1, 3))
            await sleep(self.process, self._random.choice((0.0, 0.01, 0.2)))
        if self._random.random() < SLEEPS_TOO_LONG:
            await sleep(self.process, TIMEOUT_MS / 1000 * self._random.uniform(1, 2))
        await self._until_known(lambda: self._producer.send_offsets(reached, self._group))
        return reached

    async def _append(self, count: int) -> None:
        sent = []
        for _ in range(count):
            self._numbers += 1
            tp, value = self._random.choice(self._tps), f"{self.name}:{self._numbers}"
            self._note("send", partition=tp.partition, value=value)
            sent.append((value, self._producer.send(tp.topic, value.encode(), partition=tp.partition)))
        try:
            for value, delivered in sent:
                self._note("acknowledged", value=value, offset=(await delivered).offset)
        finally:
            for _, delivered in sent:  # after a failure, the later ones are not awaited
                delivered.addErrback(lambda _: None)


def now_ns(world: World) -> int:
    return int(world.now_ms * 1e6)


def text(record: ConsumerRecord) -> str:
    assert record.value is not None
    return str(record.value.decode())


def transacted() -> list[TopicPartition]:
    return [TopicPartition(TRANSACTED, number) for number in range(TRANSACTED_PARTITIONS)]


class TransactionalRun(ReplicatedRun):
    """The state of a run; faults act on it as on a ``Run``."""

    topics = MappingProxyType({**TOPICS, TRANSACTED: {"min.insync.replicas": "2", "flush.messages": "1"}})
    properties = PROPERTIES
    send_every_s = (0.1, 0.8)  # runs of replicated partitions cover records outside of transactions
    sequences = (*ReplicatedRun.sequences, "unfinished-commits")

    def begin(self) -> None:
        super().begin()
        self._observed_records: list[Observed] = []
        self._lives: dict[str, list[Life]] = defaultdict(list)
        for producer in PRODUCERS:
            self._begin_life(producer)
        process = self.world.process("committed-reader")
        self._committed_reader = self._reader_in(process)
        self._committed_reader.assign(dict.fromkeys(transacted(), 0))
        self._observing = ensureDeferred(self._observe(process)).addErrback(self.world.failed)
        self.world.scheduler.clock.callLater(self.random.uniform(*HAPPENS_S), self._happen)

    def _reader_in(self, process: Process, isolation_level: str = "read_committed") -> Reader:
        return Reader(
            process, connect=self.world.connect_from(process), bootstrap_servers=self.world.bootstrap,
            isolation_level=isolation_level, auto_offset_reset="none", request_timeout_ms=5_000,
        )  # fmt: skip

    def _begin_life(self, producer: str) -> None:
        lives = self._lives[producer]
        lives.append(Life(self.world, producer, len(lives)))

    async def _observe(self, process: Process) -> None:
        while True:
            try:
                for record in await self._committed_reader.poll(200):
                    seen = Observed(record.partition, record.offset, text(record), now_ns(self.world))
                    self._observed_records.append(seen)
            except ClientClosed:
                return
            except KafkaError as error:
                self.note(f"the committed reader fails: {error}")
                await sleep(process, 0.5)

    def _happen(self) -> None:
        """Kill a client, or pause it while its successor works. A client that has ended is replaced by a successor."""
        if self._peaceful:
            return
        producer = self.random.choice(PRODUCERS)
        last = self._lives[producer][-1]
        what = self.random.choice(("kill", "pause", "nothing"))
        self.note(f"{what} {last.name}")
        if what == "pause" and not last.is_over:
            last.process.pause()
            self.world.scheduler.clock.callLater(self.random.uniform(0.5, 10), last.process.resume)
            self._begin_life(producer)
        elif what == "kill" and not last.is_over:
            last.kill()
        for each in PRODUCERS:
            if self._lives[each][-1].is_over:
                self._begin_life(each)
        self.world.scheduler.clock.callLater(self.random.uniform(*HAPPENS_S), self._happen)

    # -- peace ----------------------------------------------------------------------------------------------------

    def settle_replicas(self) -> dict[TopicPartition, list[Found]]:
        """End and judge all transactions; then settle as without them."""
        lives = [life for lives in self._lives.values() for life in lives]
        for life in lives:
            life.is_stopping = True
        self._within("a transaction does not end", lambda: all(life.is_over for life in lives))
        self._wait_for_full_isrs()
        for producer in PRODUCERS:
            self.world.run(self._end_transactions(producer), LIVENESS_MS)
        history = self._transactions()
        self.broken += transaction_judge.faults(history)
        self.note(transaction_judge.summary(history))
        return super().settle_replicas()

    async def _end_transactions(self, producer: str) -> None:
        """End open transactions as a successor would."""
        process = self.world.process(f"{producer}-last")
        last = Producer(
            process, connect=self.world.connect_from(process), clock=process, transactional_id=producer,
            bootstrap_servers=self.world.bootstrap,
        )  # fmt: skip
        await last.init_transactions()
        await last.close()

    def _transactions(self) -> History:
        """The judge's history. A transaction that stays open, or records that are not read, after LIVENESS_MS are
        violations.
        """
        world = self.world
        deadline_ms = world.now_ms + LIVENESS_MS
        while True:
            final, ends, stable = world.run(self._final(), LIVENESS_MS)
            count = sum(map(len, final.values()))
            if ends == stable and len(self._observed_records) == count:
                break
            if world.now_ms > deadline_ms:
                seen = len(self._observed_records)
                self.broken.append(f"last stable offsets {stable}, ends {ends}; {seen} of {count} records were read")
                break
            world.run_for(PATIENCE_MS)
        world.run(self._committed_reader.close(), LIVENESS_MS)
        world.run(self._observing, LIVENESS_MS)
        journals = {
            f"{producer}/{number}": life.events
            for producer, lives in self._lives.items()
            for number, life in enumerate(lives)
        }
        offsets = {
            producer: {
                tp.partition: offset
                for tp, offset in world.run(self._admin.groups.stable_offsets(producer, transacted())).items()
            }
            for producer in PRODUCERS
        }
        return History(transactions_of(journals), {"the reader": self._observed_records}, final, offsets)

    async def _final(self) -> tuple[dict[int, list[tuple[int, str]]], dict[Any, int], dict[Any, int]]:
        """The committed records, the ends of the partitions, and their last stable offsets."""
        process = self.world.process("last-reader")
        plain, reader = self._reader_in(process, "read_uncommitted"), self._reader_in(process)
        ends = await plain.end_offsets(transacted())
        stable = await reader.end_offsets(transacted())
        reader.assign(dict.fromkeys(transacted(), 0))
        final: dict[int, list[tuple[int, str]]] = {tp.partition: [] for tp in transacted()}
        async for records in reader.batches(stable):
            for record in records:
                if record.offset < stable[record.tp]:
                    final[record.partition].append((record.offset, text(record)))
        await plain.close()
        await reader.close()
        return final, ends, stable


def play_transactional(
    seed: int,
    plan: Sequence[Fault] | None = None,
    kinds: Iterable[str] = REPLICATION_FAULTS,
    faults_ms: int = FAULTS_MS,
) -> Outcome:
    """Play one run. ``plan``: faults instead of those that the seed draws from ``kinds``; peace comes after
    ``faults_ms``."""
    run = TransactionalRun(seed, plan, kinds)
    run.faults_ms = faults_ms
    return play_run(run)

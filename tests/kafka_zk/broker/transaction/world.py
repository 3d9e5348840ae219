"""Transactions in memory: coordinators that lose their lead without knowing it, a log that fails in every way, data
partitions that check markers against epochs, and producers of one transactional id that fence each other.

``faults`` judges the final state of the partitions and the log.
"""

import heapq
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count
from random import Random
from typing import Any, NamedTuple

from kafka_zk.base.types import TopicPartition
from kafka_zk.broker.coordinator.replies import Reply
from kafka_zk.broker.transaction.metadata import TransactionMetadata
from kafka_zk.broker.transaction.requests import Answer, Append, ProducerIdAndEpoch, Result, SendMarkers
from kafka_zk.broker.transaction.states import TransactionState
from kafka_zk.broker.transaction.transaction import Transaction
from kafka_zk.protocol.errors import ErrorCode

TIMEOUT_MS = 2_000
TPS = [TopicPartition("t", number) for number in range(4)]
ID = "x"
NONE, AGAIN = ErrorCode.NONE, ErrorCode.COORDINATOR_NOT_AVAILABLE
RETRIABLE = {AGAIN, ErrorCode.NOT_COORDINATOR, ErrorCode.CONCURRENT_TRANSACTIONS}


class Data(NamedTuple):
    """A record of a transaction, written by the producer ``client``."""

    producer_id: int
    epoch: int
    tag: int


class Marker(NamedTuple):
    """The end marker of a transaction."""

    producer_id: int
    epoch: int
    coordinator_epoch: int
    commit: bool


class DataPartition:
    """A leader of data, with Kafka's producer state."""

    def __init__(self) -> None:
        self.log: list[Data | Marker] = []
        self.epochs: dict[int, int] = {}
        self.coordinator_epochs: dict[int, int] = {}
        self.open: set[int] = set()

    def write(self, data: Data) -> ErrorCode:
        if data.epoch < self.epochs.get(data.producer_id, -1):
            return ErrorCode.INVALID_PRODUCER_EPOCH
        self.epochs[data.producer_id] = data.epoch
        self.open.add(data.producer_id)
        self.log.append(data)
        return NONE

    def mark(self, marker: Marker) -> ErrorCode:
        if marker.epoch < self.epochs.get(marker.producer_id, -1):
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if marker.coordinator_epoch < self.coordinator_epochs.get(marker.producer_id, -1):
            return ErrorCode.TRANSACTION_COORDINATOR_FENCED
        self.epochs[marker.producer_id] = marker.epoch
        self.coordinator_epochs[marker.producer_id] = marker.coordinator_epoch
        self.open.discard(marker.producer_id)
        self.log.append(marker)
        return NONE


class Coordinator:
    """The broker that led ``__transaction_state`` in one epoch. ``knows``: whether it believes that it still leads."""

    def __init__(self, world: "World", epoch: int) -> None:
        self.world = world
        self.epoch = epoch
        self.knows = True
        self.transaction: Transaction | None = None
        if world.log:
            self.transaction = world.transaction_of(ID, world.log[-1])
            self.carry_out(self.transaction.complete_prepared(world.now_ms))

    def ask(self, reply: Reply, what: Callable[[Transaction], Iterable[Any]]) -> None:
        if not self.knows:
            self.world.answer(reply, Result(ErrorCode.NOT_COORDINATOR))
        elif self.transaction is None:
            self.world.answer(reply, Result(ErrorCode.INVALID_PRODUCER_ID_MAPPING))
        else:
            self.carry_out(what(self.transaction))

    def init(self, reply: Reply, expected: ProducerIdAndEpoch | None) -> None:
        world = self.world
        if self.knows and self.transaction is None:
            self.transaction = world.new_transaction(ID, next(world.producer_ids), TIMEOUT_MS, world.now_ms)
        new_id = next(world.producer_ids)
        self.ask(reply, lambda each: each.init_producer_id(reply, TIMEOUT_MS, expected, new_id, world.now_ms))

    def tick(self) -> None:
        if self.knows and self.transaction is not None:
            self.carry_out(self.transaction.time_out(self.world.now_ms))

    def carry_out(self, effects: Iterable[Any]) -> None:
        for effect in effects:
            match effect:
                case Answer(reply, result):
                    if reply is not None:
                        self.world.answer(reply, result)
                case Append(metadata, is_retry):
                    self.world.after(100 if is_retry else 0, partial(self.world.append, self, metadata))
                case SendMarkers(producer, commit, tps):
                    for tp in sorted(tps):
                        marker = Marker(*producer, self.epoch, commit)
                        self.world.later(partial(self.send, tp, marker))

    def appended(self, error: ErrorCode) -> None:
        if self.knows and self.transaction is not None:
            self.carry_out(self.transaction.appended(error, self.world.now_ms))

    def send(self, tp: TopicPartition, marker: Marker) -> None:
        """Send one marker, and repeat it until it is written or fenced."""
        world = self.world
        if not self.knows:
            return
        if world.happens():
            world.later(lambda: self.send(tp, marker))  # the partition has another leader
            return
        code = world.partitions[tp].mark(marker)
        if world.happens():
            world.later(lambda: self.send(tp, marker))  # the answer was lost
        elif code is NONE:
            world.later(lambda: self.marked(tp))

    def marked(self, tp: TopicPartition) -> None:
        if self.knows and self.transaction is not None:
            self.carry_out(self.transaction.markers_written([tp], self.world.now_ms))


class Client:
    """A producer that runs one transaction after the other until it is fenced."""

    def __init__(self, world: "World", number: int) -> None:
        self.world = world
        self.number = number
        self.producer: ProducerIdAndEpoch | None = None
        self.phase = "init"
        self.expected: ProducerIdAndEpoch | None = None
        self.tag = -1
        self.tps: list[TopicPartition] = []
        self.to_add: list[list[TopicPartition]] = []  # one request each
        self.commit = False
        self.is_unsure = self.has_failed = False
        self.waits: Reply | None = None
        self.stops = False

    def step(self) -> None:
        """Take the next step, unless a response is pending."""
        world = self.world
        if self.waits is not None or self.phase == "dead":
            return
        if self.phase == "ready":
            if self.stops:
                return
            self.tag = next(world.tags)
            self.is_unsure = self.has_failed = False
            world.owner[self.tag] = self.number
            self.tps = world.random.sample(TPS, world.random.randint(1, 3))
            some = world.random.randint(1, len(self.tps))
            self.to_add = [each for each in (self.tps[:some], self.tps[some:]) if each]
            self.phase = "add"
        if self.phase == "write":
            self.write()
            return
        reply = self.waits = world.begin(self)
        coordinator = world.known_coordinator()
        now, producer = world.now_ms, self.producer
        if self.phase == "init":
            world.later(lambda: coordinator.init(reply, self.expected))
        elif self.phase == "add":
            assert producer is not None
            tps = frozenset(self.to_add[0])
            world.later(lambda: coordinator.ask(reply, lambda each: each.add_partitions(reply, producer, tps, now)))
        else:
            assert producer is not None
            world.later(
                lambda: coordinator.ask(reply, lambda each: each.end(reply, producer, world.now_ms, commit=self.commit))
            )

    def write(self) -> None:
        """Write to each partition that was added last; a write may still be in flight when the transaction ends."""
        world = self.world
        assert self.producer is not None
        data = Data(*self.producer, self.tag)
        for tp in self.to_add.pop(0):
            world.written.setdefault(self.tag, set()).add(tp)
            if world.happens():
                world.later(partial(world.produce, tp, data))  # the write comes late, and its response is ignored
                self.is_unsure = True
            elif world.produce(tp, data) is not NONE:
                self.has_failed = True
        if self.to_add and not self.has_failed:
            self.phase = "add"
            return
        self.commit = not (self.has_failed or self.is_unsure) and world.random.random() < 0.7
        self.phase = "end"
        if not self.commit and world.happens():
            self.expected, self.phase = self.producer, "init"  # KIP-360: after an error, continue with the next epoch

    def answered(self, result: Result) -> None:
        self.waits = None
        world = self.world
        if result.error in RETRIABLE:
            return
        if result.error is not NONE:
            self.phase = "dead"
        elif self.phase == "init":
            world.inits.append((self.number, result.producer, self.expected, len(world.log)))
            self.producer, self.expected, self.phase = result.producer, None, "ready"
        elif self.phase == "add":
            self.phase = "write"
        elif self.phase == "end":
            world.told[self.tag] = self.commit
            self.phase = "ready"
            if self.is_unsure:  # a write may still arrive, so continue with the next epoch, as clients do
                self.expected, self.phase = self.producer, "init"


class World:
    """See the module's docstring. ``trouble``: the probability of each fault, at each opportunity."""

    new_transaction = staticmethod(Transaction.new)
    transaction_of: Callable[[str, TransactionMetadata], Transaction] = Transaction

    def __init__(self, seed: int, trouble: float = 0.15) -> None:
        self.random = Random(seed)
        self.trouble = trouble
        self.now_ms = 1_000
        self.log: list[TransactionMetadata] = []
        self.acked = 0  # this many records of the log are never lost
        self.partitions = {tp: DataPartition() for tp in TPS}
        self.producer_ids, self.tags, self._replies, self._order = count(100), count(), count(), count()
        self._events: list[tuple[int, int, Callable[[], object]]] = []
        self._waiting: dict[Reply, Client] = {}
        self.owner: dict[int, int] = {}
        self.written: dict[int, set[TopicPartition]] = {}
        self.told: dict[int, bool] = {}
        self.inits: list[tuple[int, ProducerIdAndEpoch, ProducerIdAndEpoch | None, int]] = []
        self.epoch = 0
        self.coordinators = [Coordinator(self, 0)]
        self.clients: list[Client] = []

    # -- time and chance ----------------------------------------------------------------------------------------------

    def happens(self) -> bool:
        return self.random.random() < self.trouble

    def after(self, delay_ms: int, call: Callable[[], object]) -> None:
        heapq.heappush(self._events, (self.now_ms + delay_ms, next(self._order), call))

    def later(self, call: Callable[[], object]) -> None:
        self.after(self.random.choice((0, 1, 5, 30, 300) if self.trouble else (0, 1)), call)

    def run(self, duration_ms: int) -> None:
        end_ms = self.now_ms + duration_ms
        while self.now_ms < end_ms:
            while self._events and self._events[0][0] <= self.now_ms:
                heapq.heappop(self._events)[2]()
            for client in self.clients:
                client.step()
            for coordinator in self.coordinators[-2:]:
                coordinator.tick()
            self.now_ms += 10

    # -- requests -----------------------------------------------------------------------------------------------------

    def begin(self, client: Client) -> Reply:
        reply = Reply(next(self._replies))
        self._waiting[reply] = client
        self.after(3_000, lambda: self.answer(reply, Result(AGAIN)))  # no response came
        return reply

    def answer(self, reply: Reply, result: Result) -> None:
        client = self._waiting.pop(reply, None)
        if client is not None:
            client.answered(Result(AGAIN) if self.happens() else result)  # or the answer is lost

    def known_coordinator(self) -> Coordinator:
        return self.random.choice(self.coordinators[-2:]) if self.happens() else self.coordinators[-1]

    def produce(self, tp: TopicPartition, data: Data) -> ErrorCode:
        """Without an open transaction the leader asks the coordinator first (KIP-890)."""
        partition = self.partitions[tp]
        if data.producer_id not in partition.open:
            transaction = self.coordinators[-1].transaction
            if transaction is None:
                return ErrorCode.NOT_COORDINATOR
            code = transaction.verify(ProducerIdAndEpoch(data.producer_id, data.epoch), [tp]).get(tp, NONE)
            if code is not NONE:
                return code
        return partition.write(data)

    # -- the coordinator's log ----------------------------------------------------------------------------------------

    def append(self, coordinator: Coordinator, metadata: TransactionMetadata) -> None:
        if coordinator.epoch < self.epoch:
            coordinator.appended(ErrorCode.NOT_COORDINATOR)
        elif self.happens():
            if self.happens():
                self.log.append(metadata)  # the acknowledgement comes too late
            self.later(lambda: coordinator.appended(AGAIN))
        else:
            self.log.append(metadata)
            size = len(self.log)
            self.later(lambda: self.committed(coordinator, size))

    def committed(self, coordinator: Coordinator, size: int) -> None:
        if coordinator.epoch < self.epoch:
            coordinator.appended(ErrorCode.NOT_COORDINATOR)
            return
        self.acked = max(self.acked, size)
        coordinator.appended(NONE)

    def move(self) -> None:
        """Another broker leads the log; records that were not acknowledged may be lost. The old leader may not know."""
        for coordinator in self.coordinators[:-1]:
            coordinator.knows = False
        old = self.coordinators[-1]
        old.knows = self.happens()
        del self.log[self.random.randint(self.acked, len(self.log)) :]
        self.acked = len(self.log)
        self.epoch += 1
        self.coordinators.append(Coordinator(self, self.epoch))

    # -- invariants ---------------------------------------------------------------------------------------------------

    def faults(self) -> list[str]:
        """The violated invariants, when no request is in progress any more."""
        outcomes: dict[int, dict[TopicPartition, bool | None]] = {}
        for tp, partition in self.partitions.items():
            for tag, outcome in _outcomes(partition.log):
                outcomes.setdefault(tag, {})[tp] = outcome
        found = []
        for tag, of_tag in outcomes.items():
            if None in of_tag.values():
                found.append(f"transaction {tag} is still open")
            elif len(set(of_tag.values())) > 1:
                found.append(f"transaction {tag} is torn: {of_tag}")
            elif tag in self.told and {self.told[tag]} != set(of_tag.values()):
                found.append(f"transaction {tag}: its producer was told {self.told[tag]}, its partitions {of_tag}")
        found += [
            f"transaction {tag} was committed, and {self.written[tag] - of_tag.keys()} have nothing of it"
            for tag, of_tag in outcomes.items()
            if self.told.get(tag) and self.written[tag] - of_tag.keys()
        ]
        last = self.coordinators[-1].transaction
        if last is not None and last.metadata.state.value.startswith("Prepare"):
            found.append("a prepared transaction does not complete")
        return found + self._fencing_faults()

    def _fencing_faults(self) -> list[str]:
        """Once a producer has received its id, no transaction of an earlier producer is committed, and no earlier
        producer continues."""
        found = []
        for position, (number, producer, expected, size) in enumerate(self.inits):
            found += [
                f"{metadata[:2]} commits though {producer} has begun"
                for metadata in self.log[size:]
                if metadata.state is TransactionState.PREPARE_COMMIT and metadata[:2] < producer
            ]
            found += [
                f"{expected} goes on as {producer} though {other} has begun"
                for who, other, _, _ in self.inits[:position]
                if expected is not None and who != number and other > expected
            ]
        return found


def _outcomes(log: list[Data | Marker]) -> Iterable[tuple[int, bool | None]]:
    open_tags: dict[int, set[int]] = {}
    for record in log:
        if isinstance(record, Data):
            open_tags.setdefault(record.producer_id, set()).add(record.tag)
        else:
            for tag in open_tags.pop(record.producer_id, ()):
                yield tag, record.commit
    for tags in open_tags.values():
        for tag in tags:
            yield tag, None

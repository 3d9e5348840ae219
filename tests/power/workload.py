"""Clients that write to all topics until they are stopped, and store the sent and the acknowledged records."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import confluent_kafka

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.errors import KafkaError, KafkaTimeoutError
from kafka_zk.clients.producer.blocking import BlockingProducer
from tests.power.history import Acknowledged, History, Record, Topic, Transaction
from tests.power.topics import GROUP, RETENTION_MS, TIMED, TRANSACTIONAL_GROUP, TRANSACTIONAL_ID

_FLUSH_S = 120
_SETTLE_S = 60
_QUEUED = 5_000
_HOT_KEYS = 20
_SIZES = (10, 100, 600)
_QUIET = {"log_level": 2}
"""librdkafka writes its log to stderr, but lost connections are intended here."""


class ClientFailed(Exception):
    """A client got an error that it could not retry."""


class _Client(threading.Thread):
    """Repeats ``step`` until it is stopped; between two steps it can be held."""

    def __init__(self, history: History, seed: int) -> None:
        super().__init__(daemon=True)
        self.history = history
        self.random = random.Random(seed)
        self.turn = threading.Lock()
        self.failure: BaseException | None = None
        self._ended = threading.Event()

    def run(self) -> None:
        try:
            while not self._ended.is_set():
                with self.turn:
                    self.step()
                self._ended.wait(self.pause_s())
        except BaseException as error:  # shown by Workload.check
            self.failure = error

    def end(self) -> None:
        self._ended.set()

    def step(self) -> None:
        raise NotImplementedError

    def pause_s(self) -> float:
        raise NotImplementedError

    def settle(self) -> None:
        """Wait until all requests have their responses."""

    def close(self) -> None:
        """Release the client's connections, without waiting."""

    def next_record(self, topic: str, number: int) -> Record:
        """Half of the keys recur, and half are used only once; each value is unique."""
        hot = self.random.random() < 0.5
        key = b"hot-%d" % self.random.randrange(_HOT_KEYS) if hot else b"once-%d" % number
        if hot and self.random.random() < 0.05:
            return Record(key, None)
        return Record(key, b"%s-%d-" % (topic.encode(), number) + b"x" * self.random.choice(_SIZES))


class Writer(_Client):
    """An idempotent producer that writes bursts to one topic after the other."""

    def __init__(self, bootstrap: str, history: History, seed: int, topics: Sequence[Topic], burst: int) -> None:
        super().__init__(history, seed)
        self.topics = list(topics)
        self._burst = burst
        self._numbers = 0
        self._begun_s = time.time()
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": bootstrap, "acks": "all", "enable.idempotence": True, "linger.ms": 2,
             "batch.num.messages": 50, "message.timeout.ms": _FLUSH_S * 1000, **_QUIET}
        )  # fmt: skip

    def pause_s(self) -> float:
        return self.random.uniform(0, 0.06)

    def step(self) -> None:
        if len(self._producer) > _QUEUED:
            self._producer.poll(0.05)
            return
        topic = self.random.choice(self.topics).name
        for _ in range(self.random.choice((1, self._burst // 10, self._burst))):
            self._numbers += 1
            record = self.next_record(topic, self._numbers)
            self.history.sent[topic].add(record)
            self._producer.produce(
                topic, record.value, record.key, partition=0, on_delivery=self._delivered(record),
                timestamp=self._timestamp_ms() if topic == TIMED else 0,
            )  # fmt: skip
        self._producer.poll(0)

    def _timestamp_ms(self) -> int:
        """Records of the first second expire within the run. Those of the tenth second expire after minutes, when a cut
        is judged.
        """
        age_s = time.time() - self._begun_s
        return int((self._begun_s + 3 + 20 * age_s) * 1000) - RETENTION_MS

    def _delivered(self, record: Record) -> Any:
        def note(error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
            offset = message.offset()
            if error is None and offset is not None:
                self.history.acknowledged[str(message.topic())].append(Acknowledged(offset, record))
            elif error is not None and error.fatal():
                self.failure = ClientFailed(f"{message.topic()}: {error}")

        return note

    def settle(self) -> None:
        self._producer.flush(_FLUSH_S)


class TransactionWriter(_Client):
    """Transactions over all transactional topics, each with the offsets of a group; one in five is aborted.

    The producer is ours: those of librdkafka 2.16 and kafka-python 3.0 wait half a minute and longer to send offsets to
    a coordinator that has left the cluster.
    """

    def __init__(self, bootstrap: str, history: History, seed: int, topics: Sequence[Topic]) -> None:
        super().__init__(history, seed)
        self._names = [topic.name for topic in topics]
        self._number = -1
        self._producer = BlockingProducer(
            bootstrap_servers=bootstrap, transactional_id=TRANSACTIONAL_ID, transaction_timeout_ms=600_000,
            delivery_timeout_ms=_FLUSH_S * 1000, max_block_ms=_FLUSH_S * 1000, request_timeout_ms=5_000,
            retry_backoff_ms=50,
        )  # fmt: skip
        self._producer.init_transactions()

    def pause_s(self) -> float:
        return self.random.uniform(0, 0.03)

    def step(self) -> None:
        self._number += 1
        transaction = Transaction(self._number, {name: [] for name in self._names})
        is_aborted = self.random.random() < 0.2
        try:
            self._producer.begin_transaction()
            self._send(transaction)
            if is_aborted:
                self.history.aborted.append(transaction)
                self._producer.abort_transaction()
            else:
                self.history.asked.append(self._number)
                self._producer.commit_transaction()
                self.history.committed.append(transaction)
        except KafkaTimeoutError:  # no power cut explains a wait of two minutes
            raise
        except KafkaError:
            if not is_aborted:
                self.history.unknown.append(transaction)
            self._producer.abort_transaction()

    def _send(self, transaction: Transaction) -> None:
        sent = []
        for count in range(self.random.randint(1, 20)):
            name = self.random.choice(self._names)
            record = Record(b"key-%d" % count, b"%s-%d-%d" % (name.encode(), self._number, count))
            self.history.sent[name].add(record)
            sent.append((name, record, self._producer.send(name, record.value, record.key, partition=0)))
        self._producer.flush(_FLUSH_S)
        for name, record, future in sent:
            offset = future.result(0).offset
            transaction.offsets[name].append(offset)
            self.history.acknowledged[name].append(Acknowledged(offset, record))
        offsets = {TopicPartition(name, 0): self._number + 1 for name in self._names}
        self._producer.send_offsets(offsets, TRANSACTIONAL_GROUP)

    def close(self) -> None:
        self._producer.close(0)


class Committer(_Client):
    """Commits, for a group, the offset after the last acknowledged record of each topic."""

    def __init__(self, bootstrap: str, history: History, seed: int) -> None:
        super().__init__(history, seed)
        self._consumer = confluent_kafka.Consumer(
            {"bootstrap.servers": bootstrap, "group.id": GROUP, "enable.auto.commit": False, **_QUIET}
        )

    def pause_s(self) -> float:
        return self.random.uniform(0, 0.03)

    def step(self) -> None:
        with suppress(confluent_kafka.KafkaException):  # the coordinator moves: librdkafka does not repeat a commit
            self._commit()

    def settle(self) -> None:
        deadline_s = time.monotonic() + _SETTLE_S
        while True:
            try:
                self._commit()
                return
            except confluent_kafka.KafkaException as error:
                if time.monotonic() > deadline_s:
                    raise ClientFailed(f"no commit within {_SETTLE_S} s: {error}") from error

    def _commit(self) -> None:
        ends = {
            topic: max(each.offset for each in acknowledged[-200:]) + 1
            for topic, acknowledged in list(self.history.acknowledged.items())
            if acknowledged
        }
        if not ends:
            return
        before = self.history.commits_asked[-1] if self.history.commits_asked else {}
        ends = {topic: max(end, before.get(topic, 0)) for topic, end in ends.items()}
        self.history.commits_asked.append(ends)
        positions = [confluent_kafka.TopicPartition(topic, 0, offset) for topic, offset in ends.items()]
        self._consumer.commit(offsets=positions, asynchronous=False)
        self.history.commits.append(ends)


class Workload:
    """All clients of a cluster; ``history`` is their knowledge."""

    def __init__(self, bootstrap: str, topics: Sequence[Topic], seed: int) -> None:
        self.history = History()
        for topic in topics:
            self.history.add(topic)
        plain = [topic for topic in topics if not topic.transactional]
        flushed = [topic for topic in plain if topic.config.get("flush.messages") == "1"]
        loose = [topic for topic in plain if topic not in flushed]
        transactional = [topic for topic in topics if topic.transactional]
        self.flushing = Writer(bootstrap, self.history, seed, flushed, burst=20) if flushed else None
        self._clients: list[_Client] = [Committer(bootstrap, self.history, seed + 3)]
        if self.flushing:
            self._clients.append(self.flushing)
        if loose:
            self._clients.append(Writer(bootstrap, self.history, seed + 1, loose, burst=400))
        if transactional:
            self._clients.append(TransactionWriter(bootstrap, self.history, seed + 2, transactional))

    def start(self) -> None:
        for client in self._clients:
            client.start()

    def add(self, topic: Topic) -> None:
        """Write also to a new topic that is flushed."""
        assert self.flushing is not None
        self.history.add(topic)
        self.flushing.topics.append(topic)

    def check(self) -> None:
        """Raises: ClientFailed if a client has stopped because of an error."""
        for client in self._clients:
            if client.failure is not None:
                raise ClientFailed(f"{type(client).__name__}: {client.failure}") from client.failure

    def hold(self) -> None:
        """Let each client finish its step, and wait until all requests have their responses. Raises: ClientFailed."""
        for client in self._clients:
            client.turn.acquire()
        for client in self._clients:
            client.settle()
        self.check()

    def release(self) -> None:
        for client in self._clients:
            client.turn.release()

    def abandon(self) -> None:
        """End all clients whose cluster may be gone; their pending requests do not matter."""
        for client in self._clients:
            client.end()
            with suppress(KafkaError):
                client.close()

    def end(self) -> None:
        """End all clients after their step. Raises: ClientFailed."""
        for client in self._clients:
            client.end()
        for client in self._clients:
            client.join(_FLUSH_S)
            client.settle()
            client.close()
        self.check()

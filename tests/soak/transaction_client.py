"""A program with transactions that writes a journal: it reads all partitions, appends to some, and ends.

``python -m tests.soak.transaction_client LIBRARY BOOTSTRAP TOPIC PARTITIONS PRODUCER SEED JOURNAL``: LIBRARY is
``ours`` or ``librdkafka``; PRODUCER is its transactional.id, and the group whose offsets its transactions commit. It
ends at the end of its input, or when it is fenced. Each line of the journal is written immediately before or after the
action that it describes, so that a killed client leaves its history.
"""

import json
import os
import random
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn, Protocol

import confluent_kafka
from confluent_kafka import KafkaException

from kafka_zk.base.clock import monotonic_s
from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.admin.blocking_admin import BlockingAdmin
from kafka_zk.clients.connection.errors import KafkaError, KafkaTimeoutError
from kafka_zk.clients.consumer.blocking_reader import BlockingReader
from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.clients.producer.errors import TransactionFatal
from kafka_zk.clients.producer.future import RecordFuture

TIMEOUTS_MS = (4_000, 15_000)
"""Transaction timeouts, for alternate processes of a program."""
_SOCKET_TIMEOUT_MS = 4_000
_ABORTS = 0.25
_SLEEPS = 0.3
_SLEEPS_TOO_LONG = 0.02
_CALL_S = 30


class Read(NamedTuple):
    partition: int
    offset: int
    value: str


class Acknowledgement(NamedTuple):
    offset: int
    value: str


class Abort(Exception):
    """The transaction can only be aborted."""


class Again(Exception):
    """The outcome is unknown; the caller should repeat the request."""


class Client(Protocol):
    """The operations of a library. Raises: Abort; Again; any other error ends this client."""

    def init(self) -> None: ...
    def committed(self) -> dict[int, int]: ...
    def seek(self, positions: Mapping[int, int]) -> None: ...
    def poll(self) -> list[Read]: ...
    def positions(self) -> dict[int, int]: ...
    def begin(self) -> None: ...
    def send(self, partition: int, value: str) -> None: ...
    def flush(self) -> list[Acknowledgement]: ...
    def send_offsets(self, positions: Mapping[int, int]) -> None: ...
    def commit(self) -> None: ...
    def abort(self) -> None: ...


class Ours:
    """kafka-zk's own clients."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, producer: str, timeout_ms: int) -> None:
        self._topic, self._group = topic, producer
        self._tps = [TopicPartition(topic, number) for number in range(partitions)]
        quick: dict[str, Any] = {"bootstrap_servers": bootstrap, "retry_backoff_ms": 50, "request_timeout_ms": 5_000}
        self._producer = BlockingProducer(
            **quick, transactional_id=producer, transaction_timeout_ms=timeout_ms, delivery_timeout_ms=60_000,
            max_block_ms=_CALL_S * 1000,
        )  # fmt: skip
        self._admin = BlockingAdmin(**quick)
        self._reader = BlockingReader(
            **quick, isolation_level="read_committed", auto_offset_reset="none", fetch_max_wait_ms=50
        )
        self._sent: list[tuple[str, RecordFuture]] = []

    def init(self) -> None:
        self._call(self._producer.init_transactions)

    def committed(self) -> dict[int, int]:
        found = self._call(self._admin.groups.stable_offsets, self._group, self._tps)
        return {tp.partition: max(found.get(tp, 0), 0) for tp in self._tps}

    def seek(self, positions: Mapping[int, int]) -> None:
        self._reader.assign({tp: positions[tp.partition] for tp in self._tps})

    def poll(self) -> list[Read]:
        return [Read(each.partition, each.offset, each.value.decode()) for each in self._reader.poll(100)]

    def positions(self) -> dict[int, int]:
        return {tp.partition: self._reader.position(tp) for tp in self._tps}

    def begin(self) -> None:
        self._sent.clear()
        self._call(self._producer.begin_transaction)

    def send(self, partition: int, value: str) -> None:
        sent = self._call(self._producer.send, self._topic, value.encode(), partition=partition)
        self._sent.append((value, sent))

    def flush(self) -> list[Acknowledgement]:
        self._call(self._producer.flush, _CALL_S)
        return [Acknowledgement(self._call(future.result, 0).offset, value) for value, future in self._sent]

    def send_offsets(self, positions: Mapping[int, int]) -> None:
        self._call(self._producer.send_offsets, {tp: positions[tp.partition] for tp in self._tps}, self._group)

    def commit(self) -> None:
        self._call(self._producer.commit_transaction)

    def abort(self) -> None:
        self._call(self._producer.abort_transaction)

    @staticmethod
    def _call(function: Any, *arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except TransactionFatal:
            raise
        except KafkaTimeoutError as error:
            raise Again(repr(error)) from error
        except KafkaError as error:  # also raised for a record that was not written
            raise Abort(repr(error)) from error


class Librdkafka:
    """confluent-kafka."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, producer: str, timeout_ms: int) -> None:
        self._topic, self._partitions = topic, range(partitions)
        quick: dict[str, str | int | float | bool] = {
            "bootstrap.servers": bootstrap, "log_level": 0, "socket.timeout.ms": _SOCKET_TIMEOUT_MS,
            "retry.backoff.ms": 50, "topic.metadata.refresh.interval.ms": 300,
        }  # fmt: skip
        self._producer = confluent_kafka.Producer({
            **quick, "transactional.id": producer, "transaction.timeout.ms": timeout_ms, "linger.ms": 0,
        })  # fmt: skip
        self._consumer = confluent_kafka.Consumer({
            **quick, "group.id": producer, "isolation.level": "read_committed", "enable.auto.commit": False,
            "auto.offset.reset": "error", "fetch.wait.max.ms": 50,
        })  # fmt: skip
        self._positions: dict[int, int] = {}
        self._acknowledged: list[Acknowledgement] = []

    def init(self) -> None:
        self._call(self._producer.init_transactions, _CALL_S)

    def committed(self) -> dict[int, int]:
        found = self._call(self._consumer.committed, self._tps(), timeout=_CALL_S)
        if failed := [each.error for each in found if each.error is not None]:
            raise Again(str(failed[0]))
        return {each.partition: max(each.offset, 0) for each in found}

    def seek(self, positions: Mapping[int, int]) -> None:
        self._positions = dict(positions)
        self._consumer.assign(self._tps(positions))

    def poll(self) -> list[Read]:
        found = []
        for message in self._consumer.consume(500, 0.1):
            error, partition, offset = message.error(), message.partition(), message.offset()
            if error is None:
                assert partition is not None and offset is not None
                self._positions[partition] = offset + 1
                found.append(Read(partition, offset, (message.value() or b"").decode()))
            elif error.code() == confluent_kafka.KafkaError._AUTO_OFFSET_RESET:
                raise KafkaException(error)
        return found

    def positions(self) -> dict[int, int]:
        return dict(self._positions)

    def begin(self) -> None:
        self._acknowledged.clear()
        self._call(self._producer.begin_transaction)

    def send(self, partition: int, value: str) -> None:
        self._call(self._producer.produce, self._topic, value, partition=partition, on_delivery=self._delivered)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is None:
            offset = message.offset()
            self._acknowledged.append(Acknowledgement(-1 if offset is None else offset, message.value().decode()))

    def flush(self) -> list[Acknowledgement]:
        self._producer.flush(_CALL_S)
        return self._acknowledged

    def send_offsets(self, positions: Mapping[int, int]) -> None:
        group = self._consumer.consumer_group_metadata()
        stuck = threading.Timer(2 * _CALL_S, _die_in_librdkafka)
        stuck.daemon = True
        stuck.start()
        try:
            self._call(self._producer.send_offsets_to_transaction, self._tps(positions), group, _CALL_S)
        finally:
            stuck.cancel()

    def commit(self) -> None:
        self._call(self._producer.commit_transaction, _CALL_S)

    def abort(self) -> None:
        self._call(self._producer.abort_transaction, _CALL_S)

    def _tps(self, positions: Mapping[int, int] | None = None) -> list[Any]:
        offsets = positions or dict.fromkeys(self._partitions, -1001)
        return [confluent_kafka.TopicPartition(self._topic, number, offsets[number]) for number in self._partitions]

    @staticmethod
    def _call(function: Any, *arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except KafkaException as failure:
            error = failure.args[0]
            if error.txn_requires_abort() or error.code() == confluent_kafka.KafkaError._STATE:
                raise Abort(str(error)) from failure
            if error.retriable() and not error.fatal():
                raise Again(str(error)) from failure
            raise


def _die_in_librdkafka() -> None:
    """End the process if librdkafka hangs: whatever the time limit, it waits forever if its coordinator was missing
    from the metadata once (librdkafka issues 5456 and 5511; seen with 2.16.0)."""
    print("send_offsets_to_transaction does not return")
    sys.stdout.flush()
    os._exit(0)


LIBRARIES: Mapping[str, type[Ours] | type[Librdkafka]] = {"ours": Ours, "librdkafka": Librdkafka}


class Journal:
    """Lines of JSON; each is in the file when ``write`` returns."""

    def __init__(self, path: str) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def write(self, event: str, **fields: Any) -> None:
        line = json.dumps({"event": event, "at": now_ns(), **fields})
        os.write(self._descriptor, f"{line}\n".encode())


def now_ns() -> int:
    """The time of a clock that all processes of a machine share."""
    return int(monotonic_s() * 1e9)


class Worker:
    """Runs random transactions until the end is requested."""

    def __init__(self, client: Client, partitions: int, name: str, seed: int, journal: Journal) -> None:
        self._client, self._partitions, self._name, self._journal = client, partitions, name, journal
        self._random = random.Random(seed)
        self._ends = threading.Event()
        self._number = 0
        threading.Thread(target=self._wait_for_end, daemon=True).start()

    def _wait_for_end(self) -> None:
        sys.stdin.read()
        self._ends.set()

    def run(self) -> None:
        begun_ns = now_ns()
        self._until_known(self._client.init)
        self._journal.write("init", **{"from": begun_ns})
        positions = self._until_known(self._client.committed)
        self._client.seek(positions)
        while not self._ends.is_set():
            positions = self._transaction(positions)

    def _until_known(self, function: Any) -> Any:
        while True:
            try:
                return function()
            except Again as error:
                self._journal.write("again", what=str(error))
                if self._ends.is_set():
                    raise

    def _transaction(self, positions: dict[int, int]) -> dict[int, int]:
        """Run one transaction. Returns the positions that are now valid."""
        self._journal.write("begin")
        self._client.begin()
        try:
            reached = self._work(positions)
            if self._random.random() >= _ABORTS:
                self._journal.write("commit")
                self._until_known(self._client.commit)
                self._journal.write("committed")
                return reached
        except Abort as error:
            self._journal.write("failed", what=str(error))
        self._until_known(self._client.abort)
        self._journal.write("aborted")
        self._client.seek(positions)
        return positions

    def _work(self, positions: Mapping[int, int]) -> dict[int, int]:
        reached = self._read(positions)
        for _ in range(self._random.randint(1, 3)):
            self._append(self._random.randint(1, 5))
            if self._random.random() < _SLEEPS:
                self._ends.wait(self._random.uniform(0, 0.3))
        if self._random.random() < _SLEEPS_TOO_LONG:
            self._ends.wait(self._random.uniform(4, 6))
        self._until_known(lambda: self._client.send_offsets(reached))
        return reached

    def _read(self, positions: Mapping[int, int]) -> dict[int, int]:
        records = self._client.poll()
        reached = self._client.positions()
        for number in range(self._partitions):
            if reached[number] > positions[number]:
                given = [(each.offset, each.value) for each in records if each.partition == number]
                self._journal.write(
                    "read", partition=number, **{"from": positions[number]}, to=reached[number], records=given
                )
        return reached

    def _append(self, count: int) -> None:
        for _ in range(count):
            self._number += 1
            partition, value = self._random.randrange(self._partitions), f"{self._name}-{self._number}"
            self._journal.write("send", partition=partition, value=value)
            self._client.send(partition, value)
        for acknowledged in self._until_known(self._client.flush):
            self._journal.write("acknowledged", offset=acknowledged.offset, value=acknowledged.value)


def main(arguments: Sequence[str]) -> NoReturn:
    library, bootstrap, topic, partitions, producer, seed, path = arguments
    journal = Journal(path)
    name = f"{producer}-{seed}"
    timeout_ms = TIMEOUTS_MS[int(seed) % len(TIMEOUTS_MS)]
    client = LIBRARIES[library](bootstrap, topic, int(partitions), producer, timeout_ms)
    try:
        Worker(client, int(partitions), name, int(seed), journal).run()
    except (KafkaError, KafkaException, Abort, Again, SystemError) as error:  # confluent-kafka's error when fenced
        journal.write("failed", what=repr(error))
    os._exit(0)  # an open transaction stays open: the coordinator or a successor ends it


def command(
    library: str, bootstrap: str, topic: str, partitions: int, producer: str, seed: int, path: str
) -> list[str]:
    """The command that starts such a program."""
    words: Iterable[object] = (library, bootstrap, topic, partitions, producer, seed, path)
    return [sys.executable, "-m", __name__, *map(str, words)]


if __name__ == "__main__":
    main(sys.argv[1:])

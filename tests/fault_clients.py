"""Three foreign clients behind one small interface, so that one test can check how each of them reacts to a fault."""

import asyncio
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import aiokafka
import confluent_kafka
import kafka

TIMEOUT_S = 20


class Sent(NamedTuple):
    """The result that a producer gets for a record."""

    offset: int
    timestamp_ms: int


class Producer(Protocol):
    def send(self, topic: str, value: bytes) -> Sent:
        """Send a record and return when it is acknowledged. Raises the client's own errors."""

    def begin(self) -> None: ...

    def commit(self) -> None: ...


class Consumer(Protocol):
    def next_value(self) -> bytes: ...

    def commit(self) -> None:
        """Commit the position. Raises the client's own errors."""


class Client(NamedTuple):
    """``producer(bootstrap, client_id, idempotent=, transactional_id=)``, ``consumer(bootstrap, topic, group)``."""

    name: str
    producer: Callable[..., Any]
    consumer: Callable[..., Any]


# --- confluent-kafka --------------------------------------------------------------------------------------------------


class _ConfluentProducer:
    def __init__(self, producer: Any) -> None:
        self._producer = producer
        self.begin = producer.begin_transaction

    def send(self, topic: str, value: bytes) -> Sent:
        done: list[Any] = []
        self._producer.produce(topic, value, on_delivery=lambda error, message: done.append((error, message)))
        try:
            self._producer.flush(TIMEOUT_S)
        except SystemError as mixed_up:  # a fatal error was raised before the callback ran
            raise mixed_up.__cause__ or mixed_up from None
        error, message = done[0]
        if error is not None:
            raise confluent_kafka.KafkaException(error)
        return Sent(message.offset(), message.timestamp()[1])

    def commit(self) -> None:
        self._producer.commit_transaction(TIMEOUT_S)


@contextmanager
def _confluent_producer(
    bootstrap: str, client_id: str, *, idempotent: bool = False, transactional_id: str | None = None
) -> Iterator[Producer]:
    config: dict[str, Any] = {
        "bootstrap.servers": bootstrap, "client.id": client_id, "enable.idempotence": idempotent, "linger.ms": 0,
        "message.timeout.ms": TIMEOUT_S * 1000, "log_level": 0,
    }  # fmt: skip
    if transactional_id is not None:
        config |= {"transactional.id": transactional_id, "enable.idempotence": True}
    producer = confluent_kafka.Producer(config)
    if transactional_id is not None:
        producer.init_transactions(TIMEOUT_S)
    yield _ConfluentProducer(producer)
    producer.purge()


class _ConfluentConsumer:
    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer

    def next_value(self) -> bytes:
        message = self._consumer.poll(TIMEOUT_S)
        assert message is not None, "no record came"
        assert message.error() is None, message.error()
        value: bytes = message.value()
        return value

    def commit(self) -> None:
        self._consumer.commit(asynchronous=False)


@contextmanager
def _confluent_consumer(bootstrap: str, topic: str, group: str) -> Iterator[Consumer]:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap, "group.id": group, "enable.auto.commit": False, "log_level": 0,
            "auto.offset.reset": "earliest", "client.id": group,
        }
    )  # fmt: skip
    consumer.subscribe([topic])
    try:
        yield _ConfluentConsumer(consumer)
    finally:
        consumer.close()


# --- kafka-python -----------------------------------------------------------------------------------------------------


class _KafkaPythonProducer:
    def __init__(self, producer: Any) -> None:
        self._producer = producer
        self.begin = producer.begin_transaction
        self.commit = producer.commit_transaction

    def send(self, topic: str, value: bytes) -> Sent:
        told = self._producer.send(topic, value).get(timeout=TIMEOUT_S)
        return Sent(told.offset, told.timestamp)


@contextmanager
def _kafka_python_producer(
    bootstrap: str, client_id: str, *, idempotent: bool = False, transactional_id: str | None = None
) -> Iterator[Producer]:
    producer = kafka.KafkaProducer(
        bootstrap_servers=bootstrap, client_id=client_id, transactional_id=transactional_id, acks="all",
        enable_idempotence=idempotent or transactional_id is not None,
    )  # fmt: skip
    if transactional_id is not None:
        producer.init_transactions()
    try:
        yield _KafkaPythonProducer(producer)
    finally:
        producer.close(timeout=1)


class _KafkaPythonConsumer:
    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self.commit = consumer.commit

    def next_value(self) -> bytes:
        value: bytes = next(self._consumer).value
        return value


@contextmanager
def _kafka_python_consumer(bootstrap: str, topic: str, group: str) -> Iterator[Consumer]:
    consumer = kafka.KafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=group, client_id=group, auto_offset_reset="earliest",
        enable_auto_commit=False, consumer_timeout_ms=TIMEOUT_S * 1000,
    )  # fmt: skip
    try:
        yield _KafkaPythonConsumer(consumer)
    finally:
        consumer.close(timeout_ms=1000)


# --- aiokafka ---------------------------------------------------------------------------------------------------------


class _AioProducer:
    def __init__(self, runner: asyncio.Runner, producer: Any) -> None:
        self._runner = runner
        self._producer = producer

    def send(self, topic: str, value: bytes) -> Sent:
        told = self._runner.run(asyncio.wait_for(self._producer.send_and_wait(topic, value), TIMEOUT_S))
        return Sent(told.offset, told.timestamp)

    def begin(self) -> None:
        self._runner.run(self._producer.begin_transaction())

    def commit(self) -> None:
        self._runner.run(self._producer.commit_transaction())


@contextmanager
def _aio_producer(
    bootstrap: str, client_id: str, *, idempotent: bool = False, transactional_id: str | None = None
) -> Iterator[Producer]:
    with asyncio.Runner() as runner:

        async def start() -> Any:
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=bootstrap, client_id=client_id, transactional_id=transactional_id, acks="all",
                enable_idempotence=idempotent or transactional_id is not None,
            )  # fmt: skip
            await producer.start()
            return producer

        producer = runner.run(start())
        try:
            yield _AioProducer(runner, producer)
        finally:
            runner.run(producer.stop())


class _AioConsumer:
    def __init__(self, runner: asyncio.Runner, consumer: Any) -> None:
        self._runner = runner
        self._consumer = consumer

    def next_value(self) -> bytes:
        value: bytes = self._runner.run(asyncio.wait_for(self._consumer.getone(), TIMEOUT_S)).value
        return value

    def commit(self) -> None:
        self._runner.run(self._consumer.commit())


@contextmanager
def _aio_consumer(bootstrap: str, topic: str, group: str) -> Iterator[Consumer]:
    with asyncio.Runner() as runner:

        async def start() -> Any:
            consumer = aiokafka.AIOKafkaConsumer(
                topic, bootstrap_servers=bootstrap, group_id=group, client_id=group, auto_offset_reset="earliest",
                enable_auto_commit=False,
            )  # fmt: skip
            await consumer.start()
            return consumer

        consumer = runner.run(start())
        try:
            yield _AioConsumer(runner, consumer)
        finally:
            runner.run(consumer.stop())


CONFLUENT = Client("confluent-kafka", _confluent_producer, _confluent_consumer)
KAFKA_PYTHON = Client("kafka-python", _kafka_python_producer, _kafka_python_consumer)
AIOKAFKA = Client("aiokafka", _aio_producer, _aio_consumer)
CLIENTS = (CONFLUENT, KAFKA_PYTHON, AIOKAFKA)


def new_name() -> str:
    return f"faults-{uuid.uuid4().hex[:8]}"

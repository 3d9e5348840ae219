"""kafka-python 3. See ``conversation``."""

from collections.abc import Sequence
from typing import Any

import kafka
from kafka.structs import OffsetAndMetadata, TopicPartition

from tests.conformance.programs import conversation
from tests.conformance.programs.conversation import HEARTBEAT_MS, POLL_MS, SESSION_TIMEOUT_MS, TIMEOUT_S, Arguments


class Producer:
    def __init__(self, arguments: Arguments) -> None:
        self._tp = TopicPartition(arguments.name, 0)
        self._producer = kafka.KafkaProducer(
            bootstrap_servers=arguments.bootstrap, client_id=arguments.name, acks="all",
            enable_idempotence=arguments.idempotent, transactional_id=arguments.transactional_id,
            request_timeout_ms=TIMEOUT_S * 500, delivery_timeout_ms=TIMEOUT_S * 1000,
        )  # fmt: skip
        if arguments.transactional_id is not None:
            self._producer.init_transactions()
        self.begin = self._producer.begin_transaction
        self.commit = self._producer.commit_transaction
        self.abort = self._producer.abort_transaction

    def send(self, values: Sequence[bytes]) -> list[Exception | None]:
        return [_outcome(future) for future in [self._sent(value) for value in values]]

    def _sent(self, value: bytes) -> Any:
        try:
            return self._producer.send(self._tp.topic, value, partition=0)
        except kafka.errors.KafkaError as error:
            return error

    def send_offset(self, next_offset: int) -> None:
        offsets = {self._tp: OffsetAndMetadata(next_offset, "", -1)}
        self._producer.send_offsets_to_transaction(offsets, self._tp.topic)

    def close(self) -> None:
        self._producer.close(timeout=TIMEOUT_S)


def _outcome(sent: Any) -> Exception | None:
    if isinstance(sent, Exception):
        return sent
    try:
        sent.get(timeout=TIMEOUT_S)
    except kafka.errors.KafkaError as error:
        return error  # type: ignore[no-any-return]
    return None


class Member:
    def __init__(self, arguments: Arguments) -> None:
        self._tp = TopicPartition(arguments.name, 0)
        self._consumer = kafka.KafkaConsumer(
            arguments.name, bootstrap_servers=arguments.bootstrap, client_id=arguments.name, group_id=arguments.name,
            session_timeout_ms=SESSION_TIMEOUT_MS, heartbeat_interval_ms=HEARTBEAT_MS, fetch_max_wait_ms=POLL_MS,
            auto_offset_reset="earliest", enable_auto_commit=False,
        )  # fmt: skip

    def poll(self) -> list[tuple[int, bytes]]:
        polled = self._consumer.poll(timeout_ms=POLL_MS)
        return [(record.offset, record.value) for records in polled.values() for record in records]

    def commit(self, next_offset: int) -> None:
        self._consumer.commit({self._tp: OffsetAndMetadata(next_offset, "", -1)}, timeout_ms=TIMEOUT_S * 1000)

    def close(self) -> None:
        self._consumer.close(autocommit=False)


if __name__ == "__main__":
    conversation.main(Producer, Member)

"""The clients of kafka-zk. See ``conversation``."""

from collections.abc import Sequence

from kafka_zk import BlockingConsumer, BlockingProducer, KafkaError, TopicPartition
from tests.conformance.programs import conversation
from tests.conformance.programs.conversation import HEARTBEAT_MS, POLL_MS, SESSION_TIMEOUT_MS, TIMEOUT_S, Arguments


class Producer:
    def __init__(self, arguments: Arguments) -> None:
        self._tp = TopicPartition(arguments.name, 0)
        self._producer = BlockingProducer(
            bootstrap_servers=arguments.bootstrap, client_id=arguments.name, enable_idempotence=arguments.idempotent,
            transactional_id=arguments.transactional_id, linger_ms=5, request_timeout_ms=TIMEOUT_S * 500,
            delivery_timeout_ms=TIMEOUT_S * 1000, max_block_ms=TIMEOUT_S * 1000,
        )  # fmt: skip
        if arguments.transactional_id is not None:
            self._producer.init_transactions()
        self.begin = self._producer.begin_transaction
        self.commit = self._producer.commit_transaction
        self.abort = self._producer.abort_transaction
        self.close = self._producer.close

    def send(self, values: Sequence[bytes]) -> list[Exception | None]:
        outcomes: list[Exception | None] = []
        for future in [self._producer.send(self._tp.topic, value, partition=0) for value in values]:
            try:
                future.result()
                outcomes.append(None)
            except KafkaError as error:
                outcomes.append(error)
        return outcomes

    def send_offset(self, next_offset: int) -> None:
        self._producer.send_offsets({self._tp: next_offset}, self._tp.topic)


class Member:
    def __init__(self, arguments: Arguments) -> None:
        self._tp = TopicPartition(arguments.name, 0)
        self._consumer = BlockingConsumer(
            [arguments.name], bootstrap_servers=arguments.bootstrap, client_id=arguments.name, group_id=arguments.name,
            session_timeout_ms=SESSION_TIMEOUT_MS, heartbeat_interval_ms=HEARTBEAT_MS, fetch_max_wait_ms=POLL_MS,
            auto_offset_reset="earliest", enable_auto_commit=False,
        )  # fmt: skip
        self.close = self._consumer.close

    def poll(self) -> list[tuple[int, bytes]]:
        return [(record.offset, record.value) for record in self._consumer.poll(POLL_MS)]

    def commit(self, next_offset: int) -> None:
        self._consumer.commit({self._tp: next_offset})


if __name__ == "__main__":
    conversation.main(Producer, Member)

"""confluent-kafka (librdkafka). See ``conversation``."""

from collections.abc import Sequence
from typing import Any

import confluent_kafka

from tests.conformance.programs import conversation
from tests.conformance.programs.conversation import HEARTBEAT_MS, POLL_MS, SESSION_TIMEOUT_MS, TIMEOUT_S, Arguments


class Producer:
    def __init__(self, arguments: Arguments) -> None:
        self._topic = arguments.name
        common = {"bootstrap.servers": arguments.bootstrap, "client.id": arguments.name}
        config: dict[str, Any] = {
            **common, "enable.idempotence": arguments.idempotent, "linger.ms": 5,
            "message.timeout.ms": TIMEOUT_S * 1000,
        }  # fmt: skip
        if arguments.transactional_id is not None:
            config["transactional.id"] = arguments.transactional_id
        self._producer = confluent_kafka.Producer(config)
        if arguments.transactional_id is not None:
            self._producer.init_transactions(TIMEOUT_S)
            self._group = confluent_kafka.Consumer({**common, "group.id": arguments.name})
        self.begin = self._producer.begin_transaction

    def send(self, values: Sequence[bytes]) -> list[Exception | None]:
        outcomes: list[Exception | None] = [None] * len(values)

        def on_delivery(place: int) -> Any:
            def delivered(error: Any, _: Any) -> None:
                if error is not None:
                    outcomes[place] = confluent_kafka.KafkaException(error)

            return delivered

        for place, value in enumerate(values):
            try:
                self._producer.produce(self._topic, value, partition=0, on_delivery=on_delivery(place))
            except confluent_kafka.KafkaException as error:
                outcomes[place] = error
        try:
            self._producer.flush()
        except SystemError as fatal:  # a fatal error was raised before the callback ran
            return [error or fatal for error in outcomes]
        return outcomes

    def send_offset(self, next_offset: int) -> None:
        offset = confluent_kafka.TopicPartition(self._topic, 0, next_offset)
        self._producer.send_offsets_to_transaction([offset], self._group.consumer_group_metadata(), TIMEOUT_S)

    def commit(self) -> None:
        self._producer.commit_transaction(TIMEOUT_S)

    def abort(self) -> None:
        self._producer.abort_transaction(TIMEOUT_S)

    def close(self) -> None:
        self._producer.flush(TIMEOUT_S)


class Member:
    def __init__(self, arguments: Arguments) -> None:
        self._topic = arguments.name
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": arguments.bootstrap, "client.id": arguments.name, "group.id": arguments.name,
                "session.timeout.ms": SESSION_TIMEOUT_MS, "heartbeat.interval.ms": HEARTBEAT_MS,
                "fetch.wait.max.ms": POLL_MS, "auto.offset.reset": "earliest", "enable.auto.commit": False,
            }
        )  # fmt: skip
        self._consumer.subscribe([self._topic])
        self.close = self._consumer.close

    def poll(self) -> list[tuple[int, bytes]]:
        message: Any = self._consumer.poll(POLL_MS / 1000)
        if message is None or message.error():
            return []
        return [(message.offset(), message.value())]

    def commit(self, next_offset: int) -> None:
        offset = confluent_kafka.TopicPartition(self._topic, 0, next_offset)
        [committed] = self._consumer.commit(offsets=[offset], asynchronous=False)
        if committed.error is not None:
            raise confluent_kafka.KafkaException(committed.error)


if __name__ == "__main__":
    conversation.main(Producer, Member)

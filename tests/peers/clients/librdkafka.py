"""confluent-kafka, which is librdkafka from Python, with assigned partitions and explicit offsets."""

from __future__ import annotations

import time
from typing import Any

import confluent_kafka

from tests.peers.clients.base import TIMEOUT_S, ClientFailed, Read, ShowsEverything, Write
from tests.peers.records import Record, anything


class ConfluentProducer:
    """`Producer.produce` with every field, idempotent."""

    name = "confluent-kafka"
    dataset = staticmethod(anything)

    def write(self, what: Write) -> None:
        failures: list[str] = []

        def delivered(error: Any, _message: Any) -> None:
            if error is not None:
                failures.append(str(error))

        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": what.bootstrap,
                "compression.type": what.compression,
                "enable.idempotence": True,
                "linger.ms": 20,
                "message.timeout.ms": int(TIMEOUT_S * 1000),
            }
        )
        for record in what.records:
            producer.produce(
                what.topic,
                partition=what.partition,
                key=record.key,
                value=record.value,
                timestamp=record.timestamp_ms or 0,
                headers=list(record.headers),
                on_delivery=delivered,
            )
        left = producer.flush(TIMEOUT_S)
        if left or failures:
            raise ClientFailed(f"{left} records not sent, {len(failures)} refused: {failures[:1]}")


class ConfluentConsumer(ShowsEverything):
    """`Consumer.assign` with an explicit offset."""

    name = "confluent-kafka"

    def read(self, what: Read) -> list[Record]:
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": what.bootstrap,
                "group.id": "never-joined",
                "enable.auto.commit": False,
                "check.crcs": True,
                "auto.offset.reset": "error",
            }
        )
        try:
            consumer.assign([confluent_kafka.TopicPartition(what.topic, what.partition, what.offset)])
            return list(self._poll(consumer, what.count))
        finally:
            consumer.close()

    @staticmethod
    def _poll(consumer: Any, count: int) -> list[Record]:
        records: list[Record] = []
        deadline = time.monotonic() + TIMEOUT_S
        while len(records) < count and time.monotonic() < deadline:
            for message in consumer.consume(count - len(records), 0.2):
                if message.error() is not None:
                    raise ClientFailed(str(message.error()))
                headers = tuple((name, value) for name, value in message.headers() or ())
                timestamp_ms = message.timestamp()[1]
                records.append(Record(message.key(), message.value(), headers, timestamp_ms, message.offset()))
        return records

"""kafka-zk's own producer and reader, so that the matrix compares them with foreign clients and Apache Kafka's
broker."""

from __future__ import annotations

import time

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.consumer.blocking_reader import BlockingReader
from kafka_zk.clients.producer.blocking import BlockingProducer
from tests.peers.clients.base import TIMEOUT_S, Read, ShowsEverything, Write
from tests.peers.records import Record, anything

NAME = "kafka-zk"


class OurProducer:
    """The blocking producer with its defaults (idempotent, acks=all)."""

    name = NAME
    dataset = staticmethod(anything)

    def write(self, what: Write) -> None:
        with BlockingProducer(
            bootstrap_servers=what.bootstrap, compression_type=what.compression, linger_ms=20
        ) as producer:
            sent = [
                producer.send(
                    what.topic, record.value, record.key, what.partition, record.timestamp_ms, list(record.headers)
                )
                for record in what.records
            ]
            producer.flush(TIMEOUT_S)
            for future in sent:
                future.result(TIMEOUT_S)


class OurReader(ShowsEverything):
    """The blocking reader with assigned partitions."""

    name = NAME

    def read(self, what: Read) -> list[Record]:
        records: list[Record] = []
        deadline = time.monotonic() + TIMEOUT_S
        with BlockingReader(bootstrap_servers=what.bootstrap, auto_offset_reset="none") as reader:
            reader.assign({TopicPartition(what.topic, what.partition): what.offset})
            while len(records) < what.count and time.monotonic() < deadline:
                records += [
                    Record(each.key, each.value, each.headers, each.timestamp_ms, each.offset)
                    for each in reader.poll(200)
                ]
        return records[: what.count]

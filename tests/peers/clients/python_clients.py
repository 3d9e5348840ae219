"""kafka-python and aiokafka: pure Python clients, with assigned partitions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Any

import aiokafka
import kafka

from tests.peers.clients.base import TIMEOUT_S, Read, ShowsEverything, Write
from tests.peers.records import Record, anything_for_python


def _codec(compression: str) -> str | None:
    return None if compression == "none" else compression


def _record(message: Any) -> Record:
    headers = tuple((name, value) for name, value in message.headers or ())
    return Record(message.key, message.value, headers, message.timestamp, message.offset)


class KafkaPythonProducer:
    """kafka-python's blocking producer, idempotent by default."""

    name = "kafka-python"
    dataset = staticmethod(anything_for_python)

    def write(self, what: Write) -> None:
        producer = kafka.KafkaProducer(
            bootstrap_servers=what.bootstrap, compression_type=_codec(what.compression), linger_ms=20
        )
        try:
            sent = [
                producer.send(
                    what.topic,
                    key=record.key,
                    value=record.value,
                    headers=list(record.headers),
                    partition=what.partition,
                    timestamp_ms=record.timestamp_ms,
                )
                for record in what.records
            ]
            producer.flush(timeout=TIMEOUT_S)
            for future in sent:
                future.get(timeout=TIMEOUT_S)
        finally:
            producer.close(timeout=TIMEOUT_S)


class KafkaPythonConsumer(ShowsEverything):
    """kafka-python's consumer: assign and seek."""

    name = "kafka-python"

    def read(self, what: Read) -> list[Record]:
        partition = kafka.TopicPartition(what.topic, what.partition)
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=what.bootstrap, group_id=None, enable_auto_commit=False, auto_offset_reset="none"
        )
        try:
            consumer.assign([partition])
            consumer.seek(partition, what.offset)
            records: list[Record] = []
            deadline = time.monotonic() + TIMEOUT_S
            while len(records) < what.count and time.monotonic() < deadline:
                polled = consumer.poll(timeout_ms=200, max_records=what.count - len(records))
                records += map(_record, polled.get(partition, ()))
            return records
        finally:
            consumer.close()


class AiokafkaProducer:
    """aiokafka's producer."""

    name = "aiokafka"
    dataset = staticmethod(anything_for_python)

    def write(self, what: Write) -> None:
        asyncio.run(self._write(what))

    @staticmethod
    async def _write(what: Write) -> None:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=what.bootstrap, compression_type=_codec(what.compression), linger_ms=20
        )
        await producer.start()
        try:
            sent = [
                await producer.send(
                    what.topic,
                    key=record.key,
                    value=record.value,
                    partition=what.partition,
                    timestamp_ms=record.timestamp_ms,
                    headers=list(record.headers),
                )
                for record in what.records
            ]
            await asyncio.wait_for(asyncio.gather(*sent), TIMEOUT_S)
        finally:
            await producer.stop()


class AiokafkaConsumer(ShowsEverything):
    """aiokafka's consumer: assign and seek."""

    name = "aiokafka"

    def read(self, what: Read) -> list[Record]:
        return asyncio.run(self._read(what))

    @staticmethod
    async def _read(what: Read) -> list[Record]:
        partition = aiokafka.TopicPartition(what.topic, what.partition)
        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=what.bootstrap, group_id=None, enable_auto_commit=False, auto_offset_reset="none"
        )
        await consumer.start()
        try:
            consumer.assign([partition])
            consumer.seek(partition, what.offset)
            records: list[Record] = []
            deadline = time.monotonic() + TIMEOUT_S
            while len(records) < what.count and time.monotonic() < deadline:
                polled = await consumer.getmany(timeout_ms=200, max_records=what.count - len(records))
                found: Iterable[Any] = polled.get(partition, ())
                records += map(_record, found)
            return records
        finally:
            await consumer.stop()

"""aiokafka. Its event loop runs all the time in a thread of its own. See ``conversation``."""

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from typing import Any

import aiokafka
import aiokafka.errors

from tests.conformance.programs import conversation
from tests.conformance.programs.conversation import HEARTBEAT_MS, POLL_MS, SESSION_TIMEOUT_MS, TIMEOUT_S, Arguments


class _Loop:
    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


class Producer:
    def __init__(self, arguments: Arguments) -> None:
        self._topic, self._run = arguments.name, _Loop().run
        self._producer = self._run(self._start(arguments))

    async def _start(self, arguments: Arguments) -> Any:
        producer = aiokafka.AIOKafkaProducer(
            bootstrap_servers=arguments.bootstrap, client_id=arguments.name, acks="all",
            enable_idempotence=arguments.idempotent, transactional_id=arguments.transactional_id,
            request_timeout_ms=TIMEOUT_S * 1000,
        )  # fmt: skip
        await producer.start()
        return producer

    def send(self, values: Sequence[bytes]) -> Sequence[Exception | None]:
        outcomes = self._run(self._send(values))
        return [each if isinstance(each, Exception) else None for each in outcomes]

    async def _send(self, values: Sequence[bytes]) -> list[Any]:
        sending = [self._producer.send_and_wait(self._topic, value, partition=0) for value in values]
        return await asyncio.gather(*sending, return_exceptions=True)

    def begin(self) -> None:
        self._run(self._producer.begin_transaction())

    def send_offset(self, next_offset: int) -> None:
        offsets = {aiokafka.TopicPartition(self._topic, 0): next_offset}
        self._run(self._producer.send_offsets_to_transaction(offsets, self._topic))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def close(self) -> None:
        self._run(self._producer.stop())


class Member:
    def __init__(self, arguments: Arguments) -> None:
        self._tp, self._run = aiokafka.TopicPartition(arguments.name, 0), _Loop().run
        self._consumer = self._run(self._start(arguments))

    async def _start(self, arguments: Arguments) -> Any:
        consumer = aiokafka.AIOKafkaConsumer(
            arguments.name, bootstrap_servers=arguments.bootstrap, client_id=arguments.name, group_id=arguments.name,
            session_timeout_ms=SESSION_TIMEOUT_MS, heartbeat_interval_ms=HEARTBEAT_MS, fetch_max_wait_ms=POLL_MS,
            auto_offset_reset="earliest", enable_auto_commit=False,
        )  # fmt: skip
        await consumer.start()
        return consumer

    def poll(self) -> list[tuple[int, bytes]]:
        polled = self._run(self._consumer.getmany(timeout_ms=POLL_MS))
        return [(record.offset, record.value) for records in polled.values() for record in records]

    def commit(self, next_offset: int) -> None:
        self._run(self._consumer.commit({self._tp: next_offset}))

    def close(self) -> None:
        self._run(self._consumer.stop())


if __name__ == "__main__":
    conversation.main(Producer, Member)

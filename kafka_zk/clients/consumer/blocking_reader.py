"""The plain reader for threads."""

from collections.abc import Iterator, Mapping
from typing import Any

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.blocking import BlockingClient, blocking, on_reactor
from kafka_zk.clients.connection.reactor_thread import reactor_thread
from kafka_zk.clients.consumer.config import ReaderConfig
from kafka_zk.clients.consumer.reader import Reader
from kafka_zk.clients.consumer.records import ConsumerRecord


class BlockingReader(BlockingClient[Reader]):
    """Reads partitions that you assign. Methods behave like those of ``Reader``; a context manager.

    Raises: ConfigError naming the key and the allowed values; KafkaError on the reactor thread.
    """

    def __init__(self, config: ReaderConfig | None = None, **options: Any) -> None:
        thread = reactor_thread()
        reader = Reader(thread.reactor, config, **options)
        super().__init__(thread, reader)
        self.config = reader.config

    assign = on_reactor(Reader.assign)
    assignment = on_reactor(Reader.assignment)
    seek = on_reactor(Reader.seek)
    position = blocking(Reader.position)
    poll = blocking(Reader.poll)
    high_watermark = on_reactor(Reader.high_watermark)
    end_offsets = blocking(Reader.end_offsets)
    beginning_offsets = blocking(Reader.beginning_offsets)
    offsets_for_times = blocking(Reader.offsets_for_times)
    partitions_for = blocking(Reader.partitions_for)

    def batches(self, until: Mapping[TopicPartition, int] | None = None) -> Iterator[list[ConsumerRecord]]:
        """Yield lists of records endlessly, or until each partition of ``until`` has been read up to its offset.

        ``until=reader.end_offsets(reader.assignment())`` reads to the current end; the last lists may contain later
        records.
        """
        generator = self._client.batches(until)

        async def following() -> list[ConsumerRecord]:
            return await anext(generator, [])

        while records := self._thread.call(following):
            yield records

    def __iter__(self) -> Iterator[ConsumerRecord]:
        for records in self.batches():
            yield from records

"""The plain reader for threads: ``Reader`` run in the process's reactor thread."""

from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Any, Self

from kafka_zk.base.types import TopicPartition
from kafka_zk.clients.connection.list_offsets import ListedOffset
from kafka_zk.clients.connection.metadata import TopicMetadata
from kafka_zk.clients.connection.reactor_thread import reactor_thread
from kafka_zk.clients.consumer.config import ReaderConfig
from kafka_zk.clients.consumer.reader import Reader
from kafka_zk.clients.consumer.records import ConsumerRecord
from kafka_zk.clients.consumer.starts import Start


class BlockingReader:
    """Reads partitions that you assign. Methods promise and raise the same as those of ``Reader``; a context manager.

    Raises: ConfigError naming the key and what is allowed; KafkaError in the thread that the reactor runs in.
    """

    def __init__(self, config: ReaderConfig | None = None, **options: Any) -> None:
        self._thread = reactor_thread()
        self._reader = Reader(self._thread.reactor, config, **options)
        self.config = self._reader.config

    def assign(self, starts: Mapping[TopicPartition, Start]) -> None:
        """Read exactly these partitions, each from its start: an offset, "earliest", "latest" or ``Timestamp(ms)``."""

        async def assign() -> None:
            self._reader.assign(starts)

        self._thread.call(assign)

    def assignment(self) -> list[TopicPartition]:
        """The assigned partitions, sorted."""
        return self._reader.assignment()

    def seek(self, tp: TopicPartition, start: Start) -> None:
        """Continue at another offset of an assigned partition."""

        async def seek() -> None:
            self._reader.seek(tp, start)

        self._thread.call(seek)

    def position(self, tp: TopicPartition) -> int:
        """The offset of the next record of this partition that ``poll`` would return."""
        return self._thread.call(self._reader.position, tp)

    def poll(self, timeout_ms: int) -> list[ConsumerRecord]:
        """Return the next records, at most ``max.poll.records``; an empty list when none came in ``timeout_ms``."""
        return self._thread.call(self._reader.poll, timeout_ms)

    def batches(self, until: Mapping[TopicPartition, int] | None = None) -> Iterator[list[ConsumerRecord]]:
        """Yield lists of records, for ever, or until each partition of ``until`` was read up to its offset.

        ``until=reader.end_offsets(reader.assignment())`` reads to the end as it is now; the last lists may hold records
        beyond it.
        """
        generator = self._reader.batches(until)

        async def following() -> list[ConsumerRecord]:
            return await anext(generator, [])

        while records := self._thread.call(following):
            yield records

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """Yield records one by one, for ever."""
        for records in self.batches():
            yield from records

    def high_watermark(self, tp: TopicPartition) -> int:
        """The high watermark in the last response, -1 before the first one."""
        return self._reader.high_watermark(tp)

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset after the last record that can be read, now."""
        return self._thread.call(self._reader.end_offsets, list(partitions))

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """The first offset of each log."""
        return self._thread.call(self._reader.beginning_offsets, list(partitions))

    def offsets_for_times(self, times_ms: Mapping[TopicPartition, int]) -> dict[TopicPartition, ListedOffset | None]:
        """The first record at or after each time; None where there is none."""
        return self._thread.call(self._reader.offsets_for_times, times_ms)

    def partitions_for(self, topic: str, timeout_ms: int | None = None) -> TopicMetadata:
        """The topic's metadata, waiting for it to exist: ``timeout_ms`` (None: default.api.timeout.ms) at most.

        Raises: KafkaTimeoutError.
        """
        return self._thread.call(self._reader.partitions_for, topic, timeout_ms)

    def close(self) -> None:
        """Stop reading."""
        self._thread.call(self._reader.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

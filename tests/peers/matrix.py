"""Every producer client writes its data set once into a shared partition; every consumer reads that partition once.

A cell (producer, consumer) is then a comparison in memory, so the matrix needs one run per client, not per pair.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from tests.peers.clients.base import ClientFailed, Consumer, Producer, Read, Write
from tests.peers.records import Record
from tests.peers.targets import Target

_CLOCK_TOLERANCE_MS = 5


@dataclass(frozen=True)
class Written:
    """One producer's slice of the partition."""

    producer: str
    first_offset: int
    records: list[Record]
    began_ms: int
    ended_ms: int


@dataclass
class Matrix:
    """The shared partition of one target and one compression codec."""

    target: Target
    compression: str
    producers: list[Producer]
    written: dict[str, Written | Exception] = field(default_factory=dict)
    read: dict[str, list[Record] | Exception] = field(default_factory=dict)
    record_count: int = 0

    @property
    def topic(self) -> str:
        return f"matrix-{self.compression}"

    def write_all(self) -> None:
        """Create the topic and let every producer write; a producer that fails does not stop the others.

        The segments are small, so that readers cross segment borders.
        """
        self.target.create_topic(self.topic, config={"segment.bytes": "600000"})
        for producer in self.producers:
            began_ms = _now_ms()
            records = producer.dataset()
            try:
                producer.write(
                    Write(self.target.bootstrap, self.topic, 0, self.compression, records),
                )
            except Exception as failure:
                self.written[producer.name] = failure
                self.record_count = self.target.end_offset(self.topic, 0)
                continue
            self.written[producer.name] = Written(producer.name, self.record_count, records, began_ms, _now_ms())
            self.record_count += len(records)

    def read_by(self, consumer: Consumer) -> list[Record]:
        """All records as one consumer returns them, read once. Raises: ClientFailed."""
        if consumer.name not in self.read:
            try:
                self.read[consumer.name] = consumer.read(
                    Read(self.target.bootstrap, self.topic, 0, 0, self.record_count)
                )
            except Exception as failure:
                self.read[consumer.name] = failure
        found = self.read[consumer.name]
        if isinstance(found, Exception):
            raise ClientFailed(f"{consumer.name} could not read: {found!r}") from None
        return found

    def slice_of(self, producer: str) -> Written:
        """The offsets of one producer's records. Raises: ClientFailed."""
        written = self.written[producer]
        if isinstance(written, Exception):
            raise ClientFailed(f"{producer} could not write: {written!r}") from None
        return written


def expected_view(written: Written, consumer: Consumer, found: list[Record]) -> list[Record]:
    """The records that `consumer` must show for one producer's slice.

    A timestamp that the producer left to the client library must lie within the time of its writes; it is then taken
    from `found`, because no other source has it.
    """
    expected = []
    for number, record in enumerate(written.records):
        timestamp_ms = record.timestamp_ms
        if timestamp_ms is None and number < len(found) and _shows_timestamps(consumer):
            shown = found[number].timestamp_ms
            assert shown is not None
            assert written.began_ms - _CLOCK_TOLERANCE_MS <= shown <= written.ended_ms + _CLOCK_TOLERANCE_MS, (
                f"record {number}: timestamp {shown} outside of {written.began_ms}..{written.ended_ms}"
            )
            timestamp_ms = shown
        whole = record._replace(timestamp_ms=timestamp_ms, offset=written.first_offset + number)
        expected.append(consumer.view(whole))
    return expected


def _shows_timestamps(consumer: Consumer) -> bool:
    """False for readers of magic 0."""
    return consumer.view(Record(None, None, timestamp_ms=1)).timestamp_ms == 1


def _now_ms() -> int:
    return int(time.time() * 1000)

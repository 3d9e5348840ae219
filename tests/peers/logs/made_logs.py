"""Logs made from a seed: everything that a partition can contain, from clients of all versions.

A partition is made of two parts. *Planted* segments are in its folder before the broker starts: gaps and batches
without records as compaction leaves them, transactions with their markers, and for Apache Kafka sets of magic 0 and 1
between batches of magic 2. *Sent* sets follow in Produce requests of all versions, so that the broker validates,
converts and stamps them. The beginning of some partitions will be deleted.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from kafka_zk.storage.records.compression import Compression, compress
from kafka_zk.storage.records.legacy_message_set import LegacyMessage, write_message_set
from kafka_zk.storage.records.record_batch import CONTROL_FLAG, TIMESTAMP_TYPE_FLAG, TRANSACTIONAL_FLAG, encode_record

_HEADER = Struct(">qiibIhiqqqhii")  # KIP-98; the CRC covers everything after it
_CRC = Struct(">I")
_CRC_POSITION = 17
_LENGTH_FRONT_SIZE = 12
_NO_PRODUCER = -1
_LEGACY_CODECS = (Compression.none, Compression.gzip, Compression.snappy, Compression.lz4)
_PRODUCE_VERSIONS = {0: (0, 1), 1: (2,), 2: (3, 5, 7)}
_ZSTD_PRODUCE_VERSION = 7
_NOW_MS = 1_700_000_000_000
#: The last time that fits into the microseconds of Spark's timestamps is ``2**63 // 1000`` ms.
LAST_MS = (2**63 - 1) // 1000
_ODD_TIMES_MS = (-1, 0, 1, 999, 4_102_444_800_000, 253_402_300_800_000, LAST_MS)
_BIG_VALUE_BYTES = 5_000_000
#: Brokers do not validate the names of headers; Java's clients replace bytes that are not UTF-8.
_NAME, _NOT_UTF_8 = "name \x7f\x7f", b"name \xff\xe2"

Header = tuple[str, bytes | None]


class Content(NamedTuple):
    """A record without its offset."""

    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


class Sent(NamedTuple):
    """The records of one Produce request."""

    produce_version: int
    records: bytes


class MadePartition(NamedTuple):
    """``segments`` by base offset; ``deleted`` is the share of the offsets, from the beginning, that DeleteRecords
    removes.
    """

    segments: Mapping[int, bytes]
    sent: Sequence[Sent]
    deleted: float | None


class MadeTopic(NamedTuple):
    """Partitions are numbered from 0."""

    name: str
    config: Mapping[str, str]
    partitions: Sequence[MadePartition]


def plant(topics: Sequence[MadeTopic], log_dir: Path) -> None:
    """Write the planted segments; the broker's recovery creates the indexes."""
    for topic in topics:
        for number, partition in enumerate(topic.partitions):
            folder = log_dir / f"{topic.name}-{number}"
            for base_offset, data in partition.segments.items():
                folder.mkdir(parents=True, exist_ok=True)
                (folder / f"{base_offset:020}.log").write_bytes(data)


def pack_batch(
    base_offset: int,
    records: Sequence[tuple[int, Content]],
    last_delta: int,
    codec: Compression = Compression.none,
    *,
    attributes: int = 0,
    producer: tuple[int, int, int] = (_NO_PRODUCER, -1, -1),
    newest_ms: int | None = None,
) -> bytes:
    """A batch of magic 2 with records at the given offset deltas; ``producer``: id, epoch, base sequence.

    ``newest_ms``: the largest timestamp in the header, if it is not the newest record's, as with LogAppendTime.
    """
    base_ms = records[0][1].timestamp_ms if records else -1
    body = b"".join(
        encode_record(each.timestamp_ms - base_ms, delta, each.key, each.value, each.headers) for delta, each in records
    )
    body = body.replace(_NAME.encode(), _NOT_UTF_8)
    if codec and records:
        body, attributes = compress(codec, body), attributes | codec
    if newest_ms is None:
        newest_ms = max((each.timestamp_ms for _, each in records), default=-1)
    size = _HEADER.size + len(body)
    head = bytearray(
        _HEADER.pack(
            base_offset, size - _LENGTH_FRONT_SIZE, 0, 2, 0, attributes, last_delta, base_ms, newest_ms, *producer,
            len(records),
        )
    )  # fmt: skip
    _CRC.pack_into(head, _CRC_POSITION, crc32c(bytes(head[_CRC_POSITION + _CRC.size :]) + body))
    return bytes(head) + body


class LogMaker:
    """Makes topics from one seed; ``stored_magics``: the magics that the broker can serve from its disk."""

    def __init__(self, seed: int, stored_magics: Sequence[int]) -> None:
        self._rng = random.Random(seed)
        self._stored_magics = stored_magics

    def topics(self, prefix: str, count: int) -> list[MadeTopic]:
        """``count`` topics of one to three partitions; one partition of the first topic has a very large record."""
        made = [self._topic(f"{prefix}-{number}") for number in range(count)]
        big = Content(_NOW_MS, b"big", self._rng.randbytes(_BIG_VALUE_BYTES))
        codec = self._rng.choice(list(Compression))
        planted = MadePartition({7: pack_batch(7, [(0, big)], 0, codec)}, [self._send(2)], None)
        return [made[0]._replace(partitions=[planted, *made[0].partitions]), *made[1:]]

    def too_far(self, name: str) -> MadeTopic:
        """One record whose timestamp Spark cannot represent, as from a producer that writes microseconds."""
        content = Content(LAST_MS + 1, b"k", b"v")
        sent = Sent(3, pack_batch(0, [(0, content)], 0))
        return MadeTopic(name, {"message.timestamp.type": "CreateTime"}, [MadePartition({}, [sent], None)])

    def _topic(self, name: str) -> MadeTopic:
        config = {
            "message.timestamp.type": self._rng.choice(("CreateTime", "CreateTime", "LogAppendTime")),
            "compression.type": self._rng.choice(
                ("producer", "producer", "producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")
            ),
        }
        return MadeTopic(name, config, [self._partition() for _ in range(self._rng.randint(1, 3))])

    def _partition(self) -> MadePartition:
        chance = self._rng.random
        segments = _Planter(self, self._rng, self._stored_magics).segments() if chance() < 0.6 else {}
        sent = [self._send(self._rng.choice((0, 1, 2, 2, 2))) for _ in range(self._rng.randint(0, 6))]
        return MadePartition(segments, sent, chance() if chance() < 0.3 else None)

    def _send(self, magic: int) -> Sent:
        version = self._rng.choice(_PRODUCE_VERSIONS[magic])
        if magic < 2:
            return Sent(version, self.legacy_set(magic, range(self._rng.randint(1, 12)), append_time=False))
        codec = self._rng.choice(list(Compression))
        records = list(enumerate(self.contents(self._rng.randint(1, 12))))
        data = pack_batch(0, records, len(records) - 1, codec)
        return Sent(_ZSTD_PRODUCE_VERSION if codec is Compression.zstd else version, data)

    def legacy_set(self, magic: int, offsets: Sequence[int], *, append_time: bool) -> bytes:
        """Messages at these offsets, compressed or not."""
        codec = self._rng.choice(_LEGACY_CODECS)
        messages = [
            LegacyMessage(
                offset,
                magic,
                content.timestamp_ms if magic else -1,
                append_time and magic > 0,
                content.key,
                content.value,
            )
            for offset, content in zip(offsets, self.contents(len(offsets)), strict=True)
        ]
        return write_message_set(messages, magic, codec)

    def contents(self, count: int) -> list[Content]:
        return [Content(self._time_ms(), self._blob(), self._blob(), self._headers()) for _ in range(count)]

    def _time_ms(self) -> int:
        if self._rng.random() < 0.2:
            return self._rng.choice(_ODD_TIMES_MS)
        return _NOW_MS + self._rng.randint(-10_000, 10_000)

    def _blob(self) -> bytes | None:
        kind = self._rng.random()
        if kind < 0.2:
            return None
        if kind < 0.3:
            return b""
        if kind < 0.35:
            return b"repeated " * self._rng.randint(100, 4000)
        return self._rng.randbytes(self._rng.randint(1, 300))

    def _headers(self) -> tuple[Header, ...]:
        if self._rng.random() < 0.5:
            return ()
        names = ("same", "same", "", "größe ✓", "long" * 60, _NAME)
        values = (None, b"", b"value", bytes(range(256)))
        return tuple((self._rng.choice(names), self._rng.choice(values)) for _ in range(self._rng.randint(1, 4)))


class _Planter:
    """Writes the planted segments of one partition, one after the other."""

    def __init__(self, maker: LogMaker, rng: random.Random, magics: Sequence[int]) -> None:
        self._maker = maker
        self._rng = rng
        self._magics = magics
        self._offset = rng.choice((0, 0, 5, 2**31 + 7, 2**45))
        self._open: set[int] = set()

    def segments(self) -> dict[int, bytes]:
        segments = {self._offset: b""}
        for _ in range(self._rng.randint(1, 12)):
            if self._rng.random() < 0.3:
                segments[self._offset] = b""
            segments[max(segments)] += self._entry()
        return segments

    def _gap(self) -> None:
        """Leave a gap, as compaction does.

        It is never directly before the oldest open transaction: the last stable offset is there, and Kafka's consumer
        would wait for records below it, so that Spark's own source would give up after its poll timeout. Ours accepts
        the broker's empty response.
        """
        self._offset += self._rng.choice((0, 0, 0, 1, 40))

    def _entry(self) -> bytes:
        magic = self._rng.choice(self._magics)
        if magic < 2:
            self._gap()
            return self._legacy(magic)
        make = self._rng.choice((self._batch, self._batch, self._batch, self._empty, self._transactional, self._marker))
        if self._open or make not in (self._transactional, self._marker):
            self._gap()
        return make()

    def _legacy(self, magic: int) -> bytes:
        offsets = self._kept(self._rng.randint(1, 10)) or [0]
        data = self._maker.legacy_set(
            magic, [self._offset + each for each in offsets], append_time=self._rng.random() < 0.3
        )
        self._offset += offsets[-1] + 1
        return data

    def _batch(self, attributes: int = 0, producer: tuple[int, int, int] = (_NO_PRODUCER, -1, -1)) -> bytes:
        """A batch, perhaps compacted: the offsets of its records then have gaps, and the last ones may be missing."""
        count = self._rng.randint(1, 15)
        kept = self._kept(count)
        records = list(zip(kept, self._maker.contents(len(kept)), strict=True))
        newest_ms = None
        if records and self._rng.random() < 0.2:
            attributes, newest_ms = attributes | TIMESTAMP_TYPE_FLAG, _NOW_MS + self._offset % 1000
        codec = self._rng.choice(list(Compression))
        return self._packed(records, count, codec, attributes, producer, newest_ms)

    def _kept(self, count: int) -> list[int]:
        if self._rng.random() < 0.5:
            return list(range(count))
        return [each for each in range(count) if self._rng.random() < 0.6]

    def _empty(self) -> bytes:
        """The empty batch that the cleaner keeps for an idempotent producer."""
        return self._packed([], self._rng.randint(1, 5), Compression.none, 0, (4711, 0, 0), None)

    def _transactional(self) -> bytes:
        producer_id = self._rng.choice((1, 2))
        self._open.add(producer_id)
        return self._batch(TRANSACTIONAL_FLAG, (producer_id, 0, 0))

    def _marker(self) -> bytes:
        """End a transaction of one of the producers, if there is one, by commit or by abort."""
        if not self._open:
            return self._transactional()
        producer_id = self._rng.choice(sorted(self._open))
        self._open.discard(producer_id)
        marker = Content(_NOW_MS, self._rng.choice((b"\0\0\0\0", b"\0\0\0\1")), b"\0\0\0\0\0\0")
        return self._packed(
            [(0, marker)], 1, Compression.none, TRANSACTIONAL_FLAG | CONTROL_FLAG, (producer_id, 0, -1), None
        )

    def _packed(
        self, records: Sequence[tuple[int, Content]], count: int, codec: Compression, attributes: int,
        producer: tuple[int, int, int], newest_ms: int | None,
    ) -> bytes:  # fmt: skip
        data = pack_batch(
            self._offset, records, count - 1, codec, attributes=attributes, producer=producer, newest_ms=newest_ms
        )
        self._offset += count
        return data

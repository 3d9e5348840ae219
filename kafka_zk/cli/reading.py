"""Reads assigned partitions for ``consume``."""

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager

from kafka_zk.base.types import TopicPartition
from kafka_zk.cli.terminal.errors import CommandFailed
from kafka_zk.cli.terminal.output import note
from kafka_zk.cli.terminal.waiting import told, waiting
from kafka_zk.clients.consumer.blocking_reader import BlockingReader
from kafka_zk.clients.consumer.records import ConsumerRecord

POLL_MS = 500
_NAMED_COUNT = 5


def end_offsets(reader: BlockingReader, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    """Raises KafkaError."""
    with _asking_leaders(reader, partitions):
        return reader.end_offsets(partitions)


def check_start(reader: BlockingReader, partitions: list[TopicPartition], offset: int) -> None:
    """Note which partitions lack the offset. Raises CommandFailed if no partition contains it; KafkaError."""
    with _asking_leaders(reader, partitions):
        first, last = reader.beginning_offsets(partitions), reader.end_offsets(partitions)
    without = [tp for tp in partitions if not first[tp] <= offset <= last[tp]]
    if not without:
        return
    ranges = ", ".join(f"{tp} has {first[tp]} to {last[tp]}" for tp in without[:_NAMED_COUNT])
    more = ", …" if len(without) > _NAMED_COUNT else ""
    if len(without) == len(partitions):
        raise CommandFailed(f"offset {offset} is out of range: {ranges}{more}")
    reset = {"earliest": "they are read from their beginnings", "latest": "only new records are read from them"}
    told_of_reset = reset.get(reader.config.auto_offset_reset, "reading them fails")
    note(f"offset {offset} is out of range in {len(without)} of {len(partitions)} partitions, {told_of_reset}: "
         f"{ranges}{more}")  # fmt: skip


def limited(
    reader: BlockingReader,
    until: Mapping[TopicPartition, int] | None,
    max_messages: int | None,
    timeout_ms: int | None,
) -> Iterator[ConsumerRecord]:
    """Yield records until a limit is reached; flush stdout whenever no record is buffered."""
    topics = ", ".join(sorted({tp.topic for tp in reader.assignment()}))
    left = max_messages
    quiet_since_s = time.monotonic()
    with waiting(f"records of {topics}", None if timeout_ms is None else timeout_ms / 1000):
        while not (until and all(reader.position(tp) >= end for tp, end in until.items())):
            records = reader.poll(min(POLL_MS, timeout_ms or POLL_MS))
            if records:
                told()
            for record in records:
                if until and record.offset >= until[record.tp]:
                    continue
                yield record
                if left is not None:
                    left -= 1
                    if left == 0:
                        return
            if records:
                quiet_since_s = time.monotonic()
            elif timeout_ms is not None and (time.monotonic() - quiet_since_s) * 1000 >= timeout_ms:
                return
            sys.stdout.buffer.flush()


def _asking_leaders(reader: BlockingReader, partitions: list[TopicPartition]) -> AbstractContextManager[None]:
    topics = ", ".join(sorted({tp.topic for tp in partitions}))
    return waiting(f"the leaders of {topics}", reader.config.default_api_timeout_ms / 1000)

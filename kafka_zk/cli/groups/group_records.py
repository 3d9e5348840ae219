"""Writes a group's records to stdout."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from kafka_zk.cli.terminal.waiting import told, waiting
from kafka_zk.clients.consumer.blocking_consumer import BlockingConsumer, BlockingZookeeperConsumer
from kafka_zk.clients.consumer.records import ConsumerRecord

FLUSH_MS = 200
"""Output is flushed after this time without a record; used as consumer.timeout.ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupOptions:
    group: str
    topics: tuple[str, ...]
    white_list: str | None
    black_list: str | None
    from_beginning: bool
    properties: Mapping[str, str]
    max_messages: int | None
    timeout_ms: int | None
    wait: bool


def write_records(
    consumer: BlockingZookeeperConsumer | BlockingConsumer,
    options: GroupOptions,
    write: Callable[[ConsumerRecord], None],
) -> int:
    """Write records until the options' limit or timeout. Returns the number of records."""
    count = 0
    for record in group_records(consumer, options.timeout_ms):
        write(record)
        count += 1
        if count == options.max_messages:
            break
    sys.stdout.buffer.flush()
    return count


def group_records(
    consumer: BlockingZookeeperConsumer | BlockingConsumer, timeout_ms: int | None
) -> Iterator[ConsumerRecord]:
    """Yield records until none has arrived for ``timeout_ms``; flush stdout whenever no record is buffered."""
    quiet_since_s = time.monotonic()
    shown_s = 0.0
    with waiting("partitions and records", None if timeout_ms is None else timeout_ms / 1000):
        while True:
            for record in consumer:
                quiet_since_s = time.monotonic()
                if quiet_since_s - shown_s > FLUSH_MS / 1000:
                    shown_s = quiet_since_s
                    told()
                yield record
            sys.stdout.buffer.flush()
            if timeout_ms is not None and (time.monotonic() - quiet_since_s) * 1000 >= timeout_ms:
                return

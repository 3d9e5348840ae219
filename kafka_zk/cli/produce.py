"""``kafka-zk produce``: writes lines as records."""

import itertools
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from kafka_zk.broker.process.signals import interrupt_at_the_end
from kafka_zk.cli.terminal import line_format
from kafka_zk.cli.terminal.command_config import secured
from kafka_zk.cli.terminal.options import PARTITION, bootstrap_option, json_option
from kafka_zk.cli.terminal.output import note, print_json
from kafka_zk.cli.terminal.properties import KEY_VALUE
from kafka_zk.cli.terminal.waiting import shortened_list, waiting

if TYPE_CHECKING:
    from kafka_zk.clients.producer.config import ProducerConfig
    from kafka_zk.clients.producer.future import RecordFuture

LINGER_MS = 20
WATCHED_RECORDS = 10_000


@click.command("produce", short_help="Write lines of stdin or a file to a topic.")
@click.option("--topic", required=True)
@bootstrap_option
@click.option(
    "--file", "path", type=click.Path(path_type=Path, dir_okay=False), help="Read this file instead of stdin."
)
@click.option("--rate", type=click.IntRange(1, 10_000), help="Write numbered records instead, this many a second.")
@click.option("--key-separator", help="Separates key and value in a line.  (implies parse.key=true)")
@click.option("--header", "headers", type=KEY_VALUE, multiple=True, help="A header for every record; may be repeated.")
@click.option("--partition", type=PARTITION, help="Write to this partition.")
@click.option("--acks", "--request-required-acks", "acks", type=click.Choice(["all", "-1", "1", "0"]), default="all")
@click.option(
    "--compression-codec",
    "--compression-type",
    "compression",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    default="none",
    show_default=True,
)
@click.option(
    "--partitioner",
    type=click.Choice(["roundrobin", "sticky"]),
    default="roundrobin",
    help="How records without a key are spread over partitions.",
)
@click.option("--property", "properties", type=KEY_VALUE, multiple=True, help="How a line is read, see below.")
@click.option("--producer-property", "producer_properties", type=KEY_VALUE, multiple=True, help="E.g. linger.ms=5.")
@json_option
def command(
    topic: str,
    bootstrap: str,
    path: Path | None,
    rate: int | None,
    key_separator: str | None,
    headers: tuple[tuple[str, str], ...],
    partition: int | None,
    acks: str,
    compression: str,
    partitioner: str,
    properties: tuple[tuple[str, str], ...],
    producer_properties: tuple[tuple[str, str], ...],
    as_json: bool,
) -> None:
    """Write one record per line of stdin or of a file, and print the offsets; with --rate, until Ctrl-C.

    The key decides the partition, as in Java's producer (murmur2). --property takes the keys of Kafka's console
    producer: parse.key, key.separator, parse.headers, headers.delimiter, headers.separator, headers.key.separator,
    null.marker.

    \b
    kafka-zk produce --topic t < lines.txt
    echo 'k1:hello' | kafka-zk produce --topic t --key-separator : --header source=shell
    kafka-zk produce --topic t --file events.jsonl --compression-codec lz4 --acks 1
    kafka-zk produce --topic t --rate 10
    """
    from kafka_zk.cli.terminal.brokers import check_may_produce
    from kafka_zk.clients.connection.config import format_bootstrap_servers
    from kafka_zk.clients.producer.blocking import BlockingProducer

    line_properties = dict(properties)
    if key_separator is not None:
        line_properties |= {"parse.key": "true", "key.separator": key_separator}
    reader: line_format.LineReader = line_format.from_properties(line_format.LineReader, line_properties)
    options: dict[str, Any] = {
        "bootstrap.servers": bootstrap,
        "acks": acks,
        "compression.type": compression,
        "partitioner": partitioner,
        "linger.ms": LINGER_MS,
        **secured(),
        **dict(producer_properties),
    }
    always = tuple((name, value.encode()) for name, value in headers)
    if rate is not None and path is not None:
        raise click.UsageError("--rate writes numbered records, so it cannot be used with --file")
    with _lines(path) if rate is None else _numbered(rate) as lines, BlockingProducer(None, **options) as producer:
        servers = format_bootstrap_servers(producer.config.bootstrap_addresses)
        check_may_produce(servers, topic)
        report = _Report(servers, producer.config)
        with suppress(*() if rate is None else (KeyboardInterrupt,)):
            for number, line in enumerate(lines, 1):
                record = reader.parse(line, number)
                if number == 1:
                    with waiting(f"topic {topic} at {shortened_list(servers)}", producer.config.max_block_ms / 1000):
                        known = producer.partitions_for(topic)
                    if partition is not None and partition >= len(known.partitions):
                        has = f"0..{len(known.partitions) - 1}"
                        raise click.UsageError(f"--partition {partition}: {topic} has partitions {has}")
                future = producer.send(topic, record.value, record.key, partition, None, always + record.headers)
                report.add(future, len(line))
        report.finish()
    if as_json:
        print_json({"topic": topic, "records": report.count, "partitions": report.partitions})
    else:
        note(f"{report.count} records to {topic}{report.summary()}")


class _Report:
    """Raises the first failure of a record soon after it occurs."""

    def __init__(self, servers: str, config: "ProducerConfig") -> None:
        self.count = 0
        self.partitions: dict[int, dict[str, Any]] = {}
        self._pending: deque[tuple[RecordFuture, int]] = deque()
        self._pending_bytes = 0
        self._most_bytes = config.buffer_memory // 2  # so that ``send`` never blocks for memory
        self._wait = f"acknowledgements of the brokers at {shortened_list(servers)}"
        self._limit_s = config.delivery_timeout_ms / 1000

    def add(self, future: "RecordFuture", size_bytes: int) -> None:
        self._pending.append((future, size_bytes))
        self._pending_bytes += size_bytes
        while self._pending and self._pending[0][0].done():
            self._take_oldest()
        while len(self._pending) > WATCHED_RECORDS or (self._pending and self._pending_bytes > self._most_bytes):
            self._await_oldest()

    def finish(self) -> None:
        while self._pending:
            self._await_oldest()

    def _await_oldest(self) -> None:
        with waiting(self._wait, self._limit_s):
            self._take_oldest()

    def _take_oldest(self) -> None:
        future, size_bytes = self._pending.popleft()
        self._pending_bytes -= size_bytes
        written = future.result()
        self.count += 1
        seen = self.partitions.setdefault(written.partition, {"records": 0, "first": written.offset, "last": -1})
        seen["records"] += 1
        seen["last"] = written.offset

    def summary(self) -> str:
        parts = [
            f"{partition}: {seen['first']}..{seen['last']}" if seen["last"] >= 0 else f"{partition}: not acknowledged"
            for partition, seen in sorted(self.partitions.items())
        ]
        return f" (offsets by partition: {', '.join(parts)})" if parts else ""


@contextmanager
def _numbered(rate: int) -> Iterator[Iterable[bytes]]:
    """Yield ``rate`` lines per second. After a stall of seconds, missed lines are not caught up."""
    interrupt_at_the_end()

    def lines() -> Iterator[bytes]:
        due_s = time.monotonic()
        for number in itertools.count(1):
            due_s = max(due_s + 1 / rate, time.monotonic() - 1)
            time.sleep(max(0.0, due_s - time.monotonic()))
            yield b"record %d" % number

    yield lines()


@contextmanager
def _lines(path: Path | None) -> Iterator[Iterable[bytes]]:
    source: IO[bytes] = sys.stdin.buffer if path is None else path.open("rb")
    try:
        if path is None and sys.stdin.isatty():
            note("one record per line, Ctrl-D ends")
        yield (line.rstrip(b"\r\n") for line in source)
    finally:
        if path is not None:
            source.close()

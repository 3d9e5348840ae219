"""The rows of the benchmark: the load of clients on one broker. The module `clients` runs them.

Every workload uses the same foreign clients against both brokers: Kafka 3.9.1's kafka-producer-perf-test, Java clients
by assigned partitions (tests/peers/java, they need no group), and kcat, of which many run side by side. Latencies of
producers at full speed include the time in their own queue; for others see `Kind.LATENCY`. To add a row, add a
`Workload` to `WORKLOADS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

MANY = 16
#: Records per second of the producer whose latency is measured: far below the broker's limit.
QUIET_RATE = 1_000


class Client(StrEnum):
    """The program that generates the load."""

    JAVA_PRODUCER = "kafka-producer-perf-test"
    JAVA_CONSUMER = "Java consumer (assign)"
    JAVA_ROUND_TRIP = "Java producer and consumer, one record at a time"
    LIBRDKAFKA_PRODUCERS = "kcat -P, one for each partition"
    LIBRDKAFKA_CONSUMERS = "kcat -C, one for each partition"


class Kind(StrEnum):
    """The table of a row."""

    THROUGHPUT = "as fast as the clients can"
    LATENCY = "a quiet client"


class Beside(StrEnum):
    """A change of the broker's state during the run."""

    NOTHING = "nothing"
    TOPICS = "2,000 topics are created"


class BenchFailed(Exception):
    """A client failed or moved fewer records than it should; the whole run is void."""


@dataclass(frozen=True)
class Workload:
    """One row. `share` scales the number of records of a run for rows that are slow or fast by nature; `records` is a
    fixed number instead; `source` is the name of the filled topic that consumers read.
    """

    name: str
    title: str
    client: Client
    record_size_bytes: int = 1000
    share: float = 1.0
    records: int | None = None
    partitions: int = 1
    config: Mapping[str, str] = field(default_factory=dict)
    kind: Kind = Kind.THROUGHPUT
    source: str | None = None
    beside: Beside = Beside.NOTHING
    headline: bool = False

    @property
    def reads(self) -> bool:
        return self.source is not None

    @property
    def comes_last(self) -> bool:
        """The row needs another broker process, or its many files allow only one measurement."""
        return self.beside is not Beside.NOTHING


class Outcome(NamedTuple):
    """The results of one run according to the clients; latencies only from clients that measure them."""

    records: int
    payload_bytes: int
    seconds: float
    p50_latency_ms: float | None = None
    p99_latency_ms: float | None = None
    p999_latency_ms: float | None = None


_BATCH_16K = {"batch.size": "16384", "linger.ms": "10"}
_BATCH_256K = {"batch.size": "262144", "linger.ms": "10", "buffer.memory": "67108864"}
_LZ4 = {"compression.type": "lz4"}


def _fill(name: str, record_size_bytes: int, share: float, partitions: int = 1, **config: str) -> Workload:
    keys = {key.replace("_", "."): value for key, value in config.items()}
    return Workload(
        name, name, Client.JAVA_PRODUCER, record_size_bytes, share, partitions=partitions,
        config={**_BATCH_16K, "acks": "1", **keys},
    )  # fmt: skip


#: The workloads that wrote the data for consumers, by the name of their topic.
SOURCES = {
    source.name: source
    for source in (
        _fill("filled", 1000, 2.0),
        _fill("filled-100b", 100, 4.0),
        _fill("filled-lz4", 1000, 2.0, compression_type="lz4"),
        _fill("filled-16", 1000, 2.0, partitions=MANY),
    )
}


def _java_producer(name: str, title: str, share: float, config: Mapping[str, str], size_bytes: int = 1000) -> Workload:
    return Workload(name, title, Client.JAVA_PRODUCER, size_bytes, share, config=config)


def _headline(workload: Workload) -> Workload:
    return Workload(**{**vars(workload), "headline": True})


def _consumer(name: str, title: str, client: Client, source: str = "filled", **more: Any) -> Workload:
    filled = SOURCES[source]
    return Workload(
        name, title, client, filled.record_size_bytes, filled.share, partitions=filled.partitions, source=source, **more
    )


WORKLOADS = (
    _headline(_java_producer("produce-16k", "produce, 16 KB batches", 1.0, _BATCH_16K)),
    _headline(_java_producer("produce-256k", "produce, 256 KB batches", 2.0, _BATCH_256K)),
    _headline(_java_producer("produce-1", "produce, 1 record a request", 0.1, {"batch.size": "0", "linger.ms": "0"})),
    _java_producer("produce-16k-100b", "produce, 16 KB, 100 B records", 2.0, _BATCH_16K, 100),
    _java_producer("produce-256k-100b", "produce, 256 KB, 100 B records", 4.0, _BATCH_256K, 100),
    _java_producer("produce-16k-lz4", "produce, 16 KB, lz4", 1.0, {**_BATCH_16K, **_LZ4}),
    _java_producer("produce-256k-lz4", "produce, 256 KB, lz4", 1.0, {**_BATCH_256K, **_LZ4}),
    Workload(
        "produce-many", f"produce, {MANY} producers, librdkafka", Client.LIBRDKAFKA_PRODUCERS,
        share=2.0, partitions=MANY, config={"batch.size": "16384", "linger.ms": "10"},
    ),
    _headline(_consumer("consume", "consume, Java", Client.JAVA_CONSUMER)),
    _headline(_consumer("consume-librdkafka", "consume, librdkafka", Client.LIBRDKAFKA_CONSUMERS)),
    _consumer("consume-100b", "consume, Java, 100 B records", Client.JAVA_CONSUMER, "filled-100b"),
    _consumer("consume-lz4", "consume, Java, lz4", Client.JAVA_CONSUMER, "filled-lz4"),
    _consumer("consume-many", f"consume, {MANY} consumers, librdkafka", Client.LIBRDKAFKA_CONSUMERS, "filled-16"),
    Workload(
        "end-to-end", "end to end, 1 record at a time", Client.JAVA_ROUND_TRIP,
        records=5_000, kind=Kind.LATENCY, headline=True,
    ),
    Workload(
        "produce-quiet", f"produce, {QUIET_RATE:,} records/s", Client.JAVA_PRODUCER,
        records=20_000, config={"linger.ms": "0"}, kind=Kind.LATENCY,
    ),
    Workload(
        "produce-topics", f"the same while {Beside.TOPICS}", Client.JAVA_PRODUCER,
        records=30_000, config={"linger.ms": "0"}, kind=Kind.LATENCY, beside=Beside.TOPICS,
    ),
)  # fmt: skip

"""The rows of `make bench-cluster`: the load of clients on three brokers that all have replicas of every partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tests.bench.workloads import MANY, BenchFailed, Client, Kind, Workload

BROKERS = 3
RACKS = tuple(f"rack-{broker}" for broker in range(BROKERS))
"""Each broker has a rack of its own. Clients have none, except the consumers of `CONSUMERS`."""

#: Settings beyond Kafka's config/server.properties.
OVERRIDES = {
    "auto.create.topics.enable": "false",
    "default.replication.factor": str(BROKERS),
    "log.segment.delete.delay.ms": "1000",
    "min.insync.replicas": "2",
    "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
}

_BYTES = 20_000_000
_BYTES_OF_SMALL_RECORDS = 10_000_000
_BATCHES = {"default": {}, "256k": {"batch.size": "262144", "linger.ms": "10"}}
#: kafka-producer-perf-test has Java's default batch size of 16 KB; librdkafka's default is 1 MB.
_DEFAULT_OF_LIBRDKAFKA = {"batch.size": "16384", "linger.ms": "0"}


class Figure(NamedTuple):
    """One number of a row: its name, its unit (a value is divided by ``divisor``), and the target for the ratio
    ours/Kafka.
    """

    name: str
    unit: str
    divisor: float
    wanted: str


MB_PER_S = Figure("throughput", "MB/s", 1.0, "≥ 1.5")
CPU_PER_GB = Figure("CPU of all brokers", "s/GB", 1.0, "≤ 0.35")
P50 = Figure("p50", "ms", 1.0, "")
P99 = Figure("p99", "ms", 1.0, "≤ 0.5")
SECONDS = Figure("time", "s", 1.0, "")
CPU_SECONDS = Figure("CPU of all brokers in that time", "s", 1.0, "≤ 0.35")
MEMORY = Figure("memory of all brokers", "MB", 1e6, "≤ 0.12")

FIGURES = (MB_PER_S, CPU_PER_GB, P50, P99, SECONDS, CPU_SECONDS, MEMORY)

END_TO_END = Workload(
    "end-to-end", "end to end, 1 record at a time", Client.JAVA_ROUND_TRIP, records=2_000, kind=Kind.LATENCY
)


def _producers() -> Iterator[Workload]:
    """Every combination of acks, record size, batch size and number of producers."""
    for acks in ("1", "all"):
        for size_bytes in (1000, 100):
            total_bytes = _BYTES if size_bytes == 1000 else _BYTES_OF_SMALL_RECORDS
            for batch, config in _BATCHES.items():
                for producers in (1, MANY):
                    by_kcat = producers > 1
                    own = _DEFAULT_OF_LIBRDKAFKA if by_kcat else {"buffer.memory": "67108864"}
                    yield Workload(
                        f"produce-{acks}-{size_bytes}b-{batch}-{producers}",
                        f"produce, acks={acks}, {size_bytes} B, {batch} batches, {producers} producer{'s'[:by_kcat]}",
                        Client.LIBRDKAFKA_PRODUCERS if by_kcat else Client.JAVA_PRODUCER,
                        size_bytes,
                        records=total_bytes // size_bytes // MANY * MANY,
                        partitions=MANY if by_kcat else BROKERS,
                        config={**own, **config, "acks": acks},
                    )


PRODUCERS = tuple(_producers())
"""One producer writes to three partitions, one for each leader; sixteen producers write to one partition each."""

FILLING = Workload(
    "filling", "filling", Client.JAVA_PRODUCER, partitions=BROKERS,
    config={**_BATCHES["256k"], "acks": "all", "buffer.memory": "67108864"},
)  # fmt: skip
"""The records that the other brokers get while one is stopped."""


_FILLED_RECORDS = 500_000
_READ_OF_MANY = 450_000
"""The number of records that one consumer of many partitions reads. Near the ends, its only fetch in flight may ask for
partitions that it has already read: the fetch then waits for ``fetch.max.wait.ms``, and the other partitions wait with
it. How often this happens is chance.
"""

FILLED = Workload(
    "filled", "filled", Client.LIBRDKAFKA_PRODUCERS, records=_FILLED_RECORDS, partitions=MANY,
    config={**_DEFAULT_OF_LIBRDKAFKA, **_BATCHES["256k"], "acks": "all"},
)  # fmt: skip
"""The topic that consumers read; all partitions have the same size."""


class Reading(NamedTuple):
    """A row of consumers, all in the rack of one broker."""

    workload: Workload
    server: int


LEADER, FOLLOWER = 0, 2
"""The leader of all partitions that consumers read, and one of their followers."""
_STRAY_SHARE = 0.05


def _consumers() -> Iterator[Reading]:
    clients = ((Client.JAVA_CONSUMER, 1, _READ_OF_MANY), (Client.LIBRDKAFKA_CONSUMERS, MANY, _FILLED_RECORDS))
    for client, count, records in clients:
        for broker, kind in ((LEADER, "leader"), (FOLLOWER, "follower")):
            workload = Workload(
                f"consume-{kind}-{count}",
                f"consume from the {kind}, {count} consumer{'s'[: count > 1]}",
                client,
                FILLED.record_size_bytes,
                records=records,
                partitions=MANY,
                config={"client.rack": RACKS[broker]},
            )
            yield Reading(workload, broker)


CONSUMERS = tuple(_consumers())
"""One consumer (Java) reads sixteen partitions; sixteen consumers (kcat) read one each."""


def check_server(reading: Reading, sent_bytes: Sequence[int], payload_bytes: int) -> None:
    """Check that the records came from the row's broker. Args: the bytes that each broker has sent. Raises:
    BenchFailed.
    """
    others = max(sent for broker, sent in enumerate(sent_bytes) if broker != reading.server)
    if sent_bytes[reading.server] < payload_bytes or others > _STRAY_SHARE * payload_bytes:
        raise BenchFailed(
            f"{reading.workload.name}: {payload_bytes} bytes should have come from broker {reading.server}, "
            f"but the brokers have sent {list(sent_bytes)}"
        )

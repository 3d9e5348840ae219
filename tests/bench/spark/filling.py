"""Topics full of records for the benches of Spark."""

from __future__ import annotations

import os

import click
import confluent_kafka

_FLUSH_S = 300
_RUN = 1000  # records in a row that go to one partition


def fill(bootstrap: str, topic: str, records: int, value_bytes: int, codec: str, partitions: int) -> None:
    """Write the records with keys, in batches of Kafka's default size; half of each value is random."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 5, "batch.size": 16384,
         "queue.buffering.max.messages": 1_000_000, "queue.buffering.max.kbytes": 256 * 1024}
    )  # fmt: skip
    half = value_bytes // 2
    noise = os.urandom(1 << 16).hex().encode()
    for number in range(records):
        at = number * 7919 % (len(noise) - half)
        value = noise[at : at + half].ljust(value_bytes, b".")
        while True:
            try:
                producer.produce(topic, value, b"%08d" % number, partition=number // _RUN % partitions)
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(_FLUSH_S):
        raise click.ClickException(f"{topic} was not written whole")

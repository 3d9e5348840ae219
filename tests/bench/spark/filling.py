"""Topics full of records for the benches of Spark."""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import click
import confluent_kafka

_FLUSH_S = 300
_STEP_S = 0.2
_RUN = 1000  # consecutive records that go to one partition


def fill(
    bootstrap: str, topic: str, records: int, value_bytes: int, codec: str, partitions: int, *,
    clock: Callable[[], float] = time.monotonic,
) -> None:  # fmt: skip
    """Write the records with keys, in batches of Kafka's default size; half of each value is random.

    An interrupt ends the function immediately, and discards the records that are not written yet. Raises:
    ClickException after five minutes.
    """
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 5, "batch.size": 16384,
         "queue.buffering.max.messages": 1_000_000, "queue.buffering.max.kbytes": 256 * 1024}
    )  # fmt: skip
    half = value_bytes // 2
    noise = os.urandom(1 << 16).hex().encode()
    try:
        for number in range(records):
            at = number * 7919 % (len(noise) - half)
            value = noise[at : at + half].ljust(value_bytes, b".")
            while True:
                try:
                    producer.produce(topic, value, b"%08d" % number, partition=number // _RUN % partitions)
                    break
                except BufferError:
                    producer.poll(_STEP_S)
        deadline_s = clock() + _FLUSH_S
        while producer.flush(_STEP_S):  # in steps, because Python sees an interrupt only after a step
            if clock() > deadline_s:
                raise click.ClickException(f"{topic} was not written whole")
    finally:
        producer.purge()
        producer.flush(_STEP_S)
        del producer  # the traceback of an interrupt would keep it, and it would log errors when the brokers end

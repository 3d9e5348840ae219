"""One Python consumer, or committer, under measurement, in a process of its own.

    read CLIENT BOOTSTRAP ZOOKEEPER TOPIC GROUP RECORDS      reads a topic from its beginning as the group's only member
    commit CLIENT BOOTSTRAP ZOOKEEPER TOPIC GROUP PARTITIONS SECONDS     commits offsets of PARTITIONS at a time

The answer is a JSON object: ``count`` of records or commits, ``seconds`` from the first record on, ``cpu_s``.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count as numbers

import confluent_kafka
import kafka

from kafka_zk.base.types import TopicPartition
from kafka_zk.registry.client.kazoo_blocking import KazooBlockingClient, run_blocking
from kafka_zk.registry.offsets import Commit, OffsetRefused, OffsetRegistry
from kafka_zk.registry.owners import Claim, Claimed, OwnerRegistry

_BATCH = 500
_POLL_TIMEOUT_S = 1.0
_SESSION_TIMEOUT_MS = 18_000


def _read_kafka_python(bootstrap: str, zookeeper: str, topic: str, group: str) -> Iterator[int]:
    consumer = kafka.KafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest", max_poll_records=_BATCH
    )
    while True:
        yield sum(map(len, consumer.poll(timeout_ms=int(_POLL_TIMEOUT_S * 1000)).values()))


def _read_confluent(bootstrap: str, zookeeper: str, topic: str, group: str) -> Iterator[int]:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest", "log_level": 3}
    )
    consumer.subscribe([topic])
    while True:
        yield len(consumer.consume(_BATCH, _POLL_TIMEOUT_S))


def _read_ours(bootstrap: str, zookeeper: str, topic: str, group: str) -> Iterator[int]:
    from kafka_zk.clients.consumer.blocking_consumer import BlockingZookeeperConsumer

    consumer = BlockingZookeeperConsumer(
        group_id=group, zookeeper_connect=zookeeper, auto_offset_reset="smallest", max_poll_records=_BATCH
    )
    consumer.subscribe([topic])
    while True:
        yield len(consumer.poll(int(_POLL_TIMEOUT_S * 1000)))


_READERS = {"kafka-python": _read_kafka_python, "confluent-kafka": _read_confluent, "ours": _read_ours}


def read(client: str, bootstrap: str, zookeeper: str, topic: str, group: str, wanted: int) -> dict[str, float]:
    """Read the topic. The clock starts after the first batch, which does not count, because the join is measured
    elsewhere.
    """
    batches = _READERS[client](bootstrap, zookeeper, topic, group)
    first = next(size for size in batches if size)
    started_s, cpu_s, found = time.monotonic(), time.process_time(), 0
    while first + found < wanted:
        found += next(batches)
    return {"count": found, "seconds": time.monotonic() - started_s, "cpu_s": time.process_time() - cpu_s}


def _commit_ours(bootstrap: str, zookeeper: str, topic: str, group: str, partitions: int) -> Callable[[int], None]:
    client = KazooBlockingClient(zookeeper, _SESSION_TIMEOUT_MS)
    client.start()
    owned = [TopicPartition(topic, number) for number in range(partitions)]
    claims = run_blocking(OwnerRegistry(client, group).claim([Claim(tp, "m-0") for tp in owned]))
    tokens = {tp: outcome.token for tp, outcome in claims.items() if isinstance(outcome, Claimed)}
    registry = OffsetRegistry(client, group)

    def commit(offset: int) -> None:
        for tp, token in run_blocking(registry.commit({tp: Commit(offset, tokens[tp]) for tp in owned})).items():
            assert not isinstance(token, OffsetRefused)
            tokens[tp] = token

    return commit


def _commit_kafka_python(
    bootstrap: str, zookeeper: str, topic: str, group: str, partitions: int
) -> Callable[[int], None]:
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False)
    owned = [kafka.TopicPartition(topic, number) for number in range(partitions)]
    consumer.assign(owned)
    return lambda offset: consumer.commit(dict.fromkeys(owned, kafka.OffsetAndMetadata(offset, "", -1)))


def _commit_confluent(bootstrap: str, zookeeper: str, topic: str, group: str, partitions: int) -> Callable[[int], None]:
    consumer = confluent_kafka.Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 3})

    def commit(offset: int) -> None:
        offsets = [confluent_kafka.TopicPartition(topic, number, offset) for number in range(partitions)]
        consumer.commit(offsets=offsets, asynchronous=False)

    return commit


_COMMITTERS = {"kafka-python": _commit_kafka_python, "confluent-kafka": _commit_confluent, "ours": _commit_ours}


def commit(
    client: str, bootstrap: str, zookeeper: str, topic: str, group: str, partitions: int, seconds: float
) -> dict[str, float]:
    """Commit all partitions again and again, each time after the previous response; the first commit does not count."""
    commit_all = _COMMITTERS[client](bootstrap, zookeeper, topic, group, partitions)
    commit_all(0)
    started_s, cpu_s = time.monotonic(), time.process_time()
    for round_number in numbers(1):
        commit_all(round_number)
        if time.monotonic() - started_s >= seconds:
            break
    elapsed_s = time.monotonic() - started_s
    return {"count": round_number * partitions, "seconds": elapsed_s, "cpu_s": time.process_time() - cpu_s}


def main(what: str, *arguments: str) -> None:
    if what == "read":
        client, bootstrap, zookeeper, topic, group, wanted = arguments
        answer = read(client, bootstrap, zookeeper, topic, group, int(wanted))
    else:
        client, bootstrap, zookeeper, topic, group, partitions, seconds = arguments
        answer = commit(client, bootstrap, zookeeper, topic, group, int(partitions), float(seconds))
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

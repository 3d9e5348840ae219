"""A group of the broker whose members are our consumer, confluent-kafka and kafka-python, each a process of its own.

    python -m tests.integration.groups.mixed_broker_group KIND FILE BOOTSTRAP GROUP TOPIC

A member writes each record that it gets as a line ``partition offset`` to FILE without a buffer, so that a kill loses
nothing. On SIGTERM, it closes its consumer and ends.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator

SESSION_MS = 6_000
HEARTBEAT_MS = 500
KINDS = ("kafka-zk", "confluent-kafka", "kafka-python")

Records = Iterator[list[tuple[int, int]]]


def _kafka_zk(bootstrap: str, group: str, topic: str) -> Records:
    from kafka_zk.clients.consumer.blocking_consumer import BlockingConsumer

    with BlockingConsumer(
        [topic], bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest",
        session_timeout_ms=SESSION_MS, heartbeat_interval_ms=HEARTBEAT_MS, auto_commit_interval_ms=200,
    ) as consumer:  # fmt: skip
        while True:
            yield [(record.partition, record.offset) for record in consumer.poll(100)]


def _confluent(bootstrap: str, group: str, topic: str) -> Records:
    import confluent_kafka

    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest", "log_level": 3,
            "session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": HEARTBEAT_MS, "auto.commit.interval.ms": 200,
            "partition.assignment.strategy": "range",
        }
    )  # fmt: skip
    consumer.subscribe([topic])
    try:
        while True:
            message = consumer.poll(0.1)
            yield [] if message is None or message.error() else [(message.partition() or 0, message.offset() or 0)]
    finally:
        consumer.close()


def _kafka_python(bootstrap: str, group: str, topic: str) -> Records:
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=group, auto_offset_reset="earliest",
        session_timeout_ms=SESSION_MS, heartbeat_interval_ms=HEARTBEAT_MS, auto_commit_interval_ms=200,
    )  # fmt: skip
    try:
        while True:
            polled = consumer.poll(timeout_ms=100)
            yield [(record.partition, record.offset) for records in polled.values() for record in records]
    finally:
        consumer.close()


_CLIENTS: dict[str, Callable[[str, str, str], Records]] = dict(
    zip(KINDS, (_kafka_zk, _confluent, _kafka_python), strict=True)
)


def main(kind: str, file: str, bootstrap: str, group: str, topic: str) -> None:
    leaving = False

    def leave(*_: object) -> None:
        nonlocal leaving
        leaving = True

    signal.signal(signal.SIGTERM, leave)
    lines = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    records = _CLIENTS[kind](bootstrap, group, topic)
    for found in records:
        os.write(lines, b"".join(b"%d %d\n" % each for each in found))
        if leaving:
            break
    records.close()  # type: ignore[attr-defined]


if __name__ == "__main__":
    main(*sys.argv[1:])

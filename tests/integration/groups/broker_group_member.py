"""One member of a broker's group, as a process with another project's client.

python -m tests.integration.groups.broker_group_member CLIENT BOOTSTRAP GROUP TOPIC NAME STRATEGY

CLIENT is confluent-kafka or kafka-python, STRATEGY range or cooperative-sticky (confluent-kafka only). On SIGTERM, the
member leaves.
"""

import signal
import sys
from collections.abc import Callable

SESSION_TIMEOUT_MS = 6_000
HEARTBEAT_MS = 300


def confluent_kafka(
    bootstrap: str, group: str, topic: str, name: str, strategy: str
) -> tuple[Callable[[], object], Callable[[], object]]:
    """Returns a function that polls and one that leaves."""
    from confluent_kafka import Consumer

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap, "group.id": group, "client.id": name, "auto.offset.reset": "earliest",
            "partition.assignment.strategy": strategy, "session.timeout.ms": SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": HEARTBEAT_MS, "auto.commit.interval.ms": 100, "log_level": 3,
        }
    )  # fmt: skip
    consumer.subscribe([topic])
    return (lambda: consumer.poll(0.05)), consumer.close


def kafka_python(
    bootstrap: str, group: str, topic: str, name: str, strategy: str
) -> tuple[Callable[[], object], Callable[[], object]]:
    """Like ``confluent_kafka``, but ignores ``strategy``: the client's default is used, which begins with range."""
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(
        topic, bootstrap_servers=bootstrap, group_id=group, client_id=name,
        session_timeout_ms=SESSION_TIMEOUT_MS, heartbeat_interval_ms=HEARTBEAT_MS,
    )  # fmt: skip
    return (lambda: consumer.poll(timeout_ms=50)), consumer.close


def main(client: str, *arguments: str) -> None:
    stopped: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopped.append(number))
    poll, close = {"confluent-kafka": confluent_kafka, "kafka-python": kafka_python}[client](*arguments)
    while not stopped:
        poll()
    close()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A steady producer, as a process: the same number of records per second to every partition, evenly spread over time.

Arguments: bootstrap servers, topic, number of partitions, records per second and partition. It ends when its input
does.
"""

from __future__ import annotations

import sys
import threading
import time

from confluent_kafka import Producer

_TICK_S = 0.001
_VALUE = b"x" * 20


def main(bootstrap: str, topic: str, partition_count: int, rate: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "1", "linger.ms": 2, "log_level": 3})
    ended = threading.Event()

    def wait_for_the_end() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    started, sent = time.monotonic(), 0
    while not ended.wait(_TICK_S):
        due = int((time.monotonic() - started) * rate * partition_count)
        try:
            while sent < due:
                producer.produce(topic, _VALUE, partition=sent % partition_count)
                sent += 1
        except BufferError:  # the broker is slow: the records stay due
            pass
        producer.poll(0)
    producer.flush(10)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))

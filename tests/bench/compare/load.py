"""A producer with acks=all during the changes of the brokers: the longest time without an acknowledgement.

``Load`` runs this module in a process of its own, so that no other work delays it: it writes one small record to each
of a few partitions every 20 ms. It answers the line ``gap`` with the longest gap since the previous line, and the line
``calm`` once each partition has been acknowledged again, so that a gap counts where it began. It answers ``metadata``
with the number of Metadata requests since the previous such line: brokers that name new leaders (KIP-951) make these
unnecessary.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Producer

from kafka_zk.embedded.process import tied
from tests.peers.jars import REPOSITORY_ROOT

INTERVAL_S = 0.02
_CONFIG: dict[str, str | int | float | bool] = {
    "acks": "all",
    "linger.ms": 0,
    "log_level": 0,
    "max.in.flight.requests.per.connection": 5,
    "message.timeout.ms": 120_000,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "retry.backoff.max.ms": 100,
    "retry.backoff.ms": 50,
    "statistics.interval.ms": 100,
    "topic.metadata.refresh.fast.interval.ms": 100,
}
"""A client with short retry intervals, so that it waits only for the cluster. It has as many requests in flight as
Java's producer. librdkafka's default without idempotence is a million: after 6 s without a leader, a thousand
requests of one record each wait at each broker for one response after the other, and those for moved partitions come
last.
"""


class Gaps:
    """The longest time between two acknowledgements of a partition."""

    def __init__(self, partitions: Sequence[int], now_s: float) -> None:
        self._last_s = dict.fromkeys(partitions, now_s)
        self._longest_s = 0.0

    def acknowledged(self, partition: int, now_s: float) -> None:
        self._longest_s = max(self._longest_s, now_s - self._last_s[partition])
        self._last_s[partition] = now_s

    def taken(self, now_s: float) -> float:
        """The longest gap since the last call. An unfinished gap counts up to now, and counts again, from its start, at
        the next call.
        """
        longest = max([self._longest_s, *(now_s - last for last in self._last_s.values())])
        self._longest_s = 0.0
        return longest


class MetadataRequests:
    """The number of Metadata requests that librdkafka has sent, according to its statistics of each broker."""

    def __init__(self) -> None:
        self._total = self._taken = 0

    def counted(self, statistics: str) -> None:
        """Take the numbers from librdkafka's JSON."""
        brokers = json.loads(statistics)["brokers"].values()
        self._total = sum(broker["req"].get("Metadata", 0) for broker in brokers)

    def taken(self) -> int:
        """The number since the last call."""
        count, self._taken = self._total - self._taken, self._total
        return count


class Load:
    """The process, as a context. Raises: TimeoutError if it does not respond."""

    def __init__(self, bootstrap: str, topic: str, partitions: Sequence[int]) -> None:
        arguments = (bootstrap, topic, ",".join(map(str, partitions)))
        self._process = subprocess.Popen(
            tied([sys.executable, "-m", __name__, *arguments]),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY_ROOT,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY_ROOT)},
        )  # fmt: skip

    def __enter__(self) -> Load:
        self.calm()
        return self

    def gap(self) -> float:
        """The longest gap since the last call of any kind, in seconds."""
        return self._ask("gap")

    def calm(self) -> float:
        """Wait until every partition has a new acknowledgement; returns the longest gap until then."""
        return self._ask("calm")

    def metadata_count(self) -> int:
        """The number of Metadata requests since the last call of this method, up to 0.1 s ago."""
        return int(self._ask("metadata"))

    def _ask(self, line: str) -> float:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return float(self._process.stdout.readline() or "nan")

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()


def main(bootstrap: str, topic: str, partitions: Sequence[int]) -> None:
    """Write and answer until standard input ends."""
    requests = MetadataRequests()
    producer = Producer({"bootstrap.servers": bootstrap, "stats_cb": requests.counted, **_CONFIG})
    silent: set[int] = set()
    is_asked = False
    gaps = Gaps(partitions, time.monotonic())

    def delivered(error: Any, message: Any) -> None:
        if error is None:
            gaps.acknowledged(message.partition(), time.monotonic())
            silent.discard(message.partition())

    while True:
        begun_s = time.monotonic()
        for partition in partitions:
            producer.produce(topic, b"x" * 100, partition=partition, on_delivery=delivered)
        while (left_s := begun_s + INTERVAL_S - time.monotonic()) > 0:
            producer.poll(left_s)
        if not is_asked and select.select([sys.stdin], [], [], 0)[0]:
            line = sys.stdin.readline().strip()
            if not line:
                return
            if line == "metadata":
                print(requests.taken(), flush=True)
                continue
            is_asked = True
            silent.update(partitions if line == "calm" else ())
        if is_asked and not silent:
            is_asked = False
            print(gaps.taken(time.monotonic()), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], [int(number) for number in sys.argv[3].split(",")])

"""Repeated kills of a member while records are written, and the lag around the kills."""

import threading
import time
from collections.abc import Collection, Mapping
from statistics import median
from typing import NamedTuple

from kafka_zk.clients.producer.blocking import BlockingProducer
from kafka_zk.learn.lesson.chart import lags

INPUT_PER_SECOND = 1_200
BIN_MS = 20
TIMES_MS = list(range(-120, 400, BIN_MS))
"""The times around a kill at which the lag is measured."""
_STEP_S = 0.005


class Written(NamedTuple):
    """``written_s``: when the producer got the record, wall-clock."""

    partition: int
    written_s: float


class Kill(NamedTuple):
    """A killed member's partitions, and the time of the kill in wall-clock seconds."""

    killed_s: float
    partitions: frozenset[int]


def usual_lag(
    kills: Collection[Kill], written: Collection[Written], firsts: Mapping[tuple[int, int], float]
) -> list[float]:
    """Median over all kills at each of ``TIMES_MS``, for partitions that the killed member did not own.

    Args:
        firsts: when each record (partition, offset) was first delivered.
    """
    by_kill = []
    for kill in kills:
        came = [each.written_s for each in written if each.partition not in kill.partitions]
        went = [got_s for (partition, _), got_s in firsts.items() if partition not in kill.partitions]
        by_kill.append(lags(came, went, [kill.killed_s + time_ms / 1000 for time_ms in TIMES_MS]))
    return [median(at_one_time) for at_one_time in zip(*by_kill, strict=True)]


def average_input(kills: Collection[Kill], written: Collection[Written]) -> list[int]:
    """Records written in the interval before each of ``TIMES_MS``."""
    counts = [0] * len(TIMES_MS)
    for kill in kills:
        for each in written:
            index = int(((each.written_s - kill.killed_s) * 1000 - TIMES_MS[0]) // BIN_MS) + 1
            if 0 <= index < len(counts):
                counts[index] += 1
    return [round(count / len(kills)) for count in counts]


class Writer:
    """Writes to all partitions in turn at a constant rate, on a thread, until its block ends."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.written: list[Written] = []
        self._bootstrap = bootstrap
        self._topic = topic
        self._partitions = partitions
        self._ended = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            with BlockingProducer(None, bootstrap_servers=self._bootstrap) as producer:
                began_s = time.time()
                while not self._ended.wait(_STEP_S):
                    due = int((time.time() - began_s) * INPUT_PER_SECOND)
                    while len(self.written) < due:
                        now_s = time.time()
                        partition = len(self.written) % self._partitions
                        producer.send(self._topic, b"x", partition=partition, timestamp_ms=int(now_s * 1000))
                        self.written.append(Written(partition, now_s))
        except Exception as error:
            self._failure = error  # raised on the lesson's thread

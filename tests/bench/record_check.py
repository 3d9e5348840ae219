"""The cost of the check of produced records, for each codec: `python -m tests.bench.record_check`.

A Produce request with a batch of 16 KB on the wire goes through the broker of `request_cost.py` again and again. Checks
get their share of the time, as in a broker that requests saturate. Time is the CPU time of the broker's turns, so that
neither the client nor other work on the machine counts.
"""

from __future__ import annotations

import itertools
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from kafka_zk.broker.replica.record_checks import RecordChecks
from kafka_zk.storage.records.compression import Compression
from tests.bench.request_cost import OneBroker, produce_request
from tests.kafka_zk.broker.conftest import batch

WIRE_BYTES = 16_000
RECORD_BYTES = (1_000, 100)
LEAST_KEPT = 0.9
"""The share of the throughput without checks that must remain when requests saturate the broker."""

_TIMEOUT_S = 30
_WARM_UP_TURNS, _TURNS = 500, 4_000
_ROUNDS = 5


class Price(NamedTuple):
    """
    Args:
        checked: CPU time of a request whose batch is checked, as a multiple of one whose batch is not.
        kept: throughput of a saturated broker, as a share of its throughput without checks.
    """

    checked: float
    kept: float


class _Measured(OneBroker):
    """A broker whose clock is the CPU time of its turns."""

    def __init__(self, folder: Path, records: bytes) -> None:
        super().__init__(folder)
        self._requests["measured"] = produce_request(records)
        self._between_s = time.thread_time()
        self._ended_s = self._between_s

    def seconds(self) -> float:
        """The CPU time of all turns, including the current one."""
        return time.thread_time() - self._between_s

    def cpu_s(self, turns: int, seconds: Callable[[], float]) -> tuple[list[float], list[float]]:
        """CPU times of requests whose batches are checked, and of those whose batches are not.

        Args:
            seconds: the clock of the checks, which have no credit at first.
        """
        replicas: Any = self._replicas
        replicas.record_checks = checks = RecordChecks(seconds)
        replicas._check_records = checks.check
        while checks._credit_s > 0:
            checks.spend(checks._credit_s)
        checked: list[float] = []
        unchecked: list[float] = []
        for _ in range(turns):
            before = checks.unchecked_count
            turn_s = self._turn_s()
            (unchecked if checks.unchecked_count > before else checked).append(turn_s)
        return checked, unchecked

    def _turn_s(self) -> float:
        self._send("measured")
        begun_s = time.thread_time()
        self._between_s += begun_s - self._ended_s
        self._reactor.doIteration(_TIMEOUT_S)
        self._ended_s = time.thread_time()
        self._receive("measured")
        return self._ended_s - begun_s


def made_batch(codec: Compression, record_bytes: int) -> bytes:
    """A batch of WIRE_BYTES or slightly more, of text in which half of the bits are random."""
    source = random.Random(record_bytes)
    values: list[bytes] = []
    for count in itertools.count(1):
        values.append(source.randbytes(record_bytes // 2).hex().encode())
        if count * record_bytes >= WIRE_BYTES and len(built := batch(*values, compression=codec)) >= WIRE_BYTES:
            return built
    raise AssertionError("the batch is not large enough")


def price(codec: Compression, record_bytes: int, rounds: int = _ROUNDS) -> Price:
    """Medians over the rounds."""
    with tempfile.TemporaryDirectory(prefix="kafka-zk-record-check-") as folder:
        broker = _Measured(Path(folder), made_batch(codec, record_bytes))
        try:
            broker.cpu_s(_WARM_UP_TURNS, broker.seconds)  # the interpreter specialises its code
            prices = [_price(*broker.cpu_s(_TURNS, broker.seconds)) for _ in range(rounds)]
        finally:
            broker.close()
    return Price(median(each.checked for each in prices), median(each.kept for each in prices))


def _price(checked: list[float], unchecked: list[float]) -> Price:
    """The price from medians: both kinds of requests take turns, so that a disturbance slows down some of both."""
    times = median(checked) / median(unchecked)
    share = len(checked) / (len(checked) + len(unchecked))
    return Price(times, 1 / (1 + share * (times - 1)))


def report(rounds: int = _ROUNDS) -> Iterator[str]:
    """The lines of a table, in Markdown."""
    figures = ("a checked request", "throughput kept")
    columns = [f"{figure}, {size} B records" for size in RECORD_BYTES for figure in figures]
    yield f"| codec | {' | '.join(columns)} |"
    yield f"|---|{'---|' * len(columns)}"
    for codec in Compression:
        found = [price(codec, size, rounds) for size in RECORD_BYTES]
        cells = " | ".join(f"{each.checked:.1f} x | {each.kept:.0%}" for each in found)
        yield f"| {codec.name} | {cells} |"


if __name__ == "__main__":
    for line in report():
        print(line)
        sys.stdout.flush()

"""`python -m tests.bench.durability`: the cost of durability for storage, in time and in fsyncs.

To compare two checkouts, run the bench in both in turns. On a busy machine, only the fsyncs are comparable.
"""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import click

from kafka_zk.base.types import TopicPartition
from kafka_zk.storage.files.log_config import LogConfig
from kafka_zk.storage.manager.log_manager import LogManager
from tests.storage.helpers import append, batch

_LOG_COUNT = 300
_BATCH_COUNT = 20_000
_SEGMENT_BYTES = 1 << 20
_CONFIG = LogConfig(segment_bytes=_SEGMENT_BYTES)


def _manager(path: Path) -> LogManager:
    return LogManager([path], _CONFIG, broker_id=0, cluster_id="bench", clock_ms=lambda: int(time.time() * 1000))


def _started(path: Path) -> LogManager:
    logs = _manager(path)
    logs.start({})
    return logs


class Step(NamedTuple):
    """The cost of a step."""

    ms: float
    fsyncs: int


class _Syncs:
    """Counts the process's fsyncs."""

    def __init__(self) -> None:
        self.count = 0
        for name in ("fsync", "fdatasync"):
            setattr(os, name, self._counting(getattr(os, name)))

    def _counting(self, sync: Callable[[int], None]) -> Callable[[int], None]:
        def counted(descriptor: int) -> None:
            self.count += 1
            sync(descriptor)

        return counted

    def measured(self, work: Callable[[], object]) -> Step:
        begun_s, before = time.perf_counter(), self.count
        work()
        return Step((time.perf_counter() - begun_s) * 1000, self.count - before)


def _crash(logs: LogManager) -> None:
    for log_dir in logs.hosted.live_dirs:
        log_dir.close()
    for log in logs.all_logs():
        log.segments.close_files()


def _round(path: Path, syncs: _Syncs) -> dict[str, Step]:
    """The cost of each step."""
    logs = _started(path / "one")
    log = logs.get_or_create(TopicPartition("filled", 0), _CONFIG, "A" * 22)
    data = batch(1, value=b"x" * 1000)

    def fill() -> None:
        for _ in range(_BATCH_COUNT):
            append(log, bytearray(data))

    def fill_idempotently() -> None:
        for number in range(_BATCH_COUNT):
            append(log, batch(1, value=b"x" * 1000, producer_id=1, producer_epoch=0, base_sequence=number))

    found = {"append 20 MB, rolling 20 times": syncs.measured(fill), "flush them": syncs.measured(log.flush)}
    found["append them with a producer id"] = syncs.measured(fill_idempotently)
    found["flush these"] = syncs.measured(log.flush)
    logs.shutdown()

    logs = _started(path / "many")
    for number in range(_LOG_COUNT):
        each = logs.get_or_create(TopicPartition("t", number), _CONFIG, "A" * 22)
        append(each, bytearray(data))
    found[f"stop with {_LOG_COUNT} logs"] = syncs.measured(logs.shutdown)
    again = _manager(path / "many")
    found["start after a clean stop"] = syncs.measured(lambda: again.start({}))
    _crash(again)
    last = _manager(path / "many")
    found["start after a crash"] = syncs.measured(lambda: last.start({}))
    last.shutdown()
    return found


@click.command()
@click.option("--rounds", default=5, show_default=True, help="How many times each step is timed.")
@click.option("--json", "as_json", is_flag=True, help="Print the medians as JSON.")
def main(rounds: int, as_json: bool) -> None:
    """Time the work of a log directory around a crash, on this machine's disk."""
    samples: list[dict[str, Step]] = []
    syncs = _Syncs()
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            samples.append(_round(Path(folder), syncs))
    medians = {
        name: Step(round(statistics.median(sample[name].ms for sample in samples), 1), samples[0][name].fsyncs)
        for name in samples[0]
    }
    if as_json:
        click.echo(json.dumps({name: step._asdict() for name, step in medians.items()}))
        return
    for name, (median_ms, fsyncs) in medians.items():
        click.echo(f"{name:40} {median_ms:9.1f} ms {fsyncs:6} fsyncs")


if __name__ == "__main__":
    main()

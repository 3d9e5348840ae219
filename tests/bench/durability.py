"""`python -m tests.bench.durability`: what durability costs storage. Run it in two checkouts, in turns, to compare."""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

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


def _timed_ms(work: Callable[[], object]) -> float:
    begun_s = time.perf_counter()
    work()
    return (time.perf_counter() - begun_s) * 1000


def _crash(logs: LogManager) -> None:
    for log_dir in logs.hosted.live_dirs:
        log_dir.close()
    for log in logs.all_logs():
        log.segments.close_files()


def _round(path: Path) -> dict[str, float]:
    """Milliseconds of each step."""
    logs = _started(path / "one")
    log = logs.get_or_create(TopicPartition("filled", 0), _CONFIG, "A" * 22)
    data = batch(1, value=b"x" * 1000)

    def fill() -> None:
        for _ in range(_BATCH_COUNT):
            append(log, bytearray(data))

    found = {"append 20 MB, rolling 20 times": _timed_ms(fill), "flush them": _timed_ms(log.flush)}
    logs.shutdown()

    logs = _started(path / "many")
    for number in range(_LOG_COUNT):
        each = logs.get_or_create(TopicPartition("t", number), _CONFIG, "A" * 22)
        append(each, bytearray(data))
    found[f"stop with {_LOG_COUNT} logs"] = _timed_ms(logs.shutdown)
    again = _manager(path / "many")
    found["start after a clean stop"] = _timed_ms(lambda: again.start({}))
    _crash(again)
    last = _manager(path / "many")
    found["start after a crash"] = _timed_ms(lambda: last.start({}))
    last.shutdown()
    return found


@click.command()
@click.option("--rounds", default=5, show_default=True, help="How many times each step is timed.")
@click.option("--json", "as_json", is_flag=True, help="Print the medians as JSON.")
def main(rounds: int, as_json: bool) -> None:
    """Time what a log directory does around a crash, on this machine's disk."""
    samples: list[dict[str, float]] = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            samples.append(_round(Path(folder)))
    medians = {name: round(statistics.median(sample[name] for sample in samples), 1) for name in samples[0]}
    if as_json:
        click.echo(json.dumps(medians))
        return
    for name, median_ms in medians.items():
        click.echo(f"{name:32} {median_ms:9.1f} ms")


if __name__ == "__main__":
    main()

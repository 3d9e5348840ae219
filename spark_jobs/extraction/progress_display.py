"""How far an extraction is, for a person: a bar for each partition on a terminal, a line now and then elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from kafka_zk.spark_jobs.extraction.progress import Progress
from kafka_zk.spark_jobs.waiting import Note
from kafka_zk.storage.types import TopicPartition

LINE_EVERY_S = 10.0

Done = Mapping[TopicPartition, tuple[int, int]]


@contextmanager
def progress_display(note: Note) -> Iterator[Progress]:
    """What to tell the progress to, on stderr, within the block."""
    if not sys.stderr.isatty():
        yield Lines(note)
        return
    with ExitStack() as cleanup:
        yield _Bars(cleanup)


class Lines:
    """A line every ten seconds. ``clock_s`` is monotonic."""

    def __init__(self, note: Note, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._note = note
        self._clock_s = clock_s
        self._told_s = clock_s()

    def __call__(self, told: Done) -> None:
        now_s = self._clock_s()
        if now_s - self._told_s >= LINE_EVERY_S:
            self._told_s = now_s
            done, total = (sum(numbers) for numbers in zip(*told.values(), strict=True))
            self._note(f"{done:,} of {total:,} records read")


class _Bars:
    """Begun with the first news, so that nothing is drawn while Spark starts."""

    def __init__(self, cleanup: ExitStack) -> None:
        self._cleanup = cleanup
        self._bars: Any = None
        self._tasks: dict[TopicPartition, Any] = {}

    def __call__(self, told: Done) -> None:
        if self._bars is None:
            self._bars = self._cleanup.enter_context(_new_bars())
        for tp, (done, total) in told.items():
            if tp not in self._tasks:
                self._tasks[tp] = self._bars.add_task(str(tp), total=total)
            self._bars.update(self._tasks[tp], completed=done)


def _new_bars() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True))

"""Shows an extraction's progress: as a bar on a terminal, otherwise as a line every ten seconds."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from kafka_zk.base.clock import monotonic_s
from kafka_zk.spark_jobs.extraction.progress import Progress
from kafka_zk.spark_jobs.waiting import Note

LINE_EVERY_S = 10.0


@contextmanager
def progress_display(note: Note, begins: Callable[[], None]) -> Iterator[Progress]:
    """Shows progress on stderr in the block. ``begins``: called before the first output."""
    if not sys.stderr.isatty():
        lines = Lines(note)

        def tell(done: int, total: int) -> None:
            begins()
            lines(done, total)

        yield tell
        return
    with ExitStack() as cleanup:
        yield _Bar(cleanup, begins)


class Lines:
    """A line every ten seconds. ``clock_s`` is monotonic."""

    def __init__(self, note: Note, clock_s: Callable[[], float] = monotonic_s) -> None:
        self._note = note
        self._clock_s = clock_s
        self._reported_s = clock_s()

    def __call__(self, done: int, total: int) -> None:
        now_s = self._clock_s()
        if now_s - self._reported_s >= LINE_EVERY_S:
            self._reported_s = now_s
            self._note(f"{done:,} of {total:,} records read")


class _Bar:
    """Begins with the first progress, after Spark has started and planned."""

    def __init__(self, cleanup: ExitStack, begins: Callable[[], None]) -> None:
        self._cleanup = cleanup
        self._begins = begins
        self._update: Progress | None = None

    def __call__(self, done: int, total: int) -> None:
        if self._update is None:
            self._update = self._begin(total)
        self._update(done, total)

    def _begin(self, total: int) -> Progress:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bars

        self._begins()
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        bars = self._cleanup.enter_context(Bars(*columns, console=Console(stderr=True)))
        task = bars.add_task("records read", total=total)
        return lambda done, _: bars.update(task, completed=done)

"""The demo's output on a terminal; nothing with ``--json``."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

Advance = Callable[[int], None]


class Show(Protocol):
    def step(self, number: int, title: str) -> None: ...

    def fact(self, text: str) -> None: ...

    def progress(self, title: str, total: int) -> AbstractContextManager[Advance]: ...

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None: ...


class Silent:
    def step(self, number: int, title: str) -> None:
        return

    def fact(self, text: str) -> None:
        return

    @contextmanager
    def progress(self, title: str, total: int) -> Iterator[Advance]:
        yield lambda count: None

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        return


class OnConsole:
    """Writes to stdout with rich; colours and moving bars only on a terminal."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(highlight=False, markup=False, soft_wrap=True)

    def step(self, number: int, title: str) -> None:
        self._console.print(f"\n{number}. {title}", style="bold cyan")

    def fact(self, text: str) -> None:
        self._console.print(f"   {text}")

    @contextmanager
    def progress(self, title: str, total: int) -> Iterator[Advance]:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("   {task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        if not self._console.is_terminal:  # a pipe would get one line; the facts below tell more
            yield lambda count: None
            return
        with Progress(*columns, console=self._console) as progress:
            task = progress.add_task(title, total=total)
            yield lambda count: progress.advance(task, count)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        lines = [[str(cell) for cell in line] for line in (columns, *rows)]
        widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
        for number, line in enumerate(lines):
            first, *others = zip(line, widths, strict=True)
            cells = [first[0].ljust(first[1]), *(text.rjust(width) for text, width in others)]
            self._console.print("   " + "  ".join(cells), style="bold" if number == 0 else None)

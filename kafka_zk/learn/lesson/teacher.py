"""The texts of a lesson on a terminal, with optional stops."""

import shutil
import textwrap
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import click

from kafka_zk.base.events import Event
from kafka_zk.learn.lesson.clock import LessonClock
from kafka_zk.learn.lesson.errors import ChapterLeft
from kafka_zk.learn.lesson.gate import Fire
from kafka_zk.learn.lesson.keys import Ask, Key, ask
from kafka_zk.recorder.web.lesson_steps import Question
from kafka_zk.registry.client.client import EventType

_INDENT = "   "
_MAX_WIDTH = 100
_MEANINGS = {
    "ids": "A member joined or left. Each of these members reads the list again, which sets its watch again.",
    "assignment": "The leader, which is the oldest member, wrote who gets what. Each of these members reads it.",
    "owners": "A partition is free: its owner deleted this znode. The member that waits for it claims it now. (Owners "
    "watch their own znodes, too.)",
    "topics": "The topic changed. Each of these members reads its partitions again.",
}
_VERBS = {EventType.CHILD: "changed"}


class Teacher:
    """Explains events; with ``pause`` it stops after explanations, and at the first watch of each kind.

    ``watches``: how a fired watch is shown. ``holds_watches``: watches wait until the reader continues.

    Args:
        write: called with each line.
        clock: stopped while the reader reads.
        answer: waits for a key.
    """

    watches = "A line with ⚡ is a watch that fires. It is held back while you read; that time is not counted."
    holds_watches = True

    def __init__(
        self,
        pause: bool,
        write: Callable[[str], None] = click.echo,
        clock: LessonClock | None = None,
        answer: Ask = ask,
    ) -> None:
        self.clock = clock or LessonClock()
        self._pause = pause
        self._write = write
        self._answer = answer
        self._explained: set[str] = set()
        self._stops = 0  # number of stops in this chapter

    @property
    def width(self) -> int:
        return min(_MAX_WIDTH, shutil.get_terminal_size((_MAX_WIDTH, 24)).columns)

    def chapter(self, number: int, title: str) -> None:
        self._stops = 0
        self._write("")
        self._write(click.style(f"{number}. {title}", bold=True, fg="cyan"))

    def say(self, text: str) -> None:
        """Stops after the explanation."""
        self._write("")
        self._paragraph(text)
        self._stop()

    def tell(self, text: str) -> None:
        """Announce what happens next."""
        self._write("")
        self._paragraph(text)

    def show(self, line: str) -> None:
        """Show an observation."""
        for part in textwrap.wrap(
            line, self.width, initial_indent=_INDENT, subsequent_indent=_INDENT + "  ", drop_whitespace=False
        ) or [""]:
            self._write(part.rstrip())

    def aside(self, line: str) -> None:
        """Show a line that does not belong to the lesson."""
        self.show(line)

    def room_opened(self, zookeeper_data: Path, trace: Path) -> None:
        """``trace``: the folder of the brokers' traces."""

    def ask(self, question: Question) -> None:
        """Ask about the effect of the next text. A terminal asks nothing."""

    def all_seen(self) -> None:
        """Called at the end of a chapter: only cleanup follows."""

    def observe(self, event: Event) -> None:
        """Receive a member's event, on the reactor thread."""

    def picture(self, lines: Iterable[str]) -> None:
        """Show lines that must not be wrapped."""
        for line in lines:
            self._write(f"{_INDENT}{line}".rstrip())

    def watches_fire(self, fires: list[Fire]) -> None:
        """Show watches before their members receive them, with a line for each change."""
        for kind, line in _told_together(fires):
            self.show(f"⚡ {line}")
            if kind in _MEANINGS and kind not in self._explained:
                self._explained.add(kind)
                self._paragraph(_MEANINGS[kind])
                self._stop()

    def _paragraph(self, text: str) -> None:
        self._write(textwrap.fill(text, self.width, initial_indent=_INDENT, subsequent_indent=_INDENT))

    def _stop(self) -> None:
        """Raises ChapterLeft."""
        if not self._pause:
            return
        self._stops += 1
        with self.clock.held():
            key = self._answer()
        match key:
            case Key.QUIT:
                raise ChapterLeft(None)
            case Key.SKIP:
                raise ChapterLeft(1)
            case Key.BACK:
                raise ChapterLeft(-1 if self._stops == 1 else 0)
            case Key.GO_ON:
                return


def meaning_of(path: str) -> tuple[str, str]:
    """The kind of a group's znode and the meaning of a watch on it; "" for other znodes."""
    kind = next((part for part in reversed(path.split("/")) if part in _MEANINGS), "")
    return kind, _MEANINGS.get(kind, "")


def _told_together(fires: list[Fire]) -> Iterator[tuple[str, str]]:
    members: dict[tuple[str, EventType], dict[str, None]] = {}
    for fire in fires:
        members.setdefault((fire.event.path, fire.event.type), {})[fire.member] = None
    partitions: dict[tuple[str, EventType, tuple[str, ...]], list[str]] = {}
    for (path, event_type), names in members.items():
        folder, _, name = path.rpartition("/")
        partitions.setdefault((folder, event_type, tuple(sorted(names))), []).append(name)
    for (folder, event_type, who), znodes in partitions.items():
        kind = next((part for part in (*znodes[:1], *folder.split("/")) if part in _MEANINGS), "")
        path = "/".join([*_within_group(folder), ",".join(sorted(znodes))])
        yield kind, f"{path} {_VERBS.get(event_type, event_type.value)}: {', '.join(who)}"


def _within_group(folder: str) -> list[str]:
    parts = folder.split("/")
    return parts[3:] if parts[:2] == ["", "consumers"] else parts

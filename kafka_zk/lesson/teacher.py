"""How a lesson speaks: text on a terminal, with pauses if wanted."""

import textwrap
from collections.abc import Callable

import click

from kafka_zk.lesson.gate import Fire

_WIDTH = 100
_MEANINGS = {
    "ids": "a member joined or left; it will read the list and set the watch again",
    "assignment": "the leader wrote a new assignment; it will read it and set the watch again",
    "owners": "a partition that it waits for is free; it will claim it",
    "topics": "the topic changed; it will read its partitions and set the watch again",
}


class Teacher:
    """Says what happens; with ``pause`` it waits for Enter at the ends of thoughts and before each watch fires.

    ``write`` takes a line; a silent teacher's does nothing.
    """

    def __init__(self, pause: bool, write: Callable[[str], None] = click.echo) -> None:
        self._pause = pause
        self._write = write

    def chapter(self, number: int, title: str) -> None:
        self._write("")
        self._write(click.style(f"{number}. {title}", bold=True, fg="cyan"))

    def say(self, text: str) -> None:
        """A thought; the paragraph ends with a pause."""
        self._write("")
        self._write(textwrap.fill(text, _WIDTH, initial_indent="   ", subsequent_indent="   "))
        self._wait()

    def show(self, line: str) -> None:
        """A line of what is seen."""
        self._write(f"   {line}")

    def watch_fires(self, fire: Fire) -> None:
        """Before a watch is passed on to its member."""
        parts = fire.event.path.split("/")
        meaning = next((_MEANINGS[part] for part in reversed(parts) if part in _MEANINGS), "it will read it again")
        name = click.style(fire.member, bold=True)
        self._write(f"   ⚡ the watch of {name} on {fire.event.path} fires ({fire.event.type.value}): {meaning}")
        self._wait()

    def _wait(self) -> None:
        if self._pause:
            click.prompt("   [Enter]", default="", show_default=False, prompt_suffix="")

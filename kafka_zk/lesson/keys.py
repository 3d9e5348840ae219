"""What a reader presses where the lesson stops."""

import sys
from collections.abc import Callable
from enum import Enum

import click


class Key(Enum):
    """The answers that a stop takes."""

    GO_ON = "go on"
    SKIP = "skip"
    BACK = "back"
    QUIT = "quit"


PROMPT = "[Enter] go on   [s] next chapter   [b] back   [q] quit "
_KEYS = {
    "": Key.GO_ON, "\r": Key.GO_ON, "\n": Key.GO_ON, " ": Key.GO_ON,
    "s": Key.SKIP, "b": Key.BACK, "q": Key.QUIT, "\x1b": Key.QUIT,
}  # fmt: skip

Ask = Callable[[], Key]


def ask() -> Key:
    """Wait for one of the keys: pressed on a terminal, else a line of stdin. The end of the input is ``QUIT``."""
    on_terminal = sys.stdin.isatty()
    click.echo(f"   {PROMPT}", nl=not on_terminal)
    while True:
        try:
            pressed = click.getchar() if on_terminal else _line()
        except EOFError:
            return Key.QUIT
        key = _KEYS.get(pressed.lower())
        if key is not None:
            if on_terminal:
                click.echo("\r\x1b[K", nl=False)  # the prompt has done its work
            return key


def _line() -> str:
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line.strip()

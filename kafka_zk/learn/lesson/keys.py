"""Keys that a reader presses at a stop."""

import os
import sys
import termios
import tty
from collections.abc import Callable
from enum import Enum

import click


class Key(Enum):
    GO_ON = "go on"
    SKIP = "skip"
    BACK = "back"
    QUIT = "quit"


PROMPT = "[Enter] go on   [s] next chapter   [b] back   [q] quit "
_KEYS = {"": Key.GO_ON, "\r": Key.GO_ON, "\n": Key.GO_ON, " ": Key.GO_ON, "s": Key.SKIP, "b": Key.BACK, "q": Key.QUIT}
_ESCAPE, _END_OF_INPUT = "\x1b", "\x04"

Ask = Callable[[], Key]


def ask() -> Key:
    """The key that the reader presses; ``QUIT`` at the end of the input."""
    return _ask_on_terminal() if sys.stdin.isatty() else _ask_for_lines()


def _ask_on_terminal() -> Key:
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    tty.setcbreak(terminal, termios.TCSANOW)  # keeps keys that were pressed early; Ctrl-C still interrupts
    try:
        click.echo(f"   {PROMPT}", nl=False)
        while True:
            pressed = os.read(terminal, 16).decode(errors="replace")
            if pressed.startswith(_ESCAPE):  # an arrow or another function key
                continue
            if not pressed or pressed[0] == _END_OF_INPUT:
                return Key.QUIT
            key = _KEYS.get(pressed[0].lower())
            if key is not None:
                return key
    finally:
        termios.tcsetattr(terminal, termios.TCSANOW, before)
        click.echo("\r\x1b[K", nl=False)


def _ask_for_lines() -> Key:
    click.echo(f"   {PROMPT}")
    while line := sys.stdin.readline():
        key = _KEYS.get(line.strip().lower())
        if key is not None:
            return key
    return Key.QUIT

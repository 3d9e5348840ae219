"""Notices on stderr about what a command waits for, after it has been silent for a second.

    with waiting("ZooKeeper at 127.0.0.1:2181", 5):
        client.start()

A terminal gets one line that counts the seconds, in tenths, and vanishes when the wait ends. A pipe gets one plain line
per wait. Nothing is written to stdout.
"""

import contextlib
import shutil
import sys
import textwrap
import threading
import time
from collections.abc import Iterator

SILENCE_S = 0.5
"""The longest time that a command is silent. With Python's start-up time, it is still less than a second."""
_ERASE = "\r\x1b[K"


class WaitingNotice:
    """The rules of the notice, without input and output. Times are in seconds on any clock.

    Args:
        columns: width of the terminal; None if stderr is not a terminal.
    """

    def __init__(self, columns: int | None, now_s: float) -> None:
        self._columns = columns
        self._waits: list[tuple[str, float]] = []  # sentence and start of each wait, the innermost last
        self._said: set[str] = set()
        self._quiet_since_s = now_s
        self._in_place = ""  # the current line on the terminal

    def begin(self, what: str, limit_s: float | None, now_s: float) -> str:
        """Begin a wait, possibly within another one. Returns the string to write, as all methods do."""
        limit = "until Ctrl-C" if limit_s is None else f"at most {limit_s:g} s"
        self._waits.append((f"waiting for {what}, {limit}", now_s))
        return self._erase()

    def end(self) -> str:
        self._waits.pop()
        return self._erase()

    def told(self, now_s: float) -> str:
        """Remove the notice, because the command is about to print."""
        self._quiet_since_s = now_s
        return self._erase()

    def tick(self, now_s: float) -> str:
        """Show or update the notice if it is due at this time."""
        if not self._waits or now_s - self._quiet_since_s < SILENCE_S:
            return ""
        sentence, began_s = self._waits[-1]
        counted = f"{sentence} ({now_s - began_s:.1f} s)"
        if self._columns is not None and len(counted) < self._columns:
            if counted == self._in_place:
                return ""
            erase, self._in_place = self._erase(), counted
            return erase + counted
        if sentence in self._said:
            return ""
        self._said.add(sentence)
        return self._erase() + "\n".join(wrapped(sentence, self._columns)) + "\n"

    def _erase(self) -> str:
        erase, self._in_place = _ERASE if self._in_place else "", ""
        return erase


def wrapped(text: str, columns: int | None) -> list[str]:
    if columns is None:
        return [text]
    return [
        line
        for part in text.split("\n")
        for line in textwrap.wrap(part, columns - 1, break_long_words=False, break_on_hyphens=False) or [""]
    ]


def shortened_list(addresses: str) -> str:
    """``h1:9092,h2:9092,h3:9092`` as ``h1:9092 and 2 more``."""
    first, *others = addresses.split(",")
    return f"{first} and {len(others)} more" if others else first


def stderr_columns() -> int | None:
    """None if stderr is not a terminal."""
    return shutil.get_terminal_size().columns if sys.stderr.isatty() else None


class _Driver:
    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._depth = 0
        self._idle = threading.Event()
        self._notice = WaitingNotice(None, time.monotonic())

    def reset(self) -> None:
        with self._lock:
            self._notice = WaitingNotice(stderr_columns(), time.monotonic())

    def begin(self, what: str, limit_s: float | None) -> None:
        with self._lock:
            self._write(self._notice.begin(what, limit_s, time.monotonic()))
            self._depth += 1
            if self._depth == 1:
                self._idle = threading.Event()
                threading.Thread(target=self._run, args=(self._idle,), name="waiting", daemon=True).start()

    def end(self) -> None:
        with self._lock:
            self._depth -= 1
            if self._depth == 0:
                self._idle.set()
            self._write(self._notice.end())

    def told(self) -> None:
        with self._lock:
            self._write(self._notice.told(time.monotonic()))

    def _run(self, idle: threading.Event) -> None:
        while not idle.wait(SILENCE_S / 4):
            with self._lock:
                if not idle.is_set():
                    self._write(self._notice.tick(time.monotonic()))

    def _write(self, text: str) -> None:
        if text:
            with contextlib.suppress(OSError, ValueError):  # the terminal was closed
                sys.stderr.write(text)
                sys.stderr.flush()


_driver = _Driver()


def begin_command() -> None:
    """Start measuring the silence now."""
    _driver.reset()


def told() -> None:
    """Call before printing anything during a wait, so that the notice is cleared."""
    _driver.told()


@contextlib.contextmanager
def waiting(what: str, limit_s: float | None) -> Iterator[None]:
    """In the block the command waits for ``what`` for at most ``limit_s`` seconds; None: until Ctrl-C."""
    _driver.begin(what, limit_s)
    try:
        yield
    finally:
        _driver.end()
